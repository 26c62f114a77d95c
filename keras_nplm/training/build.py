"""Build the network and the optimiser that a configuration describes."""

from typing import Any

import keras

from keras_nplm.io.options import parse_integers
from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.outputs import OUTPUTS, Output
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.nplm_file import check_memory
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.optimizers import OPTIMIZERS
from keras_nplm.training.sizes import compute_sizes

_LONG_ORDER = 8  # contexts in which a word such as `<s>` may stand so often that its row moves too far at once
_ROW_CLIPNORM, _POINTER_ROW_CLIPNORM = 1.0, 0.25  # rows of usual batches stay below it


def build_model(configuration: Configuration, vocabulary_size: int) -> NPLM:
    """Build the network that a configuration describes, not compiled. Refuse weights larger than the memory."""
    check_memory(compute_sizes(configuration, vocabulary_size)["parameters"])
    output = _build_output(configuration, vocabulary_size)
    names = ("order", "embedding_dim", "hidden_units", "direct_connections", "boundary", "pointer", "dtype")
    options = {name: getattr(configuration, name) for name in names}
    shares = {name: getattr(configuration, name) for name in ("dropout", "embedding_dropout", "word_dropout")}
    if configuration.averages:
        options["context"] = AveragedContext(
            vocabulary_size,
            configuration.embedding_dim,
            word_dropout=shares.pop("word_dropout"),
            dropout=shares.pop("embedding_dropout"),
            averages_after=configuration.averages,
            name="embed",
            dtype=configuration.dtype,
        )
    is_deep = configuration.residual_blocks or configuration.layer_norm or configuration.activation != "tanh"
    if is_deep and configuration.hidden_units and not output.includes_hidden_layer:
        options["hidden"] = DeepHidden(
            configuration.hidden_units,
            activation=configuration.activation,
            residual_blocks=configuration.residual_blocks,
            layer_norm=configuration.layer_norm,
            dropout=shares.pop("dropout"),
            name="hidden",
            dtype=configuration.dtype,
        )
    if output.includes_hidden_layer:
        del shares["dropout"]  # the output layer has it
    return NPLM(vocabulary_size, output=output, **options, **shares)


def _build_output(configuration: Configuration, vocabulary_size: int) -> Output:
    kind = OUTPUTS[configuration.output_layer]
    if configuration.output_layer == "adaptive":
        options = {"cutoffs": parse_integers(configuration.cutoffs) or None}
    else:
        options = {name: getattr(configuration, name) for name in ("held_out_mass", "self_normalisation")}
    if kind.is_sampled:
        options |= {name: getattr(configuration, name) for name in ("num_sampled", "proposal", "seed")}
    if kind.has_output_vectors:
        options |= {name: getattr(configuration, name) for name in ("shortlist_size", "outside_output")}
        options |= {"rank": configuration.output_rank, "tied": configuration.tied_output}
    if kind.includes_hidden_layer:
        options |= {"hidden_units": configuration.hidden_units, "dropout": configuration.dropout}
    return kind(vocabulary_size, name="prob", dtype=configuration.dtype, **options)


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
        dense_decay=not OUTPUTS[configuration.output_layer].is_sampled,
        **options,
    )
