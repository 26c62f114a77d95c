"""Probability mass of a set of words under a language model, in each context: look-up or sum."""

import numpy as np

from keras_nplm.data.ids import check_contexts, find_distinct_rows
from keras_nplm.models.base import DISTRIBUTION_ROWS, NextWordModel, row_blocks
from keras_nplm.models.ngrams.backoff import BackoffModel, compute_backoff_log_probs

_CACHE_SIZE = 1 << 20  # contexts whose mass `SummedMass` keeps


class BackoffMass:
    """Probability mass of a set of words under a back-off model, by look-up of the longest listed
    end of a context.

        M(h) = sum_{w in set, h w listed} p(h w) + γ(h) (M(h') - sum_{w in set, h w listed} P(w |
        h')), M() = sum_{w in set} p(w)

    Reference: Schwenk & Gauvain (2004), Neural network language models for conversational speech
    recognition.
    """

    def __init__(self, model: BackoffModel, chosen: np.ndarray):
        self.order = model.order
        self.vocabulary_size = size = model.vocabulary_size
        self._contexts = model.contexts
        self.empty = float(np.exp(model.unigrams[chosen], dtype=np.float64).sum())
        self.masses: list[np.ndarray] = []
        for k, num_contexts in zip(range(len(model.keys)), model.contexts.sizes, strict=False):
            is_chosen = chosen[model.keys[k] % size]
            nodes = model.keys[k][is_chosen] // size
            parents = model.contexts.parents(k + 1)
            lower = compute_backoff_log_probs(model, k + 2, is_chosen)
            listed = np.bincount(
                nodes, np.exp(model.log_probs[k][is_chosen], dtype=float), minlength=num_contexts
            )
            replaced = np.bincount(nodes, np.exp(lower), minlength=num_contexts)
            above = self.empty if parents is None else self.masses[-1][parents]
            self.masses.append(
                listed + np.exp(model.backoffs[k], dtype=np.float64) * (above - replaced)
            )

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """Return M of each context, float64 [B], for int [B, n-1], oldest word first."""
        context_ids = check_contexts(context_ids, self.order, self.vocabulary_size)
        mass = np.full(len(context_ids), self.empty)
        for k, (rows, nodes) in enumerate(self._contexts.walk(context_ids)):
            mass[rows] = self.masses[k][nodes]
        return mass


class SummedMass:
    """Probability mass of a set of words under any language model: distributions are summed once
    for each context.
    """

    def __init__(self, model: NextWordModel, chosen: np.ndarray):
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size
        self._model = model
        self._chosen = chosen
        self._contexts, self._masses = np.zeros((0, model.order - 1), np.int32), np.zeros(0)

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """Return M of each context, float64 [B], for int [B, n-1], oldest word first."""
        context_ids = check_contexts(context_ids, self.order, self.vocabulary_size)
        num_cached = len(self._contexts)
        contexts, which = find_distinct_rows(np.concatenate([self._contexts, context_ids]))
        masses = np.full(len(contexts), -1.0)
        masses[which[:num_cached]] = self._masses
        new = np.flatnonzero(masses < 0)
        for block in row_blocks(len(new), DISTRIBUTION_ROWS):
            log_probs = self._model.next_log_probs(contexts[new[block]])[:, self._chosen]
            masses[new[block]] = np.exp(log_probs, dtype=np.float64).sum(axis=1)
        cached = slice(len(contexts) if len(contexts) <= _CACHE_SIZE else 0)
        self._contexts = contexts[cached]
        self._masses = masses[cached]
        return masses[which[num_cached:]]


def build_mass(model: NextWordModel, chosen: np.ndarray) -> BackoffMass | SummedMass:
    """Return the mass of a set of words under a language model: look-up for a back-off model, else
    sums.
    """
    return (
        BackoffMass(model, chosen) if isinstance(model, BackoffModel) else SummedMass(model, chosen)
    )
