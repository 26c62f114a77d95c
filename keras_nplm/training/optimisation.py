"""How a network is trained: optimiser, learning rate, batches, epochs. Parts as in `network`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, ClassVar

from keras_nplm.io.errors import check_argument
from keras_nplm.io.fields import Option, check_values
from keras_nplm.io.parts import Part
from keras_nplm.training.network import Network

if TYPE_CHECKING:
    import keras
    from keras.optimizers.schedules import LearningRateSchedule

# contexts in which a word such as `<s>` may stand so often that its row moves too far at once
_LONG_ORDER = 8
_ROW_CLIPNORM = 1.0  # rows of usual batches stay below it
# of an output tied to C, which diverged without: of 99 gradients in 100 the norm is below 0.8
_TIED_CLIPNORM = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer(Part, choice="optimizer"):
    """An optimiser, with row-wise updates for sparse gradients.

    Attributes:
        divides_by_gradient: whether a step has the same size for small and for large gradients.
    """

    divides_by_gradient: ClassVar[bool] = True

    def build(
        self, rate: "float | LearningRateSchedule", weight_decay: float, network: Network
    ) -> "keras.optimizers.Optimizer":
        """Make the optimiser."""
        raise NotImplementedError


def _decay(weight_decay: float, network: Network) -> dict:
    """Return the arguments of weight decay: with all words in each loss, all rows decay."""
    is_dense = not network.objective.is_sampled
    return {"weight_decay": weight_decay or None, "dense_decay": is_dense}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sgd(Optimizer, kind="sgd"):
    """Stochastic gradient descent."""

    divides_by_gradient = False

    def build(
        self, rate: "float | LearningRateSchedule", weight_decay: float, network: Network
    ) -> "keras.optimizers.Optimizer":
        from keras_nplm.training.optimizers import LazySGD

        row_clipnorm = network.network.row_clipnorm
        if row_clipnorm is None and network.order > _LONG_ORDER:
            row_clipnorm = _ROW_CLIPNORM
        # with all words in each loss the gradient for C is dense, too, and usually longer
        is_clipped = network.head.tied_output and network.objective.is_sampled
        return LazySGD(
            rate,
            row_clipnorm=row_clipnorm,
            dense_clipnorm=_TIED_CLIPNORM if is_clipped else None,
            **_decay(weight_decay, network),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer, kind="adagrad"):
    """Adagrad (Duchi, Hazan & Singer 2011)."""

    initial_accumulator: Annotated[float, Option(least=0, advanced=True)] = 0.1
    """initial sum of squared gradients"""

    def build(
        self, rate: "float | LearningRateSchedule", weight_decay: float, network: Network
    ) -> "keras.optimizers.Optimizer":
        from keras_nplm.training.optimizers import LazyAdagrad

        return LazyAdagrad(
            rate,
            initial_accumulator_value=self.initial_accumulator,
            **_decay(weight_decay, network),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(Optimizer, kind="adam"):
    """Adam (Kingma & Ba 2015)."""

    def build(
        self, rate: "float | LearningRateSchedule", weight_decay: float, network: Network
    ) -> "keras.optimizers.Optimizer":
        from keras_nplm.training.optimizers import LazyAdam

        return LazyAdam(rate, **_decay(weight_decay, network))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule(Part, choice="schedule"):
    """The learning rate by updates t."""

    def build(self, rate: float, updates: int) -> "float | LearningRateSchedule":
        """Make the schedule for so many updates in all epochs."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearDecay(Schedule, kind="linear"):
    """Linear to 0. eps_t = eps_0 (1 - t/T), with T the updates of all epochs."""

    def build(self, rate: float, updates: int) -> "float | LearningRateSchedule":
        from keras.optimizers.schedules import PolynomialDecay

        return PolynomialDecay(rate, updates, end_learning_rate=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InverseTime(Schedule, kind="inverse-time"):
    """The paper's eps_0 / (1 + r t)."""

    decay_rate: Annotated[float, Option(least=0, advanced=True)] = 1e-8
    """r, decay of the learning rate per update"""

    def build(self, rate: float, updates: int) -> "float | LearningRateSchedule":
        from keras.optimizers.schedules import InverseTimeDecay

        return InverseTimeDecay(rate, decay_steps=1, decay_rate=self.decay_rate)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant(Schedule, kind="constant"):
    """The same for all updates. eps_t = eps_0."""

    def build(self, rate: float, updates: int) -> "float | LearningRateSchedule":
        return rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """Optimiser, batches, epochs and seed.

    Raises:
        InputError: an option has another type, is out of its range, or contradicts a second option.
    """

    optimizer: Annotated[Optimizer, Option(advanced=True)] = Sgd()
    """optimiser"""

    learning_rate: Annotated[float, Option(least=0)] = 1.4
    """learning rate of the first update"""

    schedule: Annotated[Schedule, Option(advanced=True)] = LinearDecay()
    """learning rate by updates"""

    weight_decay: Annotated[float, Option(least=0, advanced=True)] = 3e-5
    """weight decay (L2) of the weights and C, not of biases: theta -= rate * decay * theta"""

    weight_average: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.0
    """momentum of the moving average of the weights; 0: no average"""

    spelling_share: Annotated[float, Option(least=0, advanced=True)] = 0.0
    """g, what words with common character n-grams share of the changes of C; 0: nothing"""

    batch_size: Annotated[int, Option(least=1, advanced=True)] = 96
    """n-grams per update"""

    segment: Annotated[int, Option(least=1, below=1025, advanced=True)] = 1
    """T, consecutive targets that share the look-up of their words; it divides the batch size"""

    epochs: Annotated[int, Option(least=1, below=1 << 20)] = 12
    """most epochs"""

    patience: Annotated[int, Option(least=1, advanced=True)] = 3
    """early stopping: epochs without a better validation perplexity before training stops"""

    seed: Annotated[int, Option(least=0, below=1 << 31)] = 1
    """random seed: on one machine the same seed gives the same weights"""

    def __post_init__(self) -> None:
        check_values(self)
        check_argument(
            "batch_size",
            self.batch_size % self.segment == 0,
            f"a multiple of `segment`, {self.segment}",
            self.batch_size,
            "change one.",
        )

    def build_optimizer(
        self, network: Network, steps_per_epoch: int
    ) -> "keras.optimizers.Optimizer":
        """Build the optimiser with its weight decay, from which the caller leaves out biases."""
        rate = self.schedule.build(self.learning_rate, steps_per_epoch * self.epochs)
        return self.optimizer.build(rate, self.weight_decay, network)
