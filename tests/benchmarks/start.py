"""The start of `complete` and `score` from the shell, for one line.

The starter model answers without TensorFlow. The peer is the import of TensorFlow alone.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_nplm.language_model.presets import find_preset
from tests.benchmarks.contenders import Contender, Process, build_command, declare_speed
from tests.benchmarks.report import Column, Settings

_BUILD = f"{build_command.__module__}:build_command"
_LINE = "the result of the call"
_THROUGH_KERAS = f"""
from keras_nplm import LanguageModel
print(LanguageModel.from_preset("starter").next_words({_LINE!r}))
"""

COLUMNS: list[Column] = [
    ("command", "name", ""),
    ("CPU seconds", "cpu_seconds", ",.2f"),
    ("wall seconds", "wall_seconds", ",.2f"),
    ("speed to peer (min to max)", "ratio_to", "ratios"),
]


def build_groups(settings: Settings) -> Iterator[list[Contender]]:
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory, "line.txt")
        text.write_text(f"{_LINE}\n", encoding="utf-8")
        command = [sys.executable, "-m", "keras_nplm"]
        starter = str(find_preset("starter"))
        programs = {
            "complete": [*command, "complete", starter, _LINE],
            "score": [*command, "score", starter, str(text)],
            "complete through Keras": [sys.executable, "-c", _THROUGH_KERAS],
            "import tensorflow": [sys.executable, "-c", "import tensorflow"],
        }
        group: list[Contender] = []
        for name, words in programs.items():
            arguments = {"name": name, "words": words, "tokens": 1, "directory": directory}
            group.append(Process(name, _BUILD, arguments, peer=name == "import tensorflow"))
        yield group


REPORT = declare_speed(__doc__, build_groups, COLUMNS)
