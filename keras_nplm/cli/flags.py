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
from keras_nplm.io.options import GROUPS, OPTIONS, Option, name_flag
from keras_nplm.training.configuration import CONFIGURATIONS, DESCRIPTIONS, SMALL, TOKENIZERS, Configuration

TEXT_OPTIONS = ("boundary", "vocabulary_scope", "min_count", "max_size")  # of a configuration, those of the text
RESUME = ". Finished work is saved. Run the same command again to resume."  # printed after an interruption
SELF_NORMALISED = "unnormalised logits as log-probabilities: much faster, wrong by log Z per token"
AddCommand = Callable[..., argparse.ArgumentParser]  # the function `command` of `keras_nplm.cli.main.build_parser`


def add_flag(
    parser: argparse._ActionsContainer,
    option: Option,
    *,
    shown: object = ...,
    default: object = ...,
    required: bool = False,
) -> None:
    """Add the flag of an option, checked before the command runs; `shown` is the default that the help prints."""
    default = option.default if default is ... else default
    settings = dict(dest=option.name, help=describe(option, option.default if shown is ... else shown, required))
    if option.type is bool:
        parser.add_argument(option.flag, action=argparse.BooleanOptionalAction, default=default, **settings)
    elif option.choices:
        parser.add_argument(option.flag, choices=option.choices, default=default, **settings)
    else:
        metavar = option.metavar or ("N,…" if option.is_list else {int: "N", float: "X", str: "TEXT"}[option.type])
        settings |= dict(type=option.type, metavar=metavar, required=required)
        parser.add_argument(option.flag, default=default, **settings)
    parser.get_default("checked").append(dataclasses.replace(option, optional=False))
    if option.advanced and not required:
        hide_in_help(parser, option.name)


def describe(option: Option, default: object, required: bool = False) -> str:
    """Return the help of a flag: noun phrase, range, default."""
    if isinstance(default, bool):
        default = "on" if default else "off"
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
    group = parser.add_argument_group(GROUPS["data"])
    add_flag(group, OPTIONS["corpus"])
    for split in ("train", "validation", "test"):
        add_files(group, f"--{split}", f"text files or globs of the {split} split, one sentence per line")
    if resample:
        help = "out-of-domain text files and the share of their n-grams per epoch, in (0, 1]; each epoch uses a new "
        help += "share, ngram counts all; one flag per out-of-domain corpus (default: none)"
        pair = dict(metavar=("SHARE", "FILE"), nargs="+")
        group.add_argument("--resample", action="append", default=[], help=help, **pair)
    help = "shares of train, validation and test lines if only --train is given (default: 0.8 0.1 0.1)"
    group.add_argument("--fractions", metavar="F", nargs=3, type=float, default=FRACTIONS, help=help)
    for option in (OPTIONS["token"], _list_tokenizers()):  # without the flag `--config` decides
        add_flag(group, option, default=None)
    for name in ("pieces", "pieces_kind"):
        add_flag(group, dataclasses.replace(OPTIONS[name], optional=True), default=None)
    help = "trained sentencepiece .model to use instead of training one (default: none)"
    group.add_argument("--pieces-file", metavar="FILE", help=help)
    normalise = OPTIONS["normalise"]
    help = f"{normalise.help}: lower case, one symbol for numbers, lemmas (default: none)"
    group.add_argument(normalise.flag, choices=normalise.choices, nargs="+", default=(), help=help)
    add_data_dir(group)
    hide_in_help(group, "resample", "fractions", "normalise", "data_dir", "pieces_file")
    return group


def _list_tokenizers() -> Option:
    """Return the option `tokenizer` with the registered kinds as its choices."""
    choices = list_choices()
    meanings = [f"{kind}: {meaning}" for kind, meaning in choices.items() if meaning]
    help = "; ".join([OPTIONS["tokenizer"].help, *meanings])
    return dataclasses.replace(OPTIONS["tokenizer"], choices=tuple(choices), help=help)


def add_configuration_flags(
    parser: argparse.ArgumentParser,
    names: Sequence[str],
    *,
    groups: dict | None = None,
    unnamed: str = SMALL,
    **shown: object,
) -> None:
    """Add `--config` and a flag for each named option of a configuration; `shown` are different defaults to print."""
    lines = "\n".join(f"  {name:15} {description}" for name, description in DESCRIPTIONS.items())
    parser.epilog = textwrap.fill(f"Named configurations: {', '.join(DESCRIPTIONS)}.", 80, break_on_hyphens=False)
    parser.set_defaults(full_epilog=f"named configurations:\n{lines}")
    help = f"named configuration; other flags override its options (default: {unnamed})"
    parser.add_argument("--config", choices=tuple(CONFIGURATIONS), metavar="NAME", help=help)
    groups = dict(groups or {})
    for option in (option for option in OPTIONS.values() if option.name in names):
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(GROUPS[option.group])
        add_flag(groups[option.group], option, default=None, shown=shown.get(option.name, option.default))


def configuration_names(*groups: str) -> list[str]:
    """Return the options of `Configuration` that belong to these groups, by default all."""
    fields = {field.name for field in dataclasses.fields(Configuration)}
    return [name for name, option in OPTIONS.items() if name in fields and (not groups or option.group in groups)]


def read_configuration(options: argparse.Namespace, corpus: Corpus | None = None) -> Configuration:
    """Return the named configuration, by default `small`, with the options of flags and of the corpus."""
    fixed = corpus.fixed_options if corpus else {}
    return dataclasses.replace(CONFIGURATIONS[options.config or SMALL], **(fixed | read_given_options(options)))


def read_given_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `Configuration` for which flags were given."""
    given = {name: getattr(options, name, None) for name in configuration_names()}
    return {name: value for name, value in given.items() if value is not None}


def read_tokenizer(options: argparse.Namespace) -> str:
    """Return the name of the tokenizer, without its normalisation."""
    if options.token is None and options.tokenizer is None:
        return _get_text_options(options)["tokenizer"]
    if options.token == "character":
        if options.tokenizer is not None and not get_tokenizer(options.tokenizer).tokens_are_words:
            check_left_out(options, ["tokenizer"], "with `--token character`", "drop one of them.")
        return CharacterTokenizer.kind
    return options.tokenizer or OPTIONS["tokenizer"].default


def _get_text_options(options: argparse.Namespace) -> dict[str, Any]:
    return TOKENIZERS.get(getattr(options, "config", None), {"tokenizer": OPTIONS["tokenizer"].default})


def read_subword_options(options: argparse.Namespace) -> SubwordOptions | None:
    """Return how subwords are made, or None without `--tokenizer sentencepiece`."""
    fields = {"pieces": "pieces", "pieces_kind": "kind", "pieces_file": "file"}
    tokenizer = get_tokenizer(read_tokenizer(options))
    if not tokenizer.has_unknown:
        fix = "leave it out."
        if tokenizer.is_trained:
            fix = "set the size of the vocabulary by `--pieces`."
        check_left_out(options, ["min_count", "max_size"], f"with {tokenizer.summary or tokenizer.kind}", fix)
    if not tokenizer.is_trained:
        check_left_out(options, [*fields], "without subwords", "add `--tokenizer sentencepiece`.")
        return None
    if options.pieces_file is not None:
        check_left_out(options, ["pieces", "pieces_kind"], "with `--pieces-file`", "drop one of them.")
        return SubwordOptions(file=options.pieces_file)
    given = _get_text_options(options) | {name: value for name in fields if (value := getattr(options, name))}
    return SubwordOptions(**{fields[name]: value for name, value in given.items() if name in fields})


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
