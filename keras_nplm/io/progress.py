"""How far a long piece of work has got: a line on standard error."""

import sys
import time
from typing import TextIO

_SECONDS_ON_A_TERMINAL, _SECONDS_IN_A_LOG = 0.2, 15.0


class Progress:
    """A line that is written over on a terminal, and a line now and then in a log; nothing for work soon done.

    Args:
        title: what is being done.
        whole: the size of the work in any unit, or None where it is not known.
        file: where the lines go. Default: standard error.

    Example:

    >>> progress = Progress("Counting", whole=4)
    >>> progress.add(tokens=100, part=1)
    >>> progress.line()  # doctest: +ELLIPSIS
    'Counting: 25%, 100 tokens, ... tokens/s'
    """

    def __init__(self, title: str, whole: float | None = None, file: TextIO | None = None):
        self._title, self._whole, self._file = title, whole, file or sys.stderr
        self._tokens, self._part = 0, 0.0
        self._began = self._shown = time.monotonic()
        self._is_terminal = self._file.isatty()
        self._is_open = False  # a line on the terminal

    def add(self, tokens: int, part: float = 0) -> None:
        """Count what was done: tokens, and the part of the whole that they were."""
        self._tokens += tokens
        self._part += part
        if time.monotonic() - self._shown >= (_SECONDS_ON_A_TERMINAL if self._is_terminal else _SECONDS_IN_A_LOG):
            self._shown = time.monotonic()
            self._is_open = self._is_terminal
            self._file.write(f"\r{self.line()}\033[K" if self._is_terminal else f"{self.line()}\n")
            self._file.flush()

    def line(self) -> str:
        """What is done, in words."""
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        share = f"{self._part / self._whole:.0%}, " if self._whole else ""
        return f"{self._title}: {share}{self._tokens:,} tokens, {rate:,.0f} tokens/s"

    def close(self) -> None:
        """End the line on a terminal."""
        if self._is_open:
            self._file.write(f"\r{self.line()}\033[K\n")
            self._file.flush()
