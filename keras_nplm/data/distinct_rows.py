"""Find the distinct contexts of many n-grams, so that a model runs once for each."""

import numpy as np

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads small ids over 64 bits


def find_distinct_rows(context_ids: np.ndarray, keep_order: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct rows of an array of contexts."""
    if len(context_ids) == 1:
        return context_ids, np.zeros(1, np.int32)
    key = np.zeros(len(context_ids), np.uint64)
    for column in context_ids.T:
        key = (key ^ column.astype(np.uint64)) * MULTIPLIER
        key ^= key >> np.uint64(29)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    contexts = context_ids[first]
    if not np.array_equal(contexts[which], context_ids):  # hash collision
        contexts, first, which = np.unique(context_ids, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    if keep_order:
        contexts, which = context_ids[np.sort(first)], np.argsort(np.argsort(first))[which]
    return contexts, which.astype(np.int32)
