"""Types of the parameters of commands: those that several share, and values with a range.

The parameters of a command's function are its arguments and flags. A flattened dataclass of
options, such as `NetworkOptions`, arrives as a dictionary of the options that were given.
"""

import contextlib
import dataclasses
import difflib
import typing
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

from keras_nplm.io.errors import InputError, check_argument, shorten_value
from keras_nplm.io.fields import FieldFacts
from keras_nplm.io.parts import describe_options

_METAVARS = {int: "N", float: "X", str: "NAME", tuple: "N,…"}
Given = Mapping[str, Any]  # options of a dataclass for which flags were given
NONE_GIVEN: Given = {}
SET_GROUP = "options of --set"


@dataclasses.dataclass(frozen=True)
class Reader:
    """A converter of cyclopts: reads the values of a flag, and refuses those out of range."""

    facts: FieldFacts
    is_list: bool = False

    def __call__(self, hint: object, tokens: Sequence[Token]) -> Any:
        values = [self._read(token) for token in tokens]
        return values if self.is_list else values[0]

    def _read(self, token: Token) -> object:
        name = self.facts.name if self.facts.advanced else token.keyword or self.facts.name
        if self.facts.type is tuple:
            return self._read_integers(token.value, name)
        value: object = token.value
        with contextlib.suppress(ValueError):  # the check refuses a text in place of a number
            value = self.facts.type(token.value)
        self.facts.check(value, name)
        return value

    def _read_integers(self, text: str, name: str) -> tuple[int, ...]:
        values: tuple[int, ...] | None = None
        with contextlib.suppress(ValueError):
            values = tuple(int(part) for part in text.split(",")) if text else ()
        if values is None or not self.facts.accepts(values):
            example = _join(self.facts.example or self.facts.default)
            raise InputError(
                f"`{name}` must be rising integers separated by commas. "
                f"Received: {shorten_value(text)}. Fix: give a value such as {example}."
            )
        return values


def integer(
    *,
    least: int,
    below: int | None = None,
    example: int | None = None,
    metavar: str = "N",
    **settings: Any,
) -> Parameter:
    """Return the parameter of a flag with an integer in a range."""
    facts = FieldFacts("", int, None, least=least, below=below, example=example or least)
    return Parameter(converter=Reader(facts), metavar=metavar, **settings)


def number(
    *,
    least: float | None = None,
    below: float | None = None,
    example: float = 0.5,
    metavar: str = "X",
    is_list: bool = False,
    **settings: Any,
) -> Parameter:
    """Return the parameter of a flag with a finite number in a range, or with several of them."""
    facts = FieldFacts("", float, None, least=least, below=below, example=example)
    return Parameter(converter=Reader(facts, is_list), metavar=metavar, **settings)


def read_output(hint: object, tokens: Sequence[Token]) -> str:
    """Read an output path."""
    return _read_path(tokens, "name a directory or a file to write.")


def read_input(hint: object, tokens: Sequence[Token]) -> str:
    """Read the path of a file to read."""
    return _read_path(tokens, "name a file to read, or leave it out.")


def _read_path(tokens: Sequence[Token], fix: str) -> str:
    """Refuse an empty path: it is a script without its variable."""
    (token,) = tokens
    check_argument(token.keyword or "FILE", bool(token.value), "a path", "''", fix)
    return token.value


@dataclasses.dataclass(frozen=True)
class Fetched:
    """Marks a path that may be remote: it is downloaded before the command runs.

    A path that may be a file may also be `-`, standard input.
    """

    is_file: bool = False


FETCHED = Fetched()
FETCHED_FILE = Fetched(is_file=True)
SEVERAL = Parameter(consume_multiple=(1, None))  # values of a flag, up to the next one
Switch = Annotated[bool, Parameter(negative="")]  # without --no-NAME
SELF_NORMALISED = "unnormalised logits as log-probabilities: much faster, wrong by log Z per token"

_HELP = "model directory written by train, ngram, mix, adapt or add-words"
Directory = Annotated[str, FETCHED, Parameter(name="DIR", help=_HELP)]
_HELP = (
    "model directory, or ARPA file, plain or compressed: its tokens are words between white space"
)
Model = Annotated[str, FETCHED_FILE, Parameter(name="MODEL", help=_HELP)]
_HELP = "model directory to write"
Output = Annotated[str, Parameter(help=_HELP, metavar="DIR", converter=read_output)]
InputFile = Annotated[str, FETCHED_FILE, Parameter(metavar="FILE")]
# Text is downloaded as it is opened
TextFiles = Annotated[tuple[str, ...], SEVERAL, Parameter(metavar="FILE")]
_HELP = "field with the text, in JSON Lines, CSV, TSV or Parquet files"
Field = Annotated[str | None, Parameter(help=_HELP, metavar="NAME", show_default="none")]

_HELP = "directory of TFDS data sets and of archives, such as the one of Brown"
DataDirectory = Annotated[
    str | None,
    Parameter(
        help=_HELP,
        metavar="DIR",
        show=False,
        show_default="TFDS_DATA_DIR, else ~/tensorflow_datasets",
    ),
]


@dataclasses.dataclass(frozen=True)
class Call:
    """How a command was called, for the commands that have to know it."""

    words: tuple[str, ...]
    """the command and its arguments"""
    is_json: bool
    """whether the result will be printed as JSON"""


# Not on the command line: `parse` gives it
Called = Annotated[Call, Parameter(parse=False)]


def flatten(
    groups: Mapping[type, str],
    without: Sequence[str] = (),
    helps: Mapping[str, str] = MappingProxyType({}),
    metavars: Mapping[str, str] = MappingProxyType({}),
    **shown: str,
) -> Any:
    """Return the annotation of a parameter that holds all options of some dataclasses as flags.

    The parameter is a dictionary of the options that were given.

    Args:
        groups: the title in the help for the options of each dataclass.
        without: names of options that have no flag.
        helps: texts of options, if they are not those of the dataclass.
        metavars: names of the values of options, if they are not those of their types.
        shown: defaults to print, if they are not those of the dataclass.
    """
    annotations: dict[str, Any] = {}
    for cls, group in groups.items():
        for name, facts in describe_options(cls).items():
            if name not in without:
                described = dataclasses.replace(facts, help=helps.get(name, facts.help))
                parameter = make_parameter(described, group, shown.get(name), metavars.get(name))
                annotations[name] = Annotated[_get_hint(facts), parameter]
    given = typing.TypedDict("Given", annotations, total=False)  # type: ignore[misc]
    return Annotated[given, Parameter(name="*")]


def make_parameter(
    facts: FieldFacts,
    group: str | None = None,
    shown: str | None = None,
    metavar: str | None = None,
) -> Parameter:
    """Return the flag of an option that is described elsewhere."""
    if shown is None and facts.type is tuple:
        shown = _join(facts.default)
    settings: dict[str, Any] = dict(help=facts.help, show=not facts.advanced)
    settings["show_default"] = shown or format_default(facts.default)
    if facts.advanced:
        settings["group"] = SET_GROUP
    elif group is not None:
        settings["group"] = group
    if facts.type is bool:
        return Parameter(**settings)
    if facts.type is tuple:
        settings.update(n_tokens=1, accepts_keys=False)  # the reader divides it at the commas
    return Parameter(converter=Reader(facts), metavar=metavar or _METAVARS[facts.type], **settings)


def _get_hint(facts: FieldFacts) -> Any:
    if facts.choices:
        return Literal[facts.choices]  # type: ignore[valid-type]
    return tuple[int, ...] if facts.type is tuple else facts.type


def _join(integers: Any) -> str:
    return ",".join(map(str, integers))


def format_default(value: object) -> str:
    """Return a default as the help prints it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value in (None, "", (), []):
        return "none"
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return str(value)


def suggest(word: str, names: Iterable[str]) -> str:
    """Return a question with a close name, or an empty string if none is close."""
    close = difflib.get_close_matches(word.partition("=")[0], list(names), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def check_left_out(given: Mapping[str, object], when: str, fix: str) -> None:
    """Refuse given flags that have no effect, such as "without `--arpa`"."""
    for name, value in given.items():
        if value is not None and value is not False and value != () and value != []:
            wanted = "cannot be combined" if when.startswith("with ") else "must be left out"
            flag = "--" + name.replace("_", "-")
            raise InputError(f"`{flag}` {wanted} {when}. Received: {value}. Fix: {fix}")
