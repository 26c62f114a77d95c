"""Plan a training run of so many minutes: measure how fast this machine is, then choose width, context and epochs."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import numpy as np

from keras_nplm.data.boundary import find_targets
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.source import NgramSource
from keras_nplm.io.errors import check_argument
from keras_nplm.models.jackknife import Jackknife
from keras_nplm.training.adaptive_default import AdaptiveConfiguration
from keras_nplm.training.background import MAX_ORDER
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.fit import VALIDATION_BATCH, fit_batch
from keras_nplm.training.reading import OpenBatches, open_form

_MEASURED_IDS, _UPDATES, _TIMED_UPDATES, _SECONDS = 50_000, 16, 4096, 1.0  # updates of a call, at most, CPU seconds
_LEAST_EFFORT, _PLANS = 0.05, 3
_MOST_EFFORT = 100.0  # a text of a few words is trained in no time, and a larger network would only fill the memory
_EVALUATIONS = 3  # after training: validation for the weights of a mixture, validation and test


def plan_minutes(
    requested: AdaptiveConfiguration, encoded: EncodedCorpus, counts: tuple[int, int], started: float, **units: int
) -> Configuration:
    """Choose the options of the best network that a run of `requested.minutes` of CPU time on one core can train.

    The default is timed on some updates. The ratio of the given time to its time is the `effort`, from which
    `choose_configuration` takes width, context and pointer. The chosen network is timed in turn. The last one gets the
    epochs that fit, at most its own. The time since `started`, of `time.process_time()`, counts.

    Raises:
        InputError: not even one epoch fits.
    """
    minutes = requested.minutes
    assert minutes is not None  # otherwise there is nothing to plan
    deadline = started + 60 * minutes
    effort = 1.0
    for _ in range(_PLANS):
        chosen = requested.choose(*counts, **units, effort=effort)
        epoch, end = _measure(chosen, encoded, counts[0])
        epochs = (deadline - time.process_time() - end) / epoch
        if 0.8 < epochs / chosen.epochs < 1.25:
            break
        wanted = min(max(effort * epochs / chosen.epochs, _LEAST_EFFORT), _MOST_EFFORT)
        if wanted == effort:
            break
        effort = wanted
    if epochs < 1:
        needed = math.ceil(10 * (minutes + (1 - epochs) * epoch / 60)) / 10
        fix = "give more, or train on a part of the text."
        check_argument("minutes", False, f"{needed:g} or more for this text", minutes, fix)
    if "epochs" in requested.given:
        return chosen
    return dataclasses.replace(chosen, epochs=min(chosen.epochs, int(epochs)))


def _measure(configuration: Configuration, encoded: EncodedCorpus, ngrams: int) -> tuple[float, float]:
    """Estimate the CPU seconds of an epoch with its validation, and of the end.

    The network is not kept.
    """
    ids = next(encoded.parts("train"))[:_MEASURED_IDS]
    open_batches = _open_text(configuration, ids, encoded.vocabulary_size)
    model = build_model(configuration, encoded.vocabulary_size)
    model.compile(build_optimizer(configuration, _TIMED_UPDATES), steps_per_execution=_UPDATES)
    number = int(find_targets(ids, configuration.boundary).sum())
    batch_size = fit_batch(configuration.batch_size, number, configuration.segment)
    validation_batch = fit_batch(VALIDATION_BATCH, number, configuration.segment)
    training = open_batches(batch_size, Epochs(drop_remainder=True, first_epoch=0))
    held_out = open_batches(validation_batch, Epochs()).take(_UPDATES).cache()
    batches = min(_UPDATES, -(-number // validation_batch))
    fit = functools.partial(model.fit, training, steps_per_epoch=_UPDATES, verbose=0, shuffle=False)
    update = _time(fit, _UPDATES)
    validation = _time(functools.partial(model.evaluate, held_out, verbose=0), batches)
    validation *= encoded.splits["validation"]["tokens"] / validation_batch
    return update * ngrams / batch_size + validation, _EVALUATIONS * validation


def _open_text(configuration: Configuration, ids: np.ndarray, vocabulary_size: int) -> OpenBatches:
    """Return the method that opens a text as the network reads it."""
    source = NgramSource(ids, configuration.order, configuration.boundary)
    if configuration.output_layer != "hybrid":
        return open_form(source, configuration.segment)
    order = min(configuration.order, MAX_ORDER)
    jackknife = Jackknife(ids, vocabulary_size, order, configuration.boundary, folds=2)
    return open_form(jackknife.divide(source), configuration.segment, jackknife)


def _time(run: Callable[[], object], steps: int) -> float:
    """Return the CPU seconds of a step of a function that takes so many: a mean over about a second."""
    run()  # compiles
    start, number = time.process_time(), 0
    while number == 0 or (time.process_time() - start < _SECONDS and number < _TIMED_UPDATES):
        run()
        number += steps
    return (time.process_time() - start) / number
