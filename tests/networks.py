"""Small networks for tests, composed of layers: what is not given is the paper's."""

from typing import Any

import keras
import numpy as np

from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.hidden import DirectConnection, TanhHidden
from keras_nplm.layers.objectives.base import Objective
from keras_nplm.layers.objectives.likelihood import Likelihood
from keras_nplm.models.networks.context_network import ContextNetwork


def randomise(layer: keras.layers.Layer, deviation: float = 0.5) -> Any:
    """Return a layer or a network with random weights."""
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(0, deviation, weight.shape))
    return layer


def compose(
    vocabulary_size: int,
    order: int = 3,
    embedding_dim: int = 4,
    hidden_units: int = 5,
    *,
    kind: type[ContextNetwork] = ContextNetwork,
    embed: ContextEmbedding | None = None,
    hidden: keras.layers.Layer | None = None,
    head: Head | None = None,
    objective: Objective | None = None,
    direct: DirectConnection | None = None,
    direct_connections: bool = False,
    dtype: str | None = None,
    **options: Any,
) -> ContextNetwork:
    """Return a network of one hidden layer, or with the given layers."""
    head = head or LinearHead(vocabulary_size, name="prob", dtype=dtype)
    if direct_connections:
        direct = DirectConnection(head.num_outputs, name="direct", dtype=dtype)
    return kind(
        order=order,
        embed=embed or ContextEmbedding(vocabulary_size, embedding_dim, name="embed", dtype=dtype),
        hidden=hidden or TanhHidden(hidden_units, name="hidden", dtype=dtype),
        direct=direct,
        head=head,
        objective=objective or Likelihood(name="objective", dtype=dtype),
        **options,
    )


def compose_energy(
    vocabulary_size: int,
    order: int = 3,
    embedding_dim: int = 4,
    hidden_units: int = 5,
    objective: Objective | None = None,
    **options: Any,
) -> ContextNetwork:
    """Return a network of the paper's section 5.1, whose head has the hidden layer."""
    from keras_nplm.layers.heads.energy import EnergyHead
    from keras_nplm.layers.objectives.sampled import SampledSoftmax

    return ContextNetwork(
        order=order,
        embed=ContextEmbedding(vocabulary_size, embedding_dim, name="embed"),
        head=EnergyHead(vocabulary_size, hidden_units, name="prob"),
        objective=objective or SampledSoftmax(name="objective"),
        **options,
    )
