"""The start of `complete` and `score` from the shell, for one line.

The starter model answers without TensorFlow. The peer is the import of TensorFlow alone.
"""

import sys
import tempfile
from pathlib import Path

from keras_nplm.experiments.benchmark import Benchmark, Settings, format_ratios
from keras_nplm.experiments.benchmark.contenders import (
    Contender,
    Process,
    build_command,
    measure_group,
)
from keras_nplm.experiments.tables import Column, Table
from keras_nplm.language_model.presets import find_preset

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
    ("speed to peer (min to max)", format_ratios, ""),
]


def measure(settings: Settings) -> list[dict]:
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
        return measure_group(group, settings.rounds)


BENCHMARK = Benchmark(__doc__, [Table("rows", COLUMNS)], measure=measure)
