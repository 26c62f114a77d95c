"""The flags that several commands have, named as the arguments are, and what they stand for."""

import argparse
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from keras_nplm.data.corpora import Corpus, open_corpus
from keras_nplm.data.corpora.corpus import FRACTIONS
from keras_nplm.data.corpora.text_files import is_share
from keras_nplm.data.tokenizers import CHARACTERS, STEPS, WORD_TOKENIZERS
from keras_nplm.io.errors import InputError
from keras_nplm.training.configuration import CONFIGURATIONS, Configuration

TEXT_OPTIONS = ("boundary", "vocabulary_scope", "min_count", "max_size")  # of a configuration, on the text alone
AGAIN = ": what was trained is kept; give the same command to go on."  # told after an interruption


class AddCommand(Protocol):
    """What a family of commands is given to add one with."""

    def __call__(
        self, name: str, run: Callable, show: Callable, help: str, after_interrupt: str = "."
    ) -> argparse.ArgumentParser:
        """A command.

        Args:
            name: its name.
            run: takes the parsed arguments and returns what `--json` prints.
            show: prints that for people.
            help: what it does, in a line.
            after_interrupt: what is told after Ctrl-C.

        Returns:
            the parser, to add its flags to.
        """


def directory(parser: argparse.ArgumentParser) -> None:
    """The model directory that a command takes."""
    parser.add_argument("directory", metavar="DIR", help="a model directory, as `train`, `ngram` or `mix` wrote it")


def output(parser: argparse.ArgumentParser) -> None:
    """The model directory that a command writes."""
    parser.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")


def data_dir(parser) -> None:
    """Where archives are."""
    parser.add_argument("--data-dir", metavar="DIR", help="where a corpus's archive lies or is downloaded to")


def jobs(parser: argparse.ArgumentParser) -> None:
    """How many models of a report are made at once."""
    help = "models made side by side; default: 2 where there are cores"
    parser.add_argument("--jobs", type=int, metavar="N", help=help)


def corpus_options(parser: argparse.ArgumentParser, *, resample: bool = True) -> None:
    """The text, how it is split, and unless the command has no epochs to show it in, `--resample`."""
    group = parser.add_argument_group("corpus")
    group.add_argument(
        "--corpus", metavar="NAME", default="python_reference", help="python_reference, brown, brown/marks, tfds:NAME"
    )
    for split in ("train", "validation", "test"):
        group.add_argument(
            f"--{split}", metavar="FILE", nargs="+", default=(), help=f"text files for the {split} split"
        )
    if resample:
        group.add_argument(
            "--resample",
            metavar=("SHARE", "FILE"),
            nargs="+",
            action="append",
            default=[],
            help="more text files for training, of which an epoch of `train` shows this share, another one each epoch, "
            "and `ngram` counts all; may be given again",
        )
    group.add_argument(
        "--fractions", metavar="F", nargs=3, type=float, default=FRACTIONS, help="how --train alone is split by lines"
    )
    help = "what is predicted and counted; default: word"
    group.add_argument("--token", choices=("word", "character"), default="word", help=help)
    help = "how text files and tfds:NAME are split into words; default: words"
    group.add_argument("--tokenizer", choices=WORD_TOKENIZERS, default="words", help=help)
    help = "what is done to the words of any corpus: one lower case, one symbol for numbers, one lemma for forms"
    group.add_argument("--normalise", choices=STEPS, nargs="+", default=(), help=help)
    data_dir(group)


def configuration_options(parser: argparse.ArgumentParser, names: Sequence[str], **shown: object) -> None:
    """`--config`, and a flag for each named option of a configuration; `shown` are defaults that are not its own."""
    parser.add_argument("--config", choices=tuple(CONFIGURATIONS), default="default", help="a named set of options")
    single = parser.add_argument_group("options, over those of --config")
    for field in dataclasses.fields(Configuration):
        if field.name not in names:
            continue
        default = shown.get(field.name, getattr(CONFIGURATIONS["default"], field.name))
        help = f"{field.metadata['help']} (default: {default})"
        flag, settings = f"--{field.name.replace('_', '-')}", dict(dest=field.name, help=help)
        if field.type is bool:
            single.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, **settings)
        elif field.metadata["choices"]:
            single.add_argument(flag, choices=field.metadata["choices"], default=None, **settings)
        else:
            kind = field.type if field.type in (float, str) else int
            single.add_argument(flag, type=kind, metavar=kind.__name__.upper(), default=None, **settings)


def configuration_of(options: argparse.Namespace) -> Configuration:
    """The named set of options with those that were given over it."""
    chosen = {field.name: getattr(options, field.name, None) for field in dataclasses.fields(Configuration)}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return dataclasses.replace(CONFIGURATIONS[options.config], **chosen)


def tokenizer_of(options: argparse.Namespace) -> str:
    """The name of the tokenizer that the flags choose, its steps left out."""
    return CHARACTERS if options.token == "character" else options.tokenizer


def corpus_of(options: argparse.Namespace) -> Corpus:
    """The corpus that the flags name."""
    return open_corpus(
        options.corpus,
        train=options.train,
        resample=_resampled(getattr(options, "resample", [])),
        validation=options.validation,
        test=options.test,
        fractions=tuple(options.fractions),
        tokenizer=tokenizer_of(options),
        normalise=options.normalise,
        data_dir=options.data_dir,
    )


def _resampled(given: Sequence[Sequence[str]]) -> list[tuple[float, list[str]]]:
    """The shares and files of `--resample`.

    Raises:
        InputError: what comes first is no share, or no file comes after it.
    """
    resampled = []
    for first, *files in given:
        try:
            share = float(first)
        except ValueError:
            share = math.nan
        if not is_share(share) or not files:
            raise InputError(
                "--resample takes a share in (0, 1] and then files, as in --resample 0.1 'news/*.gz'. Received: "
                f"{' '.join([first, *files])}."
            )
        resampled.append((share, files))
    return resampled
