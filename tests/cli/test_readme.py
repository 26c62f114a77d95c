"""The README's blocks run as printed, its commands parse, its links exist, and its table has the
recorded figures.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_nplm.cli.app import COMMANDS, parse
from keras_nplm.cli.main import main
from keras_nplm.experiments import records
from tests.short_text import SHORT_TEXT

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.long
def test_the_blocks_of_your_own_text_run(tmp_path):
    """Shorter trainings: the beginning of the text that the first command writes, and one epoch."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    program = "import gc, sys; gc.set_threshold(50_000, 10, 10); "
    program += "from keras_nplm.cli.main import main; sys.exit(main())"
    one_epoch = '[ "$1" = train ] && set -- "$@" --epochs 1'
    scripts = {
        "keras-nplm": f"""{one_epoch}\nexec {sys.executable} -c '{program}' "$@"\n""",
        "python": f"""{sys.executable} "$@" | sed -n 1,150p\n""",
    }
    for name, script in scripts.items():
        path = tmp_path / ".venv" / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    options = dict(cwd=tmp_path, capture_output=True, text=True, env=environment)
    commands = subprocess.run(["bash", "-euo", "pipefail", "-c", _blocks("bash")[2]], **options)
    assert commands.returncode == 0, commands.stderr
    assert re.search(r"The value of the …\n( +0\.\d+ \S+\n){3}", commands.stdout)
    code = _blocks("python")[0]
    assert "epochs=4" in code
    short = SHORT_TEXT + code.replace("epochs=4", "epochs=1")
    program = subprocess.run([sys.executable, "-c", short], **options)
    assert program.returncode == 0, program.stderr
    assert (tmp_path / "runs" / "python" / "model.keras").is_file()


def test_the_figures_of_the_first_block_are_recorded():
    recorded = json.loads(
        (Path(records.__file__).parent / "default.json").read_text(encoding="utf-8")
    )
    network = recorded["texts"][0]["network"]
    shown = re.findall(r"^(?:validation|test) +[\d,]+ +([\d.]+)", _blocks("text")[0], re.MULTILINE)
    assert shown == [f"{network[split]:.2f}" for split in ("validation", "test")]


def _read_section(notebook, title):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    (section,) = [cell for cell in cells if title in cell["source"][0]]
    return "".join(section["source"])


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_the_calls_of_coming_from_elsewhere_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences = [
        f"the value of {word}".split() for word in ("ada", "eve", "ivy", "mia", "zoe", "ann", "bea")
    ] * 9
    texts = {
        "my": map(" ".join, sentences),
        "test": ["the value"],
        "names": [words[-1] for words in sentences],
    }
    for name, lines in texts.items():
        Path(f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    table = _read_section(ROOT / "notebooks" / "05_language_models.ipynb", "Coming from")
    names = {"sentences": sentences}
    exec("from keras_nplm import *", names)
    calls = re.findall(r"`([^`]{10,})`", "".join(re.findall(r"[^|]*\|$", table, re.MULTILINE)))
    assert len(calls) >= 10
    for call in calls:
        if call.startswith("keras-nplm "):
            words = shlex.split(call)[1:]
            shorter = ["--epochs", "1"] if words[0] == "train" else []
            assert main([*words, *shorter]) == 0
        else:
            exec(call, names)


def _commands():
    for block in [*_blocks("bash"), *re.findall(r"`(keras-nplm [^`]+)`", README)]:
        for line in re.split(r"\n|&&|\|", block.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            words = words[next((i for i, word in enumerate(words) if "=" not in word), 0) :]
            if words and Path(words[0]).name == "keras-nplm":
                yield words[1:]


def test_every_command_parses():
    commands = [words for words in _commands() if len(words) > 1]
    assert commands
    for words in commands:
        parse(words)


def test_every_command_is_named():
    assert {*re.findall(r"keras-nplm ([a-z][a-z-]+)", README)} == {*COMMANDS}


def test_the_table_of_results_has_the_recorded_figures(tmp_path, monkeypatch):
    readme = tmp_path / "README.md"
    readme.write_text(
        re.sub(r"(?s)(<!-- results -->\n).*(<!-- end)", r"\1\2", README), encoding="utf-8"
    )
    monkeypatch.setattr(records, "README", readme)
    records.write_results()
    assert readme.read_text(encoding="utf-8") == README


def test_every_relative_link_exists():
    relative = [
        link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("https://")
    ]
    sections = [
        "#" + title.lower().replace(" ", "-") for title in re.findall(r"^## (.*)$", README, re.M)
    ]
    absent = [link for link in relative if not (ROOT / link).exists() and link not in sections]
    assert relative and absent == []


def test_it_has_at_most_150_lines():
    assert len(README.splitlines()) <= 150
