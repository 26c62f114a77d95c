"""The probability that a language model gives to a set of words together, in each context."""

import numpy as np

from keras_nplm.data.ngram_arrays import check_ngrams, find_distinct_rows
from keras_nplm.models.base import DISTRIBUTION_ROWS, NextWordModel, row_blocks
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.counts import find

_MAX_CACHED = 1 << 20  # contexts whose mass is kept


class BackoffMass:
    """The mass of a set of words under a back-off model: a look-up, since it depends on the n-gram state alone.

        M(h) = sum_{w in set, h w listed} p(h w) + γ(h) (M(h') - sum_{w in set, h w listed} P(w | h')),
        M() = sum_{w in set} p(w)

    γ(h) is the weight of backing off and h' is h without its oldest word, so that the masses of all listed contexts
    are computed from the shortest to the longest, a length at a time; other contexts have that of their longest listed
    end.

    Args:
        model: the back-off model.
        chosen: which words are in the set, bool [|V|].

    Attributes:
        empty: M without a context, float.
        masses: M of the listed contexts of 1 … n-1 words, by number, float64.

    Example:

    >>> from keras_nplm.models.ngrams.kneser_ney import kneser_ney
    >>> model = kneser_ney(np.array([4, 5, 6, 4, 5, 4, 3]), vocabulary_size=8, order=3, boundary="stream")
    >>> mass, contexts = BackoffMass(model, np.arange(8) >= 6), np.array([[4, 5], [7, 7]])
    >>> bool(np.allclose(mass.of(contexts), np.exp(model.next_log_probs(contexts))[:, 6:].sum(axis=1)))
    True

    Reference: Schwenk & Gauvain (2004), Neural network language models for conversational speech recognition.
    """

    def __init__(self, model: BackoffModel, chosen: np.ndarray):
        self.order = model.order
        self.vocabulary_size = size = model.vocabulary_size
        self._contexts = model.contexts
        self.empty = float(np.exp(model.unigrams[chosen], dtype=np.float64).sum())
        self.masses: list[np.ndarray] = []
        for k, number in enumerate(model.contexts.sizes):
            listed = chosen[model.keys[k] % size]
            nodes, words = np.divmod(model.keys[k][listed], size)
            shorter = model.contexts.parents(k + 1)  # [number]; None for contexts of one word
            lower = _log_prob_at(model, k, None if shorter is None else shorter[nodes], words)
            own = np.bincount(nodes, np.exp(model.log_probs[k][listed], dtype=np.float64), minlength=number)
            taken = np.bincount(nodes, np.exp(lower), minlength=number)
            above = self.empty if shorter is None else self.masses[-1][shorter]
            left = np.maximum(above - taken, 0)  # rounding may bring it below
            self.masses.append(own + np.exp(model.backoffs[k], dtype=np.float64) * left)

    def of(self, context_ids: np.ndarray) -> np.ndarray:
        """M of each context, float64 [B], for int [B, n-1], oldest first."""
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        mass = np.full(len(context_ids), self.empty)
        for k, (rows, nodes) in enumerate(self._contexts.walk(context_ids)):
            mass[rows] = self.masses[k][nodes]
        return mass


def _log_prob_at(model: BackoffModel, length: int, nodes: np.ndarray | None, words: np.ndarray) -> np.ndarray:
    """ln P(word | context) by the numbers of listed contexts of a length (0: there is one, empty), float64 [B]."""
    result, asked = np.zeros(len(words)), np.arange(len(words))
    for k in range(length, 0, -1):
        place = find(model.keys[k - 1], nodes * model.vocabulary_size + words[asked])
        found = place >= 0
        result[asked[found]] += model.log_probs[k - 1][place[found]]
        asked, nodes = asked[~found], nodes[~found]
        result[asked] += model.backoffs[k - 1][nodes]
        parents = model.contexts.parents(k)
        nodes = None if parents is None else parents[nodes]
    result[asked] += model.unigrams[words[asked]]
    return result


class SummedMass:
    """The mass of a set of words under any language model: its distribution is summed, once for a context.

        M(h) = sum_{w in set} P(w | h)

    Args:
        model: any language model.
        chosen: which words are in the set, bool [|V|].
    """

    def __init__(self, model: NextWordModel, chosen: np.ndarray):
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size
        self._model, self._chosen = model, chosen
        self._contexts, self._masses = np.zeros((0, model.order - 1), np.int32), np.zeros(0)

    def of(self, context_ids: np.ndarray) -> np.ndarray:
        """M of each context, float64 [B], for int [B, n-1], oldest first."""
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        known = len(self._contexts)
        contexts, which = find_distinct_rows(np.concatenate([self._contexts, context_ids]))
        masses = np.full(len(contexts), -1.0)
        masses[which[:known]] = self._masses
        new = np.flatnonzero(masses < 0)
        for block in row_blocks(len(new), DISTRIBUTION_ROWS):
            log_probs = self._model.next_log_probs(contexts[new[block]])[:, self._chosen]
            masses[new[block]] = np.exp(log_probs, dtype=np.float64).sum(axis=1)
        self._contexts, self._masses = (
            (contexts, masses) if len(contexts) <= _MAX_CACHED else (contexts[:0], masses[:0])
        )
        return masses[which[known:]]


def build_mass(model: NextWordModel, chosen: np.ndarray) -> BackoffMass | SummedMass:
    """Return the mass of a set of words under a language model: by look-up for a back-off model, else by summing."""
    return BackoffMass(model, chosen) if isinstance(model, BackoffModel) else SummedMass(model, chosen)
