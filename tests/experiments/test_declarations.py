"""Declarations: commands parse, names are unique, tables fit the recorded figures, the README and
the page too.
"""

import dataclasses
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
    studies = [*ALL.values(), load_study("default", ["a b"])]
    for rows in (*(study.rows for study in studies), *quality.OURS.values()):
        assert len({row.name for row in rows}) == len(rows) > 0
        for row in rows:
            parse([*row.arguments, "--output", "model"])
            assert declared.setdefault(row.name, row.command) == row.command


def test_configurations_of_table_1_have_the_papers_shapes():
    shapes = {  # n, h, m, direct connections
        "1": (5, 50, 60, True),
        "3": (5, 0, 60, True),
        "5": (5, 50, 30, True),
        "7": (3, 50, 30, True),
        "9": (5, 100, 30, False),
    }
    for name, shape in shapes.items():
        network = CONFIGURATIONS[f"mlp{name}"].options.network
        units = 0 if network.hidden == "none" else network.hidden_units
        assert (network.order, units, network.embedding_dim, network.direct_connections) == shape
    training = CONFIGURATIONS["mlp1-paper"].options.training
    assert training.learning_rate / training.batch_size == pytest.approx(1e-3)
    assert training.decay_rate / training.batch_size == pytest.approx(1e-8)


@pytest.mark.parametrize("name", REPORTS)
def test_tables_have_the_recorded_rows(name):
    report = load_report(name)
    tables = format_report(name, report)
    for value in report.values():
        for row in value if isinstance(value, list) else []:
            if isinstance(row, dict):
                assert f"| {row.get('title') or row.get('name', '')}" in tables


@pytest.mark.parametrize("name, table", [("configurations", "models"), ("paper", "rows")])
def test_recorded_rows_have_the_declared_commands(name, table):
    declared = {row.name: row.full_command for study in ALL.values() for row in study.rows}
    for row in load_report(name)[table]:
        assert declared[row["name"]] == row["command"]


@dataclasses.dataclass
class Checkout:
    """A copy of the records, and the two pages that are written from them."""

    page: Path
    readme: Path

    def read(self) -> list[str]:
        return [path.read_text(encoding="utf-8") for path in (self.page, self.readme)]


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Checkout:
    copy = tmp_path / "records"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    made = Checkout(tmp_path / "PAGE.md", tmp_path / "README.md")
    made.readme.write_text("# Front\n<!-- results -->\n<!-- end of results -->\n")
    monkeypatch.setattr(records, "DIRECTORY", copy)
    monkeypatch.setattr(records, "PAGE", made.page)
    monkeypatch.setattr(records, "README", made.readme)
    return made


def test_the_page_is_what_the_recorded_reports_give_and_short(checkout):
    records.write_page()
    page = PAGE.read_text(encoding="utf-8")
    assert checkout.page.read_text(encoding="utf-8") == page
    assert len(page.splitlines()) <= 260
    assert all(f"### `{name}`: " in page for name in BENCHMARKS)


def test_an_installed_package_records_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "PAGE", tmp_path / "absent" / "README.md")
    with pytest.raises(InputError, match="needs a checkout"):
        records.check_can_record()


def test_recording_replaces_a_report_and_the_rows_of_both_pages(checkout):
    report = load_report("configurations")
    report["models"][0]["test"] = 123.4
    record_report("configurations", report)
    for text in checkout.read():
        assert "| Kneser-Ney, n=5 | 347.3 | 123.4 |" in text


def test_recording_a_benchmark_keeps_other_benchmarks(checkout):
    row = {
        "benchmark": "scoring",
        "name": "new row",
        "rate": 4321.0,
        "low": 1.0,
        "high": 5000.0,
        "share_of_peak": 0.25,
        "ratio_to": {"theirs": [2.0, 1.0, 4.0]},
    }
    record_report("benchmark", {"rows": [row], "command": "keras-nplm benchmark scoring"})
    page, _ = checkout.read()
    assert "| new row | 4,321 | 1 to 5,000 | 25% | theirs: 2.00 (1.00 to 4.00) |" in page
    assert "command `keras-nplm benchmark scoring`" in page
    assert "| self-normalised |" not in page
    assert "| SavedModel, 1 a request |" in page


def test_the_readme_has_the_results_that_were_measured(checkout):
    rows = load_report("benchmark")["rows"]
    ours = next(row for row in rows if row["benchmark"] == "quality")
    ours["dynamic_cpu_seconds"] = 900
    absent = {"benchmark": "quality", "name": "PyTorch LSTM", "failure": "torch not installed"}
    record_report("benchmark", {"rows": [ours, absent]})
    _, readme = checkout.read()
    static = f"| {ours['validation']:.1f} | {ours['test']:.1f} |"
    dynamic = f"| {ours['dynamic']['validation']:.1f} | {ours['dynamic']['test']:.1f} |"
    seconds = f"{ours['cpu_seconds']:,.0f}"
    assert f"{static} {seconds} |" in readme
    assert (
        f"dynamic: it learns as it reads {dynamic} {seconds} + about 900 of tuning and reading |"
        in readme
    )
    assert "PyTorch" not in readme
    assert "| three pointers" in readme
