"""The two errors of a command, each with one clear sentence: the problem, its place and its remedy."""


class InputError(ValueError):
    """Invalid input: an argument, a file or a directory cannot be used. Exit status 2.

    Examples: a missing file, an order of 1, a vocabulary that belongs to a different model.
    """


class RunError(RuntimeError):
    """Runtime failure: valid input, but the work failed. Exit status 1.

    Examples: a loss that is not finite, a full disk.
    """


def check_argument(argument: str, holds: bool, wanted: str, received: object, fix: str = "") -> None:
    """Raise the standard error for an argument unless a condition holds.

    >>> check_argument("order", False, "2 or more", 1, "use order=2 for a bigram model.")
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: `order` must be 2 or more. Received: 1. Fix: use order=2 for a bigram model.
    """
    if not holds:
        raise InputError(f"`{argument}` must be {wanted}. Received: {received}." + (f" Fix: {fix}" if fix else ""))


def shorten_value(value: object) -> str:
    """`repr` of a value, cut after 60 characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
    return text if len(text) < 60 else f"{text[:60]}…"


def was_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return whether an error is of a kind, or was raised while one of this kind was handled."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__context__
    return any(isinstance(link, kind) for link in chain)
