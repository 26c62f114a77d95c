"""Options as fields of a dataclass: type, range, default and help, and the check of a value.

An option is told once, as a field: its annotation says type and range, and the docstring below
it is its help.

    order: Annotated[int, Option(least=2, below=1024)] = 21
    \"\"\"n, order of the n-grams\"\"\"

`describe_fields` reads these facts, for checks and for the command line.
"""

import ast
import dataclasses
import functools
import inspect
import numbers
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union

from keras_nplm.io.errors import InputError, shorten_value

_NAMES = {
    int: "an integer",
    float: "a finite number",
    bool: "True or False",
    str: "a string",
    tuple: "a tuple",
}
# NumPy's numbers are numbers, too
_ACCEPTED: dict[type, type] = {int: numbers.Integral, float: numbers.Real}


@dataclasses.dataclass(frozen=True)
class Option:
    """What an annotation adds to the type of an option: its range, and how it is shown."""

    least: float | None = None
    """the least value"""
    above: float | None = None
    """a number below all values"""
    below: float | None = None
    """the first value that is too large"""
    choices: tuple[str, ...] = ()
    """the choices of a string, unless its type is a `Literal`"""
    example: object = None
    """a value that an error proposes; by default the option's default"""
    advanced: bool = False
    """whether the command line has it as `--set name=value`, without a flag of its own"""


@dataclasses.dataclass(frozen=True)
class FieldFacts:
    """The facts of one option."""

    name: str
    """in Python and in files; the flag is `--name` with hyphens"""
    type: type
    """int, float, bool, str; or tuple, of rising integers"""
    default: Any
    help: str = ""
    """a noun phrase, to which range and default are added"""
    least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    """whether None is accepted"""
    example: object = None
    advanced: bool = False
    required: bool = False
    """whether there is no default"""
    choice: Any = None
    """the class of the choice if the value is one of its parts, see `io.parts`"""
    homes: tuple[Any, ...] = ()
    """the parts that have the option"""

    @property
    def range(self) -> str:
        """The accepted values in words, or an empty string if the type says it all."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.type is tuple:
            return "rising integers"
        if self.above is not None:
            below = "" if self.below is None else f" and below {self.below}"
            return f"above {self.above}{below}"
        if self.least is None:
            return ""
        if self.below is None:
            return f"{self.least} or more"
        if self.type is float:
            return f"in [{self.least}, {self.below})"
        return f"{self.least} to {int(self.below) - 1:,}"

    def accepts(self, value: object) -> bool:
        """Return whether the value has the right type and lies in the range."""
        if value is None:
            return self.optional
        if not self._has_type(value):
            return False
        if self.choices:
            return value in self.choices
        if isinstance(value, tuple):
            return _are_rising(value)
        if isinstance(value, numbers.Real):
            number = typing.cast(float, value)
            is_enough = self.least is None or number >= self.least
            is_above = self.above is None or number > self.above
            return is_enough and is_above and (self.below is None or number < self.below)
        return True

    def check(self, value: object, argument: str | None = None) -> None:
        """Refuse a value that is not accepted. The error may name a different `argument`."""
        if self.accepts(value):
            return
        wanted = []
        if not self.choices and not self._has_type(value):
            wanted.append(_NAMES[self.type])
        if self.range:
            wanted.append(self.range)
        if self.optional:
            wanted.append("or None")
        raise InputError(
            f"`{argument or self.name}` must be {', '.join(wanted)}. "
            f"Received: {shorten_value(value)}. Fix: {self._propose_value()}"
        )

    def _has_type(self, value: object) -> bool:
        if isinstance(value, bool) and self.type is not bool:
            return False
        if not isinstance(value, _ACCEPTED.get(self.type, self.type)):
            return False
        if self.type is float:
            return abs(typing.cast(float, value)) <= sys.float_info.max
        return True

    def _propose_value(self) -> str:
        example = self.default if self.example is None else self.example
        if example is None and self.choices:
            example = self.choices[0]
        return "leave it out." if example is None else f"give a value such as {example!r}."


def _are_rising(values: tuple) -> bool:
    are_integers = all(isinstance(value, int) and value >= 0 for value in values)
    return are_integers and sorted({*values}) == [*values]


def describe_fields(cls: type) -> Mapping[str, FieldFacts]:
    """Return the facts of each option of a dataclass by its name, in order."""
    return _describe_fields(cls)


@functools.cache
def _describe_fields(cls: Any) -> Mapping[str, FieldFacts]:
    hints = typing.get_type_hints(cls, include_extras=True)
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        helps |= _read_docstrings(base)
    facts = {}
    for field in dataclasses.fields(cls):
        is_required = field.default is dataclasses.MISSING
        annotation = _read_annotation(hints[field.name])
        default: Any = None if is_required else field.default
        facts[field.name] = FieldFacts(
            name=field.name,
            default=default.kind if annotation.get("choice") else default,
            help=helps.get(field.name, ""),
            required=is_required,
            **annotation,
        )
    return facts


def forget_facts() -> None:
    """Let facts be read again: a choice has a new part."""
    _describe_fields.cache_clear()


def check_values(options: Any) -> None:
    """Refuse a value of a wrong type or out of its range in a dataclass of options."""
    for name, facts in describe_fields(type(options)).items():
        value = getattr(options, name)
        if facts.choice is None:
            facts.check(value)
        elif not isinstance(value, facts.choice):
            parts = ", ".join(part.__name__ for part in facts.choice.kinds.values())
            raise InputError(
                f"`{name}` must be a part: {parts}. Received: {shorten_value(value)}. "
                f"Fix: give an object such as {getattr(type(options), name)!r}."
            )


def _read_annotation(annotation: Any) -> dict[str, Any]:
    """Return type, range and choices of an annotation such as `Annotated[int, Option(least=1)]`."""
    option = Option()
    if hasattr(annotation, "__metadata__"):
        option = annotation.__metadata__[0]
        annotation = annotation.__origin__
    choice = annotation if hasattr(annotation, "kinds") else None
    if choice:
        option = dataclasses.replace(option, choices=tuple(choice.kinds))
        annotation = str
    optional = False
    if typing.get_origin(annotation) in (Union, types.UnionType):
        annotation, _ = typing.get_args(annotation)  # the other one is None
        optional = True
    if typing.get_origin(annotation) is Literal:
        option = dataclasses.replace(option, choices=typing.get_args(annotation))
        annotation = str
    return dict(
        type=typing.get_origin(annotation) or annotation,
        optional=optional,
        choice=choice,
        **{field.name: getattr(option, field.name) for field in dataclasses.fields(option)},
    )


def _read_docstrings(cls: type) -> dict[str, str]:
    """Read the string below each field from the source; return {} without a source."""
    definition = _find_classes(cls.__module__).get(cls.__qualname__)
    found: dict[str, str] = {}
    if definition is None:
        return found
    previous: ast.stmt | None = None
    for statement in definition.body:
        if isinstance(previous, ast.AnnAssign) and isinstance(statement, ast.Expr):
            name = ast.unparse(previous.target)
            found[name] = " ".join(ast.literal_eval(statement.value).split())
        previous = statement
    return found


@functools.cache
def _find_classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the definitions of the classes at the top level of a module, by name.

    They are parsed at once: `inspect.getsource` of a class would parse the module for each class.
    """
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):  # without a source: typed by hand, or compiled
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
