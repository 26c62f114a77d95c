"""Plan a run of so many minutes: measure this machine, then choose width, context and epochs."""

import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_nplm.data.boundary import find_targets
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.epochs import Epochs
from keras_nplm.io.errors import InputError
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.training.adaptive_default import choose_options
from keras_nplm.training.background import estimate_classes
from keras_nplm.training.build import build_model
from keras_nplm.training.fit import VALIDATION_BATCH, fit_batch
from keras_nplm.training.options import MOST_NGRAM_ORDER, Options, TextStatistics
from keras_nplm.training.reading import open_sample

_MEASURED_IDS = 50_000
_UPDATES = 16  # of a call
_TIMED_UPDATES = 4096  # at most
MEASURED_SECONDS = 1.0  # CPU seconds of a measurement
_PLANS = 3
_LEAST_EFFORT = 0.05
# a text of a few words is trained in no time, and a larger network would only fill the memory
_MOST_EFFORT = 100.0
_EVALUATIONS = 3  # after training: validation for the weights of a mixture, validation and test
_FOLDS = 4.0  # whole texts in the five models of a jackknife


def plan_minutes(
    minutes: float,
    given: Mapping[str, Any],
    statistics: TextStatistics,
    encoded: EncodedCorpus,
    *,
    replicas: int = 1,
    started: float,
) -> Options:
    """Choose the options of the best network that a run of so many minutes on one core can train.

    The default is timed on some updates. The ratio of the given time to its time is the `effort`,
    from which `choose_options` takes width, context and pointer. The chosen network is timed in
    turn. The last one gets the epochs that fit, at most its own. The CPU time since `started`, of
    `time.process_time()`, counts.

    Raises:
        InputError: not even one epoch fits.
    """
    deadline = started + 60 * minutes
    effort = 1.0
    for _ in range(_PLANS):
        chosen = choose_options(given, statistics, effort=effort, replicas=replicas)
        epoch, end = measure_seconds(chosen, encoded, statistics.tokens)
        epochs = (deadline - time.process_time() - end) / epoch
        ratio = epochs / chosen.training.epochs
        if 0.8 < ratio < 1.25:
            break
        wanted = min(max(effort * ratio, _LEAST_EFFORT), _MOST_EFFORT)
        if wanted == effort:
            break
        effort = wanted
    if epochs < 1:
        needed = math.ceil(10 * (minutes + (1 - epochs) * epoch / 60)) / 10
        raise InputError(
            f"`minutes` must be {needed:g} or more for this text. Received: {minutes}. "
            "Fix: give more, or train on a part of the text."
        )
    if "epochs" in given:
        return chosen
    return chosen.replace(epochs=min(chosen.training.epochs, int(epochs)))


def measure_seconds(options: Options, encoded: EncodedCorpus, ngrams: int) -> tuple[float, float]:
    """Estimate the CPU seconds of an epoch with its validation, and of all else: the n-gram models
    before, and the evaluation after training.

    The network is not kept.
    """
    segment = options.training.segment
    size = encoded.vocabulary_size
    ids = next(encoded.parts("train"))[:_MEASURED_IDS]
    open_batches = open_sample(options, ids, size)
    model = build_model(options, size)
    optimizer = options.training.build_optimizer(options.network, _TIMED_UPDATES)
    model.compile(optimizer, steps_per_execution=_UPDATES)
    number = int(find_targets(ids, options.text.boundary).sum())
    batch_size = fit_batch(options.training.batch_size, number, segment)
    validation_batch = fit_batch(VALIDATION_BATCH, number, segment)
    training = open_batches(batch_size, Epochs(drop_remainder=True, first_epoch=0))
    held_out = open_batches(validation_batch, Epochs()).take(_UPDATES).cache()
    batches = min(_UPDATES, -(-number // validation_batch))
    fit = functools.partial(model.fit, training, steps_per_epoch=_UPDATES, verbose=0, shuffle=False)
    update = time_steps(fit, _UPDATES)
    validation = time_steps(functools.partial(model.evaluate, held_out, verbose=0), batches)
    validation *= encoded.splits["validation"]["tokens"] / validation_batch
    ngram_models = _measure_ngram_models(options, ids, size) * ngrams / number
    return update * ngrams / batch_size + validation, _EVALUATIONS * validation + ngram_models


def _measure_ngram_models(options: Options, ids: np.ndarray, vocabulary_size: int) -> float:
    """Return the CPU seconds of all n-gram models that a run would estimate from these ids."""
    network = options.network
    if not network.has_ngram_model:
        return 0.0
    order = min(network.order, MOST_NGRAM_ORDER)
    models = sum(range(2, order + 1)) / order  # one of each order, as if the time grew with it
    if network.target_limit is not None:
        order = network.ngram_order
        models = 1.0
    if network.network.reads_ngram_model:
        models += _FOLDS
    start = time.process_time()
    kneser_ney(ids, vocabulary_size, order, options.text.boundary)
    seconds = models * (time.process_time() - start)
    if network.interpolated:
        start = time.process_time()
        estimate_classes(ids, ids, vocabulary_size, options.text.boundary)
        seconds += time.process_time() - start
    return seconds


def time_steps(run: Callable[[], object], steps: int) -> float:
    """Return the CPU seconds of one of so many steps of a function, a mean over about a second."""
    run()  # compiles
    start = time.process_time()
    number = 0
    while number == 0 or (
        time.process_time() - start < MEASURED_SECONDS and number < _TIMED_UPDATES
    ):
        run()
        number += steps
    return (time.process_time() - start) / number
