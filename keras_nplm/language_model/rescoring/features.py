"""Features of a language model in N-best lists, and the ranking of hypotheses by a weighted sum of
features.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from keras_nplm.data.arguments import check_items
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.language_model.rescoring.line_formats import DECODER_SCORE
from keras_nplm.language_model.rescoring.nbest import NBestList
from keras_nplm.language_model.scoring import SentenceScore

FEATURE_NAME = "nplm"
# ln P of an impossible n-gram, as in ARPA files: keeps all features finite
MIN_LOG_PROB = -99 * math.log(10)
_CHARACTERS = 1 << 20  # of hypotheses that are scored together

# of texts, such as `LanguageModel.score`
Score = Callable[[Sequence[str]], Iterable[SentenceScore]]


def name_features(name: str = FEATURE_NAME) -> tuple[str, str, str]:
    return name, f"{name}_words", f"{name}_unk"


def add_scores(
    lists: Iterable[NBestList], score: Score, name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield N-best lists, scored in batches, with the features of a language model; see
    `LanguageModel.rescore`.
    """
    progress = open_progress("Scoring")
    for batch in batch_lists(lists):
        scores = _score_batch(batch, score)
        progress.update(sum(one.tokens for one in scores))
        columns = (
            np.array([[one.log_prob, one.tokens, one.unk_tokens] for one in scores])
            .reshape(-1, 3)
            .T
        )
        ends = np.cumsum([len(nbest) for nbest in batch])
        for nbest, values in zip(batch, np.split(columns, ends[:-1], axis=1), strict=True):
            yield nbest.with_features(dict(zip(name_features(name), values, strict=True)))
    progress.close()


def batch_lists(lists: Iterable[NBestList]) -> Iterator[list[NBestList]]:
    """Yield batches of N-best lists with about a megabyte of text each."""
    items = check_items(lists, "lists", NBestList, "an iterable of N-best lists")
    return batch_by_size(items, _CHARACTERS, lambda nbest: sum(map(len, nbest.texts)) + len(nbest))


def _score_batch(batch: list[NBestList], score: Score) -> list[SentenceScore]:
    try:
        return list(score([text for nbest in batch for text in nbest.texts]))
    except InputError as error:
        if len(batch) == 1:
            raise InputError(f"List {batch[0].name}: {error}") from error
        # one of them is named in the error
        return [one for nbest in batch for one in _score_batch([nbest], score)]


def default_weights(features: Iterable[str], name: str = FEATURE_NAME) -> dict[str, float]:
    """Return the weight 1 for the language model and for the decoder score, or for all features of
    the decoder.
    """
    decoder = [feature for feature in features if feature not in name_features(name)]
    return dict.fromkeys([*([DECODER_SCORE] if DECODER_SCORE in decoder else decoder), name], 1.0)


def rank_lists(
    lists: Iterable[NBestList], weights: Mapping[str, float] | None = None, name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield N-best lists sorted by sum_k w_k f_k, the greatest first.

    A missing feature counts as 0.
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
        for feature, weight in (weights or {}).items():
            if not math.isfinite(weight):
                raise InputError(
                    f"The weight of {feature} must be a finite number. Received: {weight}."
                )
        self._weights = weights
        self._name = name
        self._known: dict[str, None] = {}

    def rank(self, nbest: NBestList) -> np.ndarray:
        """Set `nbest.totals`, remove new features without a weight, and return the order of
        hypotheses, int64 [H].
        """
        self.register(nbest)
        weights = (
            default_weights(nbest.features, self._name) if self._weights is None else self._weights
        )
        nbest.totals = np.zeros(len(nbest))
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, weight in weights.items():
                nbest.totals += weight * nbest.features.get(feature, 0.0)
        if not np.isfinite(nbest.totals).all():
            raise InputError(
                f"The weighted sums of list {nbest.name} are not finite. Fix: give smaller weights."
            )
        nbest.new_features = tuple(
            name for name in nbest.new_features if name == self._name or weights.get(name)
        )
        return np.argsort(-nbest.totals, kind="stable")

    def register(self, nbest: NBestList) -> None:
        """Record the features of a list."""
        self._known |= dict.fromkeys(nbest.features)

    def check(self) -> None:
        """Check, after the last list, that each weight has a feature."""
        if missing := [name for name in self._weights or () if name not in self._known]:
            message = (
                f"The N-best lists have no feature {min(missing)!r} for its weight. Received: "
            )
            raise InputError(
                f"{message}{', '.join(self._known)}. Fix: give weights of these features only."
            )
