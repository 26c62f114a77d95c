"""Types of the parameters of commands: those that several share, and values with a range.

The parameters of a command's function are its arguments and flags. A flattened dataclass of
options, such as `Network`, arrives as a dictionary of the options that were given.
"""

import contextlib
import dataclasses
import difflib
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, Token

from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.fields import FieldFacts
from keras_nplm.io.parts import describe_options
from keras_nplm.io.paths import STANDARD_INPUT, is_remote

_METAVARS = {int: "N", float: "X", str: "NAME", tuple: "N,…"}
Given = Mapping[str, Any]  # options of a dataclass for which flags were given
NONE_GIVEN: Given = {}
# The help shows groups in the order in which they are made
ARGUMENTS = Group.create_ordered("arguments")
OPTIONS = Group.create_ordered("options")
SET_TITLE = "--set: "  # begins the titles of groups of options without a flag


@dataclasses.dataclass(frozen=True)
class Reader:
    """A converter of cyclopts: reads the values of a flag, and refuses those out of range."""

    facts: FieldFacts
    is_list: bool = False

    def __call__(self, hint: object, tokens: Sequence[Token]) -> Any:
        values = [self._read(token) for token in tokens]
        return values if self.is_list else values[0]

    def _read(self, token: Token) -> object:
        value: object = token.value
        with contextlib.suppress(ValueError):  # the check refuses a text in place of a number
            if self.facts.type is tuple:
                value = tuple(map(int, token.value.split(","))) if token.value else ()
            else:
                value = self.facts.type(token.value)
        self.facts.check(value, None if self.facts.advanced else token.keyword)
        return value


def number(
    kind: type[int] | type[float],
    *,
    least: float | None = None,
    below: int | None = None,
    example: float | None = None,
    is_list: bool = False,
    **settings: Any,
) -> Parameter:
    """Return the parameter of a flag with a number in a range, or with several of them."""
    facts = FieldFacts("", kind, None, least=least, below=below, example=example or least)
    return Parameter(converter=Reader(facts, is_list), **{"metavar": _METAVARS[kind], **settings})


def read_path(hint: object, tokens: Sequence[Token]) -> Any:
    """Read a path, or the paths of an argument that takes several."""
    return _read_paths(hint, tokens, str)


def fetch_inputs(hint: object, tokens: Sequence[Token]) -> Any:
    """Return local paths: a remote file or directory is downloaded, and standard input saved."""
    return _read_paths(hint, tokens, _fetch)


def _read_paths(hint: object, tokens: Sequence[Token], read: Callable[[str], str]) -> Any:
    fix = "name a file or a directory, or leave it out."
    for token in tokens:  # an empty path is a script without its variable
        check_argument(token.keyword or "FILE", bool(token.value), "a path", "''", fix)
    paths = tuple(read(token.value) for token in tokens)
    return paths if typing.get_origin(hint) is tuple else paths[0]


def _fetch(path: str) -> str:
    if not is_remote(path) and path != STANDARD_INPUT:
        return path
    from keras_nplm.io.remote import fetch

    return str(fetch(path))


FETCHED = Parameter(converter=fetch_inputs)
SEVERAL = Parameter(consume_multiple=(1, None))  # values of a flag, up to the next one
Switch = Annotated[bool, Parameter(negative="")]  # without --no-NAME
SELF_NORMALISED = "unnormalised logits as log-probabilities: much faster, wrong by log Z per token"

_HELP = "model directory written by train, ngram, mix, adapt or add-words"
Directory = Annotated[str, FETCHED, Parameter(name="DIR", help=_HELP)]
_HELP = (
    "model directory, or ARPA file, plain or compressed: its tokens are words between white space"
)
Model = Annotated[str, FETCHED, Parameter(name="MODEL", help=_HELP)]
_HELP = "model directory to write"
Output = Annotated[str, Parameter(help=_HELP, metavar="DIR", converter=read_path)]
InputFile = Annotated[str | None, FETCHED, Parameter(metavar="FILE")]
# Text is downloaded as it is opened
TextFiles = Annotated[tuple[str, ...], SEVERAL, Parameter(metavar="FILE…")]
_HELP = "field with the text, in JSON Lines, CSV, TSV or Parquet files"
Field = Annotated[str | None, Parameter(help=_HELP, metavar="NAME")]

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
    groups: Mapping[type, Group],
    without: Sequence[str] = (),
    helps: Mapping[str, str] = MappingProxyType({}),
    usual: Collection[str] | None = None,
    **shown: str,
) -> Any:
    """Return the annotation of a parameter that holds all options of some dataclasses as flags.

    The parameter is a dictionary of the options that were given.

    Args:
        groups: the group in the help for the options of each dataclass.
        without: names of options that have no flag.
        helps: texts of options, if they are not those of the dataclass.
        usual: names of the options that `--help` shows; None: of all that have a flag.
        shown: defaults to print, if they are not those of the dataclass.
    """
    annotations: dict[str, Any] = {}
    for cls, group in groups.items():
        for name, facts in describe_options(cls).items():
            if name not in without:
                described = dataclasses.replace(facts, help=helps.get(name, facts.help))
                if facts.homes and facts.advanced:
                    kinds = ", ".join(part.kind for part in facts.homes)
                    text = f"{kinds}: {described.help}"
                    described = dataclasses.replace(described, help=text)
                is_usual = usual is None or name in usual
                parameter = make_parameter(described, group, shown.get(name), show=is_usual)
                annotations[name] = Annotated[_get_hint(facts), parameter]
    given = typing.TypedDict("Given", annotations, total=False)  # type: ignore[misc]
    return Annotated[given, Parameter(name="*")]


def make_parameter(
    facts: FieldFacts,
    group: Group = OPTIONS,
    shown: str | None = None,
    show: bool = True,
) -> Parameter:
    """Return the flag of an option that is described elsewhere."""
    settings: dict[str, Any] = dict(
        help=facts.help,
        show=show and not facts.advanced,
        show_choices=facts.choice is None,  # the help of a choice names each part
        show_default=shown or format_default(facts.default),
        group=Group(SET_TITLE + _find_title(facts, group)) if facts.advanced else group,
        metavar=_METAVARS.get(facts.type),
    )
    if facts.type in (bool, str):
        return Parameter(**settings)
    if facts.type is tuple:
        settings.update(n_tokens=1, accepts_keys=False)  # the reader divides it at the commas
        facts = dataclasses.replace(facts, example=format_default(facts.example or facts.default))
    if facts.range:
        settings["help"] += f" ({facts.range})"
    return Parameter(converter=Reader(facts), **settings)


def _find_title(facts: FieldFacts, group: Group) -> str:
    """Return the choice to whose parts an option belongs, or else the name of its group."""
    for part in (facts.choice, *facts.homes):
        if part is not None:
            return part.choice
    return group.name


def _get_hint(facts: FieldFacts) -> Any:
    if facts.choices:
        return Literal[facts.choices]  # type: ignore[valid-type]
    return tuple[int, ...] if facts.type is tuple else facts.type


def format_default(value: object) -> str:
    """Return a default as the help prints it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value in (None, "", (), []):
        return "none"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


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
