"""How a network reads its texts in training: as windows, segments, or with an n-gram model."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.log_q import LogQ
from keras_nplm.data.source import NgramSource
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.directory import explain_damage
from keras_nplm.language_model.model_files import BACKGROUND, load_component
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.jackknife import Jackknife, choose_folds
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.targets import find_target_limit

OpenBatches = Callable[[int, Epochs], tf.data.Dataset]  # from the size of a batch and the epochs


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a network reads while it is trained.

    Attributes:
        open_training, open_validation: open batches of the texts, in the form that the network
            reads.
        validation_ids: int32 [T], the validation text.
        background: the n-gram model inside the network, or None.
    """

    open_training: OpenBatches
    open_validation: OpenBatches
    validation_ids: np.ndarray
    background: NextWordModel | None = None

    def complete(self, network: ContextNetwork) -> NextWordModel:
        """Return the network as a language model, with the n-gram model inside if it has one."""
        if self.background is None:
            return network
        return Hybrid(network, self.background)


def read_texts(configuration: Configuration, encoded: EncodedCorpus, directory: Path) -> Reading:
    """Open the texts of an encoded corpus for the network of a configuration."""
    with explain_damage(directory):
        training_ids = encoded.for_training()
        validation_ids = encoded.ids("validation")
    limit = find_target_limit(configuration)
    order = configuration.order
    boundary = configuration.boundary
    training = NgramSource(training_ids, order, boundary, limit)
    validation = NgramSource(validation_ids, order, boundary, limit)
    segment = configuration.segment
    if configuration.output_layer != "hybrid":
        open_training = open_form(training, segment)
        return Reading(open_training, open_form(validation, segment), validation_ids)
    size = encoded.vocabulary_size
    with explain_damage(directory):
        background = load_component(directory, BACKGROUND, {"boundary": boundary}, size)
    folds = choose_folds(training_ids, boundary)
    jackknife = Jackknife(training_ids, size, background.order, boundary, folds)
    return Reading(
        open_form(jackknife.divide(training), segment, jackknife),
        open_form(validation, segment, background),
        validation_ids,
        background,
    )


def open_form(source: NgramSource, segment: int, model: LogQ | None = None) -> OpenBatches:
    """Return the method that opens a text in the form that a network reads.

    `model` is the n-gram model, or the jackknife, inside the network.
    """
    if model is None:
        return source.windows if segment == 1 else functools.partial(source.segments, segment)
    if segment > 1:
        wanted = "1 with an n-gram model inside the network"
        raise InputError(f"`segment` must be {wanted}. Received: {segment}. Fix: leave it out.")
    return functools.partial(source.with_log_q, model)
