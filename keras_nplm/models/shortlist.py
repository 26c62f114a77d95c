"""The network predicts the most frequent words, another language model the rest: a distribution over all."""

import numpy as np

from keras_nplm.data.ngram_arrays import check_ngrams
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.io.errors import InputError
from keras_nplm.models.evaluation import LogProb
from keras_nplm.models.mixture import seen_by
from keras_nplm.models.ngrams.mass import mass_of
from keras_nplm.models.nplm import NPLM

_ROWS = 512  # contexts whose whole distribution is computed at a time


class Shortlist:
    """A network on its short-list, made whole by a language model of all words, the background.

        P(w | h) = P_N(w | h) P_S(h)                              for w in the list
        P(w | h) = P_B(w | h)                                     else;  P_S(h) = sum_{v in list} P_B(v | h)

    or, where the network has an output o for "a word outside the list",

        P(w | h) = P_N(w | h)                                     for w in the list
        P(w | h) = P_N(o | h) P_B(w | h) / (1 - P_S(h))           else

    Both sum to 1. The first takes from the background how much the list has; the second learns it. What the list lacks
    is taken as 1 - P_S(h) = sum_{v not in list} P_B(v | h), so that they do so even where P_B's own sum is rounded;
    where it is 0, the second has P_N(w | h) / (1 - P_N(o | h)) in the list.

    For a back-off model P_S is a look-up (see `BackoffMass`). The network is asked once for each distinct context, and
    in the first form for those alone whose word is in the list.

    Args:
        network: an NPLM with a `shortlist_size`.
        background: any language model over the same vocabulary; each sees as much of the context as its order takes.

    Raises:
        InputError: the network has no short-list, or the vocabularies differ.

    Example:

    >>> from keras_nplm.models.ngrams import kneser_ney
    >>> background = kneser_ney(np.array([4, 5, 6, 4, 5, 4, 7, 3]), vocabulary_size=8, order=3, boundary="stream")
    >>> model = Shortlist(NPLM(8, order=2, embedding_dim=2, hidden_units=3, shortlist_size=2), background)
    >>> p = np.exp(model.next_log_probs(np.array([[4, 5], [7, 7]])))
    >>> np.allclose(p.sum(axis=1), 1), np.allclose(p[:, 6:], np.exp(background.next_log_probs([[4, 5], [7, 7]]))[:, 6:])
    (True, True)

    Reference: Schwenk (2007), Continuous space language models, section 3.2; Park, Liu, Gales & Woodland (2010),
    Improved neural network based language modelling and adaptation, for the output o.
    """

    def __init__(self, network: NPLM, background: LogProb):
        if not isinstance(network, NPLM) or network.shortlist_size is None:
            raise InputError("A short-list is a network's: make an NPLM with `shortlist_size`.")
        sizes = [network.vocabulary_size, background.vocabulary_size]
        if sizes[0] != sizes[1]:
            raise InputError(f"Network and background must have one vocabulary. Received: {sizes} words.")
        self.network = network
        self.background = background
        self.listed = network.listed  # ids below this are in the list
        self.order = max(network.order, background.order)
        self.vocabulary_size = network.vocabulary_size
        self.mass = mass_of(background, np.arange(self.vocabulary_size) >= self.listed)

    def outside_mass(self, context_ids: np.ndarray) -> np.ndarray:
        """1 - P_S(h), what the background gives the words outside the list, float64 [B], for int [B, n-1]."""
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        return np.minimum(self.mass.of(seen_by(self.background, context_ids)), 1)

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """ln P(target | context).

        Args:
            context_ids: int [B, n-1], oldest first.
            target_ids: int [B].

        Returns:
            float64 [B], nats.

        Raises:
            InputError: ids out of range, or another shape.
        """
        context_ids, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        inside, result = target_ids < self.listed, np.zeros(len(target_ids))
        result[~inside] = self.background.log_prob(seen_by(self.background, context_ids[~inside]), target_ids[~inside])
        with np.errstate(divide="ignore"):
            if not self.network.outside_output:
                log_share = np.log1p(-self.outside_mass(context_ids[inside]))
                result[inside] = self._outputs(context_ids[inside], target_ids[inside]) + log_share
                return result
            result += self._outputs(context_ids, np.minimum(target_ids, self.listed))
            mass = self.outside_mass(context_ids)
            shared, alone = ~inside & (mass > 0), inside & (mass == 0)  # where there is something outside, and not
            result[shared] -= np.log(mass[shared])
            other = self._outputs(context_ids[alone], np.full(np.count_nonzero(alone), self.listed))
            result[alone] -= np.log(-np.expm1(other))
        return result

    def _outputs(self, context_ids: np.ndarray, output_ids: np.ndarray) -> np.ndarray:
        """ln P_N(output | context), float64 [B]."""
        return self.network.output_log_prob(seen_by(self.network, context_ids), output_ids).astype(np.float64)

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(w | context) for every word w.

        Args:
            context_ids: int [B, n-1], oldest first.

        Returns:
            float64 [B, |V|], nats; -inf for what the background never predicts outside the list.

        Raises:
            InputError: ids out of range, or contexts of another length.
        """
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        result = np.empty((len(context_ids), self.vocabulary_size))
        for start in range(0, len(context_ids), _ROWS):
            part = context_ids[start : start + _ROWS]
            log_probs = self.background.next_log_probs(seen_by(self.background, part)).astype(np.float64)
            outputs = self.network.next_output_log_probs(seen_by(self.network, part)).astype(np.float64)
            result[start : start + _ROWS] = self._joined(outputs, log_probs[:, self.listed :])
        return result

    def _joined(self, outputs: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """ln P of all words from ln P_N of the network's outputs and ln P_B of the words outside."""
        mass = np.minimum(np.exp(outside).sum(axis=1, keepdims=True), 1)
        inside = outputs[:, : self.listed]
        with np.errstate(divide="ignore"):
            if not self.network.outside_output:
                return np.concatenate([inside + np.log1p(-mass), outside], axis=1)
            other, none = outputs[:, self.listed :], mass == 0
            outside = outside + np.where(none, 0, other - np.log(mass))
            inside = np.where(none, inside - np.log(-np.expm1(other)), inside)
            return np.concatenate([inside, outside], axis=1)


def coverage(ids: np.ndarray, listed: int, boundary: str) -> float:
    """The share of the predicted tokens of a text that a short-list has.

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        listed: the ids below it are in the list.
        boundary: `"stream"`: words alone are predicted; `"sentence"`: words and `</s>`.

    Example:

    >>> coverage(np.array([4, 9, 1, 5, 3]), listed=6, boundary="stream")
    0.75
    """
    predicted = ids if boundary == "sentence" else ids[ids != EOS_ID]
    return float(np.mean(predicted < listed))
