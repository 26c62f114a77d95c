"""The study of the adaptive default: its texts, its models and its table."""

import json
from pathlib import Path

import pytest

from keras_nplm import InputError
from keras_nplm.cli.main import main
from keras_nplm.experiments.studies.default import TextStudy, describe_files, format_report
from keras_nplm.experiments.studies.study import make_study


def _write(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("the cat sat on the mat\nthe dog sat on the rug\n" * 20, encoding="utf-8")
    return path


def test_no_row_gives_an_option_of_the_network(tmp_path):
    study = TextStudy([str(_write(tmp_path / "a b.txt"))], [str(_write(tmp_path / "names.txt"))])
    networks = [row for row in study.ROWS if row.is_network]
    assert [row.name for row in networks][-2:] == ["default-a b", "default-names-characters"]
    allowed = {"--corpus", "--train", "--min-count", "--token"}
    assert {word for row in networks for word in row.arguments if word.startswith("--")} == allowed
    assert networks[-1].arguments == ["train", "--train", str(tmp_path / "names.txt"), "--token", "character"]


def test_a_directory_has_a_file_for_each_split(tmp_path):
    for split in ("train", "validation", "test"):
        _write(tmp_path / "docs" / f"{split}.txt")
    (text,) = describe_files([str(tmp_path / "docs")])
    assert text.title == "docs" and text.flags.count(str(tmp_path / "docs")) == 3
    (tmp_path / "docs" / "test.txt").unlink()
    with pytest.raises(InputError, match="No such text file: .*test.txt"):
        describe_files([str(tmp_path / "docs")])


def test_texts_of_one_name_and_of_other_studies_are_refused(tmp_path, capsys):
    file = str(_write(tmp_path / "python.txt"))
    with pytest.raises(InputError, match="must have different names. Received: python twice"):
        TextStudy([file])
    assert main(["study", "modern", "--texts", file]) == 2
    assert "`--texts` and `--character-texts` must be left out with the study modern" in capsys.readouterr().err


REPORT = {
    "texts": [
        {
            "title": "a.txt",
            "tokens": 1000,
            "types": 50,
            "kneser_ney_order": 5,
            "kneser_ney": {"validation": 30.0, "test": 40.0},
            "network": {"validation": 27.0, "test": 30.0},
            "cpu_seconds": 12.3,
            "parameters": 9,
            "options": {"output_layer": "nce", "order": 21, "embedding_dim": 60, "hidden_units": 100, "epochs": 8},
        }
    ]
}


def test_table_has_the_ratio_and_the_chosen_options():
    (row,) = format_report(REPORT).splitlines()[2:]
    expected = (
        "| a.txt | 1,000 | 50 | 5 | 30.00 | 40.00 | 27.00 | 30.00 | -25.0% | 12 | nce, n=21, m=60, h=100, 8 epochs |"
    )
    assert row == expected


@pytest.mark.long
def test_the_study_takes_the_best_order_on_validation(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_nplm.experiments.studies.default.TEXTS", ())
    study = TextStudy([], [str(_write(tmp_path / "names.txt"))])
    report = make_study("default", study, tmp_path / "study")
    (text,) = report["texts"]
    orders = {
        row.name: json.loads((tmp_path / "study" / "rows" / row.name / "metrics.json").read_text())
        for row in study.ROWS
    }
    best = min(
        text["kneser_ney"]["validation"], *(row["validation"]["perplexity"] for row in list(orders.values())[:-1])
    )
    assert text["kneser_ney"]["validation"] == best
    assert text["network"]["test"] == orders["default-names-characters"]["test"]["perplexity"]
    assert "names.txt, characters" in study.format_report(report)
