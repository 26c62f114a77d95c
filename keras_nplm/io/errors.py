"""The two ways in which a command ends badly, each with one clear sentence: what, where, remedy."""


class InputError(ValueError):
    """What was given cannot be used (a missing file, an order of 1, a word list of another model): exit status 2."""


class RunError(RuntimeError):
    """The work itself failed (a loss that is not finite, a full disk): exit status 1."""


def check_argument(argument: str, holds: bool, wanted: str, received: object) -> None:
    if not holds:
        raise InputError(f"`{argument}` must be {wanted}. Received: {received}.")
