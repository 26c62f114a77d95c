"""A process that is killed at a rename, in place of a process that is killed."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


class Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


@contextlib.contextmanager
def kill_at_rename(at: int | str) -> Iterator[None]:
    """End a block at its rename of this number, the first is 1, or to a file of this name."""
    rename, numbers = os.replace, itertools.count(1)

    def kill_or_rename(source, target):
        if at in (next(numbers), Path(target).name):
            raise Killed
        rename(source, target)

    with pytest.MonkeyPatch.context() as context, contextlib.suppress(Killed):
        context.setattr(os, "replace", kill_or_rename)
        yield
