"""Merge words of a back-off n-gram model into `<unk>`, so that its vocabulary becomes smaller."""

import numpy as np

from keras_nplm.data.ids import UNK_ID
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.kneser_ney import compute_logs
from keras_nplm.models.ngrams.mass import BackoffMass
from keras_nplm.models.ngrams.tables import ContextTrie


def merge_into_unk(model: BackoffModel, size: int) -> BackoffModel:
    """Return a model of the first `size` words, whose `<unk>` stands for all other words, too.

        P'(<unk> | h) = P(<unk> | h) + sum of P(w | h) over the other words w
        P'(w | h)     = P(w | h)                       for each word that stays

    So the probabilities after a context have the same sum as before. A context that lists `<unk>`
    or a word that goes lists `<unk>`. Contexts with a word that goes are dropped: after it the
    model backs off.
    """
    is_merged = np.arange(model.vocabulary_size) >= size
    is_merged[UNK_ID] = True
    mass = BackoffMass(model, is_merged)
    contexts = [model.contexts.words(length) for length in range(1, model.order)]
    contexts = [words[(words < size).all(axis=1)] for words in contexts]
    trie = ContextTrie.from_contexts(size, contexts, len(contexts))
    unigrams = model.unigrams[:size].copy()
    unigrams[UNK_ID] = compute_logs(mass.masses[0][0])
    keys = []
    log_probs = []
    backoffs = []
    for k, kept_contexts in enumerate(contexts):
        values = np.zeros(trie.sizes[k], np.float32)
        old_nodes = model.contexts.find_nodes(kept_contexts)
        values[trie.find_nodes(kept_contexts)] = model.backoffs[k][old_nodes]
        backoffs.append(values)
        ids = model.ngrams(k + 2)
        has_context = (ids[:, :-1] < size).all(axis=1)
        last_is_merged = is_merged[ids[:, -1]]
        kept = has_context & ~last_is_merged
        nodes = np.unique(model.keys[k][has_context & last_is_merged] // model.vocabulary_size)
        unk = np.full(len(nodes), UNK_ID)
        of_unk = compute_logs(np.clip(mass.masses[k + 1][nodes], 0, 1))  # rounded
        ids = np.concatenate(
            [ids[kept], np.column_stack([model.contexts.words(k + 1, nodes), unk])]
        )
        new_keys = trie.find_keys(ids)
        by_key = np.argsort(new_keys)
        keys.append(new_keys[by_key])
        log_probs.append(np.concatenate([model.log_probs[k][kept], of_unk])[by_key])
    return BackoffModel(trie, unigrams, keys, log_probs, backoffs, model.boundary)
