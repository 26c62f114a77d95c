"""Parts of a choice by their kinds. What options do: `training/test_options.py`."""

from keras_nplm.io.parts import Part


class Shape(Part, choice="shape"):
    """A choice of this test."""


def define_round(sides: int) -> type[Shape]:
    class Round(Shape, kind="round"):
        """A shape."""

        number = sides

    return Round


def define_other_round() -> type[Shape]:
    class Ball(Shape, kind="round"):
        """A shape of the same kind."""

    return Ball


def test_a_class_is_defined_again_and_keeps_its_kind_from_others(messages):
    for sides in (0, 1):  # as a cell of a notebook that runs twice
        assert Shape.kinds == {"round": define_round(sides)}
    messages.refuse(define_other_round)
    assert Shape.kinds["round"].number == 1
