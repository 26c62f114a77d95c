"""Messages and printed tables as golden text: `messages.json` has those of each test.

`KERAS_NPLM_RECORD=1 pytest TESTS` writes the messages of these tests again, in one process. A
reviewer reads them as a difference of that file.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from keras_nplm import InputError

PATH = Path(__file__).with_name("messages.json")
ROOT = Path(__file__).parents[1]


def read_messages() -> dict[str, list[str]]:
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}


_LONG_NUMBER = re.compile(r"-?\d+\.\d{5,}(e-\d+)?")
_SECONDS = re.compile(r"[\d.]+ (CPU )?s\b")


def _round_number(match: re.Match[str]) -> str:
    return f"{float(match[0]):.4g}"


class GoldenMessages:
    """The messages of one test, in their order; `paths` are written as their names in braces."""

    def __init__(self, test: str, paths: dict[str, object]):
        self._test = test
        self._paths = paths
        self.found: list[str] = []

    def add(self, message: str) -> None:
        """Add a message that the test has seen."""
        for name, path in self._paths.items():
            message = message.replace(str(path), f"{{{name}}}")
        # seconds and last digits depend on the processor
        message = _SECONDS.sub("_ s", _LONG_NUMBER.sub(_round_number, message.strip()))
        self.found.append(message)

    def refuse(self, call: Callable[[], object], error: type[Exception] = InputError) -> None:
        """Call a function, which must raise an error, and add its message."""
        with pytest.raises(error) as raised:
            call()
        self.add(str(raised.value))

    def check(self) -> None:
        """Compare with the recorded messages, or record them."""
        if os.environ.get("KERAS_NPLM_RECORD"):
            recorded = read_messages() | {self._test: self.found}
            text = json.dumps(dict(sorted(recorded.items())), indent=1, ensure_ascii=False)
            PATH.write_text(text + "\n", encoding="utf-8")
        assert self.found == read_messages().get(self._test), "see tests/golden_messages.py"
