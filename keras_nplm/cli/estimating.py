"""`keras-nplm ngram` and `mix`."""

import argparse

from keras_nplm.cli.options import (
    AGAIN,
    TEXT_OPTIONS,
    AddCommand,
    configuration_of,
    configuration_options,
    corpus_of,
    corpus_options,
    output,
    tokenizer_of,
)
from keras_nplm.cli.shown import show_splits
from keras_nplm.data.tokenizers import add_steps
from keras_nplm.io.errors import InputError
from keras_nplm.training.configuration import CONFIGURATIONS
from keras_nplm.training.estimate import (
    METHODS,
    NUM_CLASSES,
    estimate,
    import_arpa,
    mix,
)


def add(command: AddCommand) -> None:
    """Add the commands."""
    _ngram_flags(command("ngram", _ngram, _show_ngram, "Estimate a count-based model and evaluate it.", AGAIN))
    _mix_flags(command("mix", _mix, _show_mix, "Combine models into one, weights fitted on the validation split."))


def _ngram_flags(parser: argparse.ArgumentParser) -> None:
    corpus_options(parser)
    output(parser)
    parser.add_argument("--method", choices=tuple(METHODS), default="kneser-ney", help="default: kneser-ney")
    parser.add_argument(
        "--num-classes", type=int, default=NUM_CLASSES, help=f"of class-based models alone; default: {NUM_CLASSES}"
    )
    parser.add_argument(
        "--word-classes", metavar="FILE", help="use these classes: a line a word, its class after a tab"
    )
    parser.add_argument(
        "--paper-bins",
        action="store_true",
        help="deleted interpolation: weights by the whole context's frequency alone",
    )
    arpa = parser.add_argument_group("or read a model of another program")
    arpa.add_argument("--arpa", metavar="FILE", help="an ARPA file, gzipped or not, instead of a corpus")
    arpa.add_argument("--vocabulary", metavar="FILE", help="the vocabulary.txt of a model to mix it with")
    configuration_options(parser, ["order", *TEXT_OPTIONS], order=CONFIGURATIONS["default"].ngram_order)


def _ngram(options: argparse.Namespace) -> dict:
    configuration = configuration_of(options)
    if options.vocabulary and not options.arpa:
        raise InputError("--vocabulary is for --arpa: words of a corpus are counted.")
    if options.arpa:
        if options.train or options.resample or options.order:
            raise InputError("--arpa names a model, which has an order: leave --train, --resample and --order out.")
        result = import_arpa(
            options.arpa,
            options.output,
            vocabulary=options.vocabulary,
            tokenizer=add_steps(tokenizer_of(options), options.normalise),
            boundary=configuration.boundary,
        )
    else:
        result = estimate(
            options.method,
            corpus_of(options),
            options.output,
            order=options.order or configuration.ngram_order,
            num_classes=options.num_classes,
            word_classes=options.word_classes,
            paper_bins=options.paper_bins,
            **{name: getattr(configuration, name) for name in TEXT_OPTIONS},
        )
    return result | {"directory": str(options.output)}


def _show_ngram(result: dict) -> None:
    listed = ", ".join(f"{number:,} {order}-grams" for order, number in enumerate(result["ngrams"], start=1))
    print(listed if "seconds" not in result else f"{listed}: {result['seconds']} s, {result['cpu_seconds']} CPU s")
    show_splits(result)


def _mix_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directories", metavar="DIR", nargs="+", help="model directories of one vocabulary")
    output(parser)
    parser.add_argument("--weights", metavar="W", nargs="+", type=float, help="fixed weights, one a model")
    parser.add_argument("--by-frequency", action="store_true", help="fit weights a bin of the context's frequency")
    parser.add_argument("--uniform", action="store_true", help="add the uniform distribution; its weight comes last")


def _mix(options: argparse.Namespace) -> dict:
    result = mix(
        options.directories,
        options.output,
        weights=options.weights,
        by_frequency=options.by_frequency,
        uniform=options.uniform,
    )
    return result | {"directory": str(options.output)}


def _show_mix(result: dict) -> None:
    if len(result["weights"]) == 1:
        named = zip(result["components"], result["weights"][0], strict=True)
        print("weights: " + ", ".join(f"{weight:.4f} {kind}" for kind, weight in named))
    else:
        print(f"weights for {len(result['weights'])} bins of frequency")
    show_splits(result)
