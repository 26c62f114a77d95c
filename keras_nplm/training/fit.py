"""Fit a network with `Model.fit`: model and optimiser, n-gram batches, callbacks, resume."""

import contextlib
import dataclasses
import functools
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import was_caused_by
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import distribute_parts, is_chief, shard_batches
from keras_nplm.training.reading import read_texts
from keras_nplm.training.report import choose_prompts
from keras_nplm.training.targets import TrainingTargets
from keras_nplm.training.tensorboard import LanguageModelBoard, remove_steps

VALIDATION_BATCH = 1024
_MAX_STEPS_PER_EXECUTION = 32  # a short update takes about as long as the overhead of Keras per execution
_SHORT_SOFTMAX = 4096  # outputs of a full softmax below which an update is short


def fit_network(
    configuration: Configuration,
    encoded: EncodedCorpus,
    targets: TrainingTargets,
    vocabulary: Vocabulary,
    directory: Path,
    devices: tf.distribute.Strategy,
) -> int:
    """Fit the network from the start or from the last checkpoint; save checkpoints and the best epoch.

    Returns the number of the best epoch, from 1; or 0 if the n-gram model inside the network is better than all epochs.
    """
    batch_size, steps, executed = _divide_epoch(configuration, targets, devices)
    reading = read_texts(configuration, encoded, directory)
    model = _build(configuration, targets, steps, devices)
    model.steps_per_execution = executed
    checkpoint = Checkpoint(model, directory, configuration, steps, batch_size, devices)
    # Keras needs a first batch with equal parts
    unit = devices.num_replicas_in_sync * configuration.segment
    validation_batch = fit_batch(VALIDATION_BATCH, len(reading.validation_ids) // 2, unit)
    callbacks = [checkpoint]
    if is_chief(devices):
        if configuration.shortlist_size:
            print(
                f"Perplexities of training are over the {model.prob.num_outputs:,} words of the list.", file=sys.stderr
            )
        remove_steps(directory / "logs", first=checkpoint.position[0])
        language_model = LanguageModel(reading.complete(model), vocabulary, encoded.tokenizer, configuration.boundary)
        chosen, default = dataclasses.asdict(configuration), dataclasses.asdict(Configuration())
        board = LanguageModelBoard(
            directory / "logs",
            language_model,
            batch_size=batch_size,
            word_counts=targets.counts.sum(axis=0),
            hparams={name: value for name, value in chosen.items() if value != default[name]},  # what tells runs apart
            prompts=choose_prompts(reading.validation_ids, vocabulary, encoded.tokenizer),
        )
        callbacks = [board, checkpoint]  # a run killed between the two repeats the epoch: its logs have no gap
    in_order = Epochs(shuffle=False)
    validation_data = shard_batches(reading.open_validation(validation_batch, in_order))
    while not checkpoint.is_done:
        epoch, step = checkpoint.position
        epochs = Epochs(
            seed=configuration.seed,
            first_epoch=epoch,
            first_batch=step,
            most_batches=steps,
            drop_remainder=True,
        )
        open_batches = functools.partial(reading.open_training, batch_size)
        train_data = distribute_parts(devices, open_batches, epochs)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                model.fit(
                    train_data,
                    validation_data=validation_data,
                    steps_per_epoch=steps - step,
                    initial_epoch=epoch,
                    epochs=epoch + 1 if step else configuration.epochs,  # first the rest of an interrupted epoch
                    callbacks=callbacks,
                    shuffle=False,  # the dataset shuffles
                    verbose=(1 if sys.stderr.isatty() else 2) if is_chief(devices) else 0,
                )
        except KeyboardInterrupt as interruption:
            if not was_caused_by(interruption, tf.errors.OpError):  # a failed update may have changed some weights
                checkpoint.save()
            raise
    perplexities = [epoch["validation_perplexity"] for epoch in checkpoint.history]
    best = int(np.argmin(perplexities))
    background = reading.background
    if background is None or not is_chief(devices):
        return best + 1
    is_worse = _keep_better(background, reading.validation_ids, perplexities[best], checkpoint)
    return 0 if is_worse else best + 1


def _keep_better(background: NextWordModel, ids: np.ndarray, perplexity: float, checkpoint: Checkpoint) -> bool:
    """Replace the best epoch by a network that changes nothing, if the n-gram model alone is better on validation."""
    alone = evaluate(background, ids)["perplexity"]
    if alone is None or perplexity <= alone:
        return False
    print(
        f"Warning: no epoch is better than the n-gram model alone: validation perplexity {perplexity:.2f}, "
        f"{alone:.2f} alone. The hybrid is the n-gram model. Fix: add text, or more --dropout.",
        file=sys.stderr,
    )
    checkpoint.model.forget_network()
    checkpoint.save_best()
    return True


def fit_batch(batch_size: int, ngrams: int, unit: int) -> int:
    """Return the largest batch that a text of so many n-grams fills: a multiple of the unit, at least one unit."""
    return max(1, min(batch_size, ngrams) // unit) * unit


def _divide_epoch(
    configuration: Configuration, targets: TrainingTargets, devices: tf.distribute.Strategy
) -> tuple[int, int, int]:
    """Return n-grams per batch, a multiple of the replicas; updates per epoch; and updates per execution of `fit`."""
    replicas, ngrams = devices.num_replicas_in_sync, targets.ngrams_per_epoch
    unit = replicas * configuration.segment
    batch_size = fit_batch(configuration.batch_size, ngrams, unit)
    steps = max(1, ngrams // batch_size)
    is_short = configuration.is_sampled or targets.counts.shape[1] < _SHORT_SOFTMAX
    if not is_short or replicas > 1:
        return batch_size, steps, 1
    executed = max(k for k in range(1, _MAX_STEPS_PER_EXECUTION + 1) if steps % k == 0)
    return batch_size, steps, executed


def _fit_rate(configuration: Configuration, targets: TrainingTargets) -> Configuration:
    """Lower the rate of SGD for a text that does not fill a batch: each n-gram keeps its share of an update.

    The rate is that of a mean over `batch_size` n-grams. The mean over two would move the weights as far, and training
    would diverge. Adagrad and Adam divide by the size of the gradient.
    """
    share = targets.ngrams_per_epoch / configuration.batch_size
    if share >= 1 or configuration.optimizer != "sgd":
        return configuration
    return dataclasses.replace(configuration, learning_rate=configuration.learning_rate * share)


def _build(
    configuration: Configuration, targets: TrainingTargets, steps: int, devices: tf.distribute.Strategy
) -> ContextNetwork:
    """Build and compile the model, initialised to the unigram distribution of the targets."""
    vocabulary_size = targets.counts.shape[1]
    # relative weights of the texts, 1 for the text with the smallest share: its counts enter as they are
    weights = targets.shares / targets.shares.min()
    with devices.scope():
        model = build_model(configuration, vocabulary_size)
        model.set_unigram(weights @ targets.counts, configuration.min_count)
        optimizer = build_optimizer(_fit_rate(configuration, targets), steps)
        optimizer.exclude_from_weight_decay(var_list=model.biases)
        model.compile(optimizer)
        model.optimizer.build(model.trainable_variables)
    return model
