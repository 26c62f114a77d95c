"""Declarations: commands parse, names are unique, tables fit the recorded figures, the README and
the page too.
"""

import dataclasses
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from PIL import Image

from keras_nplm import CONFIGURATIONS, InputError
from keras_nplm.cli.app import parse
from keras_nplm.cli.main import main
from keras_nplm.experiments import records
from keras_nplm.experiments.benchmark import quality
from keras_nplm.experiments.paper import SEEDS, digest_figures
from keras_nplm.experiments.paper import find_row as find_paper_row
from keras_nplm.experiments.paper_optimiser import NO_DIRECT, PAPER
from keras_nplm.experiments.records import REPORTS, format_report, load_report, record_report
from keras_nplm.experiments.study import BENCHMARKS, STUDIES, load_study
from tests.origins import HERE

PACKAGE = Path(records.__file__).parent
PAGE = PACKAGE.parents[2] / "saved_models" / "measured" / "README.md"
ALL = {name: load_study(name) for name in ("paper", *STUDIES)}


@pytest.mark.long
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
    """A copy of the records, and what is written from them."""

    page: Path
    readme: Path
    picture: Path

    def read(self) -> list[str]:
        return [path.read_text(encoding="utf-8") for path in (self.page, self.readme)]


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Checkout:
    copy = tmp_path / "records"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    made = Checkout(tmp_path / "PAGE.md", tmp_path / "README.md", tmp_path / "paper.png")
    made.readme.write_text("# Front\n<!-- results -->\n<!-- end of results -->\n")
    monkeypatch.setattr(records, "DIRECTORY", copy)
    monkeypatch.setattr(records, "PAGE", made.page)
    monkeypatch.setattr(records, "README", made.readme)
    monkeypatch.setattr(records, "PICTURE", made.picture)
    monkeypatch.setattr(records, "describe_origin", Mock(return_value=HERE))
    return made


def test_the_page_is_what_the_recorded_reports_give_and_short(checkout):
    records.write_page()
    page = PAGE.read_text(encoding="utf-8")
    assert checkout.page.read_text(encoding="utf-8") == page
    assert len(page.splitlines()) <= 260
    assert all(f"### `{name}`: " in page for name in BENCHMARKS)


def test_each_table_of_the_page_is_between_its_command_and_its_origin():
    paragraphs = PAGE.read_text(encoding="utf-8").split("\n\n")
    tables = [place for place, text in enumerate(paragraphs) if text.startswith("|")]
    assert len(tables) > 10
    for place in tables:
        assert paragraphs[place - 1].startswith("Command: `keras-nplm ")
        assert re.fullmatch(r"Measured: .*, commit .*\.\n?", paragraphs[place + 1])


def test_the_commands_of_the_page_parse():
    page = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^Command: `keras-nplm ([^`]+)`", page, re.MULTILINE)
    for command in commands:
        parse(shlex.split(command))


def test_an_installed_package_records_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "PAGE", tmp_path / "absent" / "README.md")
    with pytest.raises(InputError, match="needs a checkout"):
        records.check_can_record({})


def test_recording_replaces_a_report_and_the_rows_of_both_pages(checkout):
    report = load_report("paper")
    row = next(row for row in report["rows"] if row["name"] == "kneser-ney-5")
    row["test"] = 123.4
    record_report("paper", {**report, "origins": {"paper/rows/kneser-ney-5": [HERE]}})
    page, readme = checkout.read()
    assert "| Kneser-Ney, n=5 | 332 | 321 | 347.3 | 123.4 |" in page
    assert "| Kneser-Ney, n=5 | 321 | 123.4 |" in readme
    assert "Measured: 2026-11-28, AMD EPYC, commit 0123456789, python 3.11.7," in page
    assert "several commits" in readme
    recorded = load_report("paper")
    assert "origins" not in recorded
    with Image.open(checkout.picture) as picture:
        assert picture.info["Comment"] == digest_figures(recorded)


def find_row(rows: list[dict], name: str) -> dict:
    return next(row for row in rows if name in (row.get("name"), row.get("title")))


def make_partial_report(name: str, test: float) -> dict:
    """Return a report of one row, and its mixture, with another test perplexity."""
    report = load_report("paper")
    row = {**find_row(report["rows"], name), "test": test}
    mixtures = [
        {**mixture, "test": test - 10}
        for mixture in report["mixtures"]
        if mixture["components"][0] == name
    ]
    return {"rows": [row], "mixtures": mixtures, "seeds": [], "claims": [], "curves": []}


def test_rows_of_the_paper_may_be_recorded_one_after_the_other(checkout):
    report = load_report("paper")
    origin = {**HERE, "date": "2026-11-26"}
    curves = [{"epoch": epoch, PAPER: 500.0, NO_DIRECT: 510.0} for epoch in (1, 2)]
    own = {**report["rows"][0], "name": PAPER, "command": find_paper_row(PAPER).full_command}
    without = {**own, "name": NO_DIRECT, "command": find_paper_row(NO_DIRECT).full_command}
    report["rows"] += [own, without]
    record_report("paper", {**report, "curves": curves, "origins": {"a/rows/mlp3": [origin]}})
    some = make_partial_report("mlp1", 290.0)
    some["rows"].append({**own, "test": 270.0})
    some["curves"] = [{"epoch": 1, PAPER: 450.0}]
    record_report("paper", {**some, "origins": {"b/rows/mlp1": [HERE]}})
    recorded = load_report("paper")
    declared = [row.name for row in ALL["paper"].rows]
    names = [row["name"] for row in recorded["rows"]]
    assert names == sorted({row["name"] for row in report["rows"]}, key=declared.index)
    assert find_row(recorded["rows"], "mlp1")["test"] == 290
    assert find_row(recorded["rows"], PAPER)["test"] == 270
    assert find_row(recorded["rows"], "mlp3") == find_row(report["rows"], "mlp3")
    titles = [row["title"] for row in report["mixtures"]]
    assert [row["title"] for row in recorded["mixtures"]] == titles
    assert find_row(recorded["mixtures"], "MLP2, 0.5")["test"] == 280
    assert recorded["claims"][0]["evidence"].startswith("290 against ")
    assert recorded["curves"] == [
        {"epoch": 1, PAPER: 450, NO_DIRECT: 510},
        {"epoch": 2, NO_DIRECT: 510},
    ]
    assert recorded["nearest"] == report["nearest"]
    assert recorded["measured"]["paper"]["date"] == "2026-11-26 to 2026-11-28"


def test_seeds_of_the_paper_may_be_recorded_one_after_the_other(checkout):
    report = load_report("paper")
    first = find_row(report["rows"], "mlp1")
    report["rows"] = [row for row in report["rows"] if "-seed-" not in row["name"]]
    report["seeds"] = []
    record_report("paper", {**report, "origins": {"a/rows/mlp1": [HERE]}})
    (group,) = SEEDS
    for seed, row, test in zip((2, 3), group.rows[1:], (250.0, 260.0), strict=True):
        assert load_report("paper")["seeds"] == []
        made = {**first, "name": row.name, "title": row.title, "command": row.full_command}
        some = {"rows": [{**made, "test": test}], "seeds": [], "claims": [], "curves": []}
        record_report("paper", {**some, "origins": {f"b/rows/mlp1-seed-{seed}": [HERE]}})
    (seeds,) = load_report("paper")["seeds"]
    assert seeds["test"] == [first["test"], 250, 260]
    page, readme = checkout.read()
    assert "| MLP1 (3 seeds) |" in page and "| MLP1, seed 2 |" not in page
    assert f"| 268 | {first['test']:.1f} |" in readme


def test_recorded_rows_with_another_command_are_not_kept(checkout):
    report = load_report("paper")
    find_row(report["rows"], "mlp3")["command"] += " --epochs 9"
    record_report("paper", {**report, "origins": {}})
    record_report("paper", make_partial_report("mlp1", 290.0))
    recorded = load_report("paper")
    names = [row["name"] for row in recorded["rows"]]
    assert "mlp1" in names and "mlp5" in names and "mlp3" not in names
    assert not [row for row in recorded["mixtures"] if row["components"][0] == "mlp3"]


def test_rows_of_the_paper_with_another_origin_are_replaced_and_named(checkout, capsys):
    report = load_report("paper")
    some = make_partial_report("mlp1", 290.0)
    record_report("paper", some)
    assert load_report("paper")["rows"] == some["rows"]
    others = ", ".join(row["name"] for row in report["rows"] if row["name"] != "mlp1")
    assert capsys.readouterr().err == f"no longer recorded, of other code or processor: {others}\n"


@pytest.mark.parametrize(
    "origins",
    [
        pytest.param([{**HERE, "code": "01d"}], id="other code"),
        pytest.param([HERE, {**HERE, "processor": "Intel"}], id="resumed elsewhere"),
        pytest.param([], id="not recorded"),
    ],
)
def test_models_of_other_origins_are_not_recorded(checkout, origins):
    records.write_page()
    before = checkout.page.read_bytes()
    report = {**load_report("modern"), "origins": {"paper/rows/far-1": origins}}
    with pytest.raises(InputError, match=r"Received: far-1 \(.*Fix: `rm -r paper/rows/far-1`"):
        record_report("modern", report)
    assert checkout.page.read_bytes() == before
    assert not checkout.picture.exists()


def test_paper_refuses_other_origins_before_it_trains(checkout, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=AssertionError("a command ran")))
    row = ALL["paper"].rows[0]
    model = tmp_path / "made" / "rows" / row.name
    model.mkdir(parents=True)
    (model / "command.txt").write_text(shlex.join(row.arguments))
    assert main(["paper", "--record", "--output", str(tmp_path / "made")]) == 2
    message = capsys.readouterr().err
    assert "Received: mlp1 (not recorded)" in message
    assert len(message.strip().splitlines()) == 1


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
    assert "Command: `keras-nplm benchmark scoring`" in page
    assert "| self-normalised |" not in page
    assert "| SavedModel, 1 a request |" in page
    assert page.count("commit 0123456789") == 1


def test_the_readme_has_the_results_that_were_measured(checkout):
    rows = load_report("benchmark")["rows"]
    ours = next(row for row in rows if row["benchmark"] == "quality")
    ours.update(cpu_seconds=408.0, dynamic_cpu_seconds=900)
    absent = {"benchmark": "quality", "name": "PyTorch LSTM", "failure": "torch not installed"}
    record_report("benchmark", {"rows": [ours, absent]})
    _, readme = checkout.read()
    assert f"| the same with a pointer to 240 words |  | {ours['test']:.1f} | 6.8 |" in readme
    dynamic = f"| the same, dynamic |  | {ours['dynamic']['test']:.1f} | 6.8 + 15 |"
    assert dynamic in readme
    assert "PyTorch" not in readme
    assert "| three pointers" in readme
    assert "[measured results](saved_models/measured/README.md)" in readme
