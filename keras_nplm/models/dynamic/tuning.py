"""Make models that learn as they read, and tune the settings of dynamic evaluation on validation
text.
"""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_nplm.data.ids import convert_ids
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.models.base import Network, NextWordModel, choose_boundary
from keras_nplm.models.dynamic.mixture import DynamicMixture, FollowingWeights
from keras_nplm.models.dynamic.settings import DynamicSettings, add_static
from keras_nplm.models.mixture import Mixture

TOKENS = 20_000  # of the validation text that settings are tuned on
STILL = DynamicSettings(rate=0)
_START = DynamicSettings(32, 0.5, biases=4.0)
_RATES = (1e-4, 1e3)
_CHUNKS = (16, 64)
# A copy gets better as it reads, so the best share on the beginning is too large for a long text.
# `modern-small` on Brown: 0.4 on 20,000 tokens of validation; on all of it 144.8 with 0.3 and 145.3
# with 0.4.
_SHARES = (0.0, 0.1, 0.2, 0.3)
_WORTH = 0.995  # a smaller chunk must lower the perplexity to this, as it costs time
_TRAINING_TOKENS = 20_000  # on which the mean squares of the gradient are measured
_MEASURED_CHUNK = 32
_MIXTURE_RATES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)

MeanSquares = Sequence[Sequence[np.ndarray]]  # for each network, for each of its trainable weights


@dataclasses.dataclass(frozen=True)
class TunedDynamics:
    """The result of `tune_dynamic`; `weights` is a digest of the weights that it was tuned for."""

    settings: DynamicSettings
    mean_squares: MeanSquares
    static: float
    dynamic: float
    tokens: int
    tried: int
    weights: str = ""

    def assign_to(self, model: NextWordModel) -> "TunedDynamics":
        """Return the settings for a model's present weights; refuse mean squares of other
        shapes.
        """
        shapes = [
            [tuple(weight.shape) for weight in network.trainable_weights]
            for network in find_learners(model)
        ]
        given = [[square.shape for square in network] for network in self.mean_squares]
        if given != shapes:
            raise InputError(
                "`dynamics` must be tuned for networks of these shapes. Received: other mean "
                "squares. Fix: tune again; in a model directory delete `dynamic.json` first."
            )
        return dataclasses.replace(self, weights=digest_weights(model))


def find_learners(model: NextWordModel) -> list[Any]:
    """Return the networks in a model that can learn as they read, in the order of its parts."""
    if isinstance(model, Network):
        return [model]
    return [network for part in model.learning_parts for network in find_learners(part)]


def digest_weights(model: NextWordModel) -> str:
    """Return a digest of the weights that change with a text: of the networks and of mixtures."""
    digest = hashlib.blake2b()
    for array in model.list_changing_arrays():
        digest.update(f"{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:32]


def make_dynamic(
    model: NextWordModel, settings: DynamicSettings, mean_squares: MeanSquares = ()
) -> NextWordModel:
    """Return a model that learns as it reads: a copy of each network, and each mixture with weights
    that move.

    Args:
        model: an NPLM, or a mixture or short-list. Its other parts stay as they are. The model
            itself is not changed.
        settings: of dynamic evaluation.
        mean_squares: of the gradient in training, one list for each network in the model, as
            `tune_dynamic` measures them. Default: steps of plain SGD; see `DynamicNPLM`.

    Returns:
        a model whose `log_prob` must be asked for consecutive n-grams; see `DynamicNPLM` and
        `DynamicMixture`.
    """
    check_learns(model)
    return _make_part(model, settings, _make_learners(model, settings, mean_squares))


def check_learns(model: NextWordModel) -> None:
    """Refuse a model of which nothing can follow a text."""
    if not _can_learn(model):
        raise InputError(
            "`model` must be an NPLM or a mixture to learn as it reads. "
            f"Received: {type(model).__name__}. "
            "Fix: leave dynamic evaluation out, or mix the model with a network."
        )


def _can_learn(model: NextWordModel) -> bool:
    return isinstance(model, Mixture) or bool(find_learners(model))


def _make_learners(
    model: NextWordModel, settings: DynamicSettings, mean_squares: MeanSquares
) -> Iterator[Any]:
    """Make a copy of each network in a model that learns, when it is needed."""
    for network, squares in itertools.zip_longest(find_learners(model), mean_squares):
        # the module that imports Keras
        from keras_nplm.models.dynamic.network import DynamicNPLM

        yield DynamicNPLM(network, settings, squares)


def _make_part(
    model: NextWordModel, settings: DynamicSettings, learners: Iterator[Any]
) -> NextWordModel:
    """Return a model with the next of the learners in place of each of its networks."""
    if isinstance(model, Network):
        return next(learners) if settings.rate else model
    if not _can_learn(model):
        return model
    made = _make_parts(model, settings, learners)
    if isinstance(made, Mixture):
        return DynamicMixture(made, settings.chunk, settings.mixture_rate)
    return made


def _make_parts(model: NextWordModel, settings: DynamicSettings, learners: Iterator[Any]) -> Any:
    """Return a model with the next of the learners in place of the networks in its parts."""
    learning = set(map(id, model.learning_parts))
    parts = [
        _make_part(part, settings, learners) if id(part) in learning else part
        for part in model.parts
    ]
    return model.with_parts(parts)


def tune_dynamic(
    model: NextWordModel,
    train_ids: np.ndarray,
    held_out_ids: np.ndarray,
    boundary: str | None = None,
    tokens: int = TOKENS,
) -> TunedDynamics:
    """Find the settings of dynamic evaluation with the lowest perplexity on held-out text.

    The rate is searched first, then the chunk, each with the best share of the trained network, and
    last the rate of a mixture; see `find_settings`. A rate of 0 is a setting, too: where learning
    does not help, it costs nothing.

    Args:
        model: see `make_dynamic`.
        train_ids: the training text, or the beginning of it, on which the mean squares of the
            gradient are measured.
        held_out_ids: the validation text, int32 [T], each sentence closed by `</s>`.
        boundary: `"sentence"`, `"text"` or `"stream"`. Default: that of the model.
        tokens: how many tokens of the held-out text are read, from its beginning.
    """
    check_learns(model)
    boundary = choose_boundary(model, boundary)
    ngrams = _extract_first(held_out_ids, model.order, boundary, tokens)
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    networks = find_learners(model)
    with open_progress("Tuning dynamic evaluation", unit=" settings") as progress:
        mean_squares = _measure(networks, train_ids, boundary)
        learners = [*_make_learners(model, STILL, mean_squares)]

        def restart(settings: DynamicSettings) -> Iterator[Any]:
            """Set the learners back: their graphs are compiled once for each chunk."""
            for learner in learners:
                learner.restart(settings)
            return iter(learners)

        def read(settings: DynamicSettings) -> np.ndarray:
            progress.update()
            return _make_part(model, settings, restart(settings)).log_prob(contexts, targets)

        best, measured = find_settings(read) if networks else (STILL, {})
        if isinstance(model, Mixture):
            of_rates = _measure_mixture_rates(model, best, restart(best), ngrams, read)
            best = min(of_rates, key=of_rates.__getitem__)
            measured |= of_rates
    return TunedDynamics(
        best,
        mean_squares,
        static=measured[STILL],
        dynamic=measured[best],
        tokens=len(ngrams),
        tried=len(measured),
        weights=digest_weights(model),
    )


def _measure(networks: list[Any], train_ids: np.ndarray, boundary: str) -> MeanSquares:
    # the module that imports Keras
    from keras_nplm.models.dynamic.network import measure_mean_squares

    mean_squares = []
    for network in networks:
        ngrams = _extract_first(train_ids, network.order, boundary, _TRAINING_TOKENS)
        mean_squares.append(measure_mean_squares(network, ngrams, _MEASURED_CHUNK))
    return mean_squares


def _measure_mixture_rates(
    model: Mixture,
    settings: DynamicSettings,
    learners: Iterator[Any],
    ngrams: np.ndarray,
    read: Callable[[DynamicSettings], np.ndarray],
) -> dict[DynamicSettings, float]:
    """Return the perplexity of a text by settings with other rates of the weights; the models read
    it once, unless one of them has weights that move, too.
    """
    tried = [dataclasses.replace(settings, mixture_rate=rate) for rate in _MIXTURE_RATES]
    if any(map(_holds_mixture, model.parts)):
        return {changed: _compute_perplexity(read(changed)) for changed in tried}
    mixture = _make_parts(model, settings, learners)
    bins = model.find_bins(ngrams[:, :-1])
    log_probs = mixture.part_log_probs(ngrams[:, :-1], ngrams[:, -1])
    perplexities = {}
    for changed in tried:
        weights = FollowingWeights(model.weights, changed.chunk, changed.mixture_rate)
        perplexities[changed] = _compute_perplexity(weights.combine(log_probs, bins))
    return perplexities


def _holds_mixture(model: NextWordModel) -> bool:
    return isinstance(model, Mixture) or any(map(_holds_mixture, model.parts))


def _extract_first(ids: np.ndarray, order: int, boundary: str, tokens: int) -> np.ndarray:
    """Return the first n-grams of a text; it may have as many sentence ends as words."""
    return extract_ngrams(convert_ids(ids)[: 2 * tokens], order, boundary)[:tokens]


def find_settings(
    read: Callable[[DynamicSettings], np.ndarray],
) -> tuple[DynamicSettings, dict[DynamicSettings, float]]:
    """Search the settings of dynamic evaluation; return the best, and the perplexity of all that
    were measured.

    The search takes three steps. Its time is that of its readings of the text, five or six for most
    networks:

    1. The trained network is read once, without steps.
    2. The rate, in steps of 2, at chunks of 32.
    3. The chunk, with the rate in proportion to its root: a step on a smaller chunk is noisier.
       Chunks of 64 cost less time, so they may raise the perplexity by 0.5%. Otherwise chunks of
       16, which cost twice the time, must lower it by 0.5%. The perplexity is convex in the
       logarithm of the chunk: where 64 raises it by less, 16 hardly lowers it by more, and this
       slowest reading is left out.

    Each reading is judged together with the trained network, at its best static share. A share
    needs no reading of its own: ln P of both is known. Large steps follow the text, and the trained
    network keeps what they forget. On Brown, `modern-small`, 20,000 tokens of validation, the
    perplexity of a copy is 187.2 at chunks of 32 and 188.5 at chunks of 16; with the best share of
    the trained network it is 184.1 and 180.5. With chunks of 16 and half the factors of the
    embedding and of the biases, two copies at two rates have 182.6, and the faster with a share
    181.2.

    Args:
        read: function of settings without a static share to ln P of each token of the text.
    """
    static = np.asarray(read(STILL), np.float64)
    measured = {STILL: _compute_perplexity(static)}

    @functools.cache
    def choose_share(settings: DynamicSettings) -> DynamicSettings:
        """Read the text once; return the settings with their best share."""
        log_probs = np.asarray(read(settings), np.float64)
        tried = {}
        for share in _SHARES:
            shared = dataclasses.replace(settings, static_share=share)
            tried[shared] = _compute_perplexity(add_static(log_probs, static, share))
        best = min(tried, key=tried.__getitem__)
        measured[best] = tried[best]
        return best

    def measure(settings: DynamicSettings) -> float:
        return measured[choose_share(settings)]

    best = _START
    for factor in (2.0, 0.5):
        other = dataclasses.replace(best, rate=best.rate * factor)
        while _RATES[0] <= other.rate <= _RATES[1] and measure(other) < measure(best):
            best = other
            other = dataclasses.replace(best, rate=best.rate * factor)
    if not measure(best) < measured[STILL]:
        return STILL, measured
    smaller, larger = (_change_chunk(best, chunk) for chunk in _CHUNKS)
    if measure(larger) < measure(best) / _WORTH:
        best = larger
    elif measure(smaller) < measure(best) * _WORTH:
        best = smaller
    return choose_share(best), measured


def _compute_perplexity(log_probs: np.ndarray) -> float:
    """Return the perplexity; infinity where the weights diverge."""
    with np.errstate(over="ignore", invalid="ignore"):
        perplexity = float(np.exp(-np.mean(log_probs)))
    return perplexity if np.isfinite(perplexity) else np.inf


def _change_chunk(settings: DynamicSettings, chunk: int) -> DynamicSettings:
    rate = settings.rate * (chunk / settings.chunk) ** 0.5
    return dataclasses.replace(settings, chunk=chunk, rate=float(f"{rate:.3g}"))
