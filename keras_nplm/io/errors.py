"""The two errors of a command, each with one clear sentence: the problem, its place and its remedy.

Checks.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TypeGuard


class InputError(ValueError):
    """Invalid input, such as a missing file or an order of 1. Exit status 2."""


class RunError(RuntimeError):
    """Runtime failure with valid input, such as a loss that is not finite, or a full disk.

    Exit status 1.
    """


def check_argument(
    argument: str, holds: bool, wanted: str, received: object, fix: str = ""
) -> None:
    """Raise the standard error for an argument unless a condition holds."""
    if not holds:
        raise InputError(
            f"`{argument}` must be {wanted}. Received: {received}."
            + (f" Fix: {fix}" if fix else "")
        )


def check_integer(argument: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse a value other than an integer from `least` to `most`, of Python or NumPy."""
    accepted = f"{least} or more" if most is None else f"{least} to {most:,}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise _refuse_value(argument, f"an integer, {accepted}", value, least)
    number = int(value)
    if number < least or (most is not None and number > most):
        raise _refuse_value(argument, accepted, value, least)


def check_least(argument: str, value: object, least: float) -> None:
    """Refuse a value other than a finite number of `least` or more."""
    if not _is_finite(value):
        raise _refuse_value(argument, f"a finite number, {least} or more", value, least)
    if value < least:
        raise _refuse_value(argument, f"{least} or more", value, least)


def check_share(argument: str, value: object) -> None:
    """Refuse a value other than a number in [0, 1)."""
    if not _is_finite(value):
        raise _refuse_value(argument, "a finite number, in [0, 1)", value, 0.0)
    if not 0 <= value < 1:
        raise _refuse_value(argument, "in [0, 1)", value, 0.0)


def check_choice(argument: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value other than the choices."""
    if value not in choices:
        raise _refuse_value(argument, f"one of {', '.join(choices)}", value, choices[0])


def _is_finite(value: object) -> TypeGuard[float]:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the floats
        return False


def _refuse_value(argument: str, wanted: str, value: object, example: object) -> InputError:
    received = shorten_value(value)
    fix = f"give a value such as {example!r}."
    return InputError(f"`{argument}` must be {wanted}. Received: {received}. Fix: {fix}")


def summarize_error(error: Exception) -> str:
    """Return the first line of a library's error message, at most 200 characters, for use within a
    sentence.
    """
    return (str(error).splitlines() or [type(error).__name__])[0][:200] or type(error).__name__


def drop_fix(error: Exception) -> str:
    """Return the message of an error without its remedy, where a different one helps."""
    return str(error).partition(" Fix: ")[0]


def shorten_value(value: object) -> str:
    """`repr` of a value, cut after 60 characters."""
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}…"


def was_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return whether an error is of a kind, or was raised while one of this kind was handled."""
    return error is not None and (isinstance(error, kind) or was_caused_by(error.__context__, kind))
