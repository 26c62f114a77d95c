"""A context layer, a head and an objective of one's own: layers, and their parts for `train`."""

import dataclasses
from typing import Annotated

import keras
from keras import ops

from keras_nplm.io.fields import Option
from keras_nplm.layers.arrays import list_position_spans
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.objectives.base import Losses
from keras_nplm.layers.objectives.base import Objective as ObjectiveLayer
from keras_nplm.training.network import Concatenated, Cost, Head, Linear, Network, Objective


@keras.saving.register_keras_serializable("own")
class GatedContext(ContextEmbedding):
    """x = [g_{n-1} C(w_{t-n+1}), …, g_1 C(w_{t-1})], with a learned weight g_i per distance."""

    options = ("first_gate",)

    def __init__(self, *args, first_gate: float = 1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.first_gate = first_gate

    def build(self, input_shape):
        super().build(input_shape)
        start = keras.initializers.Constant(self.first_gate)
        self.g = self.add_weight(name="g", shape=(input_shape[-1], 1), initializer=start)

    @property
    def biases(self):  # they have no weight decay
        return [*super().biases, self.g]

    def join(self, vectors):
        return super().join(vectors * ops.cast(self.g, vectors.dtype))

    def position_spans(self, context_size):
        blocks, _ = list_position_spans(context_size)
        return blocks, ops.convert_to_numpy(self.g)[:, 0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gated(Concatenated, kind="gated"):
    """Each word's vector times a learned weight of its distance."""

    first_gate: Annotated[float, Option(above=0.0, advanced=True)] = 1.0
    """initial weight of each distance"""

    def count(self, network: Network) -> Cost:
        return Cost(network.order - 1)

    def build(self, network: Network, vocabulary_size: int) -> GatedContext:
        return GatedContext(vocabulary_size, first_gate=self.first_gate, **network.embedding)


@keras.saving.register_keras_serializable("own")
class SharpHead(LinearHead):
    """y = b + s U a."""

    options = ("sharpness",)

    def __init__(self, *args, sharpness: float = 1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.sharpness = sharpness

    def scores(self, features, training=False):
        return super().scores(self.sharpness * features, training)

    def full_kernel(self):
        return self.sharpness * super().full_kernel()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sharp(Head, kind="sharp"):
    """A linear head on features times a number."""

    sharpness: Annotated[float, Option(above=0.0)] = 1.0
    """s, factor of the features"""

    def count(self, network: Network, vocabulary_size: int, *widths: int) -> Cost:
        return Linear().count(network, vocabulary_size, *widths)

    def build(self, network: Network, vocabulary_size: int) -> SharpHead:
        return SharpHead(
            vocabulary_size, sharpness=self.sharpness, name="prob", dtype=network.dtype
        )


@keras.saving.register_keras_serializable("own")
class FocalLoss(ObjectiveLayer):
    """-(1 - P)^gamma ln P."""

    options = ("gamma",)

    def __init__(self, gamma: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.gamma = gamma

    def losses(self, scores, target_ids):
        log_z, logit = scores.for_training(target_ids)
        nll = log_z - logit
        return Losses((1 - ops.exp(-nll)) ** self.gamma * nll, nll)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Focal(Objective, kind="focal"):
    """Targets that are predicted well count less."""

    gamma: Annotated[float, Option(least=0)] = 1.0
    """exponent of 1 - P"""

    def build(self, network: Network, seed: int) -> FocalLoss:
        return FocalLoss(self.gamma, name="objective", dtype=network.dtype)
