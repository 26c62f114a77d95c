"""Fit a network with `Model.fit`: model and optimiser, n-gram batches, callbacks, resume."""

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.epochs import Epochs
from keras_nplm.io.errors import was_caused_by
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.training.build import build_model, set_word_vectors
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.configurations import format_list
from keras_nplm.training.distribution import distribute_parts, is_chief, shard_batches
from keras_nplm.training.optimisation import Training
from keras_nplm.training.options import Options
from keras_nplm.training.reading import Reading, open_texts
from keras_nplm.training.report import choose_prompts
from keras_nplm.training.run import Run
from keras_nplm.training.tensorboard import LanguageModelBoard, remove_steps

VALIDATION_BATCH = 1024
_MAX_STEPS_PER_EXECUTION = 32  # a short update takes as long as Keras's overhead per execution
_SHORT_SOFTMAX = 4096  # outputs of a full softmax below which an update is short


def fit_network(run: Run, devices: tf.distribute.Strategy) -> int:
    """Fit the network from the start or from the last checkpoint; save checkpoints and best epoch.

    Returns the number of the best epoch, from 1; or 0 if the n-gram model inside the network is
    better than all epochs. Without validation text the last epoch is kept.
    """
    batch_size, steps, executed = divide_epoch(run, devices)
    reading = open_texts(run)
    model = _build(run, steps, devices)
    model.steps_per_execution = executed
    is_validated = reading.validation_ids is not None
    checkpoint = Checkpoint(
        model, run.directory, run.options, steps, batch_size, devices, is_validated=is_validated
    )
    callbacks: list[keras.callbacks.Callback] = [checkpoint]
    if is_chief(devices):
        # a step is an epoch, from 1
        remove_steps(run.directory / "logs", first=len(checkpoint.history) + 1)
        board = _build_board(run, reading, model, batch_size)
        # a run killed between the two repeats the epoch: its logs have no gap
        callbacks = [board, checkpoint]
    if not is_validated:
        # before the board, which shows the weights that are saved
        end = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: checkpoint.end_training())
        callbacks.insert(0, end)
    validation_data = _open_validation_data(reading, run.options, devices)
    open_batches = functools.partial(reading.open_training, batch_size)
    while not checkpoint.is_done:
        epochs = Epochs(
            seed=run.options.training.seed,
            first_epoch=checkpoint.position[0],
            first_batch=checkpoint.position[1],
            most_batches=steps,
            drop_remainder=True,
        )
        train_data = distribute_parts(devices, open_batches, epochs)
        _fit_epochs(checkpoint, train_data, validation_data, callbacks)
    ids = reading.validation_ids
    if ids is None:
        return len(checkpoint.history)
    perplexities = [epoch["validation_perplexity"] for epoch in checkpoint.history]
    best = int(np.argmin(perplexities))
    if reading.background is None or not is_chief(devices):
        return best + 1
    is_worse = _keep_better(reading.background, ids, perplexities[best], checkpoint)
    return 0 if is_worse else best + 1


def _open_validation_data(
    reading: Reading, options: Options, devices: tf.distribute.Strategy
) -> tf.data.Dataset | None:
    """Open batches of the validation text, if there is one."""
    if reading.open_validation is None or reading.validation_ids is None:
        return None
    # Keras needs a first batch with equal parts
    unit = devices.num_replicas_in_sync * options.training.segment
    batch_size = fit_batch(VALIDATION_BATCH, len(reading.validation_ids) // 2, unit)
    return shard_batches(reading.open_validation(batch_size, Epochs(shuffle=False)))


def _fit_epochs(
    checkpoint: Checkpoint,
    train_data: Any,
    validation_data: tf.data.Dataset | None,
    callbacks: Sequence[keras.callbacks.Callback],
) -> None:
    """Fit all epochs that are left, or the rest of an interrupted epoch; save on Ctrl-C."""
    epoch = len(checkpoint.history)
    _, step = checkpoint.position
    steps = checkpoint.steps - step
    updates: contextlib.AbstractContextManager = contextlib.nullcontext()
    if checkpoint.is_trained:  # validation is left
        steps = 1
        updates = _without_updates(checkpoint.model)
    progress = 0
    if checkpoint.chief:
        progress = 1 if sys.stderr.isatty() else 2
    try:
        with contextlib.redirect_stdout(sys.stderr), updates:
            checkpoint.model.fit(
                train_data,
                validation_data=validation_data,
                steps_per_epoch=steps,
                initial_epoch=epoch,
                # first the rest of an interrupted epoch
                epochs=epoch + 1 if step or checkpoint.is_trained else checkpoint.epochs,
                callbacks=list(callbacks),
                shuffle=False,  # the dataset shuffles
                verbose=progress,
            )
    except KeyboardInterrupt as interruption:
        # a failed update may have changed some weights
        if not was_caused_by(interruption, tf.errors.OpError):
            checkpoint.save()
        raise


@contextlib.contextmanager
def _without_updates(model: ContextNetwork) -> Iterator[None]:
    """Let `fit` read batches, and leave weights and metrics as they are."""

    def read_metrics(batches: Any) -> dict:
        return model.name_training_logs(model.get_metrics_result())

    model.train_function = read_metrics
    try:
        yield
    finally:
        model.train_function = None  # Keras builds its own


def _build_board(
    run: Run,
    reading: Reading,
    model: ContextNetwork,
    batch_size: int,
) -> LanguageModelBoard:
    """Build the callback that writes the logs of TensorBoard."""
    tokenizer = run.encoded.tokenizer
    boundary = run.options.text.boundary
    ids = reading.validation_ids
    if ids is None:
        ids = next(run.encoded.parts("train"))
    whole = LanguageModel(reading.complete(model), run.vocabulary, tokenizer, boundary)
    return LanguageModelBoard(
        run.directory / "logs",
        whole,
        batch_size=batch_size,
        word_counts=run.target_counts[0].sum(axis=0),
        hparams=_describe_differences(run.options),  # what tells runs apart
        prompts=choose_prompts(ids, run.vocabulary, tokenizer),
    )


def _describe_differences(options: Options) -> dict[str, Any]:
    """Return the options that differ from their defaults, as values that TensorBoard can show."""
    default = Options().flatten()
    return {
        name: format_list(value) if isinstance(value, tuple) else value
        for name, value in options.flatten().items()
        if name not in default or value != default[name]
    }


def _keep_better(
    background: NextWordModel, ids: np.ndarray, perplexity: float, checkpoint: Checkpoint
) -> bool:
    """Keep a network that changes nothing, if the n-gram model alone is better on validation."""
    alone = evaluate(background, ids)["perplexity"]
    if alone is None or perplexity <= alone:
        return False
    print(
        "Warning: no epoch is better than the n-gram model alone: validation perplexity "
        f"{perplexity:.2f}, {alone:.2f} alone. The hybrid is the n-gram model. "
        "Fix: add text, or more --dropout.",
        file=sys.stderr,
    )
    checkpoint.model.forget_network()
    checkpoint.save_best()
    return True


def fit_batch(batch_size: int, ngrams: int, unit: int) -> int:
    """Return the largest batch that so many n-grams fill: a multiple of the unit, at least one."""
    return max(1, min(batch_size, ngrams) // unit) * unit


def divide_epoch(run: Run, devices: tf.distribute.Strategy) -> tuple[int, int, int]:
    """Return n-grams per batch, updates per epoch, and updates per execution of `fit`.

    A batch is a multiple of the replicas.
    """
    network, training = run.options.network, run.options.training
    replicas = devices.num_replicas_in_sync
    ngrams = run.ngrams_per_epoch
    batch_size = fit_batch(training.batch_size, ngrams, replicas * training.segment)
    steps = max(1, ngrams // batch_size)
    is_short = network.objective.is_sampled or len(run.vocabulary) < _SHORT_SOFTMAX
    if not is_short or replicas > 1:
        return batch_size, steps, 1
    executed = max(k for k in range(1, _MAX_STEPS_PER_EXECUTION + 1) if steps % k == 0)
    return batch_size, steps, executed


def _fit_rate(run: Run) -> Training:
    """Lower the rate of SGD for a text that does not fill a batch.

    Each n-gram keeps its share of an update: the rate is that of a mean over `batch_size` n-grams.
    The mean over two would move the weights as far, and training would diverge. Adagrad and Adam
    divide by the size of the gradient.
    """
    training = run.options.training
    share = run.ngrams_per_epoch / training.batch_size
    if share >= 1 or training.optimizer.divides_by_gradient:
        return training
    return dataclasses.replace(training, learning_rate=training.learning_rate * share)


def _build(run: Run, steps: int, devices: tf.distribute.Strategy) -> ContextNetwork:
    """Build and compile the model, initialised to the unigram distribution of the targets, and to
    word vectors if the run has them.
    """
    options = run.options
    counts, shares = run.target_counts
    # relative weights of the texts, 1 for the text with the smallest share: its counts enter as
    # they are
    weights = shares / shares.min()
    with devices.scope():
        model = build_model(options, len(run.vocabulary))
        if run.vectors is not None:
            set_word_vectors(model, run.vectors.vectors)
        model.set_unigram(weights @ counts, options.text.min_count)
        optimizer = _fit_rate(run).build_optimizer(options.network, steps)
        optimizer.exclude_from_weight_decay(var_list=model.biases)
        model.compile(optimizer)
        model.optimizer.build(model.trainable_variables)
    return model
