"""How a network reads its texts in training: as windows, segments, or with an n-gram model."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.epochs import Epochs
from keras_nplm.data.log_q import LogQ
from keras_nplm.data.resampling import TextIds
from keras_nplm.data.source import NgramSource
from keras_nplm.io.errors import check_argument
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.jackknife import Jackknife
from keras_nplm.models.model_files import load_component
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.shortlist import BACKGROUND
from keras_nplm.training.options import MOST_NGRAM_ORDER, Options
from keras_nplm.training.run import Run

OpenBatches = Callable[[int, Epochs], tf.data.Dataset]  # from the size of a batch and the epochs


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a network reads while it is trained.

    Attributes:
        open_training: opens batches of the training text, in the form that the network reads.
        open_validation: the same of the validation text; None without one.
        validation_ids: int32 [T], the validation text; None without one.
        background: the n-gram model inside the network, or None.
    """

    open_training: OpenBatches
    open_validation: OpenBatches | None
    validation_ids: np.ndarray | None
    background: NextWordModel | None

    def complete(self, network: ContextNetwork) -> NextWordModel:
        """Return the network as a language model, with the n-gram model inside if it has one."""
        if self.background is None:
            return network
        return Hybrid(network, self.background)


def open_texts(run: Run) -> Reading:
    """Open the texts of a run in the form that its network reads."""
    segment = run.options.training.segment
    boundary = run.options.text.boundary
    training = _open_source(run, run.encoded.for_training())
    background = jackknife = None
    if run.options.network.network.reads_ngram_model:
        size = len(run.vocabulary)
        background = load_component(run.directory, BACKGROUND, boundary, size)
        jackknife = Jackknife(training.ids, size, background.order, boundary)
        training = jackknife.assign_parts(training)
    open_training = open_form(training, segment, jackknife)
    if "validation" not in run.encoded.splits:
        return Reading(open_training, None, None, background)
    ids = run.encoded.ids("validation")
    open_validation = open_form(_open_source(run, ids), segment, background)
    return Reading(open_training, open_validation, ids, background)


def _open_source(run: Run, ids: TextIds) -> NgramSource:
    limit = run.options.network.target_limit
    return NgramSource(ids, run.options.network.order, run.options.text.boundary, limit)


def open_sample(options: Options, ids: np.ndarray, vocabulary_size: int) -> OpenBatches:
    """Return the method that opens a sample of a training text in this form, to time it."""
    boundary = options.text.boundary
    segment = options.training.segment
    source = NgramSource(ids, options.network.order, boundary)
    if not options.network.network.reads_ngram_model:
        return open_form(source, segment)
    order = min(options.network.order, MOST_NGRAM_ORDER)
    jackknife = Jackknife(ids, vocabulary_size, order, boundary, folds=2)
    return open_form(jackknife.assign_parts(source), segment, jackknife)


def open_form(source: NgramSource, segment: int, model: LogQ | None = None) -> OpenBatches:
    """Return the method that opens a text in the form that a network reads.

    `model` is the n-gram model, or the jackknife, inside the network.
    """
    if model is None:
        return source.windows if segment == 1 else functools.partial(source.segments, segment)
    accepted = "1 with an n-gram model inside the network"
    check_argument("segment", segment == 1, accepted, segment, "leave it out.")
    return functools.partial(source.with_log_q, model)
