"""A choice among parts: each part is a dataclass whose fields are its options.

    class Head(Part, choice="head"):
        ...

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Adaptive(Head, kind="adaptive"):
        cutoffs: tuple[int, ...] = ()
        \"\"\"first id of each cluster\"\"\"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Network:
        head: Head = Linear()
        \"\"\"a row per word, or adaptive softmax\"\"\"

Options are told by name: `head="adaptive", cutoffs=(2000, 7000)`. One rule refuses an option of a
part that is not chosen: see `build_options`. Files nest them:
`{"head": {"kind": "adaptive", "cutoffs": [2000, 7000]}}`. The line `class …(Head, kind="…")`
registers a part.
"""

import dataclasses
import difflib
import functools
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, TypeVar

from keras_nplm.io.errors import InputError
from keras_nplm.io.fields import FieldFacts, check_values, describe_fields, forget_facts

_Whole = TypeVar("_Whole")


@dataclasses.dataclass(frozen=True)
class Part:
    """Base class of choices and their parts.

    Attributes:
        choice: the name of the choice.
        kind: the name of a part in its choice.
        kinds: the parts of a choice by name.
    """

    choice: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    kinds: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, choice: str = "", kind: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if choice:
            cls.choice = choice
            cls.kinds = {}
        if kind:
            known = cls.kinds.get(kind, cls)
            # the same class may be defined again, as by a cell of a notebook
            if _name_class(known) != _name_class(cls):
                raise InputError(
                    f"`kind` must be a new name of a `{cls.choice}`. Received: {kind}, which is "
                    f"{_name_class(known)}. Fix: give {cls.__qualname__} a different name."
                )
            cls.kind = kind
            cls.kinds[kind] = cls
            forget_facts()
            _describe_options.cache_clear()

    def __post_init__(self) -> None:
        check_values(self)

    def fits(self, whole: Any) -> str:
        """Return why the part cannot stand beside the other options, or an empty string."""
        return ""

    def need(self, name: str, received: object, wanted: object, beside: str = "") -> str:
        """Return that an option must have a value beside this part, unless it has it."""
        if received == wanted:
            return ""
        beside = beside or name_part(type(self))
        return f"`{name}` must be {_say(wanted)} with {beside}. Received: {_say(received)}."


def _name_class(cls: type) -> str:
    """Return the module and the name of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def name_part(part: type[Part]) -> str:
    """Return how errors and help name a part."""
    return f"`{part.choice}` {part.kind}"


def _say(value: object) -> object:
    """Return a value of an option as a sentence has it."""
    return {"None": "left out", "False": "off", "True": "on"}.get(str(value), value)


def check_parts(whole: Any) -> None:
    """Refuse parts that cannot stand beside the other options of a dataclass."""
    for part in _read_fields(whole).values():
        if isinstance(part, Part) and (problem := part.fits(whole)):
            raise InputError(f"{problem} Fix: change one of the two.")


def _read_fields(whole: Any) -> dict[str, Any]:
    return {field.name: getattr(whole, field.name) for field in dataclasses.fields(whole)}


def describe_options(cls: type) -> Mapping[str, FieldFacts]:
    """Return the facts of all options of a dataclass by name, those of its parts after a choice."""
    return _describe_options(cls)


@functools.cache
def _describe_options(cls: Any) -> Mapping[str, FieldFacts]:
    facts: dict[str, FieldFacts] = {}
    for name, own in describe_fields(cls).items():
        facts[name] = own
        parts = own.choice.kinds.values() if own.choice else ()
        if parts:
            kinds = "; ".join(f"{part.kind}: {_summarise(part)}" for part in parts)
            facts[name] = dataclasses.replace(own, help=f"{own.help}. {kinds}")
        for part in parts:
            for option, described in describe_fields(part).items():
                known = facts.get(option, described)
                homes = (*known.homes, part)
                facts[option] = dataclasses.replace(known, homes=homes)
    return facts


def check_given(given: Mapping[str, Any], *classes: type) -> None:
    """Refuse a name that no option of some dataclasses has, and a value out of its range."""
    known = {name: facts for cls in classes for name, facts in describe_options(cls).items()}
    for name, value in given.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            fix = f"give `{close[0]}`." if close else "see the fields of these classes."
            raise InputError(
                f"`{name}` must be an option of {', '.join(cls.__name__ for cls in classes)}. "
                f"Received: {value}. Fix: {fix}"
            )
        known[name].check(value)


def _summarise(part: type[Part]) -> str:
    """Return the first sentence of the docstring of a part, as a noun phrase in the help."""
    sentence = (part.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".")
    first, rest = sentence[:1], sentence[1:]
    return (first.lower() if rest[:1].islower() or rest[:1] == " " else first) + rest


def flatten(whole: Any) -> dict[str, Any]:
    """Return the options of a dataclass by name, without those of parts that are not chosen."""
    return expand_parts(_read_fields(whole))


def expand_parts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by name in which each part stands as its kind and its options."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Part):
            flat.update({name: value.kind, **_read_fields(value)})
        else:
            flat[name] = value
    return flat


def build_options(
    cls: type[_Whole], values: Mapping[str, Any], given: Collection[str] = ()
) -> _Whole:
    """Build a dataclass from options by name, and defaults for the others.

    Options of parts that are not chosen are left out.

    Raises:
        InputError: a part that is not chosen has an option among the `given` names; a value is
            invalid; or parts cannot stand beside each other.
    """
    arguments = {}
    chosen: set[str] = set()
    for name, facts in describe_fields(cls).items():
        if facts.choice is None:
            if name in values:
                arguments[name] = values[name]
            continue
        kind = values.get(name, facts.default)
        facts.check(kind)
        part = facts.choice.kinds[kind]
        options = describe_fields(part).keys()
        arguments[name] = part(**{option: values[option] for option in options if option in values})
        chosen |= options
    for name, facts in describe_options(cls).items():
        if name in given and facts.homes and name not in chosen:
            homes = " or ".join(map(name_part, facts.homes))
            raise InputError(
                f"`{name}` must be left out without {homes}. Received: {values[name]}. "
                f"Fix: leave it out, or choose {homes}."
            )
    return cls(**arguments)


def write_config(whole: Any) -> dict[str, Any]:
    """Return the options of a dataclass as a file has them: each part nested, with its kind."""
    return {
        name: {"kind": value.kind, **_read_fields(value)} if isinstance(value, Part) else value
        for name, value in _read_fields(whole).items()
    }


def flatten_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a file by name; a choice has the name of its part."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat.update({option: inner for option, inner in value.items() if option != "kind"})
            value = value.get("kind")
        flat[name] = value
    return flat


def read_config(cls: type[_Whole], config: Mapping[str, Any]) -> _Whole:
    """Build a dataclass from its options in a file. An absent option has its default."""
    facts = describe_options(cls)
    values = flatten_config(config)
    for name, value in values.items():
        if name in facts and facts[name].type is tuple and isinstance(value, list):
            values[name] = tuple(value)
    return build_options(cls, values)
