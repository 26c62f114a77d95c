"""Training of short-lists: the model directory, commands and backgrounds."""

import contextlib
import io
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import LanguageModel, Shortlist, evaluate, train
from keras_nplm.io.files import read_json
from keras_nplm.models.ngrams import BackoffModel, kneser_ney
from keras_nplm.models.ngrams.tables import ContextTrie


@pytest.fixture(scope="module")
def directory(tmp_path_factory, short_corpus, short_options, leave_out_report):
    """A trained short-list of 10 words; tests read it and write nothing there."""
    path = tmp_path_factory.mktemp("shortlist") / "model"
    options = short_options.replace(order=3, shortlist_size=10)
    with contextlib.redirect_stderr(io.StringIO()) as error, leave_out_report():
        train(short_corpus, path, options)
    assert "of training are over the 14 words of the list" in error.getvalue()
    return path


@pytest.fixture
def train_tiny(here, run):
    """A function that trains a tiny short-list of text.txt; a bigram model of it is in `bigram`."""
    Path("text.txt").write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 20)
    text = "--train text.txt --order 2 --min-count 1"
    run(f"ngram {text} --output bigram --method deleted-interpolation")
    options = (
        "--embedding-dim 2 --hidden-units 2 --epochs 1 "
        "--set shortlist_size=2 residual_blocks=0 batch_size=16"
    )

    def train_tiny(flags: str = "", status: int = 0) -> str:
        return run(f"train {text} --output tiny {options} {flags}", status=status).err

    return train_tiny


def test_directory_holds_the_network_and_its_background(directory, here, ask):
    metrics = read_json(directory / "metrics.json")
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
    language_model.replace_model(model.background).save("background")
    mixed = ask(f"mix {directory} background --output mixed")
    assert mixed["components"] == ["shortlist", "back-off"]
    assert ask("evaluate mixed") == {**mixed["test"], "text": "test split"}


def test_options_that_do_not_fit_are_refused(directory, here, run, messages):
    Path("model").symlink_to(directory)
    for command in (
        "evaluate model --ln-z",
        "train --output no --background model",
        "train --output no --set shortlist_size=99999",
    ):
        messages.add(run(command, status=2).err.splitlines()[-1])


@pytest.mark.long
def test_background_of_a_different_directory_is_copied(train_tiny, no_report):
    error = train_tiny("--min-count 21 --background bigram", status=2)
    assert "must have the same vocabulary as this training run" in error
    shutil.rmtree("tiny")
    train_tiny("--background bigram")
    contexts = np.array([[5], [7]])
    found, expected = (
        LanguageModel.load(name).model.next_log_probs(contexts)[:, 6:]  # of the other words
        for name in ("tiny", "bigram")
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    shutil.rmtree("bigram")
    assert "is finished" in train_tiny("--background bigram")  # does not need it


@pytest.mark.long
def test_background_without_the_other_words_is_refused(train_tiny):
    vocabulary = LanguageModel.load("bigram").vocabulary
    unigrams = np.full(len(vocabulary), -np.inf, np.float32)
    unigrams[[3, 4]] = np.log(0.5)
    none = np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(len(unigrams), np.float32)
    nothing = BackoffModel(ContextTrie(len(unigrams), []), unigrams, *([array] for array in none))
    LanguageModel(nothing, vocabulary, "words", "sentence").save("nothing")
    assert "gives probability 0 to a word" in train_tiny("--background nothing", status=2)
