"""Speed of whole commands: rows of `commands.json`, of which the last is the peer.

In a command `{python}`, `{starter}`, `{text}` and `{results}` stand for the interpreter, the
starter model, the text of the benchmark and a new directory.
"""

import functools
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_nplm.io.files import read_json
from keras_nplm.language_model.presets import find_preset
from tests.benchmarks.contenders import Contender, Process, build_command, declare_speed
from tests.benchmarks.report import Report, Settings

BENCHMARKS = read_json(Path(__file__).with_name("commands.json"))
_BUILD = f"{build_command.__module__}:build_command"


def load_benchmark(name: str) -> Report:
    """Return the declaration of a benchmark of commands."""
    benchmark = BENCHMARKS[name]
    return declare_speed(
        f"{benchmark['title']}\n{benchmark['text']}",
        functools.partial(_build_groups, benchmark),
        benchmark["columns"],
        benchmark["warm_up"],
    )


def _build_groups(benchmark: dict[str, Any], settings: Settings) -> Iterator[list[Contender]]:
    """Yield the commands with their text: a line of the benchmark, or the training text."""
    if "line" in benchmark:
        lines = [benchmark["line"]]
        tokens = 1  # the rate is of starts
    else:
        sentences = [*filter(None, settings.corpus.sentences("train"))]
        lines = list(map(" ".join, sentences))
        tokens = sum(map(len, sentences))
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory, "text.txt")
        text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        names = {"python": sys.executable, "starter": find_preset("starter"), "text": text}
        *_, peer = benchmark["commands"]
        group: list[Contender] = []
        for name, command in benchmark["commands"].items():
            words = [word.format(**names, results="{results}") for word in shlex.split(command)]
            arguments = {"words": words, "tokens": tokens, "directory": directory}
            title = name.format(tokens=tokens)
            group.append(Process(title, _BUILD, arguments, peer=name == peer))
        yield group
