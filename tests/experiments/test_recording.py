"""Recorded reports: their rows are declared, and page, README, notebook and picture show them."""

import functools
import shlex
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from PIL import Image

from keras_nplm.cli.app import parse
from keras_nplm.experiments import paper
from keras_nplm.experiments.rows import Row
from tests.benchmarks import recording
from tests.benchmarks.recording import (
    NAMES,
    load_declaration,
    load_record,
    record_report,
)
from tests.benchmarks.report import Settings
from tests.origins import HERE

NOT_RECORDED = "not recorded"


def list_declared(name: str) -> list[Row]:
    """Return the models of a report; that of `default` has a text of the caller."""
    texts = ["my text.txt"] if name == "default" else []
    return [*load_declaration(name).list_rows(Settings(Mock(), texts=texts))]


@pytest.mark.long
def test_commands_parse_and_a_name_has_one_command():
    commands = {}
    for rows in map(list_declared, NAMES):
        assert len({row.name for row in rows}) == len(rows)
        for row in rows:
            parse([*shlex.split(row.command), "--output", "model"])
            assert commands.setdefault(row.name, row.command) == row.command


def test_recorded_rows_have_the_declared_commands():
    for name in ("paper", "configurations", "tokenization", "modern"):
        commands = {row.full_command for row in list_declared(name)}
        recorded = [row["command"] for row in load_record(name)["rows"] if "command" in row]
        assert recorded and {*recorded} <= commands


@pytest.mark.parametrize("name", NAMES)
def test_a_record_names_its_command_and_its_origin(name):
    measured = load_record(name)["measured"]
    assert measured["command"].startswith(f"python -m tests.benchmarks {name}")
    facts = [measured[key] for key in ("date", "processor", "commit", "tensorflow", "keras")]
    assert all(facts) and (NOT_RECORDED not in facts or name == "modern")


def test_page_readme_notebook_and_picture_show_the_records():
    texts = recording.format_texts()
    for path, text in texts.items():
        fix = f"{path}: `python -m tests.benchmarks.recording` writes it"
        assert (recording.ROOT / path).read_text(encoding="utf-8") == text, fix
    with Image.open(recording.ROOT / recording.PICTURE) as picture:
        assert picture.info["Comment"] == paper.digest_figures(load_record("paper"))


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A copy of the records and of what shows them."""
    for name in map(recording.find_record, NAMES):
        copy = tmp_path / name.relative_to(recording.ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, copy)
    for path in (recording.README, recording.PAGE, recording.NOTEBOOK):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(recording.ROOT / path, tmp_path / path)
    monkeypatch.setattr(recording, "ROOT", tmp_path)
    return tmp_path


def test_recording_replaces_a_report_and_what_shows_it(checkout, monkeypatch):
    monkeypatch.setattr(recording, "describe_origin", Mock(return_value=HERE))
    report = load_record("paper")
    next(row for row in report["rows"] if row["name"] == "kneser-ney-5")["test"] = 123.4
    earlier = {**HERE, "date": "2026-11-26", "commit": "a"}
    origins = {"paper/rows/mlp1": [earlier], "paper/rows/kneser-ney-5": [HERE]}
    record_report("paper", report, origins, "python -m tests.benchmarks paper")
    page, readme = (
        (checkout / path).read_text("utf-8") for path in (recording.PAGE, recording.README)
    )
    assert "| Kneser-Ney, n=5 | 332 | 321 | 347.3 | 123.4 |" in page
    assert "| Kneser-Ney, n=5 | 321 | 123.4 |" in readme and "several commits" in readme
    measured = "2026-11-26 to 2026-11-28, AMD EPYC, commit 0123456789, a, python 3.11.7,"
    (line,) = [line for line in page.splitlines() if measured in line]
    assert line.startswith("Measured: ") and line.endswith(".")
    with Image.open(checkout / recording.PICTURE) as picture:
        assert picture.info["Comment"] == paper.digest_figures(load_record("paper"))


def test_changes_and_models_of_other_origins_are_not_recorded(checkout, monkeypatch, messages):
    here = Mock(return_value={**HERE, "torch": "2.2"})
    monkeypatch.setattr(recording, "describe_origin", here)
    before = load_record("modern")
    record = functools.partial(record_report, "modern", {"rows": []}, command="a command")
    for other in ({"code": "01d"}, {"processor": "Intel"}, {"torch": "2.1"}):
        origins = {"rows/far-1": [HERE, {**HERE, **other}]}
        messages.refuse(functools.partial(record, origins))
    here.return_value = {**HERE, "commit": "0123456789-dirty"}
    messages.refuse(functools.partial(record, {}))
    assert load_record("modern") == before
