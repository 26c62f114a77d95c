"""Language models as graphs of operations that LiteRT and ONNX have: float32, int32, no loops."""

import functools
from typing import Any

import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.pointer import CopyScores
from keras_nplm.layers.scores import LinearScores
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation
from keras_nplm.serving.graph_model import GraphModel
from keras_nplm.serving.graphs import MixtureGraph, NetworkGraph, UniformGraph
from keras_nplm.serving.ngram_graphs import (
    BackoffGraph,
    ClassBasedGraph,
    InterpolationGraph,
    RangeTable,
)

TILE_WORDS = 1 << 12  # whose logits are computed at a time


@functools.singledispatch
def build_device_graph(model: NextWordModel) -> GraphModel:
    """Return a language model as a graph for LiteRT and ONNX files.

    Raises:
        InputError: such files cannot hold models of this class.
    """
    raise InputError(
        "LiteRT and ONNX files can hold an NPLM, an n-gram model, or a mixture of them. "
        f"Received: {type(model).__name__}. Fix: export this model as a SavedModel."
    )


# it reads more than the context
build_device_graph.register(HybridNetwork, build_device_graph.dispatch(object))


@build_device_graph.register(ContextNetwork)
class DeviceNetworkGraph(NetworkGraph):
    """A network as a graph whose ln P of a target needs no branch, no loop and no second copy of
    the kernel.
    """

    def __init__(self, model: ContextNetwork):
        super().__init__(_copy_for_devices(model))

    def store_outputs(self) -> None:
        """Leave K and b apart: 8 bits of one scale cannot hold both."""
        return

    def output_log_prob(self, context_ids: tf.Tensor, output_ids: tf.Tensor) -> tf.Tensor:
        scores = self.network.scores(context_ids)
        copies = None
        if isinstance(scores, CopyScores):
            copies = scores
            scores = scores.scores
        if not isinstance(scores, LinearScores):
            return tf.gather(self.next_log_probs(context_ids), output_ids, batch_dims=1)
        logit, log_z = _compute_in_tiles(scores, output_ids)
        if copies is None:
            return logit - log_z
        return copies.add_to_logit(logit, output_ids) - copies.add_to_normaliser(log_z)


def _compute_in_tiles(scores: LinearScores, output_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return y of one output per context and ln Z, float [B] each, from tiles of the logits."""
    logit = tf.zeros_like(scores.features[:, 0])
    log_z_of_tiles = []
    for first in range(0, scores.bias.shape[0], TILE_WORDS):
        rows = slice(first, first + TILE_WORDS)
        kernel = tf.concat([block.value[rows] for block in scores.kernels], axis=1)
        bias = scores.bias.value[rows]
        logits = tf.matmul(scores.features, kernel, transpose_b=True) + bias
        log_z_of_tiles.append(tf.reduce_logsumexp(logits, axis=1, keepdims=True))
        places = tf.clip_by_value(output_ids - first, 0, bias.shape[0] - 1)
        is_in_tile = output_ids == first + places
        logit = tf.where(is_in_tile, tf.gather(logits, places, batch_dims=1), logit)
    log_z = tf.reduce_logsumexp(tf.concat(log_z_of_tiles, axis=1), axis=1, keepdims=True)
    return logit, log_z[:, 0]


def _copy_for_devices(network: ContextNetwork) -> ContextNetwork:
    """Return a copy of the network that computes in float32 and without loops, which every runtime
    supports.
    """
    copy = type(network).from_config(_replace_dtypes(network.get_config()))
    copy.set_weights(network.get_weights())
    if isinstance(copy.prob, EnergyHead):
        copy.prob.uses_loop = False
    return copy


def _replace_dtypes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a network with float32 as the dtype of each layer."""
    replaced: dict[str, Any] = {}
    for key, value in config.items():
        if key == "dtype":
            replaced[key] = "float32"
        elif isinstance(value, dict):
            replaced[key] = _replace_dtypes(value)
        else:
            replaced[key] = value
    return replaced


# with tables of operations that LiteRT and ONNX have
build_device_graph.register(BackoffModel, functools.partial(BackoffGraph, table=RangeTable))
build_device_graph.register(
    DeletedInterpolation, functools.partial(InterpolationGraph, table=RangeTable)
)
build_device_graph.register(ClassBased, functools.partial(ClassBasedGraph, table=RangeTable))
build_device_graph.register(Uniform, UniformGraph)
build_device_graph.register(
    Mixture,
    functools.partial(MixtureGraph, build=build_device_graph, table=RangeTable, dtype="float32"),
)
