"""Merge words of a back-off n-gram model into `<unk>`, so that its vocabulary becomes smaller."""

import numpy as np

from keras_nplm.data.ids import UNK_ID
from keras_nplm.models.ngrams.backoff import BackoffModel, compute_backoff_log_probs
from keras_nplm.models.ngrams.kneser_ney import compute_logs
from keras_nplm.models.ngrams.tables import ContextTrie


def merge_into_unk(model: BackoffModel, size: int) -> BackoffModel:
    """Return a model of the first `size` words, whose `<unk>` stands for all other words, too.

        P'(<unk> | h) = P(<unk> | h) + sum of P(w | h) over the other words w
        P'(w | h)     = P(w | h)                       for each word that stays

    So the probabilities after a context have the same sum as before. Contexts with one of the other
    words are dropped: after it the model backs off.
    """
    contexts = [_select_kept(model.contexts.words(k), size) for k in range(1, model.order)]
    trie = ContextTrie.from_contexts(size, contexts, len(contexts))
    backoffs = []
    for length, kept in enumerate(contexts, start=1):
        values = np.zeros(trie.sizes[length - 1], np.float32)
        old_nodes = model.contexts.find_nodes(kept)
        values[trie.find_nodes(kept)] = model.backoffs[length - 1][old_nodes]
        backoffs.append(values)
    unigrams = model.unigrams[:size].copy()
    other_words = np.exp(model.unigrams[size:], dtype=np.float64).sum()
    unigrams[UNK_ID] = compute_logs(np.exp(np.float64(unigrams[UNK_ID])) + other_words)
    keys: list[np.ndarray] = []
    log_probs: list[np.ndarray] = []
    for order in range(2, model.order + 1):
        lower_contexts = ContextTrie(size, trie.keys[: max(order - 3, 0)])
        lower = BackoffModel(
            lower_contexts, unigrams, list(keys), list(log_probs), backoffs[: order - 2]
        )
        ids, values = _merge_order(model, lower, order, size)
        new_keys = trie.find_nodes(ids[:, :-1]) * size + ids[:, -1]
        by_key = np.argsort(new_keys)
        keys.append(new_keys[by_key])
        log_probs.append(values[by_key])
    return BackoffModel(trie, unigrams, keys, log_probs, backoffs, model.boundary)


def _select_kept(contexts: np.ndarray, size: int) -> np.ndarray:
    """Return the contexts of which all words stay."""
    return contexts[(contexts < size).all(axis=1)]


def _merge_order(
    model: BackoffModel, lower: BackoffModel, order: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the n-grams of an order, int64 [N, order], and their ln P, float32 [N].

    A context that lists `<unk>` or a word that goes lists `<unk>`. `lower` is the new model of the
    lower orders.
    """
    ids = model.ngrams(order)
    log_probs = model.log_probs[order - 2]
    has_context = (ids[:, :-1] < size).all(axis=1)
    last = ids[:, -1]
    is_unk = (last >= size) | (last == UNK_ID)
    kept = np.flatnonzero(has_context & ~is_unk)
    merged = np.flatnonzero(has_context & is_unk)
    old_nodes = model.keys[order - 2][merged] // model.vocabulary_size
    nodes, owner = np.unique(old_nodes, return_inverse=True)
    listed = np.bincount(owner, np.exp(log_probs[merged], dtype=np.float64), len(nodes))
    backed_off = np.exp(compute_backoff_log_probs(model, order, merged))
    listed_below = np.bincount(owner, backed_off, len(nodes))
    contexts = model.contexts.words(order - 1, nodes)
    unk = np.full(len(nodes), UNK_ID)
    below = np.exp(lower.log_prob(contexts[:, 1:], unk), dtype=np.float64)
    # a word that the context does not list backs off; by rounding, the difference may be below 0
    backoff = np.exp(model.backoffs[order - 2][nodes], dtype=np.float64)
    total = listed + backoff * np.maximum(below - listed_below, 0)
    new_log_probs = np.minimum(compute_logs(total), 0)
    new_ids = np.column_stack([contexts, unk])
    return np.concatenate([ids[kept], new_ids]), np.concatenate([log_probs[kept], new_log_probs])
