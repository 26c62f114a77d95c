"""Make models that learn as they read, and tune the settings of dynamic evaluation on validation text."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.models.base import NextWordModel, choose_boundary
from keras_nplm.models.dynamic.mixture import DynamicMixture, FollowingWeights
from keras_nplm.models.dynamic.settings import GROUPS, DynamicSettings
from keras_nplm.models.mixture import Mixture

TOKENS = 50_000  # of the validation text that settings are tuned on
_FIRST_TOKENS = 20_000  # of these, for the first choice: the best steps for a short text are too large for a long one
_TRAINING_TOKENS = 60_000  # on which the mean squares of the gradient are measured
_MEASURED_CHUNK = 32
_FIRST_RATES = {"sgd": 0.1, "rms": 0.5}
_DECAYS = (1e-4, 3e-4, 1e-3)
_MIXTURE_RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
_FARTHEST = 20  # steps of √2 from the first rate
_CHUNKS = (16, 128)  # the smallest and the largest
_WORTH = 0.995  # a smaller chunk, or a second copy, must lower the perplexity to this, as it costs time
_FARTHEST_FACTOR = 4.0  # of the rate for a group of weights

MeanSquares = list[list[np.ndarray]]  # for each network, for each of its trainable weights


@dataclasses.dataclass(frozen=True)
class TunedDynamics:
    """The result of `tune_dynamic`.

    Args:
        settings: the settings with the lowest perplexity.
        mean_squares: of the gradients in training, for the rule `"rms"`; else None.
        static: perplexity of the tuning text without learning.
        dynamic: its perplexity with the settings.
        tokens: number of its predicted tokens.
        tried: number of settings that were tried.
    """

    settings: DynamicSettings
    mean_squares: MeanSquares | None
    static: float
    dynamic: float
    tokens: int
    tried: int


def find_networks(model: NextWordModel) -> list:
    """Return the NPLMs in a model, a mixture or a short-list, in the order of its parts."""
    if isinstance(model, Mixture):
        return [network for part in model.models for network in find_networks(part)]
    kind = getattr(model, "kind", None)
    if kind == "shortlist":
        return find_networks(model.network) + find_networks(model.background)
    return [model] if kind == "nplm" else []


def make_dynamic(
    model: NextWordModel, settings: DynamicSettings, mean_squares: MeanSquares | None = None
) -> NextWordModel:
    """Return a model that learns as it reads: a copy of each network, and each mixture with weights that move.

    Args:
        model: an NPLM, or a mixture or short-list. Its other parts stay as they are. The model itself is not changed.
        settings: of dynamic evaluation.
        mean_squares: for the rule `"rms"`, one list for each of `find_networks(model)`.

    Returns:
        a model whose `log_prob` must be asked for consecutive n-grams; see `DynamicNPLM` and `DynamicMixture`.

    Raises:
        InputError: nothing in the model can learn, or the mean squares are missing.

    Example:

    >>> from keras_nplm.models.mixture import Uniform
    >>> from keras_nplm.models.ngrams import kneser_ney
    >>> mixture = Mixture([kneser_ney(np.array([4, 5, 6, 4, 3]), 8, 2), Uniform(8)], [0.9, 0.1])
    >>> make_dynamic(mixture, DynamicSettings(mixture_rate=0.1))
    DynamicMixture(order=2, |V|=8, boundary='sentence')
    """
    if not (isinstance(model, Mixture) or find_networks(model)):
        raise InputError(
            "`model` must be an NPLM or a mixture to learn as it reads. Received: "
            f"{type(model).__name__}. Fix: leave dynamic evaluation out, or mix the model with a network."
        )
    return _make_part(model, settings, list(mean_squares or []))


def _make_part(model: NextWordModel, settings: DynamicSettings, mean_squares: MeanSquares) -> NextWordModel:
    """Return a dynamic copy of a part; takes the mean squares of its networks from the front of the list."""
    if isinstance(model, Mixture):
        parts = [_make_part(part, settings, mean_squares) for part in model.models]
        return DynamicMixture(Mixture(parts, model.weights, model.bins), settings.chunk, settings.mixture_rate)
    if not find_networks(model):
        return model
    if model.kind == "shortlist":
        from keras_nplm.models.shortlist import Shortlist

        return Shortlist(*(_make_part(part, settings, mean_squares) for part in (model.network, model.background)))
    from keras_nplm.models.dynamic.network import DynamicNPLM

    return DynamicNPLM(model, settings, mean_squares.pop(0) if mean_squares else None)


def tune_dynamic(
    model: NextWordModel,
    held_out_ids: np.ndarray,
    boundary: str | None = None,
    train_ids: np.ndarray | None = None,
    tokens: int = TOKENS,
) -> TunedDynamics:
    """Find the settings of dynamic evaluation with the lowest perplexity on held-out text.

    One setting is searched after the other: the rate of each rule, the factor of each group of weights, the chunk, a
    second copy, the decay, the rate of a mixture. A rate of 0 is a setting, too: where learning does not help, it costs
    nothing.

    Args:
        model: see `make_dynamic`.
        held_out_ids: the validation text, int32 [T], each sentence closed by `</s>`.
        boundary: `"sentence"` or `"stream"`. Default: that of the model.
        train_ids: the training text, or the beginning of it, to measure the gradient on. Default: only the rule
            `"sgd"` is tried.
        tokens: how many tokens of the held-out text are read, from its beginning.

    Raises:
        InputError: the text is empty, or nothing in the model can learn.
    """
    boundary = choose_boundary(model, boundary)
    ngrams = extract_ngrams(_head(held_out_ids, tokens), model.order, boundary)[:tokens]
    with open_progress("Tuning dynamic evaluation", unit=" settings") as progress:
        mean_squares = None
        if train_ids is not None and find_networks(model):
            mean_squares = [_measure(network, train_ids, boundary) for network in find_networks(model)]
        is_whole = len(ngrams) < tokens
        search = coarse = _Search(model, ngrams[:_FIRST_TOKENS], mean_squares, progress.update, is_whole)
        if len(ngrams) > _FIRST_TOKENS:
            search = _Search(model, ngrams, mean_squares, progress.update, is_whole)
        best = search.find_best(coarse.find_rates())
    return TunedDynamics(
        best,
        mean_squares if best.rule == "rms" else None,
        static=search.measure(DynamicSettings(rate=0)),
        dynamic=search.measure(best),
        tokens=len(ngrams),
        tried=len(search.measured) + (len(coarse.measured) if coarse is not search else 0),
    )


def _measure(network: NextWordModel, train_ids: np.ndarray, boundary: str) -> list[np.ndarray]:
    from keras_nplm.models.dynamic.network import measure_mean_squares

    ngrams = extract_ngrams(_head(train_ids, _TRAINING_TOKENS), network.order, boundary)
    ngrams = ngrams[ngrams[:, -1] < network.prob.num_outputs]  # targets outside a short-list are never predicted
    return measure_mean_squares(network, ngrams[:_TRAINING_TOKENS], _MEASURED_CHUNK)


def _head(ids: np.ndarray, tokens: int) -> np.ndarray:
    """Return the first ids of a text, with that many words and as many sentence ends at most."""
    return np.asarray(ids[: 2 * tokens], np.int32)


class _Search:
    """A search of settings, one after the other. Each perplexity is measured once."""

    def __init__(
        self,
        model: NextWordModel,
        ngrams: np.ndarray,
        mean_squares: MeanSquares | None,
        report: Callable,
        is_whole: bool = False,
    ):
        self._model, self._ngrams, self._mean_squares, self._report = model, ngrams, mean_squares, report
        self._is_whole = is_whole  # whether the n-grams are the whole held-out text
        self.measured: dict[DynamicSettings, float] = {}

    def find_rates(self) -> list[DynamicSettings]:
        """Return the best settings of each rule, from coarse grids. [] where nothing is gained.

        Factors of groups of weights are searched for the better rule.
        """
        if not find_networks(self._model):
            return []
        still, found = DynamicSettings(rate=0), []
        for rule in ("sgd", "rms") if self._mean_squares is not None else ("sgd",):
            best = self._climb(DynamicSettings(rate=_FIRST_RATES[rule], rule=rule), stride=2)
            if self.measure(best) < self.measure(still):
                found.append(best)
        if found:
            found.sort(key=self.measure)
            found[0] = self._tune_factors(found[0])
        return found

    def find_best(self, starts: Sequence[DynamicSettings]) -> DynamicSettings:
        """Return the best settings, from those that `find_rates` of a shorter text returned."""
        best = self._choose([DynamicSettings(rate=0), *(self._climb(start, stride=1) for start in starts)])
        if best.rate:
            best = self._tune_copies(self._tune_chunk(best))
            if self._is_whole:  # on the beginning of a long text, forgetting seems better than it is
                best = self._choose([best, *(dataclasses.replace(best, decay=decay) for decay in _DECAYS)])
        return self._tune_mixture(best) if isinstance(self._model, Mixture) else best

    def measure(self, settings: DynamicSettings) -> float:
        """Return the perplexity of the text; infinity where the weights diverge."""
        if settings not in self.measured:
            dynamic = make_dynamic(self._model, settings, self._mean_squares)
            with np.errstate(over="ignore", invalid="ignore"):
                log_prob = dynamic.log_prob(self._ngrams[:, :-1], self._ngrams[:, -1])
                perplexity = float(np.exp(-np.mean(log_prob, dtype=np.float64)))
            self.measured[settings] = perplexity if np.isfinite(perplexity) else np.inf
            self._report(1)
        return self.measured[settings]

    def _choose(self, candidates: Sequence[DynamicSettings]) -> DynamicSettings:
        return min(candidates, key=self.measure)  # the first of equals

    def _climb(self, start: DynamicSettings, stride: int) -> DynamicSettings:
        """Return the best rate on a grid around `start`, in steps of 2 ** (stride / 2)."""
        best, place = start, 0

        def at(place: int) -> DynamicSettings:
            return dataclasses.replace(start, rate=float(f"{start.rate * 2 ** (place / 2):.3g}"))

        for direction in (-stride, stride):
            while abs(place) < _FARTHEST and self.measure(at(place + direction)) < self.measure(best):
                place += direction
                best = at(place)
        return best

    def _tune_factors(self, best: DynamicSettings) -> DynamicSettings:
        """Return the settings with the best factor of the rate for each group of weights."""
        for group in GROUPS:
            for direction in (2.0, 0.5):
                while 1 / _FARTHEST_FACTOR < getattr(best, group) < _FARTHEST_FACTOR:
                    other = dataclasses.replace(best, **{group: getattr(best, group) * direction})
                    if not self.measure(other) < self.measure(best):
                        break
                    best = other
        return best

    def _tune_copies(self, best: DynamicSettings) -> DynamicSettings:
        """Return the settings with two copies, whose rates lie around the best rate, if they are worth the time."""
        two = dataclasses.replace(best, copies=2, rate=float(f"{best.rate * 2**0.5:.3g}"))
        return two if self.measure(two) < _WORTH * self.measure(best) else best

    def _tune_chunk(self, best: DynamicSettings) -> DynamicSettings:
        """Return the settings with the best chunk. A step on a smaller chunk is noisier, so smaller."""
        for factor in (0.5, 2):
            while True:
                rate = float(f"{best.rate * factor**0.5:.3g}")
                other = dataclasses.replace(best, chunk=int(best.chunk * factor), rate=rate)
                worth = _WORTH if factor < 1 else 1 / _WORTH
                if not (_CHUNKS[0] <= other.chunk <= _CHUNKS[1] and self.measure(other) < worth * self.measure(best)):
                    break
                best = other
        return best

    def _tune_mixture(self, best: DynamicSettings) -> DynamicSettings:
        """Return the settings with the best rate of the mixture. The models are asked once for all rates."""
        dynamic = make_dynamic(self._model, best, self._mean_squares)
        log_probs = dynamic.part_log_probs(self._ngrams[:, :-1], self._ngrams[:, -1])
        bins = dynamic.find_bins(self._ngrams[:, :-1])
        candidates = [dataclasses.replace(best, mixture_rate=rate) for rate in _MIXTURE_RATES]
        for settings in candidates:
            weights = FollowingWeights(self._model.weights, settings.chunk, settings.mixture_rate)
            log_prob = weights.combine(log_probs, bins)
            self.measured[settings] = float(np.exp(-np.mean(log_prob)))
        return self._choose([best, *candidates])
