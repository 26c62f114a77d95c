"""Flags that several commands share, and the configuration and the corpus that they describe."""

import argparse
import contextlib
import dataclasses
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from keras_nplm.cli.parser import hide_in_help
from keras_nplm.data.corpora import Corpus, open_corpus
from keras_nplm.data.corpora.opening import FRACTIONS
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer, list_choices
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.fields import FieldFacts
from keras_nplm.training.configurations import CONFIGURATIONS, SMALL
from keras_nplm.training.options import (
    CorpusOptions,
    NetworkOptions,
    Options,
    TextOptions,
    TrainingOptions,
    describe_fields,
    describe_options,
)

TITLES = {  # of groups of flags
    CorpusOptions: "text, tokens and vocabulary",
    NetworkOptions: "network",
    TrainingOptions: "training",
}
_CORPUS = describe_fields(CorpusOptions)
RESUME = ". Finished work is saved. Run the same command again to resume."  # printed after an interruption
SELF_NORMALISED = "unnormalised logits as log-probabilities: much faster, wrong by log Z per token"
_METAVARS = {int: "N", float: "X", str: "TEXT", tuple: "N,…"}
AddCommand = Callable[..., argparse.ArgumentParser]  # the function `command` of `keras_nplm.cli.main.build_parser`


@dataclasses.dataclass(frozen=True)
class Option(FieldFacts):
    """The facts of an option of a command, with the name of its value in the help."""

    metavar: str | None = None


def name_flag(name: str) -> str:
    """Return the flag of an option by its name in Python: `--embedding-dim`."""
    return "--" + name.replace("_", "-")


def parse_integers(text: str) -> tuple[int, ...]:
    """Return the integers of a flag such as `--averages-after`, which are separated by commas."""
    try:
        return tuple(int(part) for part in text.split(",") if text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be rising integers separated by commas. Received: {text!r}") from error


def add_flag(
    parser: argparse._ActionsContainer,
    option: FieldFacts,
    *,
    shown: object = ...,
    default: object = ...,
    required: bool = False,
) -> None:
    """Add the flag of an option, checked before the command runs; `shown` is the default that the help prints."""
    default = option.default if default is ... else default
    settings = dict(dest=option.name, help=describe(option, option.default if shown is ... else shown, required))
    if option.type is bool:
        parser.add_argument(name_flag(option.name), action=argparse.BooleanOptionalAction, default=default, **settings)
    elif option.choices:
        parser.add_argument(name_flag(option.name), choices=option.choices, default=default, **settings)
    else:
        metavar = (isinstance(option, Option) and option.metavar) or _METAVARS[option.type]
        parse = parse_integers if option.type is tuple else option.type
        settings |= dict(type=parse, metavar=metavar, required=required)
        parser.add_argument(name_flag(option.name), default=default, **settings)
    parser.get_default("checked").append(dataclasses.replace(option, optional=False))
    if option.advanced and not required:
        hide_in_help(parser, option.name)


def describe(option: FieldFacts, default: object, required: bool = False) -> str:
    """Return the help of a flag: noun phrase, range, default."""
    if isinstance(default, bool):
        default = "on" if default else "off"
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    notes = [option.range] if option.range and not option.choices else []
    notes.append("required" if required else f"default: {'none' if default in (None, '') else default}")
    return f"{option.help} ({'; '.join(notes)})"


def add_directory(parser: argparse.ArgumentParser, *, has_preset: bool = False) -> None:
    help = "model directory written by train, ngram, mix, adapt or add-words"
    if has_preset:
        help = "model directory (default: the reference model, a network of the Python language reference)"
    parser.add_argument("directory", metavar="DIR", nargs="?" if has_preset else None, help=help)


def add_output(parser: argparse.ArgumentParser, help: str = "model directory to write") -> None:
    parser.add_argument("--output", metavar="DIR", required=True, help=f"{help} (required)")


def add_files(parser: argparse._ActionsContainer, flag: str, help: str, required: bool = False) -> None:
    help = f"{help} ({'required' if required else 'default: none'})"
    parser.add_argument(flag, metavar="FILE", nargs="+", default=(), required=required, help=help)


def add_switch(parser: argparse._ActionsContainer, flag: str, help: str) -> None:
    parser.add_argument(flag, action="store_true", help=f"{help} (default: off)")


def check_left_out(options: argparse.Namespace, names: Sequence[str], when: str, fix: str) -> None:
    """Refuse given flags that have no effect, such as "without `--arpa`"."""
    for name in names:
        value = getattr(options, name, None)
        if value is not None and value is not False and value != () and value != []:
            wanted = "cannot be combined" if when.startswith("with ") else "must be left out"
            raise InputError(f"`{name_flag(name)}` {wanted} {when}. Received: {value}. Fix: {fix}")


def add_data_dir(parser: argparse._ActionsContainer) -> None:
    help = "directory of TFDS sets and of archives, also of Brown (default: TFDS_DATA_DIR, else ~/tensorflow_datasets)"
    parser.add_argument("--data-dir", metavar="DIR", help=help)


JOBS = Option("jobs", int, None, "models trained side by side", least=1, optional=True, example=2)


def add_corpus_flags(parser: argparse.ArgumentParser, *, resample: bool = True) -> argparse._ArgumentGroup:
    """Add the flags of the text and its splits; return their group."""
    group = parser.add_argument_group(TITLES[CorpusOptions])
    add_flag(group, _CORPUS["corpus"])
    for split in ("train", "validation", "test"):
        add_files(group, f"--{split}", f"text files or globs of the {split} split, one sentence per line")
    if resample:
        help = "out-of-domain text files and the share of their n-grams per epoch, in (0, 1]; each epoch uses a new "
        help += "share, ngram counts all; one flag per out-of-domain corpus (default: none)"
        pair = dict(metavar=("SHARE", "FILE"), nargs="+")
        group.add_argument("--resample", action="append", default=[], help=help, **pair)
    help = "shares of train, validation and test lines if only --train is given (default: 0.8 0.1 0.1)"
    group.add_argument("--fractions", metavar="F", nargs=3, type=float, default=FRACTIONS, help=help)
    for option in (_CORPUS["token"], _list_tokenizers()):  # without the flag `--config` decides
        add_flag(group, option, default=None)
    for name in ("pieces", "pieces_kind"):
        add_flag(group, dataclasses.replace(_CORPUS[name], optional=True), default=None)
    help = "trained sentencepiece .model to use instead of training one (default: none)"
    group.add_argument("--pieces-file", metavar="FILE", help=help)
    normalise = _CORPUS["normalise"]
    help = f"{normalise.help}: lower case, one symbol for numbers, lemmas (default: none)"
    group.add_argument("--normalise", choices=normalise.choices, nargs="+", default=(), help=help)
    add_data_dir(group)
    hide_in_help(group, "resample", "fractions", "normalise", "data_dir", "pieces_file")
    return group


def _list_tokenizers() -> FieldFacts:
    """Return the option `tokenizer` with the registered kinds as its choices."""
    choices = list_choices()
    meanings = [f"{kind}: {meaning}" for kind, meaning in choices.items() if meaning]
    help = "; ".join([_CORPUS["tokenizer"].help, *meanings])
    return dataclasses.replace(_CORPUS["tokenizer"], help=help)


def add_configuration_flags(
    parser: argparse.ArgumentParser,
    names: Sequence[str],
    *,
    groups: dict | None = None,
    unnamed: str = SMALL,
    **shown: object,
) -> None:
    """Add `--config` and a flag for each named option of a configuration; `shown` are different defaults to print."""
    lines = "\n".join(f"  {named.name:15} {named.description}" for named in CONFIGURATIONS.values())
    parser.epilog = textwrap.fill(f"Named configurations: {', '.join(CONFIGURATIONS)}.", 80, break_on_hyphens=False)
    parser.set_defaults(full_epilog=f"named configurations:\n{lines}")
    help = f"named configuration; other flags override its options (default: {unnamed})"
    parser.add_argument("--config", choices=tuple(CONFIGURATIONS), metavar="NAME", help=help)
    groups = dict(groups or {})
    for cls in (TextOptions, NetworkOptions, TrainingOptions):
        for option in (option for option in describe_fields(cls).values() if option.name in names):
            if cls not in groups:
                groups[cls] = parser.add_argument_group(TITLES[cls])
            add_flag(groups[cls], option, default=None, shown=shown.get(option.name, option.default))


def read_options(options: argparse.Namespace, corpus: Corpus | None = None) -> Options:
    """Return the named configuration, by default `small`, with the options of flags and of the corpus."""
    fixed = corpus.fixed_options if corpus else {}
    return CONFIGURATIONS[options.config or SMALL].options.replace(**{**fixed, **read_given_options(options)})


def read_given_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a run for which flags were given."""
    given = {name: getattr(options, name, None) for name in describe_options()}
    return {name: value for name, value in given.items() if value is not None}


def read_tokenizer(options: argparse.Namespace) -> str:
    """Return the name of the tokenizer, without its normalisation."""
    if options.token is None and options.tokenizer is None:
        named = _get_corpus_options(options)
        return CharacterTokenizer.kind if named.token == "character" else named.tokenizer
    if options.token == "character":
        if options.tokenizer is not None and not get_tokenizer(options.tokenizer).tokens_are_words:
            check_left_out(options, ["tokenizer"], "with `--token character`", "drop one of them.")
        return CharacterTokenizer.kind
    return options.tokenizer or CorpusOptions.tokenizer


def _get_corpus_options(options: argparse.Namespace) -> CorpusOptions:
    name = getattr(options, "config", None)
    return CONFIGURATIONS[name].corpus if name else CorpusOptions()


def read_subword_options(options: argparse.Namespace) -> SubwordOptions | None:
    """Return how subwords are made, or None without `--tokenizer sentencepiece`."""
    tokenizer = get_tokenizer(read_tokenizer(options))
    if not tokenizer.has_unknown:
        fix = "leave it out."
        if tokenizer.is_trained:
            fix = "set the size of the vocabulary by `--pieces`."
        check_left_out(options, ["min_count", "max_size"], f"with {tokenizer.summary or tokenizer.kind}", fix)
    if not tokenizer.is_trained:
        names = ["pieces", "pieces_kind", "pieces_file"]
        check_left_out(options, names, "without subwords", "add `--tokenizer sentencepiece`.")
        return None
    if options.pieces_file is not None:
        check_left_out(options, ["pieces", "pieces_kind"], "with `--pieces-file`", "drop one of them.")
        return SubwordOptions(file=options.pieces_file)
    named = _get_corpus_options(options)
    return SubwordOptions(options.pieces or named.pieces, options.pieces_kind or named.pieces_kind)


def open_named_corpus(options: argparse.Namespace) -> Corpus:
    """Open the corpus that the flags name."""
    return open_corpus(
        options.corpus,
        train=options.train,
        resample=_read_shares(getattr(options, "resample", [])),
        validation=options.validation,
        test=options.test,
        fractions=tuple(options.fractions),
        tokenizer=read_tokenizer(options),
        normalise=options.normalise,
        subwords=read_subword_options(options),
        data_dir=options.data_dir,
    )


def _read_shares(given: Sequence[Sequence[str]]) -> list[tuple[float, list[str]]]:
    """Return the share and the files of each `--resample`."""
    resampled = []
    for first, *files in given:
        share = math.nan
        with contextlib.suppress(ValueError):
            share = float(first)
        received, fix = " ".join([first, *files]), "write it as in --resample 0.1 'news/*.gz'."
        check_argument("--resample", 0 < share <= 1 and files, "a share in (0, 1] and then files", received, fix)
        resampled.append((share, files))
    return resampled
