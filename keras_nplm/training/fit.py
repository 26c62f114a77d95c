"""Fit a network with `Model.fit`: model and optimiser, n-gram batches, callbacks, resume."""

import contextlib
import functools
import sys
from typing import Any

import numpy as np
import tensorflow as tf

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.io.errors import was_caused_by
from keras_nplm.language_model.directory import explain_damage
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.model_files import BACKGROUND, load_component
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.configurations import format_list
from keras_nplm.training.distribution import distribute_parts, is_chief, shard_batches
from keras_nplm.training.options import Options
from keras_nplm.training.parts import OBJECTIVES
from keras_nplm.training.report import choose_prompts
from keras_nplm.training.run import Run
from keras_nplm.training.targets import TrainingTargets, find_target_limit
from keras_nplm.training.tensorboard import LanguageModelBoard, remove_steps

VALIDATION_BATCH = 1024
_MAX_STEPS_PER_EXECUTION = 32  # a short update takes about as long as the overhead of Keras per execution
_SHORT_SOFTMAX = 4096  # outputs of a full softmax below which an update is short


def fit_network(run: Run, targets: TrainingTargets, devices: tf.distribute.Strategy) -> int:
    """Fit the network from the start or from the last checkpoint; save checkpoints and the best epoch.

    Returns the number of the best epoch, from 1; or 0 if the n-gram model inside the network is better than all epochs.
    """
    directory, encoded, vocabulary = run.directory, run.encoded, run.vocabulary
    network, training, boundary = run.options.network, run.options.training, run.options.text.boundary
    batch_size, steps, executed = _divide_epoch(run.options, targets, devices)
    limit = find_target_limit(network)
    ngrams = dict(order=network.order, boundary=boundary, targets_below=limit)
    with explain_damage(directory):
        training_ids = encoded.for_training()
        validation_ids = encoded.ids("validation")
    model = _build(run.options, targets, steps, devices)
    model.steps_per_execution = executed
    checkpoint = Checkpoint(model, directory, run.options, steps, batch_size, devices)
    segment = training.segment
    whole, open_training, open_validation = model, ngram_dataset, ngram_dataset
    if network.network == "hybrid":
        from keras_nplm.models.hybrid import Hybrid
        from keras_nplm.models.jackknife import Jackknife, choose_folds, hybrid_dataset

        with explain_damage(directory):
            config = {"boundary": boundary}
            background = load_component(directory, BACKGROUND, config, len(vocabulary))
        folds = choose_folds(training_ids, boundary)
        jackknife = Jackknife(training_ids, len(vocabulary), background.order, boundary, folds)
        open_training = functools.partial(hybrid_dataset, model=jackknife)
        open_validation = functools.partial(hybrid_dataset, model=background)
        whole = Hybrid(model, background)
    unit = devices.num_replicas_in_sync * segment  # Keras needs a first batch with equal parts
    validation_batch = fit_batch(VALIDATION_BATCH, len(validation_ids) // 2, unit)
    build_validation = functools.partial(open_validation, validation_ids, shuffle=False, segment=segment, **ngrams)
    callbacks = [checkpoint]
    if is_chief(devices):
        if network.shortlist_size:
            print(
                f"Perplexities of training are over the {model.prob.num_outputs:,} words of the list.", file=sys.stderr
            )
        remove_steps(directory / "logs", first=checkpoint.position[0])
        language_model = LanguageModel(whole, vocabulary, encoded.tokenizer, boundary)
        board = LanguageModelBoard(
            directory / "logs",
            language_model,
            batch_size=batch_size,
            word_counts=targets.counts.sum(axis=0),
            hparams=_describe_differences(run.options),  # what tells runs apart
            prompts=choose_prompts(validation_ids, vocabulary, encoded.tokenizer),
        )
        callbacks = [board, checkpoint]  # a run killed between the two repeats the epoch: its logs have no gap
    validation_data = shard_batches(build_validation(batch_size=validation_batch))
    while not checkpoint.is_done:
        epoch, step = checkpoint.position
        shuffled = dict(seed=training.seed, first_epoch=epoch, first_batch=step, most_batches=steps)
        batches = ngrams | shuffled | dict(batch_size=batch_size, segment=segment, drop_remainder=True)
        build_training = functools.partial(open_training, training_ids, **batches)
        train_data = distribute_parts(devices, build_training)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                model.fit(
                    train_data,
                    validation_data=validation_data,
                    steps_per_epoch=steps - step,
                    initial_epoch=epoch,
                    epochs=epoch + 1 if step else training.epochs,  # first the rest of an interrupted epoch
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
    has_choice = network.network == "hybrid" and is_chief(devices)
    if has_choice and _keep_better(background, validation_ids, perplexities[best], checkpoint):
        return 0
    return best + 1


def _describe_differences(options: Options) -> dict[str, Any]:
    """Return the options that differ from their defaults, as values that TensorBoard can show."""
    default = Options().flatten()
    return {
        name: format_list(value) if isinstance(value, tuple) else value
        for name, value in options.flatten().items()
        if value != default[name]
    }


def _keep_better(background: NextWordModel, ids: np.ndarray, perplexity: float, checkpoint: Checkpoint) -> bool:
    """Replace the best epoch by a network that changes nothing, if the n-gram model alone is better on validation."""
    alone = evaluate(background, ids)["perplexity"]
    if perplexity <= alone:
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


def _divide_epoch(options: Options, targets: TrainingTargets, devices: tf.distribute.Strategy) -> tuple[int, int, int]:
    """Return n-grams per batch, a multiple of the replicas; updates per epoch; and updates per execution of `fit`."""
    replicas, ngrams = devices.num_replicas_in_sync, targets.ngrams_per_epoch
    unit = replicas * options.training.segment
    batch_size = fit_batch(options.training.batch_size, ngrams, unit)
    steps = max(1, ngrams // batch_size)
    is_sampled = OBJECTIVES[options.network.objective].is_sampled
    is_short = is_sampled or targets.counts.shape[1] < _SHORT_SOFTMAX
    if not is_short or replicas > 1:
        return batch_size, steps, 1
    executed = max(k for k in range(1, _MAX_STEPS_PER_EXECUTION + 1) if steps % k == 0)
    return batch_size, steps, executed


def _fit_rate(options: Options, targets: TrainingTargets) -> Options:
    """Lower the rate of SGD for a text that does not fill a batch: each n-gram keeps its share of an update.

    The rate is that of a mean over `batch_size` n-grams. The mean over two would move the weights as far, and training
    would diverge. Adagrad and Adam divide by the size of the gradient.
    """
    share = targets.ngrams_per_epoch / options.training.batch_size
    if share >= 1 or options.training.optimizer != "sgd":
        return options
    return options.replace(learning_rate=options.training.learning_rate * share)


def _build(options: Options, targets: TrainingTargets, steps: int, devices: tf.distribute.Strategy) -> ContextNetwork:
    """Build and compile the model, initialised to the unigram distribution of the targets."""
    vocabulary_size = targets.counts.shape[1]
    # relative weights of the texts, 1 for the text with the smallest share: its counts enter as they are
    weights = targets.shares / targets.shares.min()
    with devices.scope():
        model = build_model(options, vocabulary_size)
        model.set_unigram(weights @ targets.counts, options.text.min_count)
        optimizer = build_optimizer(_fit_rate(options, targets), steps)
        optimizer.exclude_from_weight_decay(var_list=model.biases)
        model.compile(optimizer)
        model.optimizer.build(model.trainable_variables)
    return model
