"""Training of short-lists: the model directory, commands, resuming, backgrounds and damaged
files.
"""

import contextlib
import functools
import io
import json
import shutil
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import LanguageModel, Shortlist, evaluate
from keras_nplm.cli.main import main
from keras_nplm.models.ngrams import BackoffModel, kneser_ney
from keras_nplm.models.ngrams.tables import ContextTrie


@pytest.fixture(scope="module")
def directory(tmp_path_factory, short_corpus, short_options, train_without_report):
    """A trained short-list of 10 words; tests read it and write nothing there."""
    path = tmp_path_factory.mktemp("shortlist") / "model"
    with contextlib.redirect_stderr(io.StringIO()) as error:
        train_without_report(short_options.replace(order=3, shortlist_size=10), short_corpus, path)
    assert "of training are over the 14 words of the list" in error.getvalue()
    return path


def _run(*arguments) -> tuple[int, dict | None, str]:
    out = io.StringIO()
    error = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main([*map(str, arguments), "--json"])
    return status, json.loads(out.getvalue()) if out.getvalue() else None, error.getvalue()


@pytest.fixture
def train_tiny(tmp_path):
    """A function that trains a tiny short-list of text.txt; a bigram model of it is in `bigram`."""
    (tmp_path / "text.txt").write_text(
        "the cat sat on the mat\nthe dog sat on the cat\n" * 20, encoding="utf-8"
    )
    text = ["--train", tmp_path / "text.txt", "--order", "2", "--min-count", "1", "--output"]
    assert _run("ngram", *text, tmp_path / "bigram", "--method", "deleted-interpolation")[0] == 0
    options = (
        "--embedding-dim 2 --hidden-units 2 --epochs 1 "
        "--set shortlist_size=2 residual_blocks=0 batch_size=16"
    )
    return functools.partial(_run, "train", *text, tmp_path / "tiny", *options.split())


def test_directory_holds_the_network_and_its_background(directory):
    metrics = json.loads((directory / "metrics.json").read_text())
    language_model = LanguageModel.load(directory)
    model = language_model.model
    corpus = language_model.corpus
    assert isinstance(model, Shortlist) and model.listed == 14
    assert isinstance(model.background, BackoffModel) and model.background.order == 3
    ids = corpus.ids("test")
    size = model.vocabulary_size
    assert metrics["test"].items() >= evaluate(model, ids).items()
    assert metrics["coverage"]["test"] == pytest.approx(np.mean(ids < 14), abs=1e-4)
    expected = kneser_ney(corpus.ids("train"), size, 3)
    np.testing.assert_array_equal(model.background.unigrams, expected.unigrams)
    frequencies = np.bincount(corpus.ids("train"), minlength=size) / len(corpus.ids("train"))
    # words are independent
    assert metrics["test"]["perplexity"] < 1.1 * np.exp(-np.log(frequencies[ids]).mean())


def test_commands_accept_the_directory(directory, tmp_path):
    status, figures, _ = _run("evaluate", directory)
    assert status == 0 and figures.pop("text") == "test split"
    assert figures == json.loads((directory / "metrics.json").read_text())["test"]
    language_model = LanguageModel.load(directory)
    assert len(language_model.nearest("w1", 3)) == 3
    background = LanguageModel(
        language_model.model.background, language_model.vocabulary, "words", "sentence"
    )
    background.save(tmp_path / "background")
    status, mixed, _ = _run(
        "mix", directory, tmp_path / "background", "--output", tmp_path / "mixed"
    )
    assert status == 0 and mixed["components"] == ["shortlist", "back-off"]
    figures = _run("evaluate", tmp_path / "mixed")[1]
    assert figures == {**mixed["test"], "text": "test split"}


@pytest.mark.parametrize(
    "command, message",
    [
        ("evaluate {directory} --ln-z", "log Z can only be reported for an NPLM"),
        (
            "export {directory} model.tflite",
            "can hold an NPLM, an n-gram model, or a mixture of them. Received: Shortlist",
        ),
        ("train --output {tmp}/no --background {directory}", "add --set shortlist_size"),
        ("train --output {tmp}/no --set shortlist_size=99999", "`shortlist_size` must be 1 to"),
    ],
)
def test_options_that_do_not_fit_are_refused(directory, tmp_path, command, message):
    status, _, error = _run(*command.format(directory=directory, tmp=tmp_path).split())
    assert status == 2 and message in error.replace("\n", " "), error
    assert not (tmp_path / "no" / "config.json").exists()


@pytest.mark.long
def test_background_of_a_different_directory_is_copied(tmp_path, train_tiny, no_report):
    flags = ["--background", tmp_path / "bigram"]
    status, _, error = train_tiny("--min-count", "21", *flags)
    assert status == 2 and "must have the same vocabulary as this training run" in error
    status, metrics, error = train_tiny(*flags)  # into the same directory
    assert status == 0, error
    language_model = LanguageModel.load(tmp_path / "tiny")
    contexts = np.array([[5], [7]])
    expected = LanguageModel.load(tmp_path / "bigram").model.next_log_probs(contexts)[:, 6:]
    of_other_words = language_model.model.next_log_probs(contexts)[:, 6:]
    np.testing.assert_allclose(of_other_words, expected, atol=1e-6)
    shutil.rmtree(tmp_path / "bigram")
    status, same, error = train_tiny(*flags)  # the finished run does not need it
    assert status == 0 and same["test"] == metrics["test"], error


def _delete_the_network(path):
    (path / "0" / "model.keras").unlink()


def _make_the_network_uniform(path):
    (path / "0" / "config.json").write_text('{"kind": "uniform"}')


def _link_the_background(path):
    real = (path / "1").rename(path / "real")
    (path / "1").symlink_to(real)


@pytest.mark.parametrize(
    "damage, message",
    [
        pytest.param(_delete_the_network, "model.keras does not exist: training", id="no network"),
        pytest.param(
            _make_the_network_uniform,
            "`network` must be a network of a short-list",
            id="a model of another kind",
        ),
        pytest.param(_link_the_background, "1 is a symbolic link", id="a link"),
    ],
)
def test_damaged_directories_are_refused(directory, tmp_path, damage, message):
    shutil.copytree(directory, tmp_path / "model")
    damage(tmp_path / "model" / "components")
    status, _, error = _run("evaluate", tmp_path / "model")
    assert status == 2 and message in error and error.count("\n") == 1, error


@pytest.mark.long
def test_run_killed_within_its_background_is_finished(tmp_path, train_tiny, no_report, monkeypatch):
    interrupt = Mock(side_effect=KeyboardInterrupt)
    with monkeypatch.context() as context:
        context.setattr("keras_nplm.training.background.write_kneser_ney", interrupt)
        assert train_tiny()[0] == 130
    assert train_tiny()[0] == 0


@pytest.mark.long
def test_background_without_the_other_words_is_refused(tmp_path, train_tiny):
    vocabulary = LanguageModel.load(tmp_path / "bigram").vocabulary
    unigrams = np.full(len(vocabulary), -np.inf, np.float32)
    unigrams[[3, 4]] = np.log(0.5)
    none = np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(len(unigrams), np.float32)
    nothing = BackoffModel(ContextTrie(len(unigrams), []), unigrams, *([array] for array in none))
    LanguageModel(nothing, vocabulary, "words", "sentence").save(tmp_path / "nothing")
    status, _, error = train_tiny("--background", tmp_path / "nothing")
    assert status == 2 and "gives probability 0 to a word" in error, error
    assert not (tmp_path / "tiny" / "config.json").exists()  # the directory is free for another
