"""Training: optimiser, `fit` with checkpoints that can be resumed, and the model directory that comes of it."""

import contextlib
import dataclasses
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.encoding import EncodedCorpus
from keras_nplm.data.ngram_arrays import gather_ngrams, ngram_positions
from keras_nplm.data.shuffling import count_resampled
from keras_nplm.data.vocabulary import EOS_ID, SPECIALS, Vocabulary
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    read_json,
    write_json,
)
from keras_nplm.language_model.directory import read_metrics, remove_config_if_refused
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.model_files import load_model
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.replicas import has_several_workers
from keras_nplm.models.self_normalised import evaluate_with_ln_z
from keras_nplm.models.shortlist import Shortlist, measure_coverage
from keras_nplm.training.background import write_background
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.checkpoint import Checkpoint, read_history
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import from_chief, is_chief, open_strategy, sharded
from keras_nplm.training.prepare import prepare_directory
from keras_nplm.training.report import write_run_report
from keras_nplm.training.tensorboard import LanguageModelBoard

_VALIDATION_BATCH = 1024
_PROBE = 256  # n-grams of the validation split, for the gradient's norms
_STEPS_PER_EXECUTION = 32  # at most: a sampled update takes about as long as Keras takes to begin one


def train(
    configuration: Configuration,
    corpus: Corpus,
    directory: str | os.PathLike,
    *,
    strategy: str | tf.distribute.Strategy = "auto",
    background: str | os.PathLike | None = None,
) -> dict:
    """Train a model on a corpus, or go on with a run that was interrupted, and evaluate it.

    The model directory has `model.keras` (the epoch with the best validation perplexity), `vocabulary.txt`,
    `config.json`, `metrics.json`, `report.html` (a page with curves, samples and a map of the words), `corpus/` (the
    ids of the text) and `logs/` (TensorBoard). A run that ended early, killed at whatever moment, leaves `last.npz` and
    `history.json` as well, written every ten minutes, after each epoch and when it is interrupted; the same call goes
    on from them to the same weights, bit for bit, as if it had never ended, on as many devices as before.

    With a short-list (`configuration.shortlist_size`) the model is a `Shortlist`: `components/0` has the network,
    `components/1` the background, by default a Kneser-Ney model of the same text, of the order
    that sees the network's near words.

    With several workers each calls this with the same arguments. Worker 0 writes the directory; the others need the
    corpus alone, and find its ids in the directory where they see it, else make them there for themselves.

    Args:
        configuration: the options.
        corpus: the text.
        directory: the model directory: absent, or of a run with the same options, which is finished or goes on.
        strategy: the devices: of tf.distribute, or a name; see `keras_nplm.training.distribution.open_strategy`.
        background: with a short-list, the model directory whose model predicts the other words.

    Returns:
        what `metrics.json` holds: exact `validation` and `test` figures (see `evaluate`), with `ln_z` where the model
        was trained to keep it near 0; `coverage`, the share of their tokens that a short-list has; `parameters`,
        `best_epoch`, `seconds`, `cpu_seconds`, `training_cpu_seconds` (without validation), `ngrams_per_second` and the
        `history` of the epochs, with a short-list that of the network alone. At workers but the first, `{}`.

    Raises:
        InputError: the directory holds another run, or the text, an option or the strategy cannot be used.
        RunError: the loss became NaN or infinite, a file cannot be written, or another worker was lost.
    """
    directory = Path(directory)
    devices = open_strategy(strategy) if isinstance(strategy, str) else strategy
    if configuration.batch_size % devices.num_replicas_in_sync:
        raise InputError(
            f"`batch_size` must be a multiple of the {devices.num_replicas_in_sync} devices that share a batch. "
            f"Received: {configuration.batch_size}."
        )
    try:
        return _train(configuration, corpus, directory, devices, background)
    except tf.errors.OpError as error:
        several = has_several_workers(devices)
        what = "Another worker was lost" if several else "TensorFlow could not go on"
        where = " at all workers" if several else ""
        raise RunError(
            f"{what} ({_first_line(error.message)}). What was saved is kept: give the same command "
            f"again{where} to go on."
        ) from error


def _first_line(message: str) -> str:
    """What an error of TensorFlow says, without its heading and the pages after it."""
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("Graph execution error")]
    return lines[0][:200] if lines else "no reason given"


def _train(
    configuration: Configuration,
    corpus: Corpus,
    directory: Path,
    devices: tf.distribute.Strategy,
    background: str | os.PathLike | None,
) -> dict:
    options = dataclasses.asdict(configuration) | {"kind": "shortlist" if configuration.shortlist_size else "nplm"}
    if background is not None:
        if not configuration.shortlist_size:
            raise InputError("A background is for the words outside a short-list: give --shortlist-size, too.")
        options |= {"background": str(background)}
    keras.utils.set_random_seed(configuration.seed)
    chief = is_chief(devices)
    if not chief:
        from_chief(devices, [np.zeros(1)])  # until it has prepared the directory
    encoded, vocabulary = prepare_directory(
        directory,
        corpus,
        options,
        vocabulary_scope=configuration.vocabulary_scope,
        min_count=configuration.min_count,
        max_size=configuration.max_size,
    )
    if chief:
        from_chief(devices, [np.zeros(1)])
    (finished,) = from_chief(devices, [np.array((directory / "metrics.json").exists())])
    if finished:
        print(f"The run in {directory} is finished; these are its figures.", file=sys.stderr)
        if not chief:
            return {}
        metrics = read_metrics(directory)
        wanted = dict(parameters=int, best_epoch=int, seconds=NUMBER, cpu_seconds=NUMBER, ngrams_per_second=int)
        check_fields(directory / "metrics.json", metrics, wanted)
        if not (directory / "report.html").exists():
            _write_report(directory, metrics)
        return metrics
    with remove_config_if_refused(directory, unless=directory / "last.npz"):
        targets = _targets(configuration, encoded)
    if chief and configuration.shortlist_size:
        write_background(directory, configuration, encoded, vocabulary, background)
    _fit(configuration, encoded, targets, vocabulary, directory, devices)
    if not chief:
        return {}

    model = load_model(directory, options, len(vocabulary))
    history = read_history(directory / "history.json")
    best = min(history, key=lambda epoch: epoch["validation_perplexity"])
    ln_z = isinstance(model, NPLM) and (configuration.output_layer == "nce" or configuration.self_normalisation)
    measure = evaluate_with_ln_z if ln_z else evaluate
    held_out = {split: encoded.ids(split) for split in ("validation", "test")}
    metrics = {split: measure(model, ids, configuration.boundary) for split, ids in held_out.items()}
    if isinstance(model, Shortlist):
        shares = {split: measure_coverage(ids, model.listed, configuration.boundary) for split, ids in held_out.items()}
        metrics["coverage"] = {split: round(share, 4) for split, share in shares.items()}
    network = model.network if isinstance(model, Shortlist) else model
    metrics |= {
        "parameters": network.count_params() - sum(weight.numpy().size for weight in network.non_trainable_weights),
        "predicted_types": len(vocabulary) - 3 + (configuration.boundary == "sentence"),
        "best_epoch": best["epoch"],
        "seconds": round(sum(epoch["seconds"] for epoch in history), 1),
        "cpu_seconds": round(sum(epoch["cpu_seconds"] for epoch in history), 1),
        "training_cpu_seconds": round(sum(epoch["training_cpu_seconds"] for epoch in history), 1),
        "ngrams_per_second": round(float(np.median([epoch["ngrams_per_second"] for epoch in history]))),
        "history": history,
    }
    write_json(directory / "metrics.json", metrics)
    (directory / "last.npz").unlink(missing_ok=True)
    _write_report(directory, metrics)
    return metrics


def _write_report(directory: Path, metrics: dict) -> None:
    """Write `report.html`; where that fails the run is whole without it."""
    print(f"Writing {directory / 'report.html'}.", file=sys.stderr)
    try:
        config = read_json(directory / "config.json")
        write_run_report(directory / "report.html", LanguageModel.load(directory), config, metrics)
    except Exception as error:  # of many kinds: the figures may be another version's
        print(f"There is no report.html: {error} Give the same command again to have it.", file=sys.stderr)


def _targets(configuration: Configuration, encoded: EncodedCorpus) -> tuple[np.ndarray, np.ndarray, int]:
    """Of the texts of each share: how often each id is a target, int [K, |V|], and the share; an epoch's n-grams.

    Raises:
        InputError: a text has no n-gram to show.
    """
    frequencies, shares = encoded.frequencies_by_share()
    frequencies[:, EOS_ID] *= configuration.boundary == "sentence"
    numbers = frequencies[:, : _targets_below(configuration)].sum(axis=1)
    return frequencies, shares, sum(map(count_resampled, shares, numbers))


def _targets_below(configuration: Configuration) -> int | None:
    """The id from which on words are no targets of the training; None where all are."""
    if configuration.shortlist_size is None or configuration.outside_output:
        return None
    return len(SPECIALS) + configuration.shortlist_size


def _fit(
    configuration: Configuration,
    encoded: EncodedCorpus,
    targets: tuple[np.ndarray, np.ndarray, int],
    vocabulary: Vocabulary,
    directory: Path,
    devices: tf.distribute.Strategy,
) -> None:
    """Fit from the start or from where `last.npz` has got to, saving both the last state and the best epoch.

    `targets` is what `_targets` tells of the text.
    """
    ids = encoded.for_training()
    frequencies, shares, number = targets
    counts = frequencies.sum(axis=0)
    listed = len(SPECIALS) + (configuration.shortlist_size or len(vocabulary))
    targets_below = _targets_below(configuration)
    options = dict(order=configuration.order, boundary=configuration.boundary, targets_below=targets_below)
    replicas = devices.num_replicas_in_sync
    batch_size = min(configuration.batch_size, max(replicas, number - number % replicas))
    steps = max(1, number // batch_size)
    with devices.scope():
        model = build_model(configuration, len(vocabulary))
        # what is shown more often counts more; a word of the text that is shown least as often as it was met
        model.set_unigram(shares / shares.min() @ frequencies, configuration.min_count)
        model.compile(optimizer=build_optimizer(configuration, steps))
        model.optimizer.build(model.trainable_variables)
    if model.prob.is_sampled and replicas == 1:
        model.steps_per_execution = max(k for k in range(1, _STEPS_PER_EXECUTION + 1) if steps % k == 0)
    run = Checkpoint(model, directory, configuration, steps, batch_size, devices)
    validation_data = ngram_dataset(encoded.ids("validation"), batch_size=_VALIDATION_BATCH, shuffle=False, **options)
    tokens, positions = ngram_positions(encoded.ids("validation"), **options)
    probe = gather_ngrams(tokens, positions[:_PROBE], configuration.order)
    if configuration.shortlist_size and is_chief(devices):
        share, outputs = counts[:listed].sum() / counts.sum(), model.prob.vocabulary_size
        print(
            f"The short-list has {share:.1%} of the training text. Perplexities of the fit are the network's own, over "
            f"its {outputs:,} outputs; those of the whole model come after it.",
            file=sys.stderr,
        )
    callbacks = [run]
    if is_chief(devices):
        board = LanguageModelBoard(
            directory / "logs",
            LanguageModel(model, vocabulary, encoded.tokenizer, configuration.boundary),
            probe=(probe[:, :-1], probe[:, -1]),
            batch_size=batch_size,
            word_counts=counts,
            hparams=dataclasses.asdict(configuration),
        )
        callbacks = [board, run]  # so that no epoch is lost in the logs where a run is killed between them
    while not run.is_done:
        epoch, step = run.reached
        train_data = ngram_dataset(
            ids,
            batch_size=batch_size,
            seed=configuration.seed,
            drop_remainder=True,
            first_epoch=epoch,
            first_batch=step,
            **options,
        )
        try:
            with contextlib.redirect_stdout(sys.stderr):
                model.fit(
                    sharded(train_data),
                    validation_data=sharded(validation_data),
                    steps_per_epoch=steps - step,
                    initial_epoch=epoch,
                    epochs=epoch + 1 if step else configuration.epochs,  # what is left of an epoch, then the others
                    callbacks=callbacks,
                    shuffle=False,  # the dataset does
                    verbose=(1 if sys.stderr.isatty() else 2) if is_chief(devices) else 0,
                )
        except KeyboardInterrupt:
            run.save()
            raise
