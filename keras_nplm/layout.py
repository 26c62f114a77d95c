"""Where the n-grams of a text are: ids laid out so that each n-gram is a slice."""

import numpy as np

from keras_nplm.errors import InputError
from keras_nplm.vocabulary import BOS_ID, EOS_ID, PAD_ID

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
