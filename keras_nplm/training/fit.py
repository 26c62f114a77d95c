"""Fit a network with `Model.fit`: model and optimiser, n-gram batches, callbacks, resume."""

import contextlib
import dataclasses
import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.epochs import Epochs
from keras_nplm.io.interruption import note_interruption
from keras_nplm.io.lock import check_locks
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.replicas import has_several_workers
from keras_nplm.training.build import build_model, set_word_vectors
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.configurations import format_list
from keras_nplm.training.distribution import distribute_parts, is_any, shard_batches
from keras_nplm.training.optimisation import Training
from keras_nplm.training.options import Options
from keras_nplm.training.reading import Reading, open_texts
from keras_nplm.training.report import choose_prompts
from keras_nplm.training.run import Run
from keras_nplm.training.tensorboard import LanguageModelBoard

SECONDS_PER_SAVE = 600  # a killed run loses at most so much training, and one validation
UPDATES_PER_CHECK = 50  # reading the loss waits for the device, and workers for each other
VALIDATION_BATCH = 1024
MAX_STEPS_PER_EXECUTION = 32  # a short update takes as long as Keras's overhead per execution
_SHORT_SOFTMAX = 4096  # outputs of a full softmax below which an update is short


def fit_network(run: Run, devices: tf.distribute.Strategy) -> None:
    """Fit the network from the start or from the last checkpoint; save checkpoints and best epoch.

    `history.json` has the number of the best epoch, from 1; or 0 if the n-gram model inside the
    network is better than all epochs. Without validation text the last epoch is kept.
    """
    seed = run.options.training.seed
    # here: the networks that `plan_minutes` times draw numbers, too
    keras.utils.set_random_seed(seed)
    batch_size, steps, executed = divide_epoch(run, devices)
    reading = open_texts(run)
    model = _build(run, steps, devices)
    model.steps_per_execution = executed
    ids = reading.validation_ids
    checkpoint = Checkpoint(
        model,
        run.directory,
        run.options,
        steps,
        devices,
        is_validated=ids is not None,
        words=run.vocabulary.words,
    )
    watchers = keras.callbacks.CallbackList()
    if checkpoint.chief:
        watchers = keras.callbacks.CallbackList(
            [_build_board(run, reading, model, batch_size)],
            add_progbar=True,
            model=model,
            verbose=1 if sys.stderr.isatty() else 2,
            epochs=checkpoint.epochs,
            steps=steps,
        )
    open_training = functools.partial(reading.open_training, batch_size)
    validation_data = _open_validation_data(reading, run.options, devices)
    with contextlib.redirect_stdout(sys.stderr), note_interruption() as interruption:
        Fitting(
            checkpoint, open_training, validation_data, watchers, interruption, seed, batch_size
        ).run()
    if not checkpoint.chief:
        return
    best_epoch = len(checkpoint.history)
    if ids is not None:
        perplexities = [epoch["validation_perplexity"] for epoch in checkpoint.history]
        best = int(np.argmin(perplexities))
        best_epoch = best + 1
        background = reading.background
        if background and _keep_better(background, ids, perplexities[best], checkpoint):
            best_epoch = 0
    checkpoint.write_history(best_epoch)


class Fitting(keras.callbacks.Callback):
    """The epochs of a run, each trained by calls of `fit`, validated, and added to the history.

    A checkpoint is written after each call of `fit` and after each epoch. A call of `fit` ends with
    the epoch, after `SECONDS_PER_SAVE`, or after an interruption: then at the next batch, which all
    workers agree on. Validation ends at the next batch, too, and is repeated on resume; with
    several workers it goes on to its end. After the checkpoint KeyboardInterrupt is raised.

    As a callback of Keras it sees the batches. `watchers` see the epochs as if they were all of one
    call of `fit`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        open_training: Callable[[Epochs], tf.data.Dataset],
        validation_data: tf.data.Dataset | None,
        watchers: keras.callbacks.CallbackList,
        interruption: threading.Event,
        seed: int,
        batch_size: int,
    ):
        super().__init__()
        self.checkpoint = checkpoint
        self.devices = checkpoint.devices
        self.open_training = open_training
        self.validation_data = validation_data
        self.watchers = watchers
        self.interruption = interruption
        self.seed = seed
        self.batch_size = batch_size

    def run(self) -> None:
        """Train and validate until all epochs are done, or early stopping applies."""
        checkpoint = self.checkpoint
        self.watchers.on_train_begin()
        while not checkpoint.is_done:
            epoch, step = checkpoint.position
            self.watchers.on_epoch_begin(epoch)
            while step < checkpoint.steps:
                self._fit_part(epoch, step)
                self._end_if_interrupted()
                _, step = checkpoint.position
            self._validate(epoch)
            self._end_if_interrupted()
        self.watchers.on_train_end()

    def _end_if_interrupted(self) -> None:
        """End all workers if one is interrupted."""
        if is_any(self.devices, self.interruption.is_set()):
            raise KeyboardInterrupt

    def _fit_part(self, epoch: int, step: int) -> None:
        """Fit the rest of an epoch, or a part of it."""
        checkpoint = self.checkpoint
        self.first_batch = step
        self.began_at = _read_clocks()
        epochs = Epochs(
            seed=self.seed,
            first_epoch=epoch,
            first_batch=step,
            most_batches=checkpoint.steps,
            drop_remainder=True,
        )
        checkpoint.model.fit(
            distribute_parts(self.devices, self.open_training, epochs),
            steps_per_epoch=checkpoint.steps - step,
            initial_epoch=epoch,
            epochs=epoch + 1,
            callbacks=[self],
            shuffle=False,  # the dataset shuffles
            verbose=0,
        )
        checkpoint.read_metrics()
        checkpoint.spent = checkpoint.spent + _read_clocks() - self.began_at
        checkpoint.save()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.checkpoint.restore_metrics()

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        checkpoint = self.checkpoint
        shared = checkpoint.shared_spelling
        if shared is not None and checkpoint.updates % shared.interval == 0:
            shared.update()
        average = checkpoint.average
        if average is not None and checkpoint.updates % average.interval == 0:
            average.update(checkpoint.updates)
        self.watchers.on_train_batch_end(self.first_batch + batch, logs)
        executed = checkpoint.model.steps_per_execution
        is_check = batch // executed % max(1, UPDATES_PER_CHECK // executed) == 0
        if is_check:
            check_locks(checkpoint.directory)
            checkpoint.check_finite("loss", logs[checkpoint.model.objective.loss_name])
        seconds, _ = _read_clocks() - self.began_at
        is_end = self.interruption.is_set() or seconds > SECONDS_PER_SAVE
        if has_several_workers(self.devices):
            is_end = is_check and is_any(self.devices, is_end)
        if is_end:
            checkpoint.model.stop_training = True

    def on_test_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if self.interruption.is_set() and not has_several_workers(self.devices):
            self.checkpoint.model.stop_evaluating = True

    def _validate(self, epoch: int) -> None:
        """Validate a trained epoch, add it to the history, and save: weights, or their average."""
        checkpoint = self.checkpoint
        model = checkpoint.model
        began_at = _read_clocks()
        checkpoint.restore_metrics()
        logs = model.name_training_logs(model.get_metrics_result())
        logs = {name: float(value) for name, value in logs.items()}
        with checkpoint.average_weights():
            if self.validation_data is not None:
                self.watchers.on_test_begin()
                validated = model.evaluate(
                    self.validation_data, callbacks=[self], return_dict=True, verbose=0
                )
                self.watchers.on_test_end()
                if model.stop_evaluating:
                    return
                logs.update({f"val_{name}": value for name, value in validated.items()})
                checkpoint.check_finite("validation perplexity", logs["val_perplexity"])
            self.watchers.on_epoch_end(epoch, logs)
            checkpoint.add_epoch(self._collect_figures(epoch, logs, _read_clocks() - began_at))
        checkpoint.save()

    def _collect_figures(self, epoch: int, logs: dict[str, float], spent: np.ndarray) -> dict:
        """The entry of the history for an epoch, whose validation took seconds and CPU seconds."""
        loss_name = self.checkpoint.model.objective.loss_name
        rate = self.checkpoint.model.optimizer.learning_rate
        training, training_cpu = self.checkpoint.spent
        seconds, cpu_seconds = self.checkpoint.spent + spent
        figures = {"epoch": epoch + 1, loss_name: logs[loss_name]}
        for name, log in (
            ("train_perplexity", "perplexity"),
            ("validation_perplexity", "val_perplexity"),
        ):
            if log in logs:
                figures[name] = logs[log]
        return {
            **figures,
            "learning_rate": float(keras.ops.convert_to_numpy(rate)),
            "seconds": round(seconds, 2),
            "cpu_seconds": round(cpu_seconds, 2),
            "training_cpu_seconds": round(training_cpu, 2),
            "ngrams_per_second": round(self.checkpoint.steps * self.batch_size / training),
        }


def _read_clocks() -> np.ndarray:
    """Seconds and CPU seconds, float64 [2]."""
    return np.array([time.perf_counter(), time.process_time()])


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
    if perplexity <= alone:
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
    executed = max(k for k in range(1, MAX_STEPS_PER_EXECUTION + 1) if steps % k == 0)
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
