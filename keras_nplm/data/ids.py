"""Token ids: the special tokens, which every vocabulary begins with; checks; distinct contexts."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_nplm.io.errors import InputError, shorten_value

PAD = "<pad>"
UNK = "<unk>"
BOS = "<s>"
EOS = "</s>"
SPECIALS = (PAD, UNK, BOS, EOS)
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads small ids over 64 bits


def check_ids(ids: np.ndarray, vocabulary_size: int) -> None:
    """Check that ids are in the range of a vocabulary."""
    # a negative id is a large one
    if ids.size and ids.view(f"u{ids.itemsize}").max() >= vocabulary_size:
        outside = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(
            f"Ids must be 0 to {vocabulary_size - 1}. Received: {outside}. Fix: use the "
            "vocabulary of the model."
        )


def convert_ids(ids: Any, argument: str = "ids", dimensions: int | None = 1) -> np.ndarray:
    """Check an argument that takes token ids, and return them as an int32 array.

    `dimensions` is their number. None: any number of dimensions.
    """
    if isinstance(ids, np.ndarray) and ids.dtype == np.int32 and dimensions in (None, ids.ndim):
        return ids
    array = np.asarray(list(ids) if isinstance(ids, Iterator) else ids)
    has_dimensions = dimensions in (None, array.ndim)
    if has_dimensions and not array.size:
        return array.astype(np.int32)
    are_integers = has_dimensions and array.dtype.kind in "iu"
    if not are_integers or array.min() < -(1 << 31) or array.max() >= 1 << 31:
        raise InputError(
            f"`{argument}` must be token ids, an array of integers. Received: "
            f"{shorten_value(ids)}, {array.dtype} {list(array.shape)}. Fix: encode text by "
            "`encode_sentences`, or give `vocabulary` to `ngram_dataset`."
        )
    return array.astype(np.int32)


def check_contexts(context_ids: np.ndarray, order: int, vocabulary_size: int) -> np.ndarray:
    """Check contexts [B, n-1] of a model, and convert them to int32."""
    context_ids = convert_ids(context_ids, "context_ids", None)
    if context_ids.ndim != 2 or context_ids.shape[1] != order - 1:
        raise InputError(
            f"`context_ids` must be [B, {order - 1}]. Received: {list(context_ids.shape)}."
        )
    check_ids(context_ids, vocabulary_size)
    return context_ids


def check_ngrams(
    context_ids: np.ndarray,
    target_ids: np.ndarray,
    order: int,
    vocabulary_size: int,
    outputs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Check contexts [B, n-1] and targets [B] of a model, and convert them to int32.

    Targets are below `outputs`. Default: `vocabulary_size`.
    """
    context_ids = check_contexts(context_ids, order, vocabulary_size)
    target_ids = convert_ids(target_ids, "target_ids", None)
    if target_ids.shape != context_ids.shape[:1]:
        raise InputError(
            f"`target_ids` must be [{len(context_ids)}]. Received: {list(target_ids.shape)}."
        )
    check_ids(target_ids, vocabulary_size if outputs is None else outputs)
    return context_ids, target_ids


def find_distinct_rows(
    context_ids: np.ndarray, keep_order: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct contexts, so that a model runs once for each, and the place of each
    context among them.
    """
    if len(context_ids) == 1:
        return context_ids, np.zeros(1, np.int32)
    key = np.zeros(len(context_ids), np.uint64)
    for column in context_ids.T:
        key = (key ^ column.astype(np.uint64)) * _MULTIPLIER
        key ^= key >> np.uint64(29)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    contexts = context_ids[first]
    if not np.array_equal(contexts[which], context_ids):  # hash collision
        contexts, first, which = np.unique(
            context_ids, axis=0, return_index=True, return_inverse=True
        )
    which = which.reshape(-1)
    if keep_order:
        contexts = context_ids[np.sort(first)]
        which = np.argsort(np.argsort(first))[which]
    return contexts, which.astype(np.int32)
