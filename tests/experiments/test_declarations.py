"""Declarations: commands parse, names are unique, tables fit the recorded figures, the README and
the page too.
"""

import shutil
from pathlib import Path

import pytest

from keras_nplm import CONFIGURATIONS, InputError
from keras_nplm.cli.app import parse
from keras_nplm.experiments import records
from keras_nplm.experiments.benchmark import quality
from keras_nplm.experiments.records import REPORTS, format_report, load_report, record_report
from keras_nplm.experiments.study import BENCHMARKS, STUDIES, load_study

PACKAGE = Path(records.__file__).parent
PAGE = PACKAGE.parents[2] / "saved_models" / "measured" / "README.md"
ALL = {name: load_study(name) for name in ("paper", *STUDIES)}


def test_commands_parse_and_a_name_has_one_command():
    declared = {}
    for rows in (
        *(study.rows for study in ALL.values()),
        load_study("default", ["a b"]).rows,
        *quality.OURS.values(),
    ):
        assert len({row.name for row in rows}) == len(rows) > 0
        for row in rows:
            parse([*row.arguments, "--output", "model"])
            assert declared.setdefault(row.name, row.command) == row.command


def test_configurations_of_table_1_have_the_papers_shapes():
    shapes = {
        "1": (5, 50, 60, True),
        "3": (5, 0, 60, True),
        "5": (5, 50, 30, True),
        "7": (3, 50, 30, True),
    }
    for name, shape in (shapes | {"9": (5, 100, 30, False)}).items():
        network = CONFIGURATIONS[f"mlp{name}"].options.network
        units = 0 if network.hidden == "none" else network.hidden_units
        assert (network.order, units, network.embedding_dim, network.direct_connections) == shape
    training = CONFIGURATIONS["mlp1-paper"].options.training
    rates = (
        training.learning_rate / training.batch_size,
        training.decay_rate / training.batch_size,
    )
    assert rates == pytest.approx((1e-3, 1e-8))


@pytest.mark.parametrize("name", REPORTS)
def test_tables_have_the_recorded_rows_with_the_declared_commands(name):
    report = load_report(name)
    declared = {row.name: row.full_command for study in ALL.values() for row in study.rows}
    rows = [
        row
        for value in report.values()
        if isinstance(value, list)
        for row in value
        if isinstance(row, dict)
    ]
    assert all(
        f"| {row.get('title') or row.get('name', '')}" in format_report(name, report)
        for row in rows
    )
    named = {"configurations": report.get("models"), "paper": report.get("rows")}.get(name, [])
    assert all(declared[row["name"]] == row["command"] for row in named)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The page and the README, written from a copy of the records."""
    shutil.copytree(
        PACKAGE, tmp_path / "records", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    (tmp_path / "FRONT.md").write_text("# Front\n<!-- results -->\n<!-- end of results -->\n")
    paths = tmp_path / "records", tmp_path / "README.md", tmp_path / "FRONT.md"
    for name, path in zip(("DIRECTORY", "PAGE", "README"), paths, strict=True):
        monkeypatch.setattr(records, name, path)
    return paths[1:]


def test_the_page_is_what_the_recorded_reports_give_and_short(places, monkeypatch):
    records.write_page()
    page = PAGE.read_text(encoding="utf-8")
    assert places[0].read_text(encoding="utf-8") == page
    assert len(page.splitlines()) <= 250 and all(f"### `{name}`: " in page for name in BENCHMARKS)
    monkeypatch.setattr(records, "PAGE", places[0] / "absent" / "README.md")
    with pytest.raises(InputError, match="needs a checkout"):
        records.check_can_record()


def test_recording_replaces_a_report_and_keeps_other_benchmarks(places):
    report = load_report("configurations")
    report["models"][0]["test"] = 123.4
    record_report("configurations", report)
    row = {"benchmark": "scoring", "name": "new row", "rate": 4321.0, "low": 1.0, "high": 5000.0}
    row |= {"share_of_peak": 0.25, "ratio_to": {"theirs": [2.0, 1.0, 4.0]}}
    ours = next(row for row in load_report("benchmark")["rows"] if row["benchmark"] == "quality")
    absent = {"benchmark": "quality", "name": "PyTorch LSTM", "failure": "torch not installed"}
    rows = [row, ours | {"dynamic_cpu_seconds": 900}, absent]
    record_report("benchmark", {"rows": rows, "command": "keras-nplm benchmark scoring"})
    page, front = (place.read_text(encoding="utf-8") for place in places)
    assert all("| Kneser-Ney, n=5 | 347.3 | 123.4 |" in text for text in (page, front))
    assert "| new row | 4,321 | 1 to 5,000 | 25% | theirs: 2.00 (1.00 to 4.00) |" in page
    assert "command `keras-nplm benchmark scoring`" in page and "| self-normalised |" not in page
    static, dynamic = (
        f"| {part['validation']:.1f} | {part['test']:.1f} |" for part in (ours, ours["dynamic"])
    )
    seconds = f"{ours['cpu_seconds']:,.0f}"
    assert (
        f"dynamic: it learns as it reads {dynamic} {seconds} + about 900 of tuning and reading |"
        in front
    )
    assert (
        f"{static} {seconds} |" in front and "PyTorch" not in front and "| three pointers" in front
    )
