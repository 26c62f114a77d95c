"""Probability mass of a set of words under a language model, in each context: look-up or sum."""

import numpy as np

from keras_nplm.data.ids import find_distinct_rows
from keras_nplm.models.base import NextWordModel, count_distribution_rows, row_blocks
from keras_nplm.models.ngrams.backoff import BackoffModel, compute_backoff_log_probs


class BackoffMass:
    """Probability mass of a set of words under a back-off model, by look-up of the longest listed
    end of a context.

        M(h) = sum_{w in set, h w listed} p(h w)
               + γ(h) (M(h') - sum_{w in set, h w listed} P(w | h')),
        M() = sum_{w in set} p(w)

    Reference: Schwenk & Gauvain (2004), Neural network language models for conversational speech
    recognition.
    """

    def __init__(self, model: BackoffModel, chosen: np.ndarray):
        self._contexts = model.contexts
        # of the contexts of 0, 1, … words, by number
        self.masses = [np.exp(model.unigrams[chosen], dtype=np.float64).sum(keepdims=True)]
        for k in range(len(model.keys)):
            num_contexts = model.contexts.sizes[k]
            is_chosen = chosen[model.keys[k] % model.vocabulary_size]
            nodes = model.keys[k][is_chosen] // model.vocabulary_size
            p = np.exp(model.log_probs[k][is_chosen], dtype=np.float64)
            listed = np.bincount(nodes, p, minlength=num_contexts)
            lower = np.exp(compute_backoff_log_probs(model, k + 2, is_chosen))
            replaced = np.bincount(nodes, lower, minlength=num_contexts)
            above = self.masses[-1][model.contexts.parents(k + 1)]
            gamma = np.exp(model.backoffs[k], dtype=np.float64)
            self.masses.append(listed + gamma * (above - replaced))

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """Return M of each context, float64 [B], for int [B, n-1], oldest word first."""
        mass = np.full(len(context_ids), self.masses[0])
        for k, (rows, nodes) in enumerate(self._contexts.walk(context_ids), start=1):
            mass[rows] = self.masses[k][nodes]
        return mass


class SummedMass:
    """Probability mass of a set of words under any language model: distributions are summed, once
    for each context of a call.
    """

    def __init__(self, model: NextWordModel, chosen: np.ndarray):
        self._model = model
        self._chosen = chosen

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """Return M of each context, float64 [B], for int [B, n-1], oldest word first."""
        contexts, which = find_distinct_rows(context_ids)
        masses = np.empty(len(contexts))
        for block in row_blocks(
            len(contexts), count_distribution_rows(self._model.vocabulary_size)
        ):
            log_probs = self._model.next_log_probs(contexts[block])[:, self._chosen]
            masses[block] = np.exp(log_probs, dtype=np.float64).sum(axis=1)
        return masses[which]


def build_mass(model: NextWordModel, chosen: np.ndarray) -> BackoffMass | SummedMass:
    """Return the mass of a set of words under a language model: look-up for a back-off model, else
    sums.
    """
    if isinstance(model, BackoffModel):
        return BackoffMass(model, chosen)
    return SummedMass(model, chosen)
