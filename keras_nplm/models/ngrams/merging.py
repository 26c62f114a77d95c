"""Merge words of a back-off n-gram model into `<unk>`, so that its vocabulary becomes smaller."""

import numpy as np

from keras_nplm.data.ids import UNK_ID
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.kneser_ney import compute_logs
from keras_nplm.models.ngrams.mass import BackoffMass


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
    unigrams = model.unigrams[:size].copy()
    unigrams[UNK_ID] = compute_logs(mass.masses[0][0])
    contexts = []
    ngrams = []
    for k, keys in enumerate(model.keys):
        words = model.contexts.words(k + 1)
        stays = np.max(words, axis=1) < size
        contexts.append((words[stays], model.backoffs[k][stays]))
        nodes, last = np.divmod(keys, model.vocabulary_size)
        kept = stays[nodes] & ~is_merged[last]
        with_unk = np.unique(nodes[stays[nodes] & is_merged[last]])
        of_unk = compute_logs(np.clip(mass.masses[k + 1][with_unk], 0, 1))  # rounded
        ids = np.pad(words[with_unk], ((0, 0), (0, 1)), constant_values=UNK_ID)
        ids = np.concatenate([model.ngrams(k + 2, kept), ids])
        ngrams.append((ids, np.concatenate([model.log_probs[k][kept], of_unk])))
    return BackoffModel.from_ngrams(unigrams, ngrams, contexts, model.boundary)
