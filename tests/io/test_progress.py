import sys

import pytest

import keras_nplm.io.progress as progress_module
from keras_nplm.io.progress import open_progress


class _Terminal:
    """Standard error that says whether it is a terminal."""

    def __init__(self, terminal: bool):
        self.terminal, self.written = terminal, ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("terminal", [True, False])
def test_long_work_shows_a_bar_and_short_work_nothing(monkeypatch, terminal):
    monkeypatch.setattr(sys, "stderr", screen := _Terminal(terminal))
    with open_progress("Encoding", total=100) as progress:
        progress.update(100)
    assert not screen.written
    monkeypatch.setattr(progress_module, "_SECONDS_ON_A_TERMINAL" if terminal else "_SECONDS_IN_A_LOG", 1e-9)
    with open_progress("Encoding", total=100) as progress:
        progress.update(25)
        progress.update(25)
    assert "Encoding:  50%" in screen.written
