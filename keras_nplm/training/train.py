"""Train a neural language model: open the text, choose, prepare, fit, evaluate, write."""

import contextlib
import dataclasses
import functools
import os
import shlex
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import Corpus
from keras_nplm.data.ids import SPECIALS
from keras_nplm.io.errors import was_caused_by
from keras_nplm.io.files import read_json, write_json
from keras_nplm.io.lock import LockedError
from keras_nplm.io.parts import build_options, expand_parts, flatten
from keras_nplm.io.processor import read_processor_name
from keras_nplm.io.remote import CHECKPOINTS, display_url, fetch, open_output, upload
from keras_nplm.io.stages import MODEL, Stages, advise_new_output, lock_stages, verify_stages
from keras_nplm.language_model.directory import read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models import base
from keras_nplm.models.base import NextWordModel, find_network
from keras_nplm.models.collectors import Collector
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.mixture import WEIGHTS_FILE, Mixture, fit_mixture
from keras_nplm.models.model_files import (
    component_directory,
    load_component,
    load_model,
    save_own_files,
)
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.log_z import LogZ
from keras_nplm.models.shortlist import BACKGROUND, NETWORK, Shortlist, measure_coverage
from keras_nplm.models.spelling import load_spelling
from keras_nplm.models.text_figures import evaluate_splits
from keras_nplm.training.adaptive_default import complete_command, describe_choice
from keras_nplm.training.background import CLASSES, write_background
from keras_nplm.training.checkpoint import remove_checkpoints
from keras_nplm.training.distribution import (
    broadcast_from_chief,
    fail_if_worker_is_lost,
    is_chief,
    open_strategy,
)
from keras_nplm.training.fit import fit_network
from keras_nplm.training.network import Network
from keras_nplm.training.optimisation import Training
from keras_nplm.training.options import Options, RunOptions, TextOptions
from keras_nplm.training.prepare import describe_fixed_vocabulary
from keras_nplm.training.report import write_run_report
from keras_nplm.training.request import Request, prepare_run
from keras_nplm.training.run import Run
from keras_nplm.training.tensorboard import write_final_figures

_MODEL_FILES = (WEIGHTS_FILE, "config.json", "metrics.json")
_NETWORK_FILES = ("model.keras", "scorer.npz", f"components/{NETWORK}", "history.json")
_SECONDS = ("seconds", "cpu_seconds", "training_cpu_seconds")  # of an epoch


def train(
    corpus: Corpus,
    directory: str | os.PathLike,
    options: Options | None = None,
    *,
    text: TextOptions | None = None,
    network: Network | str | None = None,
    training: Training | None = None,
    strategy: str | tf.distribute.Strategy = "auto",
    background: str | os.PathLike | None = None,
    vectors: str | os.PathLike | None = None,
    worker_timeout: int = RunOptions.worker_timeout,
    minutes: float | None = None,
    command: Sequence[str] = (),
    **given: Any,
) -> dict:
    """Train a neural language model on a corpus, or resume an interrupted run, and evaluate it.

    Options are given as objects, by name, or both. The others are chosen by the size of the text,
    and printed; see `choose_options`:

        train(corpus, directory, network=Network(head=Adaptive(cutoffs=(2000, 7000))))
        train(corpus, directory, head="adaptive", cutoffs=(2000, 7000), epochs=3)
        train(corpus, directory, CONFIGURATIONS["brown"].options, epochs=3)

    The model directory holds, in the order in which they are written:

        manifest.json     the stages below: their options, and the size and CRC-32 of their files
        vocabulary.txt    the words by id; forms.tsv, sentencepiece.model: of a tokenizer
        corpus/           the encoded text, with corpus.json
        spelling.tsv      the training words of the spelling model (see `SpellingModel`)
        components/       of a short-list, a hybrid or a mixture: its network, and its n-gram models
        logs/             TensorBoard; at the end with the figures of metrics.json
        last.npz          the checkpoint to resume from; previous.npz: the one before
        history.json      the figures of each epoch
        model.keras       the epoch with the best validation perplexity (early stopping)
        scorer.npz        the same network in NumPy, for scores without Keras
        mixture.npz       of a mixture: its weights
        config.json       the options
        metrics.json      exact perplexities and the history
        report.html       learning curves, samples and a map of the words

    `last.npz` is written every ten minutes of training, after each epoch and on Ctrl-C, which ends
    the run at the next batch; see `keras_nplm.training`. A finished run has no checkpoint. The same
    call resumes from `last.npz`, or if it is damaged or absent from `previous.npz`. On the same
    number of devices it reaches the same weights, bit for bit.

    With a short-list (the option `shortlist_size`) the model is a `Shortlist`. `components/0` holds
    the network and `components/1` the background model, which predicts all other words. Default: a
    Kneser-Ney model of the same text. With `interpolated` the model is a `Mixture` of the network,
    a Kneser-Ney model and a class-based model of the same text. A network `hybrid` has its n-gram
    model there, too.

    Without validation text (`open_corpus(all_lines=True)`) there is no early stopping: `epochs`
    must be given, and the last epoch is kept. The network is trained alone, as validation text fits
    the weights of a mixture, and there is no report.html.

    With several workers, each worker calls this function with the same arguments. The chief, worker
    0, locks and writes the directory. See `keras_nplm.training`.

    Args:
        corpus: the text.
        directory: the model directory, or a `gs://` or `s3://` URL, to which checkpoints are
            uploaded as they are written. It must be absent, or hold a run with the same options.
        options: all options, of which nothing is chosen.
        text: all options of words and n-grams.
        network: all options of the network; or the option of this name, such as `"pointer"`.
        training: all options of the optimisation.
        strategy: a tf.distribute strategy, or its name. See `open_strategy`.
        background: with a short-list, the model directory of the background model.
        vectors: a file of word vectors from which C starts; see `read_word_vectors`. Its number of
            components is m, unless `embedding_dim` is given. With the option `freeze_embedding`
            they stay as they are.
        worker_timeout: seconds to wait for absent workers.
        minutes: CPU time of the whole run on one core, which the chosen options follow; see
            `plan_minutes`. Default: that of `choose_options`.
        command: the command line whose flags gave the options, to print it with all options.
        given: options by name, in place of those above; see `Options`.

    Returns:
        the content of `metrics.json`, or `{}` at workers other than the chief: exact `validation`
        and `test` figures (see `evaluate`), `coverage` of a short-list, `parameters`,
        `predicted_types`, `vocabulary` if it is fixed, `vectors` if C starts from a file,
        `best_epoch`, `seconds`, `cpu_seconds`, `training_cpu_seconds` (without
        validation), `ngrams_per_second`, `processor`, and `history`, the figures of each epoch.
        Of a mixture also `weights`, `components`, and `network` and `kneser_ney`, the perplexities
        of its parts alone. `best_epoch` is 0 if the n-gram model of a hybrid is better than all
        epochs.

    Raises:
        InputError: the directory holds a different run, or the text, an option or the strategy is
            invalid.
        RunError: the loss is not finite, a file cannot be written, a worker was lost, or the
            directory is in use.
    """
    background = None if background is None else fetch(background)
    vectors = None if vectors is None else fetch(vectors)
    if isinstance(strategy, str):
        strategy = open_strategy(strategy, worker_timeout=worker_timeout)
    wholes: list[Any] = [*(options or ()), text, training]
    if isinstance(network, Network):
        wholes.append(network)
    elif network is not None:
        given["network"] = network
    given = expand_parts(given)
    for whole in filter(None, wholes):
        values = {**flatten(whole), **given}
        given |= flatten(build_options(type(whole), values, given))
    request = Request(
        corpus,
        {**corpus.fixed_options, **given},
        replicas=strategy.num_replicas_in_sync,
        minutes=minutes,
        background=background,
        vectors=vectors,
        command=command,
    )
    with fail_if_worker_is_lost(strategy):
        if not is_chief(strategy):
            _train_as_worker(request, directory, strategy)
            return {}
        with open_output(directory) as local, lock_stages(local):
            return _train_as_chief(request, local, strategy)


def _train_as_chief(request: Request, directory: Path, devices: tf.distribute.Strategy) -> dict:
    """Prepare, choose, fit and evaluate; return the content of `metrics.json`."""
    stages = Stages(directory)
    with stages.reopen_if_refused("text"):
        run = prepare_run(request, directory)
        _announce(request, run, stages)
        is_trained = stages.is_made("network")
        if is_trained:
            verify_stages(directory, ["network", "ngrams"])
        else:
            _write_ngrams(run, request.background)
    broadcast_from_chief(devices, (run.options, is_trained))
    if not is_trained:
        fit_network(run, devices)
        stages.record("network", run.config, _NETWORK_FILES)
    finish = functools.partial(_finish, request, run)
    stages.make(MODEL, run.config, _MODEL_FILES, finish)
    with contextlib.suppress(OSError):  # of a read-only file system
        remove_checkpoints(directory)
    metrics = read_metrics(directory)
    if "validation" in metrics and not (directory / "report.html").exists():
        _write_report(request, run, metrics)
    return metrics


def _train_as_worker(
    request: Request, directory: str | os.PathLike, devices: tf.distribute.Strategy
) -> None:
    """Train with the options of the chief, which has made its files: a worker may share them."""
    options, is_trained = broadcast_from_chief(devices, None)
    if is_trained:
        return
    # neither the text nor the clock of this worker decides
    request = dataclasses.replace(request, given=options.flatten(), minutes=None)
    local = fetch(directory)
    reads_ngrams = options.network.network.reads_ngram_model

    def prepare() -> Run:
        run = prepare_run(request, local)
        if reads_ngrams:
            write_background(run)
        return run

    while not Stages(local).is_made("ngrams" if reads_ngrams else "text"):
        try:
            with lock_stages(local):
                prepare()
        except LockedError:  # a worker that sees the same directory writes it
            time.sleep(1)
    fit_network(prepare(), devices)


def _announce(request: Request, run: Run, stages: Stages) -> None:
    """Begin the stage of the network, and say whether the run is new, resumed or finished."""
    shown = display_url(run.directory)
    known = stages.read_key("network")
    advise = functools.partial(_advise, run.directory)
    for stage, files in ((MODEL, _MODEL_FILES), ("network", _NETWORK_FILES)):
        stages.begin(stage, run.config, files, checkpoints=CHECKPOINTS, advise=advise)
    upload(run.directory)
    if stages.is_made(MODEL):
        print(f"The run in {shown} is finished: reading its metrics.json.", file=sys.stderr)
    elif known == stages.read_key("network"):
        print(f"Resuming the run in {shown}.", file=sys.stderr)
    if not stages.is_made(MODEL) and request.list_chosen(run.options):
        choice = describe_choice(run.options, run.statistics, request.given, request.command)
        print(choice, file=sys.stderr)


def _advise(directory: Path, differing: Collection[str]) -> str | None:
    """Return how to go on with a finished run that was to have more epochs."""
    if {*differing} != {"epochs"} or not Stages(directory).is_made("network"):
        return None
    return (
        "A finished run does not continue: its learning rate was planned for its epochs, and its "
        f"optimiser state is gone. Fix: train anew, and {advise_new_output(directory)}; or let the "
        f"model learn from more text, by `keras-nplm adapt {directory} --text FILE --output DIR`."
    )


def _finish(request: Request, run: Run) -> None:
    """Fit the mixture, evaluate, and write `config.json` and `metrics.json`."""
    metrics = _evaluate(run)
    metrics.update(describe_fixed_vocabulary(request.corpus, run.encoded))
    metrics.update(_describe_vectors(run))
    write_final_figures(run.directory / "logs", metrics)
    write_json(run.directory / "config.json", run.config)
    write_json(run.directory / "metrics.json", metrics)


def _write_ngrams(run: Run, background: str | os.PathLike | None) -> None:
    """Make the n-gram model beside the network, if it has one."""
    network = run.options.network
    if not network.has_ngram_model:
        return
    write_background(run, background)
    path = component_directory(run.directory, NETWORK) / "config.json"
    write_json(path, {"kind": base.Network.kind})
    if network.target_limit is not None:
        print(
            f"Perplexities of training are over the {network.target_limit:,} words of the list.",
            file=sys.stderr,
        )


def _evaluate(run: Run) -> dict:
    """Evaluate the best epoch on validation and test; sum up the history."""
    directory = run.directory
    if run.options.network.interpolated:
        _fit_mixture(run)
    # as users load it: last digits of weights may differ
    model = load_model(
        directory, run.config["kind"], run.options.text.boundary, len(run.vocabulary)
    )
    fitted = read_json(directory / "history.json")
    history = fitted["epochs"]
    collectors: list[Collector] = []
    if isinstance(model, ContextNetwork) and run.options.network.objective.keeps_log_z:
        collectors.append(LogZ())
    spelling = load_spelling(directory)
    metrics: dict[str, Any] = evaluate_splits(model, run.encoded, spelling, collectors)
    if isinstance(model, Shortlist):
        metrics["coverage"] = _measure_coverage(run, model)
    if isinstance(model, Mixture):
        metrics.update(model.compute_figures())
        metrics["network"] = _evaluate_part(run, model.parts[NETWORK])
    if isinstance(model, Mixture | Hybrid):
        metrics["kneser_ney"] = _evaluate_part(run, model.parts[BACKGROUND])
    ends = predicts_end(run.options.text.boundary)
    speeds = [epoch["ngrams_per_second"] for epoch in history]
    metrics["parameters"] = _count_trained(model)
    metrics["predicted_types"] = len(run.vocabulary) - 3 + ends
    metrics["best_epoch"] = fitted["best_epoch"]
    for name in _SECONDS:
        metrics[name] = round(sum(epoch[name] for epoch in history), 1)
    metrics["processor"] = read_processor_name()
    metrics["ngrams_per_second"] = round(float(np.median(speeds)))
    metrics["history"] = history
    return metrics


def _describe_vectors(run: Run) -> dict[str, Any]:
    """Return the file of the word vectors, and how many of the words it has; {} without one."""
    if run.vectors is None or run.vectors_file is None:
        return {}
    is_found = run.vectors.is_found[len(SPECIALS) :]
    figures = {"words": len(is_found), "found": int(is_found.sum())}
    return {"vectors": {"file": display_url(run.vectors_file), **figures}}


def _evaluate_part(run: Run, part: NextWordModel) -> dict[str, float]:
    """Return the perplexities of a part alone: the network, or the n-gram model beside it."""
    return {
        split: evaluate(part, run.encoded.ids(split))["perplexity"] for split in run.held_out_splits
    }


def _fit_mixture(run: Run) -> None:
    """Fit the weights of the network and the n-gram models on validation, and save them."""
    boundary = run.options.text.boundary
    parts = [
        load_component(run.directory, number, boundary, len(run.vocabulary))
        for number in (NETWORK, BACKGROUND, CLASSES)
    ]
    save_own_files(run.directory, fit_mixture(parts, run.encoded.ids("validation")))


def _measure_coverage(run: Run, model: Shortlist) -> dict[str, float]:
    """Return the share of targets that are in the short-list."""
    coverage = {}
    for split in run.held_out_splits:
        ids = run.encoded.ids(split)
        share = measure_coverage(ids, model.listed, run.options.text.boundary)
        coverage[split] = round(share, 4)
    return coverage


def _count_trained(model: NextWordModel) -> int:
    """Return the number of trained parameters of the network in a model."""
    network = cast(ContextNetwork, find_network(model))
    fixed = sum(weight.numpy().size for weight in network.non_trainable_weights)
    return network.count_params() - fixed


def _write_report(request: Request, run: Run, metrics: dict) -> None:
    """Write report.html. A failure is printed only: the model is complete without the report."""
    directory = run.directory
    command = None
    if request.command and request.list_chosen(run.options):
        command = complete_command(run.options, request.given, request.command)
    elif request.command:
        command = shlex.join(request.command)
    print(f"Writing {display_url(directory / 'report.html')}.", file=sys.stderr)
    try:
        language_model = LanguageModel.load(directory)
        write_run_report(directory / "report.html", language_model, run.config, metrics, command)
    except Exception as error:  # of any type: metrics.json may be of a different version
        if was_caused_by(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        print(
            f"report.html was not written: {error} Fix: run the same command again to write it.",
            file=sys.stderr,
        )
