"""The two ways in which a command ends badly, each with one clear sentence: what, where, remedy."""


class InputError(ValueError):
    """What was given cannot be used (a missing file, an order of 1, a word list of another model): exit status 2."""


class RunError(RuntimeError):
    """The work itself failed (a loss that is not finite, a full disk): exit status 1."""


def check_argument(argument: str, holds: bool, wanted: str, received: object, fix: str = "") -> None:
    """Raise the standard error for an argument unless a condition holds.

    Args:
        argument: name of the argument.
        holds: the condition.
        wanted: what the argument must be.
        received: the value that was given.
        fix: the remedy. Default: none is named.

    Example:

    >>> check_argument("order", False, "2 or more", 1, "a context has n-1 words.")
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: `order` must be 2 or more. Received: 1. Fix: a context has n-1 words.
    """
    if not holds:
        raise InputError(f"`{argument}` must be {wanted}. Received: {received}." + (f" Fix: {fix}" if fix else ""))
