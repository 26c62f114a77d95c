"""Rows are made once by their commands, in parallel, and failures are named."""

import dataclasses
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from keras_nplm.cli.flags import read_configuration
from keras_nplm.cli.main import build_parser
from keras_nplm.experiments.paper_rows import PAPER_ROWS
from keras_nplm.experiments.rows import Row, is_made, make_rows
from keras_nplm.experiments.studies import STUDIES, load_study
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.training.configuration import CONFIGURATIONS, NAMED_OPTIONS

SENTENCES = "the cat sat on the mat\nthe dog sat on the rug\n" * 20


@pytest.fixture
def rows(tmp_path) -> tuple[Row, Row]:
    """A row that reads texts, and a row that reads the first."""
    (tmp_path / "texts").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "texts" / f"{split}.txt").write_text(SENTENCES)
    files = " ".join(f"--{split} {{texts}}/{split}.txt" for split in ("train", "validation", "test"))
    ngram = Row("ngram", "Kneser-Ney", f"ngram {files} --order 2 --min-count 1")
    return ngram, Row("mixture", "both", "mix {rows}/ngram {rows}/ngram")


def test_commands_read_brown_unless_they_name_a_text(rows):
    assert Row("a", "a", "ngram --order 3").arguments[-4:] == ["--corpus", "brown", "--config", "brown"]
    assert Row("a", "a", "train --config mlp1").arguments == ["train", "--config", "mlp1", "--corpus", "brown"]
    reference = "train --corpus python_reference --order 3"
    assert Row("a", "a", reference).arguments == reference.split()
    assert "brown" not in rows[0].arguments and rows[1].arguments == ["mix", "{rows}/ngram", "{rows}/ngram"]
    assert [row.takes_corpus for row in rows] == [True, False]
    assert not rows[0].is_network and Row("a", "a", "train --config mlp1").is_network


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """The commands that are run, in order; each writes a directory, except those with the order 1, which fail."""
    received = []

    def run(command, stdout, **options):
        received.append(command)
        failed = command[command.index("--order") + 1] == "1" if "--order" in command else False
        stdout.write(b"starting\nwrong order\n" if failed else b"finished\n")
        if not failed:
            Path(command[command.index("--output") + 1]).mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, int(failed))

    monkeypatch.setattr(subprocess, "run", run)
    return received


def test_rows_that_read_rows_come_last(rows, commands, tmp_path, capsys):
    make_rows(rows[::-1], tmp_path, jobs=2)
    assert [command[3] for command in commands] == ["ngram", "mix"]
    assert commands[1][4:6] == [str(tmp_path / "rows" / "ngram")] * 2
    assert str(tmp_path / "texts" / "train.txt") in commands[0]
    assert "[1/1] ngram: made" in capsys.readouterr().err


def test_rows_are_made_once_for_each_command(rows, commands, tmp_path):
    make_rows(rows, tmp_path)
    make_rows(rows, tmp_path)
    assert len(commands) == 2 and all(is_made(row, tmp_path) for row in rows)
    changed = Row("ngram", "Kneser-Ney", rows[0].command.replace("--order 2", "--order 3"))
    assert not is_made(changed, tmp_path)
    make_rows([changed], tmp_path)
    assert len(commands) == 3 and is_made(changed, tmp_path)


def test_a_row_is_made_again_if_its_named_configuration_changed(commands, tmp_path, monkeypatch):
    row = Row("network", "network", "train --config brown-nce --order 7 --train {texts}/train.txt")
    make_rows([row], tmp_path)
    options = dataclasses.asdict(CONFIGURATIONS["brown-nce"]) | {"order": 7}
    (tmp_path / "rows" / "network" / "config.json").write_text(json.dumps(options))
    assert is_made(row, tmp_path)
    monkeypatch.setitem(NAMED_OPTIONS, "brown-nce", NAMED_OPTIONS["brown-nce"] | {"order": 9})
    assert is_made(row, tmp_path)  # the command names an order of its own
    monkeypatch.setitem(NAMED_OPTIONS, "brown-nce", NAMED_OPTIONS["brown-nce"] | {"dropout": 0.75})
    assert not is_made(row, tmp_path)


@pytest.mark.parametrize("name", ["paper", *STUDIES])
def test_a_finished_row_of_each_report_is_kept(name, tmp_path):
    networks = [row for row in (PAPER_ROWS if name == "paper" else load_study(name).ROWS) if row.is_network]
    for row in networks:
        configuration = read_configuration(build_parser().parse_args([*row.arguments, "--output", "model"]))
        directory = tmp_path / "rows" / row.name
        directory.mkdir(parents=True)
        (directory / "command.txt").write_text(shlex.join(row.arguments))
        (directory / "config.json").write_text(json.dumps(dataclasses.asdict(configuration)))
    assert [row.name for row in networks if not is_made(row, tmp_path)] == []


def test_a_failed_row_is_named_and_others_are_kept(rows, commands, tmp_path):
    broken = Row("broken", "broken", "ngram --train {texts}/train.txt --order 1")
    message = r"1 row\(s\) failed: broken. Other rows are kept. See .*broken.log: wrong order"
    with pytest.raises(RunError, match=message):
        make_rows([broken, rows[0]], tmp_path, jobs=2)
    assert is_made(rows[0], tmp_path) and not is_made(broken, tmp_path)


def test_jobs_must_be_positive(rows, tmp_path):
    with pytest.raises(InputError, match="`jobs` must be 1 or more. Received: 0"):
        make_rows(rows, tmp_path / "new", jobs=0)
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_the_commands_of_rows_make_model_directories(rows, tmp_path):
    make_rows(rows, tmp_path, jobs=2)
    assert (tmp_path / "rows" / "mixture" / "config.json").is_file()
    shutil.rmtree(tmp_path / "rows" / "mixture")
    make_rows(rows, tmp_path)
    assert (tmp_path / "rows" / "mixture" / "config.json").is_file()
