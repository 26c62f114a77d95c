"""`keras-nplm train`."""

import argparse
import dataclasses
import signal
from pathlib import Path

from keras_nplm.cli.options import (
    AGAIN,
    AddCommand,
    configuration_of,
    configuration_options,
    corpus_of,
    corpus_options,
    output,
)
from keras_nplm.cli.shown import show_splits
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import STRATEGIES, open_strategy
from keras_nplm.training.train import train


def add(command: AddCommand) -> None:
    """Add the command."""
    parser = command("train", _train, _show_train, "Train a model and evaluate it.", AGAIN)
    corpus_options(parser)
    output(parser)
    kinds = "one device, all GPUs of the machine, or the workers of TF_CONFIG; default: by what there is"
    parser.add_argument("--strategy", choices=STRATEGIES, default="auto", help=kinds)
    help = "with --shortlist-size: the model directory whose model predicts the other words; default: Kneser-Ney"
    parser.add_argument("--background", metavar="DIR", help=help)
    configuration_options(parser, [field.name for field in dataclasses.fields(Configuration)])


def _train(options: argparse.Namespace) -> dict:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: save, then end
    configuration, strategy = configuration_of(options), open_strategy(options.strategy)  # before the corpus
    corpus, background = corpus_of(options), options.background
    metrics = train(configuration, corpus, options.output, strategy=strategy, background=background)
    return metrics | {"directory": str(options.output)}


def _show_train(result: dict) -> None:
    if "parameters" not in result:
        print("this worker is done; worker 0 has written the model")
        return
    print(
        f"trained {result['parameters']:,} parameters: {result['seconds']} s, {result['cpu_seconds']} CPU s, "
        f"{result['ngrams_per_second']:,} n-grams/s, best epoch {result['best_epoch']}"
    )
    show_splits(result)
    if (report := Path(result["directory"], "report.html")).exists():
        print(f"{report} shows its curves, samples and words: open it in a browser")
