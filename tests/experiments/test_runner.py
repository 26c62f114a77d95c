"""The runner: rows are made once by their commands, made again if they changed, measured and
reported.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import LanguageModel, Options, TextOptions, Vocabulary, open_corpus, train
from keras_nplm.cli.main import main
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments import log_probs, paper, rows
from keras_nplm.experiments.rows import Row, describe_command, is_made, make_rows, read_origins
from keras_nplm.experiments.seeds import add_seeds, list_rows, read_made
from keras_nplm.experiments.studies import dynamic, tokenization
from keras_nplm.io.errors import RunError
from keras_nplm.io.files import write_json
from keras_nplm.language_model.dynamics import save_dynamics
from keras_nplm.models.dynamic import DynamicSettings, TunedDynamics
from keras_nplm.training.estimate import estimate

TINY = "--embedding-dim 4 --hidden-units 4 --batch-size 4096 --epochs 1"
BROKEN = Row("broken", "broken", "ngram --train train.txt --order 1")
FIRST = Row("first", "first", "ngram --train train.txt --order 2")
SECOND = Row("second", "second", "ngram --train train.txt --order 3")


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """The commands that are run, in order; each writes a directory, except those with the order 1,
    which fail.
    """
    received = []

    def run(command, stdout, **options):
        received.append(command)
        failed = command[command.index("--order") + 1] == "1"
        stdout.write(b"starting\nwrong order\n" if failed else b"finished\n")
        if not failed:
            Path(command[command.index("--output") + 1]).mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, int(failed))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(rows, "describe_origin", Mock(return_value={"code": "here"}))
    return received


def test_a_row_is_made_once_for_each_command(commands, tmp_path, capsys):
    for _ in range(2):
        make_rows([FIRST, SECOND], tmp_path)
    assert len(commands) == 2
    assert all(is_made(row, tmp_path) for row in (FIRST, SECOND))
    assert "train.txt" in commands[0]
    assert "[2/2]" in capsys.readouterr().err


def test_a_row_is_made_again_if_its_command_has_changed(commands, tmp_path):
    make_rows([FIRST, SECOND], tmp_path)
    changed = dataclasses.replace(FIRST, command=FIRST.command.replace("--order 2", "--order 4"))
    assert not is_made(changed, tmp_path)
    make_rows([changed, SECOND], tmp_path)
    assert len(commands) == 3
    assert is_made(changed, tmp_path)


def test_a_row_is_made_again_if_its_text_has_changed(commands, tmp_path):
    text = tmp_path / "my text.txt"
    text.write_text("the cat sat\n")
    row = Row("mine", "mine", f"ngram --train {shlex.quote(str(text))} --order 2")
    make_rows([row], tmp_path)
    make_rows([row], tmp_path)
    assert len(commands) == 1
    text.write_text("the dog sat\n")
    assert not is_made(row, tmp_path)
    make_rows([row], tmp_path)
    assert len(commands) == 2
    assert is_made(row, tmp_path)


def make_by(code: str, row: Row, directory: Path, monkeypatch) -> None:
    """Make a row by some code, which may fail."""
    monkeypatch.setattr(rows, "describe_origin", Mock(return_value={"code": code}))
    with contextlib.suppress(RunError):
        make_rows([row], directory)


def test_a_row_has_the_origins_of_the_code_that_made_it(commands, tmp_path, monkeypatch):
    interrupted = dataclasses.replace(BROKEN, name="first")
    model = tmp_path / "rows" / "first"
    make_by("one", interrupted, tmp_path, monkeypatch)
    model.mkdir()
    make_by("two", FIRST, tmp_path, monkeypatch)
    make_by("unused", FIRST, tmp_path, monkeypatch)
    assert read_origins([FIRST, SECOND], tmp_path) == {
        str(model): [{"code": "one"}, {"code": "two"}]
    }
    shutil.rmtree(model)
    make_by("three", FIRST, tmp_path, monkeypatch)
    assert read_origins([FIRST], tmp_path) == {str(model): [{"code": "three"}]}


def test_a_row_that_was_begun_without_an_origin_has_none(commands, tmp_path, monkeypatch):
    model = tmp_path / "rows" / "first"
    model.mkdir(parents=True)
    make_by("one", FIRST, tmp_path, monkeypatch)
    assert read_origins([FIRST], tmp_path) == {str(model): []}


def write_figures(row: Row, directory: Path, test: float) -> None:
    """Write what a finished row has."""
    model = directory / "rows" / row.name
    model.mkdir(parents=True)
    (model / "command.txt").write_text(shlex.join(row.arguments))
    split = {"perplexity": test}
    metrics = {"validation": split, "test": split, "history": [{}], "parameters": 7}
    write_json(model / "metrics.json", {**metrics, "cpu_seconds": 9, "training_cpu_seconds": 8})


def test_seeds_are_a_row_once_all_are_made(tmp_path):
    first = Row("mlp1", "MLP1", "train --config mlp1")
    seeds = add_seeds(first, 3)
    assert [row.name for row in list_rows([first], [seeds])] == [
        "mlp1",
        "mlp1-seed-2",
        "mlp1-seed-3",
    ]
    assert seeds.rows[2].command == "train --config mlp1 --seed 3"
    write_figures(seeds.rows[0], tmp_path, 260)
    write_figures(seeds.rows[1], tmp_path, 250)
    assert read_made([seeds], tmp_path) == []
    write_figures(seeds.rows[2], tmp_path, 255)
    report = {"rows": [], "seeds": read_made([seeds], tmp_path), "mixtures": []}
    mean = "255.0 (250.0 to 260.0)"
    assert f"| MLP1 (3 seeds) |  |  | {mean} | {mean} |  | 9.0 |" in paper.STUDY.format(report)


def test_a_failed_row_is_named_and_others_are_kept(commands, tmp_path):
    message = r"1 row\(s\) failed: broken. Other rows are kept. See .*broken.log: wrong order"
    with pytest.raises(RunError, match=message):
        make_rows([BROKEN, FIRST], tmp_path, jobs=2)
    assert is_made(FIRST, tmp_path)
    assert not is_made(BROKEN, tmp_path)


def test_mixtures_are_weighted_sums_with_fitted_weights():
    random = np.random.default_rng(0)
    columns = {n: {split: np.log(random.random(50)) for split in HELD_OUT} for n in "ab"}
    mixture = log_probs.measure_mixture(columns, "ab", [0.3, 0.7])
    fitted = log_probs.measure_mixture(columns, "ab")
    probability = 0.3 * np.exp(columns["a"]["test"]) + 0.7 * np.exp(columns["b"]["test"])
    assert mixture["test"] == pytest.approx(np.exp(-np.log(probability).mean()), rel=1e-6)
    assert fitted["validation"] <= mixture["validation"] + 0.01


def test_a_compressor_has_read_the_training_text():
    again, other = np.random.default_rng(1).choice([3, 4, 5], (2, 4000), p=[0.1, 0.45, 0.45])
    corpora = [Mock(ids={"train": again, "test": test}.get) for test in (again, other)]
    rows = [
        tokenization.measure_compressors(corpus, Vocabulary(["a", "b"]))[0] for corpus in corpora
    ]
    assert rows[0]["test"]["bits_per_character"] < 0.1
    # the entropy of random tokens is 1.369 bits
    assert 1.37 < rows[1]["test"]["bits_per_character"] < 2


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(
        "".join(f"{' '.join(chr(97 + i) for i in rng.zipf(1.3, 9) % 26)}\n" for _ in range(150))
    )
    return str(path)


def take_two_columns(vectors: np.ndarray) -> np.ndarray:
    """Stand in for the t-SNE map, which takes seconds."""
    return vectors[:, :2].astype(np.float64)


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_table_1_is_made_and_reported(tmp_path, text, monkeypatch, capsys):
    made = (
        Row(
            "mlp1",
            "MLP1",
            f"train --config mlp1 {TINY} --train {text}",
            (284, 268),
            ("MLP2", 275, 257),
        ),
        Row("trigram", "trigram", f"ngram --boundary stream --train {text} --order 3"),
    )
    monkeypatch.setattr(paper, "PAPER_ROWS", made)
    monkeypatch.setattr(paper, "STUDY", dataclasses.replace(paper.STUDY, rows=made))
    monkeypatch.setattr(paper, "VECTORS_ROW", "mlp1")
    monkeypatch.setattr(paper, "QUERIES", ("b", "zyzzyva"))
    monkeypatch.setattr(paper, "word_map", take_two_columns)
    # the network is trained in this process; the command makes the other row
    network, _ = made
    directory = tmp_path / "rows" / network.name
    assert main([*network.arguments, "--output", str(directory)]) == 0
    (directory / "command.txt").write_text(describe_command(network), encoding="utf-8")
    capsys.readouterr()
    assert main(["paper", "--output", str(tmp_path), "--json"]) == 0
    report = json.loads((tmp_path / "studies" / "paper.json").read_text())
    assert report.items() <= json.loads(capsys.readouterr().out).items()
    figures = {row["name"]: row for row in report["rows"]}
    assert {*figures} == {"mlp1", "trigram"}
    assert report["mixtures"][0]["paper"] == [275, 257]
    assert report["parameters"][0]["seen_ngrams"] <= report["parameters"][0]["possible_ngrams"]
    (nearest,) = report["nearest"]
    network = LanguageModel.load(tmp_path / "rows" / "mlp1")
    words = [word for word, _ in network.nearest("b", 6)]
    assert [word for word, _ in nearest["neighbours"]] == words
    assert np.abs([point for _, *point in report["map"]]).max() == 1
    row = f"| MLP1 | 284 | 268 | {figures['mlp1']['validation']:.1f} |"
    assert row in (tmp_path / "studies" / "paper.md").read_text()
    assert (tmp_path / "studies" / "paper.png").stat().st_size > 10_000


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_the_study_dynamic_has_the_figures_of_the_models(tmp_path, text, monkeypatch):
    corpus = open_corpus(train=[text])
    models = tmp_path / "rows"
    small = Options.of(
        **dict(order=3, context="concatenated", embedding_dim=4, hidden="tanh", hidden_units=4),
        **dict(epochs=1, batch_size=128, min_count=1),
    )
    two_of_each = {
        cache: dict(itertools.islice(builds.items(), 2))
        for cache, builds in dynamic._CANDIDATES.items()
    }
    monkeypatch.setattr(dynamic, "_CANDIDATES", two_of_each)
    first, *others = (models / row.name for row in dynamic.NETWORKS)
    train(small.replace(boundary="stream"), corpus, first)
    for directory in others:
        shutil.copytree(first, directory)
    stream = TextOptions(boundary="stream", min_count=1)
    options = dict(text=stream, order=3)
    estimate("kneser-ney", corpus, models / "kneser-ney-5", **options)
    estimate("class-based", corpus, models / "class-500-3", num_classes=5, **options)
    tuned = TunedDynamics(DynamicSettings(chunk=8, rate=0.5), None, 2.0, 1.0, 10, 3)
    # the study tunes the last one, which takes a minute
    tune = Mock(return_value=tuned)
    monkeypatch.setattr(LanguageModel, "tune_dynamic", tune)
    for directory in (first, others[0]):
        save_dynamics(directory, tuned)
    # each of the equal directories is read once
    monkeypatch.setattr(LanguageModel, "load", functools.cache(LanguageModel.load))
    report = json.loads(json.dumps(dynamic.STUDY.measure(tmp_path)))
    tune.assert_called_once_with()
    by_title = {row["title"]: row for row in report["mixtures"]}
    network = LanguageModel.load(first)
    assert by_title["one network"]["test"] == pytest.approx(network.evaluate("test")["perplexity"])
    reading = network.evaluate("test", dynamic=True)["dynamic"]["perplexity"]
    assert by_title["one network, dynamic"]["test"] == pytest.approx(reading)
    assert "### Dynamic evaluation: chunks of 8, rate 0.5, rule sgd" in dynamic.STUDY.format(report)
