"""Recorded reports are readable by the code that makes their tables; cells hold the recorded figures."""

from pathlib import Path

import pytest

from keras_nplm.experiments.studies import STUDIES, load_study
from keras_nplm.experiments.tables import format_benchmark, write_paper_tables
from keras_nplm.io.files import read_json

RECORDS = Path(__file__).parents[2] / "saved_models" / "measured"


def test_the_recorded_table_1_is_what_its_report_gives(tmp_path):
    write_paper_tables(tmp_path / "table.md", read_json(RECORDS / "paper" / "table.json"))
    assert (tmp_path / "table.md").read_text() == (RECORDS / "paper" / "table.md").read_text()


def test_the_recorded_benchmark_is_readable():
    report = read_json(RECORDS / "benchmark.json")
    table = format_benchmark(report)
    for row in report["rows"]:
        assert f"| {row['name']} | {row['rate']:,.0f} |" in table


@pytest.mark.parametrize("name", STUDIES)
def test_the_recorded_study_is_readable(name):
    table = load_study(name).format_report(read_json(RECORDS / "studies" / f"{name}.json"))
    for block in table.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") - line.count("\\|") for line in rows}) <= 1
    assert "|---|" in table


def test_benchmark_rows_have_ratios_and_latency():
    row = {"benchmark": "training", "name": "ours", "rate": 50.0, "low": 25.0, "high": 100.0}
    row |= {"share_of_peak": 0.25, "milliseconds": [1.234, 5.0], "ratio_to": {"theirs": [2.0, 1.0, 4.0]}}
    cells = "| training | ours | 50 | 25 to 100 | 25% | 1.23, 5.00 | theirs: 2.00 (1.00 to 4.00) |"
    assert cells in format_benchmark({"rows": [row]})
