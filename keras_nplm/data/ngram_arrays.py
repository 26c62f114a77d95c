"""Where the n-grams of a text are: ids laid out so that each n-gram is a slice."""

import numpy as np

from keras_nplm.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, check_ids
from keras_nplm.io.errors import InputError

BOUNDARIES = ("stream", "sentence")


def ngram_positions(
    ids: np.ndarray, order: int, boundary: str, targets_below: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Lay out ids so that the n-gram of each target is a slice.

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        order: n, 2 or more.
        boundary: `"stream"`: one running text, `</s>` left out, n-grams cross sentence ends as in the paper, and the
            first contexts are filled with `<pad>`. `"sentence"`: each sentence is preceded by n-1 `<s>` and its words
            and `</s>` are predicted.
        targets_below: leave out the n-grams whose target is this id or one above. Default: none.

    Returns:
        tokens, int32: the text with what was put in; positions, int32 [N]: the n-gram of target i is
        `tokens[positions[i] - n + 1 : positions[i] + 1]`, in the order of the text.

    Raises:
        InputError: an option is out of range, or there is nothing to predict.

    Example:

    >>> tokens, positions = ngram_positions(np.array([7, 8, 3, 9, 3], np.int32), order=3, boundary="sentence")
    >>> [tokens[i - 2 : i + 1].tolist() for i in positions]
    [[2, 2, 7], [2, 7, 8], [7, 8, 3], [2, 2, 9], [2, 9, 3]]
    """
    if order < 2:
        raise InputError(f"`order` (n) must be 2 or more, since a context has n-1 words. Received: {order}.")
    if boundary not in BOUNDARIES:
        raise InputError(f"`boundary` must be one of {', '.join(BOUNDARIES)}. Received: {boundary!r}.")
    context_size = order - 1
    ids = np.asarray(ids, np.int32)
    if boundary == "stream":
        words = ids[ids != EOS_ID]
        tokens = np.concatenate([np.full(context_size, PAD_ID, np.int32), words])
        positions = np.arange(context_size, len(tokens), dtype=np.int32)
    else:
        sentence = np.cumsum(ids == EOS_ID) - (ids == EOS_ID)  # of each id, from 0
        positions = (np.arange(len(ids)) + context_size * (sentence + 1)).astype(np.int32)
        tokens = np.full(positions[-1] + 1 if len(ids) else 0, BOS_ID, np.int32)
        tokens[positions] = ids
    if targets_below is not None:
        positions = positions[tokens[positions] < targets_below]
    if not len(positions):
        raise InputError("There is no word to predict: give some text.")
    return tokens, positions


def gather_ngrams(tokens: np.ndarray, positions: np.ndarray, order: int) -> np.ndarray:
    """The n-grams, int32 [B, n], that end at positions of a text that `ngram_positions` laid out."""
    return tokens[positions[:, None] + np.arange(1 - order, 1)]


def extract_ngrams(ids: np.ndarray, order: int, boundary: str, targets_below: int | None = None) -> np.ndarray:
    """All n-grams of a text, int32 [N, n], in its order, or those with a target below an id; see `ngram_positions`.

    Example:

    >>> extract_ngrams(np.array([7, 8, 3], np.int32), order=2, boundary="sentence").tolist()
    [[2, 7], [7, 8], [8, 3]]
    """
    return gather_ngrams(*ngram_positions(ids, order, boundary, targets_below), order)


def predicted_ids(vocabulary_size: int, boundary: str) -> np.ndarray:
    """The ids that are ever predicted: `<unk>`, the words, and `</s>` where the boundary is `"sentence"`.

    Example:

    >>> predicted_ids(6, "stream"), predicted_ids(6, "sentence")
    (array([1, 4, 5]), array([1, 3, 4, 5]))
    """
    ids = np.arange(vocabulary_size)
    return ids[(ids == UNK_ID) | (ids > EOS_ID) | ((ids == EOS_ID) & (boundary == "sentence"))]


def check_ngrams(
    context_ids: np.ndarray,
    target_ids: np.ndarray | None,
    order: int,
    vocabulary_size: int,
    outputs: int | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The contexts int32 [B, n-1] and the targets int32 [B] (None: none are asked for) that a model was given.

    Targets are below `outputs`, or |V| where that is None.

    Raises:
        InputError: ids out of range, contexts of another length, or as many targets as there are not contexts.
    """
    context_ids = np.asarray(context_ids, np.int32)
    if context_ids.ndim != 2 or context_ids.shape[1] != order - 1:
        raise InputError(f"`context_ids` must be [B, {order - 1}]. Received: {list(context_ids.shape)}.")
    check_ids(context_ids, vocabulary_size)
    if target_ids is not None:
        target_ids = np.asarray(target_ids, np.int32)
        if target_ids.shape != context_ids.shape[:1]:
            raise InputError(f"`target_ids` must be [{len(context_ids)}]. Received: {list(target_ids.shape)}.")
        check_ids(target_ids, vocabulary_size if outputs is None else outputs)
    return context_ids, target_ids


def find_distinct_rows(context_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct contexts among some, and which of them each is.

    Args:
        context_ids: int32 [B, n-1].

    Returns:
        contexts int32 [G, n-1] in no particular order, and which int32 [B]: `contexts[which]` is `context_ids`.

    Example:

    >>> contexts, which = find_distinct_rows(np.array([[4, 5], [6, 7], [4, 5]], np.int32))
    >>> len(contexts), contexts[which].tolist()
    (2, [[4, 5], [6, 7], [4, 5]])
    """
    key = np.zeros(len(context_ids), np.uint64)
    for column in context_ids.T.astype(np.uint64):
        key = (key ^ column) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    contexts = context_ids[first]
    if not np.array_equal(contexts[which], context_ids):  # two contexts had one key
        contexts, which = np.unique(context_ids, axis=0, return_inverse=True)
    return contexts, which.reshape(-1).astype(np.int32)
