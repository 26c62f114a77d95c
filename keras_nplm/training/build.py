"""Build the network and the optimiser that a configuration describes."""

from typing import Any

import keras

from keras_nplm.data.ids import SPECIALS
from keras_nplm.io.options import parse_integers
from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.hidden import DirectConnection, NoHidden, TanhHidden
from keras_nplm.layers.objectives.base import Objective
from keras_nplm.layers.objectives.likelihood import Likelihood
from keras_nplm.layers.objectives.sampled import NoiseContrastive, SampledSoftmax
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.networks.network_file import check_memory
from keras_nplm.models.networks.pointer_network import PointerNetwork
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.optimizers import OPTIMIZERS
from keras_nplm.training.sizes import compute_sizes

_LONG_ORDER = 8  # contexts in which a word such as `<s>` may stand so often that its row moves too far at once
_ROW_CLIPNORM, _POINTER_ROW_CLIPNORM = 1.0, 0.25  # rows of usual batches stay below it


def build_model(configuration: Configuration, vocabulary_size: int) -> ContextNetwork:
    """Build the network that a configuration describes, not compiled. Refuse weights larger than the memory.

    Weight decay is the optimiser's: see `build_optimizer`.
    """
    check_memory(compute_sizes(configuration, vocabulary_size)["parameters"])
    head = _build_head(configuration, vocabulary_size)
    direct = None
    if configuration.direct_connections:
        direct = DirectConnection(head.num_outputs, name="direct", dtype=configuration.dtype)
    return _choose_network(configuration)(
        order=configuration.order,
        embed=_build_context(configuration, vocabulary_size),
        hidden=_build_hidden(configuration),
        direct=direct,
        head=head,
        objective=_build_objective(configuration),
        boundary=configuration.boundary,
        name="NPLM",
    )


def _choose_network(configuration: Configuration) -> type[ContextNetwork]:
    if configuration.output_layer == "hybrid":
        return HybridNetwork
    return PointerNetwork if configuration.pointer else ContextNetwork


def _build_context(configuration: Configuration, vocabulary_size: int) -> ContextEmbedding:
    options = dict(
        word_dropout=configuration.word_dropout,
        dropout=configuration.embedding_dropout,
        name="embed",
        dtype=configuration.dtype,
    )
    if configuration.averages:
        return AveragedContext(
            vocabulary_size, configuration.embedding_dim, averages_after=configuration.averages, **options
        )
    return ContextEmbedding(vocabulary_size, configuration.embedding_dim, **options)


def _build_hidden(configuration: Configuration) -> keras.layers.Layer | None:
    if configuration.output_layer == "energy":
        return None  # the head has a hidden layer of its own
    options = dict(dropout=configuration.dropout, name="hidden", dtype=configuration.dtype)
    if not configuration.hidden_units:
        return NoHidden(name="hidden", dtype=configuration.dtype)
    if configuration.residual_blocks or configuration.layer_norm or configuration.activation != "tanh":
        return DeepHidden(
            configuration.hidden_units,
            activation=configuration.activation,
            residual_blocks=configuration.residual_blocks,
            layer_norm=configuration.layer_norm,
            **options,
        )
    return TanhHidden(configuration.hidden_units, **options)


def _build_head(configuration: Configuration, vocabulary_size: int) -> Head:
    options = dict(name="prob", dtype=configuration.dtype)
    if configuration.output_layer == "adaptive":
        return AdaptiveHead(vocabulary_size, cutoffs=parse_integers(configuration.cutoffs) or None, **options)
    if configuration.output_layer == "energy":
        return EnergyHead(vocabulary_size, configuration.hidden_units, configuration.dropout, **options)
    num_outputs = None
    if configuration.shortlist_size is not None:
        num_outputs = len(SPECIALS) + configuration.shortlist_size
    return LinearHead(
        vocabulary_size,
        rank=configuration.output_rank,
        tied=configuration.tied_output,
        num_outputs=num_outputs,
        **options,
    )


def _build_objective(configuration: Configuration) -> Objective:
    options = dict(
        held_out_mass=configuration.held_out_mass,
        self_normalisation=configuration.self_normalisation,
        name="objective",
        dtype=configuration.dtype,
    )
    if not configuration.is_sampled:
        return Likelihood(**options)
    kind = NoiseContrastive if configuration.output_layer == "nce" else SampledSoftmax
    return kind(configuration.num_sampled, configuration.proposal, seed=configuration.seed, **options)


def build_optimizer(configuration: Configuration, steps_per_epoch: int) -> keras.optimizers.Optimizer:
    """Build the optimiser with its weight decay, from which the caller leaves out biases, and its schedule.

    Schedules: linear, eps_t = eps_0 (1 - t/T), where T is the number of updates of all epochs; inverse-time, the
    paper's, eps_t = eps_0 / (1 + r t); constant.
    """
    schedules = keras.optimizers.schedules
    rate = configuration.learning_rate
    if configuration.schedule == "linear":
        rate = schedules.PolynomialDecay(rate, steps_per_epoch * configuration.epochs, end_learning_rate=0.0)
    elif configuration.schedule == "inverse-time":
        rate = schedules.InverseTimeDecay(rate, decay_steps=1, decay_rate=configuration.decay_rate)
    options: dict[str, Any] = {}
    if configuration.optimizer == "adagrad":
        options["initial_accumulator_value"] = configuration.initial_accumulator
    if configuration.optimizer == "sgd" and (configuration.pointer or configuration.order > _LONG_ORDER):
        options["row_clipnorm"] = _POINTER_ROW_CLIPNORM if configuration.pointer else _ROW_CLIPNORM
    return OPTIMIZERS[configuration.optimizer](
        rate,
        weight_decay=configuration.weight_decay or None,
        dense_decay=not configuration.is_sampled,
        **options,
    )
