"""The two errors of a command, `InputError` and `RunError`, and checks that raise the first."""

import math
from collections.abc import Sequence


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


def check_integer(argument: str, value: int, least: int, most: int | None = None) -> None:
    """Refuse an integer that is not from `least` to `most`."""
    accepted = f"{least} or more" if most is None else f"{least} to {most:,}"
    holds = least <= value <= (value if most is None else most)
    _check_value(argument, holds, accepted, value, least)


def check_least(argument: str, value: float, least: float) -> None:
    """Refuse a number that is not finite, or below `least`."""
    accepted = f"{least} or more" if math.isfinite(value) else f"a finite number, {least} or more"
    _check_value(argument, least <= value < math.inf, accepted, value, least)


def check_share(argument: str, value: float) -> None:
    """Refuse a number that is not in [0, 1)."""
    _check_value(argument, 0 <= value < 1, "in [0, 1)", value, 0.0)


def check_choice(argument: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value other than the choices."""
    _check_value(argument, value in choices, f"one of {', '.join(choices)}", value, choices[0])


def _check_value(argument: str, holds: bool, wanted: str, value: object, example: object) -> None:
    fix = f"give a value such as {example!r}."
    check_argument(argument, holds, wanted, shorten_value(value), fix)


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
