"""The ARPA study on a small text, and its table."""

import contextlib
import io
import json

import numpy as np
import pytest

from keras_nplm.cli.main import main
from keras_nplm.experiments.studies import arpa


def test_table_shows_the_report():
    size = {"threshold": 1e-7, "ngrams": 450_000, "bytes": 5_100_000, "kenlm": None}
    report = {
        "itself": {"brown-no-held-out": 249.5, "kneser-ney-5": 329.87, "brown-with-kneser-ney": 238.0},
        "ngrams": [17_905, 282_831],
        "lists": [{"title": "order 2", "ngrams": [17_905, 646_686], "marginals": 342.4, "fitted": 332.6}],
        "sizes": [size | {"network": 318.3, "mixture": 301.2, "kneser_ney": 340.7}],
    }
    lines = arpa.format_report(report).splitlines()
    assert "| order 2 | 664,591 | 342.4 | 332.6 |" in lines
    assert lines[-1] == "| 1e-07 | 450,000 | 5.1 | 318.3 | – | 301.2 | 340.7 |"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Models of a small text, in place of the rows of the study."""
    directory = tmp_path_factory.mktemp("study")
    words = np.array("the a cat dog mat sat ran on under and then it was so very".split(), dtype=object)
    drawn = np.random.default_rng(0).choice(words, (90, 8))
    (directory / "text.txt").write_text("".join(" ".join(line) + " .\n" for line in drawn), encoding="utf-8")
    text = ["--train", str(directory / "text.txt"), "--boundary", "stream", "--min-count", "1", "--order", "4"]
    network = ["--embedding-dim", "4", "--hidden-units", "4", "--epochs", "1"]
    names = ["brown-no-held-out", "kneser-ney-5", "brown-with-kneser-ney"]
    paths = [str(directory / name) for name in names]
    for command in (
        ["train", *text, *network, "--output", paths[0]],
        ["ngram", *text, "--output", paths[1]],
        ["mix", *paths[:2], "--output", paths[2]],
    ):
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(command) == 0
    return directory


@pytest.mark.long
def test_study_finds_the_perplexity_of_kenlm(rows, monkeypatch):
    monkeypatch.setattr(arpa, "_THRESHOLDS", (0.0, 1e-5))
    report = arpa.measure(rows)
    whole, pruned = report["sizes"]
    assert [len(row["ngrams"]) for row in report["lists"]] == [2, 3, 4, 3, 3]
    assert pruned["ngrams"] < whole["ngrams"] == sum(report["lists"][arpa.ORDER - 2]["ngrams"])
    of_text, as_many = report["lists"][3:]
    assert of_text["ngrams"] == report["ngrams"][:3]
    assert sum(as_many["ngrams"]) <= sum(of_text["ngrams"]) < whole["ngrams"]
    assert pruned["bytes"] < whole["bytes"]
    for row in report["sizes"]:
        assert row["kenlm"] is None or row["kenlm"] == pytest.approx(row["network"], rel=1e-5)
    assert len(arpa.format_report(json.loads(json.dumps(report))).splitlines()) == 2 + 2 + 5 + 1 + 2 + 2
