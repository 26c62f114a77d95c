"""Adaptation (fine-tuning, domain adaptation): train a network further on a small text, with early
stopping.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import find_targets
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.ids import UNK_ID
from keras_nplm.data.source import NgramSource
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.models.base import Network, NextWordModel, choose_boundary, replace_part
from keras_nplm.models.dynamic.network import copy_network
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.networks.context_network import ContextNetwork

_FIRST_RATE = 0.1
_RATE_FACTOR = 3.0
_RATES = 3
_SHARES = (0.25, 0.5, 0.75, 1.0)
# a smaller share may raise the held-out perplexity by this factor: it keeps more of the old text
_TOLERANCE = 1.02
_BATCH = 32
_VALIDATION_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """The result of `adapt_network`: the chosen rate, epochs and α, and perplexities of the
    held-out text.
    """

    rate: float
    epochs: int
    share: float
    before: float
    after: float
    tokens: int
    held_out_tokens: int
    held_out_unk_tokens: int


def adapt_network(
    model: NextWordModel,
    train_ids: np.ndarray,
    held_out_ids: np.ndarray,
    boundary: str | None = None,
    *,
    epochs: int = 10,
    seed: int = 0,
) -> tuple[NextWordModel, Adaptation]:
    """Fine-tune a copy of the network in a model on a text, and average its weights with
    the trained weights.

        θ' = fine-tune(θ_0, text),    θ = θ_0 + α (θ' - θ_0)

    SGD stops at the first epoch that does not lower the held-out perplexity. If the first epoch is
    the best, a third of the rate is tried; if the last is, three times the rate. α is the smallest
    share within 2% of the lowest perplexity: it forgets less. If nothing helps, the weights stay as
    they are.

    Reference: Wortsman et al. (2022), Robust fine-tuning of zero-shot models, for the average of
    the weights.
    """
    boundary = choose_boundary(model, boundary)
    fitting = Fitting(model, train_ids, held_out_ids, boundary, epochs, seed)
    before = fitting.measure(fitting.trained, 1.0)
    with open_progress("Adapting", unit=" rates") as progress:
        best = fitting.run(_FIRST_RATE)
        progress.update(1)
        factor = 1 / _RATE_FACTOR if best.epochs == 1 else _RATE_FACTOR
        for _ in range(_RATES - 1):
            if best.epochs not in (1, epochs):
                break
            run = fitting.run(best.rate * factor)
            progress.update(1)
            if not run.perplexity < best.perplexity:
                break
            best = run
    perplexities = {share: fitting.measure(best.weights, share) for share in _SHARES}
    lowest = min(perplexities.values())
    share = next(share for share in _SHARES if perplexities[share] <= _TOLERANCE * lowest)
    if not perplexities[share] < before:
        best = _Run(0.0, 0, before, fitting.trained)
        share = 0.0
    after = fitting.measure(best.weights, share)
    targets = fitting.held_out_targets
    sizes = fitting.tokens, len(targets), int((targets == UNK_ID).sum())
    return fitting.copy_model(), Adaptation(best.rate, best.epochs, share, before, after, *sizes)


def find_trained(model: NextWordModel) -> list[Any]:
    """Return the networks in a model that can be trained, each with its n-gram model if it is in a
    hybrid.
    """
    if isinstance(model, Network | Hybrid):
        return [model]
    return [part for each in model.parts for part in find_trained(each)]


class _Run(NamedTuple):
    rate: float
    epochs: int  # until the best weights
    perplexity: float  # of the held-out text
    weights: list[np.ndarray]


class Fitting:
    """A copy of a network that is trained from the same start several times."""

    def __init__(
        self,
        model: NextWordModel,
        train_ids: np.ndarray,
        held_out_ids: np.ndarray,
        boundary: str,
        epochs: int,
        seed: int,
    ):
        self._old = model
        [trained] = find_trained(model)
        self._background: NextWordModel | None = None
        if isinstance(trained, Hybrid):
            self._background = trained.background
            trained = trained.network
        self._old_network = trained
        self.network = copy_network(self._old_network)
        self.model = self._replace_network(self.network)
        self._epochs = epochs
        self.trained = [weight.numpy() for weight in self.network.trainable_weights]
        self._random_states = [state.numpy() for state in self.network.random_states()]
        self.network.compile(keras.optimizers.SGD(_FIRST_RATE))
        targets = train_ids[find_targets(train_ids, boundary)]
        self.tokens = len(targets)
        self.held_out_ids = held_out_ids
        self.held_out_targets = held_out_ids[find_targets(held_out_ids, boundary)]
        self._boundary = boundary
        listed = self.network.prob.num_outputs  # all words, but for a short-list
        if not ((targets < listed).any() and (self.held_out_targets < listed).any()):
            raise InputError(
                "`text` must have words that the network predicts, also in its last lines, which "
                f"are held out. Received: none of its {listed:,} words in one of both. "
                "Fix: add text."
            )
        order = self.network.order
        self._training = NgramSource(train_ids, order, boundary, targets_below=listed)
        self._shuffled = Epochs(seed=seed)
        validation = NgramSource(held_out_ids, order, boundary, targets_below=listed)
        self._validation = self._open(validation, _VALIDATION_BATCH, Epochs(shuffle=False))

    def _open(self, source: NgramSource, batch_size: int, epochs: Epochs) -> tf.data.Dataset:
        """Open a text as the network reads it."""
        if self._background is None:
            return source.windows(batch_size, epochs)
        # the n-gram model has not seen the text
        return source.with_log_q(self._background, batch_size, epochs)

    def run(self, rate: float) -> _Run:
        """Train from the trained weights, until the held-out perplexity stops falling."""
        self._assign(self.trained)
        for state, trained in zip(self.network.random_states(), self._random_states, strict=True):
            state.assign(trained)
        self.network.optimizer.learning_rate.assign(rate)
        batch_size = min(_BATCH, self.tokens)
        training = self._open(self._training, batch_size, self._shuffled)
        stopping = keras.callbacks.EarlyStopping(
            "val_perplexity", restore_best_weights=True, patience=1
        )
        options = dict(
            callbacks=[stopping, keras.callbacks.TerminateOnNaN()], shuffle=False, verbose=0
        )
        self.network.fit(training, validation_data=self._validation, epochs=self._epochs, **options)
        weights = [weight.numpy() for weight in self.network.trainable_weights]
        return _Run(rate, stopping.best_epoch + 1, self.measure(weights, 1.0), weights)

    def measure(self, weights: Sequence[np.ndarray], share: float) -> float:
        """Return the held-out perplexity of an average with the trained weights, which the network
        keeps.
        """
        self._assign(
            [old + share * (new - old) for old, new in zip(self.trained, weights, strict=True)]
        )
        read = log_probs(self.model, self.held_out_ids, self._boundary)
        total = sum(log_prob.sum(dtype=np.float64) for log_prob, _ in read)
        with np.errstate(over="ignore", invalid="ignore"):
            perplexity = float(np.exp(-total / len(self.held_out_targets)))
        return perplexity if math.isfinite(perplexity) else math.inf

    def copy_model(self) -> NextWordModel:
        """Return a copy of the model that is not compiled."""
        return self._replace_network(copy_network(self.network))

    def _replace_network(self, network: ContextNetwork) -> NextWordModel:
        return replace_part(self._old, self._old_network, network)

    def _assign(self, weights: Sequence[np.ndarray]) -> None:
        for variable, weight in zip(self.network.trainable_weights, weights, strict=True):
            variable.assign(weight)
