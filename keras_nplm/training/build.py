"""TODO doc."""

import keras

from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.io.options import parse_integers
from keras_nplm.layers.outputs import OUTPUTS, LinearOutput, Output, SampledOutput
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.nplm_file import check_memory, least_number_of_weights
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.optimizers import OPTIMIZERS


def build_model(configuration: Configuration, vocabulary_size: int) -> NPLM:
    """The network that a configuration describes, not yet compiled."""
    names = ("order", "embedding_dim", "hidden_units", "direct_connections", "dropout", "embedding_dropout")
    names += ("output_rank", "tied_output", "shortlist_size", "outside_output", "word_dropout", "activation")
    names += ("residual_blocks", "layer_norm", "dtype")
    options = {name: getattr(configuration, name) for name in names}
    options["averages_after"] = configuration.averages
    if not configuration.hidden_units or configuration.output_layer == "energy":  # no hidden layer of its own
        options |= dict(activation="tanh", residual_blocks=0, layer_norm=False)
    linear = issubclass(OUTPUTS[configuration.output_layer], LinearOutput)
    check_memory(least_number_of_weights(options, vocabulary_size, linear))
    outputs = vocabulary_size
    if configuration.shortlist_size:
        outputs = len(SPECIALS) + configuration.shortlist_size + configuration.outside_output
    return NPLM(vocabulary_size, output_layer=_build_output(configuration, outputs), **options)


def _build_output(configuration: Configuration, outputs: int) -> Output:
    if configuration.output_layer == "adaptive":
        options = {"cutoffs": parse_integers(configuration.cutoffs) or None}
    else:
        options = {name: getattr(configuration, name) for name in ("held_out_mass", "self_normalisation")}
    if is_sampled(configuration):
        options |= {name: getattr(configuration, name) for name in ("num_sampled", "proposal", "seed")}
    if configuration.output_layer == "energy":
        options["hidden_units"] = configuration.hidden_units
    return OUTPUTS[configuration.output_layer](outputs, name="prob", dtype=configuration.dtype, **options)


def is_sampled(configuration: Configuration) -> bool:
    return issubclass(OUTPUTS[configuration.output_layer], SampledOutput)


def build_optimizer(configuration: Configuration, steps_per_epoch: int) -> keras.optimizers.Optimizer:
    """The optimiser and its schedule.

    Under plain SGD the paper's weight decay and the optimiser's are the same, theta <- theta - eps_t (gradient + lambda
    theta), and the optimiser's needs no pass over the weights for the penalty's value; under the others it is
    decoupled, and not the paper's. With a sampled output it falls on the rows that a step touches (see
    `keras_nplm.training.optimizers`).

    linear: eps_t = eps_0 (1 - t/T), T the updates of all epochs; inverse-time: eps_t = eps_0 / (1 + r t), the paper's.

    Args:
        configuration: the options.
        steps_per_epoch: updates in an epoch.

    Example:

    >>> optimizer = build_optimizer(Configuration(learning_rate=1e-3, schedule="inverse-time", decay_rate=0.5), 10)
    >>> _ = optimizer.iterations.assign(2)
    >>> round(float(optimizer.learning_rate), 6)
    0.0005
    """
    schedules = keras.optimizers.schedules
    rate = configuration.learning_rate
    if configuration.schedule == "linear":
        rate = schedules.PolynomialDecay(rate, steps_per_epoch * configuration.epochs, end_learning_rate=0.0)
    elif configuration.schedule == "inverse-time":
        rate = schedules.InverseTimeDecay(rate, decay_steps=1, decay_rate=configuration.decay_rate)
    adagrad = configuration.optimizer == "adagrad"
    options = {"initial_accumulator_value": configuration.initial_accumulator} if adagrad else {}
    return OPTIMIZERS[configuration.optimizer](
        rate,
        weight_decay=configuration.weight_decay or None,
        dense_decay=not is_sampled(configuration),
        **options,
    )
