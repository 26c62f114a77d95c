"""The flags of the commands, named as the arguments are, and what they stand for."""

import argparse
import dataclasses
from collections.abc import Sequence

from keras_nplm.benchmark import BENCHMARKS
from keras_nplm.configuration import CONFIGURATIONS, Configuration
from keras_nplm.corpora import Corpus, open_corpus
from keras_nplm.corpora.corpus import FRACTIONS
from keras_nplm.corpus_benchmark import TOKENS
from keras_nplm.distribution import STRATEGIES
from keras_nplm.estimation import METHODS, NUM_CLASSES
from keras_nplm.experiments import ROWS
from keras_nplm.tokenization import TOKENIZERS

TEXT_OPTIONS = ("boundary", "vocabulary_scope", "min_count", "max_size")  # of a configuration, on the text alone


def directory(parser: argparse.ArgumentParser) -> None:
    """The model directory that a command takes."""
    parser.add_argument("directory", metavar="DIR", help="a model directory, as `train`, `ngram` or `mix` wrote it")


def train(parser: argparse.ArgumentParser) -> None:
    """Those of `train`."""
    _corpus_options(parser)
    parser.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")
    kinds = "one device, all GPUs of the machine, or the workers of TF_CONFIG; default: by what there is"
    parser.add_argument("--strategy", choices=STRATEGIES, default="auto", help=kinds)
    _configuration_options(parser, [field.name for field in dataclasses.fields(Configuration)])


def ngram(parser: argparse.ArgumentParser) -> None:
    """Those of `ngram`."""
    _corpus_options(parser)
    parser.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")
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
    _configuration_options(parser, ["order", *TEXT_OPTIONS])


def _corpus_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("corpus")
    group.add_argument(
        "--corpus", metavar="NAME", default="python_reference", help="python_reference, brown, brown/marks, tfds:NAME"
    )
    for split in ("train", "validation", "test"):
        group.add_argument(
            f"--{split}", metavar="FILE", nargs="+", default=(), help=f"text files for the {split} split"
        )
    group.add_argument(
        "--fractions", metavar="F", nargs=3, type=float, default=FRACTIONS, help="how --train alone is split by lines"
    )
    group.add_argument(
        "--tokenizer", choices=tuple(TOKENIZERS), default="words", help="of text files and tfds:NAME; default: words"
    )
    group.add_argument("--data-dir", metavar="DIR", help="where a corpus's archive lies or is downloaded to")


def _configuration_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """`--config`, and a flag for each named option of a configuration."""
    parser.add_argument("--config", choices=tuple(CONFIGURATIONS), default="default", help="a named set of options")
    single = parser.add_argument_group("options, over those of --config")
    for field in dataclasses.fields(Configuration):
        if field.name not in names:
            continue
        default = getattr(CONFIGURATIONS["default"], field.name)
        help = f"{field.metadata['help']} (default: {default})"
        flag, settings = f"--{field.name.replace('_', '-')}", dict(dest=field.name, help=help)
        if field.type is bool:
            single.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, **settings)
        elif field.metadata["choices"]:
            single.add_argument(flag, choices=field.metadata["choices"], default=None, **settings)
        else:
            kind = field.type if field.type in (float, str) else int
            single.add_argument(flag, type=kind, metavar=kind.__name__.upper(), default=None, **settings)


def configuration(options: argparse.Namespace) -> Configuration:
    """The named set of options with those that were given over it."""
    chosen = {field.name: getattr(options, field.name, None) for field in dataclasses.fields(Configuration)}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return dataclasses.replace(CONFIGURATIONS[options.config], **chosen)


def corpus(options: argparse.Namespace) -> Corpus:
    """The corpus that the flags name."""
    return open_corpus(
        options.corpus,
        train=options.train,
        validation=options.validation,
        test=options.test,
        fractions=tuple(options.fractions),
        tokenizer=options.tokenizer,
        data_dir=options.data_dir,
    )


def mix(parser: argparse.ArgumentParser) -> None:
    """Those of `mix`."""
    parser.add_argument("directories", metavar="DIR", nargs="+", help="model directories of one vocabulary")
    parser.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")
    parser.add_argument("--weights", metavar="W", nargs="+", type=float, help="fixed weights, one a model")
    parser.add_argument("--by-frequency", action="store_true", help="fit weights a bin of the context's frequency")
    parser.add_argument("--uniform", action="store_true", help="add the uniform distribution; its weight comes last")


def generate(parser: argparse.ArgumentParser) -> None:
    """Those of `generate`."""
    directory(parser)
    parser.add_argument("--prompt", default="", help="text to continue")
    parser.add_argument("--num-words", type=int, default=50, help="default: 50")
    parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same text; default: 0")
    parser.add_argument("--temperature", type=float, default=1.0, help="below 1: likelier words; default: 1")
    parser.add_argument("--top-k", type=int, default=None, help="draw from this many words; default: all")


def paper(parser: argparse.ArgumentParser) -> None:
    """Those of `paper`."""
    parser.add_argument("--output", metavar="DIR", default="paper", help="where rows and report go; default: paper")
    parser.add_argument("--rows", metavar="NAME", nargs="+", default=(), help=f"of {', '.join(r.name for r in ROWS)}")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="rows made side by side; default: 2 where there are cores"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where Brown's archive lies or is downloaded to")


def benchmark(parser: argparse.ArgumentParser) -> None:
    """Those of `benchmark`."""
    parser.add_argument(
        "benchmarks", metavar="NAME", nargs="*", help=f"of {', '.join(BENCHMARKS)}; default: all but cost, corpora"
    )
    parser.add_argument("--rounds", type=int, metavar="N", default=5, help="turns of each contender; default: 5")
    help = f"of the larger text of `corpora`; default: {TOKENS:,}"
    parser.add_argument("--tokens", type=int, metavar="N", default=TOKENS, help=help)
    _corpus_options(parser)
