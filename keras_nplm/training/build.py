"""Build the network and the optimiser that options describe."""

import keras
import numpy as np

from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.network_file import check_memory
from keras_nplm.training.optimizers import LazyAdagrad, LazyAdam, LazySGD
from keras_nplm.training.options import Options, TrainingOptions
from keras_nplm.training.parts import NETWORKS, OBJECTIVES, build_network
from keras_nplm.training.sizes import compute_sizes

# contexts in which a word such as `<s>` may stand so often that its row moves too far at once
_LONG_ORDER = 8
_ROW_CLIPNORM = 1.0  # rows of usual batches stay below it
# of an output tied to C, which diverged without: of 99 gradients in 100 the norm is below 0.8
_TIED_CLIPNORM = 1.0
# root mean square of the components of word vectors that C starts from; less if C is the output,
# too, where 0.3 was worse than a random start
_START_SIZE = 0.3
_TIED_START_SIZE = 0.1


def build_model(options: Options, vocabulary_size: int) -> ContextNetwork:
    """Build the network of the options, not compiled. Refuse weights larger than the memory.

    Weight decay is the optimiser's: see `build_optimizer`.
    """
    check_memory(compute_sizes(options.network, vocabulary_size)["parameters"])
    network = build_network(
        options.network,
        vocabulary_size,
        boundary=options.text.boundary,
        seed=options.training.seed,
    )
    if options.network.freeze_embedding:
        _scale_to_unit_variance(network.embed.C)
    return network


def _scale_to_unit_variance(weight: keras.Variable) -> None:
    """Scale random weights to the variance of usual inputs.

    Learned features grow. Features that stay as small as they begin would slow the layers after
    them down, beside which a comparison would not be fair.
    """
    weight.assign(weight / keras.ops.std(weight))


def set_word_vectors(network: ContextNetwork, vectors: np.ndarray) -> None:
    """Start C from word vectors, float32 [|V|, m].

    Frozen vectors stay as they are. Others are multiplied by one number, which changes no angle:
    components of one size suit the learning rate, and those of files have 0.05 to 0.6.
    """
    scale = 1.0
    if network.embed.trainable:
        size = _TIED_START_SIZE if network.prob.uses_embedding else _START_SIZE
        scale = size / np.sqrt(np.square(vectors, dtype=np.float64).mean())
    network.embed.C.assign(vectors * scale)


def build_optimizer(options: Options, steps_per_epoch: int) -> keras.optimizers.Optimizer:
    """Build the optimiser with its weight decay, from which the caller leaves out biases."""
    training = options.training
    rate = _build_schedule(training, steps_per_epoch)
    weight_decay = training.weight_decay or None
    # with all words in each loss, all rows have a gradient, and decay
    is_sampled = OBJECTIVES[options.network.objective].is_sampled
    dense_decay = not is_sampled
    if training.optimizer == "adam":
        return LazyAdam(rate, weight_decay=weight_decay, dense_decay=dense_decay)
    if training.optimizer == "adagrad":
        return LazyAdagrad(
            rate,
            initial_accumulator_value=training.initial_accumulator,
            weight_decay=weight_decay,
            dense_decay=dense_decay,
        )
    row_clipnorm = NETWORKS[options.network.network].row_clipnorm
    if row_clipnorm is None and options.network.order > _LONG_ORDER:
        row_clipnorm = _ROW_CLIPNORM
    # with all words in each loss the gradient for C is dense, too, and usually longer
    dense_clipnorm = _TIED_CLIPNORM if options.network.is_tied and is_sampled else None
    return LazySGD(
        rate,
        weight_decay=weight_decay,
        row_clipnorm=row_clipnorm,
        dense_clipnorm=dense_clipnorm,
        dense_decay=dense_decay,
    )


def _build_schedule(
    training: TrainingOptions, steps_per_epoch: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """Build the learning rate by updates t.

    linear: eps_t = eps_0 (1 - t/T), with T the updates of all epochs. inverse-time, the paper's:
    eps_t = eps_0 / (1 + r t). constant: eps_t = eps_0.
    """
    schedules = keras.optimizers.schedules
    rate = training.learning_rate
    if training.schedule == "linear":
        updates = steps_per_epoch * training.epochs
        return schedules.PolynomialDecay(rate, updates, end_learning_rate=0.0)
    if training.schedule == "inverse-time":
        return schedules.InverseTimeDecay(rate, decay_steps=1, decay_rate=training.decay_rate)
    return rate
