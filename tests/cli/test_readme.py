"""The README's blocks run as printed, its commands parse, and its links exist."""

import itertools
import json
import pydoc_data.topics
import re
import shlex
from pathlib import Path

import pytest

from keras_nplm.cli.app import COMMANDS, parse
from keras_nplm.cli.main import main
from keras_nplm.data.corpora import python_reference
from keras_nplm.experiments.paper import load_record
from tests.benchmarks import recording

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_the_commands_of_your_own_text_run(here, run):
    """Shorter training: 150 lines, and one epoch.

    Processes of `keras-nplm` start in `.ci/run`, with the first block.
    """
    lines = itertools.islice(python_reference.read_split("train"), 150)
    Path("my.txt").write_text("\n".join(lines), encoding="utf-8")
    commands = [shlex.split(line) for line in _blocks("bash")[2].splitlines()]
    assert {words[0] for words in commands} == {".venv/bin/keras-nplm"}
    train, complete = (words[1:] for words in commands)
    run(*train, "--epochs", "1")
    assert re.search(r"The value of the …\n( +0\.\d+ \S+\n){3}", run(*complete).out)


@pytest.mark.long
def test_the_block_of_python_runs(tmp_path, monkeypatch):
    """Shorter training: the beginning of each topic, and one epoch."""
    monkeypatch.chdir(tmp_path)
    topics = pydoc_data.topics.topics.items()
    monkeypatch.setattr(pydoc_data.topics, "topics", {name: text[:600] for name, text in topics})
    code = _blocks("python")[0]
    assert "epochs=4" in code
    exec(code.replace("epochs=4", "epochs=1"), {"__name__": "__main__"})
    assert (tmp_path / "runs" / "python" / "model.keras").is_file()


def test_the_figures_of_the_first_block_are_recorded():
    network = recording.load_record("default")["rows"][0]
    assert f"test perplexity {network['test']:.2f}, " in " ".join(README.split())


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


def test_the_range_of_the_seeds_is_recorded():
    rows = load_record()["rows"]
    test = [row["test"] for row in rows if row["name"] in ("mlp1", "mlp1-seed-2", "mlp1-seed-3")]
    shown = f"Three seeds of MLP1: {min(test):.1f} to {max(test):.1f}."
    assert len(test) == 3 and shown in " ".join(README.split())


def test_every_relative_link_exists():
    relative = [
        link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("https://")
    ]
    sections = [
        "#" + title.lower().replace(" ", "-") for title in re.findall(r"^## (.*)$", README, re.M)
    ]
    absent = [link for link in relative if not (ROOT / link).exists() and link not in sections]
    assert relative and absent == []


def test_it_has_at_most_120_lines():
    assert len(README.splitlines()) <= 120
