"""An interrupted run resumes from its checkpoint to the same weights, bit for bit."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, Configuration, InputError, RunError, train
from keras_nplm.training.checkpoint import Checkpoint, read_history

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture(scope="module")
def options(short_configuration) -> Configuration:
    """Random numbers and variables of all kinds: dropout, the shuffled text, moments, a moving average of weights."""
    adam = dict(optimizer="adam", learning_rate=0.01)
    return dataclasses.replace(short_configuration, epochs=3, dropout=0.2, weight_average=0.9, **adam)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, short_corpus, options, leave_out_report) -> Path:
    """The directory of a run without interruption."""
    directory = tmp_path_factory.mktemp("whole") / "model"
    with pytest.MonkeyPatch.context() as context:
        leave_out_report(context)
        train(options, short_corpus, directory)
    return directory


@pytest.fixture(scope="module")
def killed(tmp_path_factory, short_corpus, options, leave_out_report, killed_at) -> Path:
    """The directory of a run that was killed in its second epoch, before the checkpoint was complete."""
    directory = tmp_path_factory.mktemp("killed") / "model"
    with pytest.MonkeyPatch.context() as context, killed_at("last.npz"):
        leave_out_report(context)
        train(options, short_corpus, directory)
    return directory


def test_killed_run_resumes_to_the_same_weights(tmp_path, short_corpus, options, whole, killed, assert_same_weights):
    shutil.copytree(killed, tmp_path / "model")
    resumed = train(options, short_corpus, tmp_path / "model")
    assert [epoch["epoch"] for epoch in resumed["history"]] == [1, 2, 3]
    assert resumed["test"] == json.loads((whole / "metrics.json").read_text())["test"]
    assert_same_weights(whole, tmp_path / "model")


def test_interrupted_run_saves_a_checkpoint_and_resumes(
    tmp_path, short_corpus, options, whole, interrupted_after, assert_same_weights
):
    """Ctrl-C in the middle of the second epoch."""
    with interrupted_after(Checkpoint, "on_train_batch_end", lambda checkpoint: checkpoint.position == (1, 8)):
        train(options, short_corpus, tmp_path)
    with np.load(tmp_path / "last.npz") as stored:
        arrays = dict(stored)
    assert len(read_history(tmp_path / "history.json")) == 1
    assert int(arrays["optimizer.0"]) == 41 + 8 and 0 < arrays["spent"][1] < 1000
    np.savez(tmp_path / "last.npz", **arrays | {"spent": arrays["spent"] + 1000})
    resumed = train(options, short_corpus, tmp_path)
    metrics = json.loads((whole / "metrics.json").read_text())
    assert resumed["test"] == metrics["test"]
    for left, right in zip(metrics["history"], resumed["history"], strict=True):  # metrics of the epoch continue
        assert left["train_perplexity"] == pytest.approx(right["train_perplexity"], rel=1e-6)
    assert_same_weights(whole, tmp_path)
    assert [epoch["training_cpu_seconds"] > 1000 for epoch in resumed["history"]] == [False, True, False]


def test_checkpoint_is_saved_only_where_a_run_can_resume(tmp_path, short_configuration):
    """Not between the last update of an epoch and its validation, nor from weights that are not finite."""
    model = NPLM(9, order=3, embedding_dim=2, hidden_units=3)
    model.compile("sgd")
    options = dict(steps=2, batch_size=4, devices=tf.distribute.get_strategy())
    checkpoint = Checkpoint(model, tmp_path, short_configuration, **options)
    checkpoint.on_epoch_begin(0)
    for updates, is_saved, weight in ((1, True, 0.0), (2, False, 0.0), (1, False, np.nan)):
        model.optimizer.iterations.assign(updates)
        model.embed.C.assign(np.full((9, 2), weight))
        checkpoint.save()
        assert checkpoint.last_path.exists() == is_saved
        checkpoint.last_path.unlink(missing_ok=True)


def test_interruption_after_a_failed_update_saves_no_checkpoint(tmp_path, monkeypatch, short_corpus, options):
    """Ctrl-C while workers wait for a lost one: a part of the weights may be updated."""

    def fail(checkpoint, batch, logs=None):
        if checkpoint.history:
            try:
                raise tf.errors.UnavailableError(None, None, "a worker was lost")
            finally:
                raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "on_train_batch_end", fail)
    with pytest.raises(KeyboardInterrupt):
        train(options, short_corpus, tmp_path)
    with np.load(tmp_path / "last.npz") as stored:
        assert int(stored["optimizer.0"]) == 41


def test_finished_run_removes_what_a_killed_one_left(tmp_path, short_corpus, options, whole):
    """SIGKILL after metrics.json was written."""
    shutil.copytree(whole, tmp_path / "model")
    left = [tmp_path / "model" / name for name in (".lock", "last.npz", ".report.4711.html")]
    for path in left:
        path.touch()
        os.utime(path, (0, 0))
    train(options, short_corpus, tmp_path / "model")
    assert not any(path.exists() for path in left)


def test_run_on_segments_resumes_to_the_same_weights(
    tmp_path, short_corpus, short_configuration, interrupted_after, assert_same_weights
):
    """Also with a short-list, whose other words are no targets; the epoch counts them."""
    more = dict(segment=16, order=9, averages_after="2", pointer=True, shortlist_size=10, epochs=2, dropout=0.2)
    options = dataclasses.replace(short_configuration, **more)
    whole = train(options, short_corpus, tmp_path / "whole")
    with interrupted_after(Checkpoint, "on_train_batch_end", lambda checkpoint: checkpoint.position == (1, 8)):
        train(options, short_corpus, tmp_path / "resumed")
    resumed = train(options, short_corpus, tmp_path / "resumed")
    assert resumed["test"] == whole["test"]
    assert_same_weights(*(tmp_path / name / "components" / "0" for name in ("whole", "resumed")))


def test_checkpoint_that_does_not_match_is_refused(tmp_path, monkeypatch, short_corpus, options, killed):
    monkeypatch.setattr(Checkpoint, "is_done", True)  # a run that is not refused ends
    shutil.copytree(killed, directory := tmp_path / "model")
    history = (directory / "history.json").read_text()
    (directory / "history.json").write_text('{"epochs": []}')
    with pytest.raises(InputError, match="last.npz does not match history.json"):
        train(options, short_corpus, directory)
    (directory / "history.json").write_text(history)
    with np.load(directory / "last.npz") as stored:
        arrays = dict(stored)
    name = next(name for name in sorted(arrays) if name.startswith("weights"))
    np.savez(directory / "last.npz", **arrays | {name: arrays[name][:-1]})
    with pytest.raises(InputError, match="last.npz does not match this model's weight shapes"):
        train(options, short_corpus, directory)


def test_early_stopping_after_patience_is_spent(tmp_path, short_corpus, short_configuration):
    """With a learning rate far too high no epoch is better than the one before for long."""
    options = dict(epochs=9, patience=1, learning_rate=20.0, schedule="constant")
    metrics = train(dataclasses.replace(short_configuration, **options), short_corpus, tmp_path)
    perplexities = [epoch["validation_perplexity"] for epoch in metrics["history"]]
    best = min(perplexities)
    assert metrics["validation"]["perplexity"] == pytest.approx(best, rel=1e-4)  # the best epoch is kept
    assert perplexities[-1] > best and perplexities.index(best) == len(perplexities) - 2 < 7


def test_loss_that_is_not_finite_ends_the_run(tmp_path, monkeypatch, short_corpus, short_configuration):
    monkeypatch.setattr("keras_nplm.training.checkpoint.UPDATES_PER_CHECK", 5)
    with pytest.raises(RunError, match="The loss became (nan|inf) at update .* lower --learning-rate"):
        train(dataclasses.replace(short_configuration, learning_rate=1e30), short_corpus, tmp_path)
    assert not (tmp_path / "metrics.json").exists()


def test_perplexity_that_is_not_finite_ends_the_run(tmp_path, short_corpus, short_configuration):
    """Updates so large that the perplexity overflows, though the loss does not."""
    configuration = dataclasses.replace(short_configuration, learning_rate=2e4, schedule="constant")
    with pytest.raises(RunError, match="became (nan|inf) .*lower --learning-rate"):
        train(configuration, short_corpus, tmp_path)
