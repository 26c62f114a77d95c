"""Parameters of tests of which some are for the long tests."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def mark_long(values: Iterable, is_fast: Callable[[Any], bool]) -> list:
    """Return values as parameters; those that are not fast are marked `long`."""
    return [
        value if is_fast(value) else pytest.param(value, marks=pytest.mark.long) for value in values
    ]
