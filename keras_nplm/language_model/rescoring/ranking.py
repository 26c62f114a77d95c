"""Rank the hypotheses of N-best lists by a weighted sum of features."""

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.language_model.rescoring.features import FEATURE_NAME, name_features
from keras_nplm.language_model.rescoring.line_formats import DECODER_SCORE
from keras_nplm.language_model.rescoring.nbest import NBestList

_CHECKED_LISTS = 100  # every feature with a weight must occur in one of the first lists


def default_weights(features: Iterable[str], name: str = FEATURE_NAME) -> dict[str, float]:
    """Return the weight 1 for the language model and for the decoder score, or for all features of the decoder."""
    decoder = [feature for feature in features if feature not in name_features(name)]
    return dict.fromkeys([*([DECODER_SCORE] if DECODER_SCORE in decoder else decoder), name], 1.0)


def rank_lists(
    lists: Iterable[NBestList], weights: Mapping[str, float] | None = None, name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield N-best lists sorted by sum_k w_k f_k, the greatest first; equal hypotheses keep their order.

    A feature that a list does not have counts as 0. The default of the weights w_k is `default_weights`.

    >>> lists = [NBestList("0", ["a", "the"], {"score": np.array([-1.0, -2.0]), "nplm": np.array([-9.0, -4.0])})]
    >>> [(nbest.texts, nbest.totals.tolist()) for nbest in rank_lists(lists, {"score": 1, "nplm": 0.5})]
    [(['the', 'a'], [-4.0, -5.5])]
    """
    ranker = Ranker(weights, name)
    for nbest in lists:
        yield nbest.reorder(ranker.rank(nbest))
    ranker.check_weights()


class Ranker:
    """Ranks N-best lists one by one; see `rank_lists`."""

    def __init__(self, weights: Mapping[str, float] | None, name: str = FEATURE_NAME):
        for feature, weight in (weights or {}).items():
            if not math.isfinite(weight):
                raise InputError(f"The weight of {feature} must be a finite number. Received: {weight}.")
        self._weights, self._name = weights, name
        self._missing, self._known, self._lists = set(weights or ()), {}, 0

    def rank(self, nbest: NBestList) -> np.ndarray:
        """Set `nbest.totals` and return the order of the hypotheses, int64 [H].

        Features of the language model without a weight are removed from `nbest.new_features`.
        """
        self.register_features(nbest)
        weights = default_weights(nbest.features, self._name) if self._weights is None else self._weights
        nbest.totals = np.zeros(len(nbest))
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, weight in weights.items():
                nbest.totals += weight * nbest.features.get(feature, 0.0)
        if not np.isfinite(nbest.totals).all():
            raise InputError(f"The weighted sums of list {nbest.name} are not finite. Fix: give smaller weights.")
        nbest.new_features = tuple(name for name in nbest.new_features if name == self._name or weights.get(name))
        return np.argsort(-nbest.totals, kind="stable")

    def register_features(self, nbest: NBestList) -> None:
        """Record the features of a list. Refuse a weight whose feature none of the first 100 lists has."""
        self._lists += 1
        if self._missing:
            self._known |= dict.fromkeys(nbest.features)
            self._missing -= self._known.keys()
            if self._lists >= _CHECKED_LISTS:
                self.check_weights()

    def check_weights(self) -> None:
        """Check that each weight has a feature in one of the lists."""
        if self._missing:
            known = ", ".join(self._known) or "no features"
            raise InputError(
                f"The N-best lists have no feature {min(self._missing)!r} for its weight. Received: {known}. "
                "Fix: give weights of these features only."
            )
