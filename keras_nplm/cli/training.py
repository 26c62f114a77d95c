"""`keras-nplm train` and `size`: train a network and evaluate it; count its parameters and operations before."""

import argparse
import contextlib
import dataclasses
import os
import signal
from pathlib import Path
from types import FrameType

from keras_nplm.cli import flags
from keras_nplm.cli.parser import hide_in_help
from keras_nplm.cli.printing import print_splits
from keras_nplm.cli.signals import end_on_signals
from keras_nplm.language_model.directory import read_config
from keras_nplm.training.adaptive_default import CHOSEN_OPTIONS, choose_options
from keras_nplm.training.options import (
    CorpusOptions,
    NetworkOptions,
    RunOptions,
    TextOptions,
    TextStatistics,
    check_given,
    describe_fields,
    describe_options,
)
from keras_nplm.training.prepare import check_run_directory
from keras_nplm.training.sizes import compute_sizes

_UNNAMED = "auto, by text size"
_WITHOUT_EFFECT = {  # on size and operations
    *("activation", "dtype", "proposal", "self_normalisation", "held_out_mass", "interpolated"),
    *("dropout", "embedding_dropout", "word_dropout"),
}


def add(command: flags.AddCommand) -> None:
    parser = command("train", _train, _show_train, "Train a network and evaluate it.", flags.RESUME)
    flags.add_output(parser)
    data = flags.add_corpus_flags(parser)
    given = dict(groups={TextOptions: data}, unnamed=_UNNAMED) | dict.fromkeys(CHOSEN_OPTIONS, "auto")
    flags.add_configuration_flags(parser, [*describe_options()], **given)
    hide_in_help(parser, "background")
    help = "model directory whose model predicts the words outside the short-list (default: a Kneser-Ney model)"
    parser.add_argument("--background", metavar="DIR", help=help)
    for option in describe_fields(RunOptions).values():
        flags.add_flag(parser, option)

    parser = command("size", _size, _show_size, "Count a network's parameters and floating-point operations.")
    statistics = describe_fields(TextStatistics)
    flags.add_flag(parser, statistics["vocabulary_size"], required=True)
    help = "tokens of the training text, to choose options and to count the operations of all epochs"
    flags.add_flag(parser, dataclasses.replace(statistics["tokens"], help=help))
    flags.add_flag(parser, describe_fields(CorpusOptions)["token"])
    names = [name for name in describe_fields(NetworkOptions) if name not in _WITHOUT_EFFECT]
    flags.add_configuration_flags(parser, [*names, "epochs"])


def _train(options: argparse.Namespace) -> dict:
    def interrupt(number: int, frame: FrameType | None) -> None:
        options.is_interrupted = True  # a library may raise an error of its own instead
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)  # as Ctrl-C: write a checkpoint, then end
    with end_on_signals(options) if os.environ.get("TF_CONFIG") else contextlib.nullcontext():
        return run_training(options)


def run_training(options: argparse.Namespace) -> dict:
    """Run `train` with parsed arguments, and return its metrics. It leaves signals as they are."""
    given = flags.read_given_options(options)
    words = ["keras-nplm", *options.arguments]
    if options.minutes is not None:  # the printed command repeats the run without measuring
        flags.check_left_out(options, ["config"], "with `--minutes`", "drop one of them.")
        first = next(i for i, word in enumerate(words) if word.startswith("--minutes"))
        del words[first : first + (1 if "=" in words[first] else 2)]
    if options.config:
        flags.read_options(options)  # options that exclude each other are refused before text is read
    else:
        check_given(given)
    strategy = options.strategy
    if options.corpus.startswith("tfds:"):  # workers must be known before TensorFlow reads the text
        from keras_nplm.training.distribution import open_strategy

        strategy = open_strategy(strategy, worker_timeout=options.worker_timeout)
    corpus = flags.open_named_corpus(options)
    chosen = flags.read_options(options, corpus) if options.config else given
    _check_directories(options)

    from keras_nplm.training.train import train

    metrics = train(
        chosen,
        corpus,
        options.output,
        strategy=strategy,
        background=options.background,
        worker_timeout=options.worker_timeout,
        minutes=options.minutes,
        command=words,
    )
    return metrics | {"directory": str(options.output)}


def _check_directories(options: argparse.Namespace) -> None:
    """Refuse directories that cannot be used, before TensorFlow is imported; `train` checks them again."""
    if "TF_CONFIG" not in os.environ:  # a worker may find the directory half written by the chief
        check_run_directory(Path(options.output))
    if not options.shortlist_size:
        flags.check_left_out(options, ["background"], "without `--shortlist-size`", "add --shortlist-size.")
    if options.background is not None and not (Path(options.output) / "config.json").exists():
        read_config(Path(options.background))  # a later call needs it no more


def _show_train(result: dict) -> None:
    if "parameters" not in result:
        print("this worker has finished; worker 0 wrote the model")
        return
    best, epochs = result["best_epoch"], len(result["history"])
    early = f" of {epochs}. Fix: fewer --epochs or more --dropout, so that training ends with its best."
    # the n-gram model of a hybrid is better than all epochs
    early = f" of {epochs}: the n-gram model alone is better" if best == 0 else early
    print(
        f"trained {result['parameters']:,} parameters: {result['seconds']} s, {result['cpu_seconds']} CPU s, "
        f"{result['ngrams_per_second']:,} n-grams/s, best epoch {best}{early if 4 * best < 3 * epochs else ''}"
    )
    print_splits(result)
    if (report := Path(result["directory"], "report.html")).exists():
        print(f"learning curves, samples and word vectors: open {report} in a browser")


def _size(options: argparse.Namespace) -> dict:
    if options.tokens and not options.config:
        statistics = TextStatistics(
            tokens=options.tokens,
            vocabulary_size=options.vocabulary_size,
            unit="characters" if options.token == "character" else "words",
        )
        chosen = choose_options(flags.read_given_options(options), statistics)
    else:
        chosen = flags.read_options(options)
    result = compute_sizes(chosen.network, options.vocabulary_size)
    if options.tokens:
        result["flops_of_all_epochs"] = result["flops_training"] * options.tokens * chosen.training.epochs
    return result


def _show_size(result: dict) -> None:
    print(f"{result['parameters']:,} parameters")
    print(f"{result['flops_scoring']:.3g} floating-point operations per n-gram to score, normalised exactly")
    print(f"{result['flops_training']:.3g} floating-point operations per n-gram in training")
    if "flops_of_all_epochs" in result:
        print(f"{result['flops_of_all_epochs']:.3g} floating-point operations in all epochs")
