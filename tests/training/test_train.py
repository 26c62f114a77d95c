"""`train`: a complete model directory, reproducible, with finished and foreign directories left
alone.
"""

import dataclasses
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_nplm import (
    InputError,
    LanguageModel,
    evaluate,
    open_corpus,
    train,
)
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.io.files import read_json
from keras_nplm.io.stages import verify_stages
from keras_nplm.language_model.word_vectors import write_word2vec
from keras_nplm.models.spelling import load_spelling
from keras_nplm.models.text_figures import evaluate_splits
from keras_nplm.training.build import build_model
from keras_nplm.training.network import Adaptive, Linear, Network
from keras_nplm.training.optimisation import Adam, Training
from keras_nplm.training.options import read_options
from tests.training.logs import read_scalars


def test_model_directory_is_complete_and_its_figures_hold(model_directory, small_options):
    assert {path.name for path in model_directory.iterdir()} == {
        "config.json", "corpus", "history.json", "logs", "manifest.json", "metrics.json",
        "model.keras", "report.html", "scorer.npz", "spelling.tsv", "vocabulary.txt",
    }  # fmt: skip
    metrics = read_json(model_directory / "metrics.json")
    model = keras.models.load_model(model_directory / "model.keras")
    encoded = EncodedCorpus.load(model_directory / "corpus")
    figures = evaluate_splits(model, encoded, load_spelling(model_directory))
    assert {split: metrics[split] for split in figures} == figures
    assert metrics["test"].items() >= evaluate(model, encoded.ids("test")).items()
    assert 1 < metrics["test"]["bits_per_character"] < 3
    best = metrics["history"][metrics["best_epoch"] - 1]
    assert metrics["validation"]["perplexity"] == pytest.approx(
        best["validation_perplexity"], rel=1e-4
    )
    assert metrics["validation"]["perplexity"] < 150  # the unigram model: about 270
    assert metrics["parameters"] == build_model(small_options, model.vocabulary_size).count_params()
    assert list((model_directory / "logs").glob("*/events*"))


@pytest.mark.usefixtures("no_report")
def test_epochs_have_the_same_ngrams_in_another_order(
    tmp_path, short_corpus, short_options, monkeypatch
):
    epochs = []
    fit = keras.Model.fit

    def fit_and_note(model, data, steps_per_epoch, **options):
        batches = data.take(steps_per_epoch).as_numpy_iterator()
        epochs.append(np.concatenate([targets for _, targets in batches]))
        return fit(model, data, steps_per_epoch=steps_per_epoch, **options)

    monkeypatch.setattr(keras.Model, "fit", fit_and_note)
    train(short_corpus, tmp_path / "model", short_options)
    first, second = epochs
    assert (first != second).mean() > 0.5
    assert np.abs(np.bincount(first) - np.bincount(second)).max() < 64  # of the last batch


@pytest.mark.usefixtures("no_report")
def test_frozen_word_vectors_of_an_nce_run_stay_as_the_file_has_them(
    tmp_path, here, ask, short_text, short_corpus, short_options, load_weights
):
    """The run records its loss, and log Z."""
    vectors = np.random.default_rng(0).normal(0, 0.7, (20, 7)).astype(np.float32)
    words = [f"w{i}" for i in range(20)]
    path = tmp_path / "words.vec"
    write_word2vec(path, words, vectors)
    options = short_options.replace(objective="nce", num_sampled=99, self_normalisation=1.0)
    options = options.replace(freeze_embedding=True, learning_rate=1.0, epochs=1)
    with pytest.raises(InputError, match="`embedding_dim` must be 7, .* Fix: give --embedding-dim"):
        train(short_corpus, tmp_path / "model", options, vectors=path)
    options = options.replace(embedding_dim=7)
    metrics = train(short_corpus, tmp_path / "model", options, vectors=path)
    assert metrics["vectors"]["found"] == 20
    (epoch,) = metrics["history"]
    assert "nce_loss" in epoch and not epoch.keys() & {"loss", "train_perplexity"}
    assert metrics["training_cpu_seconds"] < metrics["cpu_seconds"]
    recorded = metrics["test"]["ln_z"]
    assert metrics["test"]["perplexity"] < 20 and recorded["mean_absolute"] < 0.2
    assert ask("evaluate model --ln-z")["ln_z"] == pytest.approx(recorded, abs=1e-4)
    exact, fast = (
        ask(f"score model {short_text} {flag}")["sentences"][0]
        for flag in ("", "--self-normalised")
    )
    difference = abs(fast["log_prob"] - exact["log_prob"])
    assert 0 < difference < 0.5 * exact["tokens"]
    features, *_ = load_weights(tmp_path / "model")
    language_model = LanguageModel.load(tmp_path / "model")
    trained = language_model.network.trainable_weights
    assert metrics["parameters"] == sum(np.prod(weight.shape) for weight in trained)
    np.testing.assert_array_equal(features[language_model.vocabulary.encode(words)], vectors)
    as_arrays = LanguageModel.load(tmp_path / "model", as_arrays=True)
    found, expected = (
        np.exp(model.model.next_log_probs([[4, 5, 6]])) for model in (as_arrays, language_model)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    write_word2vec(path, words, 2 * vectors)
    with pytest.raises(InputError, match="vectors: its files have changed"):
        train(short_corpus, tmp_path / "model", options, vectors=path)


@pytest.mark.long
def test_without_validation_text_the_last_epoch_is_kept(here, run, ask, short_text):
    flags = "--order 3 --embedding-dim 6 --hidden-units 8 --epochs 2 --set weight_average=0.99"
    printed = run(f"train --train {short_text} --all {flags} --output model").out
    *_, trained, without, saved, _ = printed.splitlines()
    assert trained.endswith("epoch 2, the last: no validation text compares epochs")
    assert without.endswith("for a perplexity: keras-nplm evaluate model --text FILE")
    assert saved.startswith("the model is in model;")
    metrics = read_json("model/metrics.json")
    assert metrics["best_epoch"] == 2 and not metrics.keys() & {"validation", "test", "weights"}
    assert "validation_perplexity" not in metrics["history"][0]
    names = {path.name for path in Path("model").iterdir()}
    assert "model.keras" in names and not names & {"report.html", "last.npz", "components"}
    assert [path.name for path in Path("model/corpus").glob("*.ids")] == ["train.00000.ids"]
    assert ask(f"evaluate model --text {short_text}")["perplexity"] < 20
    # the logs are of the average of the weights, which is saved
    norms = read_scalars(Path("model/logs/train"))["weights/norm_C"]
    expected = np.linalg.norm(LanguageModel.load("model").network.embed.C)
    np.testing.assert_allclose(norms[2], expected, rtol=1e-5)


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_options_are_objects_or_names_and_a_report_needs_no_test_text(tmp_path, short_text):
    corpus = open_corpus(train=[short_text], validation=[short_text])
    network = Network(order=3, embedding_dim=4, head=Linear(tied_output=True))
    training = Training(optimizer=Adam(), learning_rate=0.002)
    by_name = {"head": "adaptive", "cutoffs": (9, 20), "epochs": 1, "interpolated": False}
    metrics = train(corpus, tmp_path / "model", network=network, training=training, **by_name)
    options = read_options(read_json(tmp_path / "model" / "config.json"))
    assert options.network == dataclasses.replace(network, head=Adaptive(cutoffs=(9, 20)))
    assert options.training == dataclasses.replace(training, epochs=1)
    assert metrics["validation"]["perplexity"] > 1 and "test" not in metrics
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert "<th>validation</th>" in page and "<th>test</th>" not in page
    assert "The network’s validation perplexity is " in page


def test_finished_run_is_read_and_other_directories_are_refused(
    tmp_path, model_directory, kneser_ney_directory, small_options, capsys, messages
):
    shutil.copytree(model_directory, finished := tmp_path / "finished")
    metrics = read_json(finished / "metrics.json")
    assert train(open_corpus(), finished, small_options) == metrics
    assert f"The run in {finished} is finished" in capsys.readouterr().err
    for changes in ({"order": 3}, {"epochs": 4}):
        messages.refuse(lambda c=changes: train(open_corpus(), finished, small_options, **c))
    shutil.copytree(kneser_ney_directory, ngrams := tmp_path / "ngrams")
    with pytest.raises(InputError, match="other options: .*kind: back-off there, nplm now"):
        train(open_corpus(), ngrams, small_options)
    verify_stages(ngrams)
    (mine := tmp_path / "mine").mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="model directory"):
        train(open_corpus(), mine, small_options)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
