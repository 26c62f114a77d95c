"""Train a neural language model on a corpus: prepare the model directory, fit, evaluate, write metrics and report."""

import contextlib
import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpora import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument, was_caused_by
from keras_nplm.io.files import NUMBER, check_fields, read_json, write_json
from keras_nplm.io.lock import LockedError
from keras_nplm.io.options import OPTIONS
from keras_nplm.io.processor import read_processor_name
from keras_nplm.io.remote import CHECKPOINTS, display_url, fetch, open_output
from keras_nplm.language_model.directory import explain_damage, lock_run, read_metrics, remove_config_if_refused
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.model_files import (
    BACKGROUND,
    NETWORK,
    find_network,
    get_kind,
    load_component,
    load_model,
    save_weights,
)
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.mixture import fit_mixture
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.shortlist import Shortlist, measure_coverage
from keras_nplm.models.spelling import load_spelling
from keras_nplm.models.text_figures import evaluate_split
from keras_nplm.training.adaptive_default import CHOSEN_OPTIONS, AdaptiveConfiguration
from keras_nplm.training.background import write_background
from keras_nplm.training.checkpoint import read_history, remove_checkpoints
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import broadcast_from_chief, fail_if_worker_is_lost, is_chief, open_strategy
from keras_nplm.training.fit import fit_network
from keras_nplm.training.pace import plan_minutes
from keras_nplm.training.prepare import prepare_directory
from keras_nplm.training.report import write_run_report
from keras_nplm.training.targets import TrainingTargets

_SECONDS = ("seconds", "cpu_seconds", "training_cpu_seconds")  # of an epoch


def train(
    configuration: Configuration | AdaptiveConfiguration | None,
    corpus: Corpus,
    directory: str | os.PathLike,
    *,
    strategy: str | tf.distribute.Strategy = "auto",
    background: str | os.PathLike | None = None,
    worker_timeout: int = OPTIONS["worker_timeout"].default,
) -> dict:
    """Train a neural language model on a corpus, or resume an interrupted run, and evaluate it.

    The model directory holds:

        model.keras       the epoch with the best validation perplexity (early stopping)
        vocabulary.txt    the words by id
        spelling.tsv      the training words of the spelling model (see `SpellingModel`)
        config.json       the options
        metrics.json      exact perplexities, bits per character, and the figures of each epoch
        report.html       learning curves, samples and a map of the words
        corpus/           the encoded text
        logs/             TensorBoard

    An unfinished run also has the checkpoint `last.npz`, written every ten minutes, after each epoch and on Ctrl-C, and
    the one before, `previous.npz`. The same call resumes from `last.npz`, or if it is damaged or absent from
    `previous.npz`. On the same number of devices it reaches the same weights, bit for bit.

    With a short-list (`configuration.shortlist_size`) the model is a `Shortlist`. `components/0` holds the network and
    `components/1` the background model, which predicts all other words. Default: a Kneser-Ney model of the same text.
    With `configuration.interpolated` the model is a `Mixture` of the network and a Kneser-Ney model of the same text.

    With several workers, each worker calls this function with the same arguments. The chief, worker 0, locks and
    writes the directory. See `keras_nplm.training`.

    Args:
        configuration: the options. `None` or `AdaptiveConfiguration`: they are chosen by the size of the text, and
            printed. See `choose_configuration`. With `minutes` they follow the time, too.
        corpus: the text.
        directory: the model directory, or a `gs://` or `s3://` URL, to which checkpoints are uploaded as they are
            written. It must be absent, or hold a run with the same options.
        strategy: a tf.distribute strategy, or its name. See `open_strategy`.
        background: with a short-list, the model directory of the background model.
        worker_timeout: seconds to wait for absent workers.

    Returns:
        the content of `metrics.json`, or `{}` at workers other than the chief: exact `validation` and `test` figures
        (see `evaluate`), `coverage` of a short-list, `parameters`, `predicted_types`, `best_epoch`, `seconds`,
        `cpu_seconds`, `training_cpu_seconds` (without validation), `ngrams_per_second`, `processor`, and `history`, the
        figures of each epoch. `best_epoch` is 0 if the n-gram model of a hybrid is better than all epochs.

    Raises:
        InputError: the directory holds a different run, or the text, an option or the strategy is invalid.
        RunError: the loss is not finite, a file cannot be written, a worker was lost, or the directory is in use.
    """
    background = None if background is None else fetch(background)
    devices = open_strategy(strategy, worker_timeout=worker_timeout) if isinstance(strategy, str) else strategy
    requested = configuration or AdaptiveConfiguration()
    if isinstance(requested, Configuration):
        requested = AdaptiveConfiguration(dataclasses.asdict(requested))
    requested = dataclasses.replace(requested, given=corpus.fixed_options | dict(requested.given))
    replicas = devices.num_replicas_in_sync
    unit = replicas * requested.given.get("segment", 1)
    batch_size = requested.given.get("batch_size", unit)
    divides = f"a multiple of the number of replicas, {replicas}, times `segment`"
    check_argument("batch_size", batch_size % unit == 0, divides, batch_size)
    if background is not None and not requested.given.get("shortlist_size"):
        raise InputError("`background` requires `shortlist_size`. Received: None. Fix: add --shortlist-size.")
    chief = is_chief(devices)
    with (
        fail_if_worker_is_lost(devices),
        open_output(directory, resume=True) if chief else contextlib.nullcontext(Path(directory)) as local,
        lock_run(local) if chief else contextlib.nullcontext(),
    ):
        return _run(requested, corpus, local, devices, background)


def _run(
    requested: AdaptiveConfiguration,
    corpus: Corpus,
    directory: Path,
    devices: tf.distribute.Strategy,
    background: str | os.PathLike | None,
) -> dict:
    """Prepare, fit, evaluate and write; or read the metrics of a finished run."""
    chief, started = is_chief(devices), time.process_time()

    def choose(encoded: EncodedCorpus) -> dict:
        counts = encoded.count_tokens_per_epoch(requested.before_counting.boundary), encoded.vocabulary_size
        unit = get_tokenizer(encoded.tokenizer).unit
        units = dict(
            characters=unit == "characters",
            subwords=unit == "subwords",
            replicas=devices.num_replicas_in_sync,
        )
        if requested.minutes is None:
            configuration = requested.choose(*counts, **units)
        elif (directory / "config.json").exists():  # the plan of the run to resume
            with explain_damage(directory):
                configuration = _build_configuration(read_json(directory / "config.json"), **requested.given)
        else:
            configuration = plan_minutes(requested, encoded, counts, started, **units)
        options = dataclasses.asdict(configuration) | {"kind": configuration.kind}
        return options if background is None else options | {"background": display_url(background)}

    directory, encoded, vocabulary = _prepare(requested.before_counting, choose, corpus, directory, devices)
    with explain_damage(directory):
        options = read_json(directory / "config.json")
        configuration = _build_configuration(options)
    (is_finished,) = broadcast_from_chief(devices, [np.array((directory / "metrics.json").exists())])
    if is_finished:
        print(f"The run in {display_url(directory)} is finished: reading its metrics.json.", file=sys.stderr)
        with explain_damage(directory):
            return _read_finished_run(directory) if chief else {}
    if chief and not requested.given.keys() >= set(CHOSEN_OPTIONS):
        tokens = encoded.count_tokens_per_epoch(configuration.boundary)
        print(requested.describe(configuration, tokens, encoded.vocabulary_size), file=sys.stderr)
    with remove_config_if_refused(directory, unless=("history.json", *CHECKPOINTS)):
        with explain_damage(directory):
            targets = TrainingTargets.of(configuration, encoded)
        if chief and configuration.has_background:
            write_background(directory, configuration, encoded, vocabulary, background)
        # here: the networks that `plan_minutes` times draw numbers, too
        keras.utils.set_random_seed(configuration.seed)
        best_epoch = fit_network(configuration, encoded, targets, vocabulary, directory, devices)
    if not chief:
        return {}
    metrics = _evaluate(configuration, options, encoded, vocabulary, directory, best_epoch)
    write_json(directory / "metrics.json", metrics)
    remove_checkpoints(directory)
    _write_report(directory, metrics)
    return metrics


def _build_configuration(options: dict, **given: object) -> Configuration:
    """Return the configuration in `config.json`, with the given options in place of its own."""
    names = [field.name for field in dataclasses.fields(Configuration)]
    if missing := [name for name in names if name not in options]:
        raise InputError(f"`config.json` must have the fields {', '.join(missing)}. Received: none of them.")
    return Configuration(**({name: options[name] for name in names} | given))


def _prepare(
    configuration: Configuration,
    choose: Callable[[EncodedCorpus], dict],
    corpus: Corpus,
    directory: Path,
    devices: tf.distribute.Strategy,
) -> tuple[Path, EncodedCorpus, Vocabulary]:
    """Prepare the directory at the chief first, then at the other workers, which may share its file system."""
    text = {name: getattr(configuration, name) for name in ("vocabulary_scope", "min_count", "max_size", "boundary")}
    prepare = functools.partial(prepare_directory, corpus=corpus, options=choose, **text)
    prepared = prepare(directory) if is_chief(devices) else None
    broadcast_from_chief(devices, [np.zeros(1)])  # returns when all workers have come here
    if prepared:
        return directory, *prepared
    directory = fetch(directory)
    while not (directory / "config.json").exists():
        try:
            with lock_run(directory):
                return directory, *prepare(directory)
        except LockedError:  # a worker that sees the same directory prepares it
            time.sleep(1)
    return directory, *prepare(directory)


def _read_finished_run(directory: Path) -> dict:
    """Read metrics.json. If the process was killed after it: remove the checkpoints, write report.html."""
    metrics = read_metrics(directory)
    wanted = dict(parameters=int, best_epoch=int, seconds=NUMBER, cpu_seconds=NUMBER, ngrams_per_second=int)
    check_fields(directory / "metrics.json", metrics, wanted)
    with contextlib.suppress(OSError):  # of a read-only file system
        remove_checkpoints(directory)
    if not (directory / "report.html").exists():
        _write_report(directory, metrics)
    return metrics


def _evaluate(
    configuration: Configuration,
    options: dict,
    encoded: EncodedCorpus,
    vocabulary: Vocabulary,
    directory: Path,
    best_epoch: int,
) -> dict:
    """Evaluate the best epoch on validation and test; sum up the history."""
    if configuration.interpolated:
        with explain_damage(directory):
            parts = [load_component(directory, number, options, len(vocabulary)) for number in (NETWORK, BACKGROUND)]
        save_weights(directory, fit_mixture(parts, encoded.ids("validation")))
    with explain_damage(directory):
        model = load_model(directory, options, len(vocabulary))  # as users load it: last digits of weights may differ
        spelling = load_spelling(directory)
    splits = ("validation", "test")
    is_normalised = configuration.output_layer == "nce" or configuration.self_normalisation
    measure = evaluate
    if isinstance(model, ContextNetwork) and is_normalised:
        from keras_nplm.models.networks.self_normalised import evaluate_with_ln_z as measure
    metrics = {split: evaluate_split(model, encoded, split, None, spelling, measure) for split in splits}
    if isinstance(model, Shortlist):
        shares = {split: measure_coverage(encoded.ids(split), model.listed, configuration.boundary) for split in splits}
        metrics["coverage"] = {split: round(share, 4) for split, share in shares.items()}
    if configuration.interpolated:
        metrics |= {"weights": model.weights.round(6).tolist(), "components": [get_kind(part) for part in model.models]}
    network = find_network(model)
    history = read_history(directory / "history.json")
    return metrics | {
        "parameters": network.count_params() - sum(weight.numpy().size for weight in network.non_trainable_weights),
        "predicted_types": len(vocabulary) - 3 + predicts_end(configuration.boundary),
        "best_epoch": best_epoch,
        **{name: round(sum(epoch[name] for epoch in history), 1) for name in _SECONDS},
        "processor": read_processor_name(),
        "ngrams_per_second": round(float(np.median([epoch["ngrams_per_second"] for epoch in history]))),
        "history": history,
    }


def _write_report(directory: Path, metrics: dict) -> None:
    """Write report.html. A failure is printed only: the model is complete without the report."""
    print(f"Writing {display_url(directory / 'report.html')}.", file=sys.stderr)
    try:
        config = read_json(directory / "config.json")
        write_run_report(directory / "report.html", LanguageModel.load(directory), config, metrics)
    except Exception as error:  # of any type: metrics.json may be of a different version
        if was_caused_by(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        print(f"report.html was not written: {error} Fix: run the same command again to write it.", file=sys.stderr)
