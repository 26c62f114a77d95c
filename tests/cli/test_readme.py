"""The README's Python runs, its commands parse, and its figures equal the recorded reports."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_nplm.cli.main import build_parser
from keras_nplm.experiments.paper_rows import PAPER_ROWS
from keras_nplm.experiments.studies import STUDIES, load_study
from keras_nplm.experiments.tables import format_benchmark

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORDS = ROOT / "saved_models" / "measured"


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.long
def test_the_python_runs(tmp_path):
    program = _blocks("python")[0]  # the others are clients of a server: see tests/serving/test_clients.py
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout.splitlines()[-2]) < 100  # the perplexity on test
    assert (tmp_path / "model" / "model.keras").is_file()


def _commands():
    for block in [*_blocks("bash"), *re.findall(r"`(keras-nplm [^`]+)`", README)]:
        for line in re.split(r"\n|&&|\|", block.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            words = words[next((i for i, word in enumerate(words) if "=" not in word), 0) :]
            if words and Path(words[0]).name == "keras-nplm":
                yield words[1:]


def test_every_command_parses():
    parser, commands = build_parser(), list(_commands())
    assert commands
    for arguments in commands:
        assert parser.parse_args(arguments).command == arguments[0]


def test_table_1_is_the_recorded_one():
    report = json.loads((RECORDS / "paper" / "table.json").read_text(encoding="utf-8"))
    shown = {tuple(cell.strip() for cell in line.strip("|").split("|"))[:5] for line in README.splitlines()}
    made = [*report["rows"], *report["mixtures"]]
    assert len(made) > len(PAPER_ROWS)
    for row in made:
        paper = [str(figure) for figure in row["paper"] or ("", "")]
        assert (row["title"], *paper, f"{row['validation']:.1f}", f"{row['test']:.1f}") in shown


def test_the_table_of_speed_is_the_recorded_one():
    report = json.loads((RECORDS / "benchmark.json").read_text(encoding="utf-8"))
    shown = re.search(r"<!-- benchmark -->\n\n(.*?)\n\n<!-- end of benchmark -->", README, re.DOTALL)[1]
    assert shown == format_benchmark(report) and len(report["rows"]) > 20


@pytest.mark.parametrize("name", STUDIES)
def test_the_table_of_a_study_is_the_recorded_one(name):
    report = json.loads((RECORDS / "studies" / f"{name}.json").read_text(encoding="utf-8"))
    shown = re.search(rf"<!-- study {name} -->\n\n(.*?)\n\n<!-- end of study -->", README, re.DOTALL)[1]
    assert shown == load_study(name).format_report(report).strip() and f"keras-nplm study {name}" in README


def _recorded(command):
    """Of each row that shows a command: the run's name, its metrics, and the five figures shown."""
    rows = re.findall(rf"^\| .*`keras-nplm {command} [^`]+`.*$", README, re.MULTILINE)
    assert rows
    for row in rows:
        name = re.search(r"--output \S*?([\w-]+)`", row)[1]
        metrics = json.loads((RECORDS / name / "metrics.json").read_text(encoding="utf-8"))
        yield name, metrics, [cell.strip().replace(",", "") for cell in row.strip("|").split("|")][-5:]


def test_the_figures_of_count_based_models_are_those_of_the_recorded_runs():
    for name, metrics, shown in _recorded("ngram"):
        assert shown == [
            f"{metrics['validation']['perplexity']:.2f}",
            f"{metrics['test']['perplexity']:.2f}",
            f"{metrics['cpu_seconds']:.1f}",
            f"{metrics['scored_per_second']:.0f}",
            f"{metrics['peak_memory'] / 1e9:.1f}",
        ], name


def test_the_figures_are_those_of_the_recorded_runs():
    for name, metrics, shown in _recorded("train"):
        assert shown == [
            f"{metrics['validation']['perplexity']:.1f}",
            f"{metrics['test']['perplexity']:.1f}",
            f"{metrics['seconds']:.0f}",
            f"{metrics['cpu_seconds']:.0f}",
            f"{metrics['ngrams_per_second']:.0f}",
        ], name
