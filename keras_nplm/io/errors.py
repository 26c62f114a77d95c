"""The two errors of a command, each with one clear sentence: the problem, its place and its remedy."""

import importlib
from types import ModuleType


class InputError(ValueError):
    """Invalid input, such as a missing file or an order of 1. Exit status 2."""


class RunError(RuntimeError):
    """Runtime failure with valid input, such as a loss that is not finite, or a full disk. Exit status 1."""


def check_argument(argument: str, holds: bool, wanted: str, received: object, fix: str = "") -> None:
    """Raise the standard error for an argument unless a condition holds."""
    if not holds:
        raise InputError(f"`{argument}` must be {wanted}. Received: {received}." + (f" Fix: {fix}" if fix else ""))


def import_extra(module: str, extra: str, user: str) -> ModuleType:
    """Import a library that only an extra of setup.py installs. `user` needs it, as in "text.zst"."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        reason, fix = summarize_error(error), f"`pip install 'keras-nplm[{extra}]'`."
        raise InputError(f"{user} needs the extra {extra} ({reason}). Fix: {fix}") from error


def summarize_error(error: Exception) -> str:
    """Return the first line of a library's error message, at most 200 characters, for use within a sentence."""
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
