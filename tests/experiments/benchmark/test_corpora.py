"""The benchmark `corpora` measures each step in a process, at two sizes of text."""

import pytest

from keras_nplm.experiments.benchmark import corpora
from keras_nplm.experiments.tables import format_benchmark
from keras_nplm.io.errors import RunError


@pytest.mark.long
def test_each_step_is_measured_at_two_sizes(monkeypatch):
    monkeypatch.setattr(corpora, "SMALL_TOKENS", 2_000)
    rows = corpora.measure(None, rounds=1, tokens=5_000)
    names = [f"{step}, {size:,} tokens" for size in (2_000, 5_000) for step in ("counting", "encoding", "windows")]
    assert [row["name"] for row in rows] == names
    for row in rows:
        assert row["rate"] > 0 and row["wall_rate"] > 0 and 1e8 < row["peak_memory"] < 4e9
    table = format_benchmark({"rows": [{"benchmark": "corpora"} | rows[0]]})
    assert table.startswith("| corpora |") and f"{rows[0]['peak_memory'] / 1e6:,.0f} MB" in table


@pytest.mark.long
def test_a_step_that_fails_is_named(tmp_path):
    with pytest.raises(RunError, match="The encoding step of the benchmark failed with exit status 1"):
        corpora.run_step("encoding", tmp_path)
