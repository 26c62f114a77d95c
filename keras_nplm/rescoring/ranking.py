"""Ranking of the hypotheses of N-best lists by a weighted sum of their features."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.rescoring.features import FEATURE_NAME, name_features
from keras_nplm.rescoring.line_formats import DECODER_SCORE, name_total
from keras_nplm.rescoring.nbest import NBestList


def default_weights(features: Collection[str], name: str = FEATURE_NAME) -> dict[str, float]:
    """Return the weight 1 for the language model and for `find_total`, or for all features of the
    decoder.
    """
    total = find_total(features, name)
    before = _leave_out_own(features, name) if total is None else [total]
    return dict.fromkeys([*before, name], 1.0)


def find_total(features: Collection[str], name: str = FEATURE_NAME) -> str | None:
    """Return the last total that lists had before the language model: the decoder's `score`, or
    `NAME_total` beside a feature NAME, of an earlier rescoring. None: they had no total.
    """
    totals = {DECODER_SCORE, *map(name_total, features)}
    before = _leave_out_own(features, name)
    return next((feature for feature in reversed(before) if feature in totals), None)


def _leave_out_own(features: Collection[str], name: str) -> list[str]:
    own = name_features(name)
    return [feature for feature in features if feature not in own]


def rank_lists(
    lists: Iterable[NBestList], weights: Mapping[str, float] | None = None, name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield N-best lists sorted by sum_k w_k f_k, the greatest first.

    A missing feature counts as 0. Without weights, None or `{}`, each list has `default_weights`.
    """
    weighted = WeightedFeatures(weights, name)
    for nbest in lists:
        yield nbest.reorder(weighted.rank(nbest))
    weighted.check()


class WeightedFeatures:
    """Weights of features, of which each must occur in one of the lists that are ranked; see
    `rank_lists`.
    """

    def __init__(self, weights: Mapping[str, float] | None, name: str = FEATURE_NAME):
        weights = weights or None
        for feature, weight in (weights or {}).items():
            if not math.isfinite(weight):
                raise InputError(
                    f"The weight of {feature} must be a finite number. Received: {weight}."
                )
        self._weights = weights
        self._name = name
        # the features of all lists: a dictionary keeps their order
        self._known: dict[str, None] = {}

    def rank(self, nbest: NBestList) -> np.ndarray:
        """Set `nbest.totals`, remove new features without a weight, and return the order of
        hypotheses, int64 [H].
        """
        self.register(nbest)
        weights = self._weights
        if weights is None:
            weights = default_weights(nbest.features, self._name)
        totals = np.zeros(len(nbest))
        # sums that are not finite are refused below
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, weight in weights.items():
                totals += weight * nbest.features.get(feature, 0.0)
        if not np.isfinite(totals).all():
            raise _refuse_sums(nbest, weights)
        nbest.totals = totals
        nbest.new_features = tuple(
            name for name in nbest.new_features if name == self._name or weights.get(name)
        )
        # stable: equal hypotheses stay in the decoder's order
        return np.argsort(-totals, kind="stable")

    def register(self, nbest: NBestList) -> None:
        """Record the features of a list."""
        self._known |= dict.fromkeys(nbest.features)

    @property
    def are_all_known(self) -> bool:
        """Whether each weight has a feature in the lists until now."""
        return not self._find_missing()

    def check(self) -> None:
        """Check, after the last list, that each weight has a feature."""
        missing = self._find_missing()
        if missing:
            known = ", ".join(self._known)
            raise InputError(
                f"The N-best lists have no feature {min(missing)!r} for its weight. "
                f"Received: {known}. Fix: give weights of these features only."
            )

    def _find_missing(self) -> list[str]:
        """Return the weights whose feature no list had."""
        return [name for name in self._weights or () if name not in self._known]


def _refuse_sums(nbest: NBestList, weights: Mapping[str, float]) -> InputError:
    """Return the error of weighted sums that are not finite, with its cause."""
    for feature in weights:
        values = np.atleast_1d(nbest.features.get(feature, 0.0))
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values)))
            return InputError(
                f"The feature {feature} of list {nbest.name} must be finite. Received: "
                f"{values[place]}, of hypothesis {place + 1}. Fix: score the list again, or give "
                "no weight to this feature."
            )
    return InputError(
        f"The weighted sums of list {nbest.name} are not finite. Fix: give smaller weights."
    )
