"""Options as fields of a dataclass: their facts, and the check of a value."""

import dataclasses
import functools
from typing import Annotated, Literal

from keras_nplm.io.fields import Option, check_values, describe_fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Some options."""

    size: Annotated[int, Option(least=2, below=1024)] = 21
    """n, the
    size"""

    rate: Annotated[float | None, Option(least=0, below=1, example=0.5, advanced=True)] = None
    """the rate"""

    color: Literal["red", "blue"]
    is_large: bool = False
    edges: tuple[int, ...] = (4,)
    count: Annotated[int, Option(least=1)] = 1
    share: Annotated[float, Option(above=0, below=1)] = 0.5

    def __post_init__(self) -> None:
        check_values(self)


def test_facts_are_read_from_annotations_and_docstrings():
    facts = describe_fields(Options)
    assert [*facts] == ["size", "rate", "color", "is_large", "edges", "count", "share"]
    assert [fact.type for fact in facts.values()] == [int, float, str, bool, tuple, int, float]
    assert (facts["size"].help, facts["rate"].help, facts["color"].help) == (
        "n, the size",
        "the rate",
        "",
    )
    assert facts["color"].choices == ("red", "blue") and facts["color"].required
    assert facts["rate"].optional and facts["rate"].advanced and not facts["size"].advanced
    ranges = [fact.range for fact in facts.values()]
    assert ranges == [
        "2 to 1,023",
        "in [0, 1)",
        "one of red, blue",
        "",
        "rising integers",
        "1 or more",
        "above 0 and below 1",
    ]


def test_a_value_out_of_range_is_refused(messages):
    for values in ({"size": 2, "rate": 0, "count": 1, "edges": ()}, {"size": 1023, "rate": 0.99}):
        Options(color="blue", **values)
    for name, value in (
        ("size", 1),
        ("size", "x"),
        ("size", True),
        ("rate", float("nan")),
        ("rate", 1.0),
        ("color", "x"),
        ("is_large", 1),
        ("edges", (5, 3)),
        ("edges", [3]),
        ("count", 0),
        ("share", 1.6),
    ):
        messages.refuse(functools.partial(Options, **{"color": "red", name: value}))
