"""Recorded reports make the page of measured results; recording a report replaces it and the page."""

import shutil
from pathlib import Path

import pytest

from keras_nplm import InputError
from keras_nplm.experiments.records import REPORTS, load_report, record_report, write_page

PACKAGE = Path(__file__).parents[2] / "keras_nplm" / "experiments" / "records"
RECORDED = [name for name in REPORTS if (PACKAGE / f"{name}.json").is_file()]
PAGE = Path(__file__).parents[2] / "saved_models" / "measured" / "README.md"


@pytest.fixture
def records(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "records", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (tmp_path / "FRONT.md").write_text("# Front\n<!-- results -->\n<!-- end of results -->\n")
    return tmp_path / "records"


def test_the_page_is_what_the_recorded_reports_give(tmp_path):
    write_page(page=tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_every_report_is_loaded_and_says_where_it_was_measured():
    for name in RECORDED:
        assert all(machine["processor"] for machine in load_report(name)["measured"].values())


def test_an_unknown_report_is_refused():
    with pytest.raises(InputError, match="must be one of configurations, benchmark, paper"):
        load_report("papers")


def test_recording_a_study_replaces_its_report_and_the_page(records, tmp_path):
    report = load_report("energy")
    report["models"][0]["test"] = 123.4
    record_report("energy", report, records, tmp_path / "README.md", tmp_path / "FRONT.md")
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "123.4" in page and "keras-nplm study energy" in page
    assert page.count("\n## ") == len(RECORDED)
    assert "| Kneser-Ney, n=5 | 347.3 | 329.9 |" in (tmp_path / "FRONT.md").read_text(encoding="utf-8")


def test_recording_a_benchmark_keeps_the_rows_of_others(records, tmp_path):
    row = {"benchmark": "scoring", "name": "new row", "unit": "n-grams/s", "rate": 4321.0, "low": 1.0, "high": 5000.0}
    report = {"rows": [row], "command": "keras-nplm benchmark scoring --rounds 2"}
    record_report("benchmark", report, records, tmp_path / "README.md", tmp_path / "FRONT.md")
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| scoring | new row | 4,321 |" in page
    assert "command `keras-nplm benchmark scoring --rounds 2`" in page
    assert "| scoring | self-normalised |" not in page  # replaced with its benchmark
    assert page.index("| training | full softmax |") < page.index("| scoring | new row |")


@pytest.mark.parametrize("failures", [[], ["PyTorch LSTM, 300 CPU seconds"]])
def test_the_table_of_results_leaves_out_peers_without_figures(records, tmp_path, failures):
    """The benchmark `quality` with other seconds, or without PyTorch."""
    ours = next(row for row in load_report("benchmark")["rows"] if row["benchmark"] == "quality")
    failed = [{"benchmark": "quality", "name": name, "failure": "PyTorch is not installed."} for name in failures]
    record_report("benchmark", {"rows": [ours, *failed]}, records, tmp_path / "README.md", tmp_path / "FRONT.md")
    front = (tmp_path / "FRONT.md").read_text(encoding="utf-8")
    assert "| modern network with a pointer to 480 words, dynamic: it learns as it reads |" in front
    assert "PyTorch" not in front and "| three seeds of the pointer" in front


def test_recording_needs_a_checkout(records, tmp_path):
    with pytest.raises(InputError, match="needs a checkout"):
        record_report("energy", load_report("energy"), records, tmp_path / "absent" / "README.md")
