"""An interrupted run resumes from its checkpoint to the same weights, bit for bit."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, Configuration, InputError, RunError, train
from keras_nplm.cli.main import main
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.shards import ShardedIds
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


@pytest.mark.parametrize(
    "file", ["last.npz", *(pytest.param(file, marks=pytest.mark.long) for file in ("history.json", "model.keras"))]
)
def test_killed_run_resumes_to_the_same_weights(
    tmp_path, short_corpus, options, whole, killed_at, assert_same_weights, file
):
    """Killed in the second epoch, before one of its files is complete."""
    with killed_at(file):
        train(options, short_corpus, tmp_path)
    resumed = train(options, short_corpus, tmp_path)
    assert [epoch["epoch"] for epoch in resumed["history"]] == [1, 2, 3]
    assert resumed["test"] == json.loads((whole / "metrics.json").read_text())["test"]
    assert_same_weights(whole, tmp_path)


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
    tmp_path, short_corpus, short_configuration, no_report, interrupted_after, assert_same_weights
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


@pytest.mark.long  # the fast tests: tests/data/test_dataset.py for the shards, the run above for the checkpoint
def test_run_on_shards_resumes_within_an_epoch(
    tmp_path, monkeypatch, short_corpus, short_configuration, killed_at, assert_same_weights
):
    """Training text too large for memory, read in blocks; killed at the third checkpoint, in the first epoch."""
    monkeypatch.setattr("keras_nplm.data.encoded_corpus.IN_MEMORY", 0)
    monkeypatch.setattr("keras_nplm.data.shuffling.BLOCK", 1 << 8)
    monkeypatch.setattr("keras_nplm.data.shuffling.POOL", 4 << 8)
    configuration = dataclasses.replace(short_configuration, boundary="stream", batch_size=16, dropout=0.2, epochs=1)
    whole = train(configuration, short_corpus, tmp_path / "whole")
    assert isinstance(EncodedCorpus.load(tmp_path / "whole" / "corpus").for_training(), ShardedIds)
    with monkeypatch.context() as context, killed_at("last.npz", 3):
        context.setattr("keras_nplm.training.checkpoint.SECONDS_PER_SAVE", 0)
        train(configuration, short_corpus, tmp_path / "killed")
    assert not (tmp_path / "killed" / "history.json").exists()  # within the first epoch
    resumed = train(configuration, short_corpus, tmp_path / "killed")
    assert resumed["test"] == whole["test"]
    for left, right in zip(whole["history"], resumed["history"], strict=True):  # metrics of the epoch continue
        assert left["train_perplexity"] == pytest.approx(right["train_perplexity"], rel=1e-6)
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")


def test_checkpoint_that_does_not_match_is_refused(tmp_path, short_corpus, short_configuration, killed_at):
    with killed_at("history.json"):
        train(short_configuration, short_corpus, tmp_path)
    history = (tmp_path / "history.json").read_text()
    (tmp_path / "history.json").write_text('{"epochs": []}')
    with pytest.raises(InputError, match="last.npz does not match history.json"):
        train(short_configuration, short_corpus, tmp_path)
    (tmp_path / "history.json").write_text(history)
    with np.load(tmp_path / "last.npz") as stored:
        arrays = dict(stored)
    name = next(name for name in sorted(arrays) if name.startswith("weights"))
    np.savez(tmp_path / "last.npz", **arrays | {name: arrays[name][:-1]})
    with pytest.raises(InputError, match="last.npz does not match this model's weight shapes"):
        train(short_configuration, short_corpus, tmp_path)
    (tmp_path / "last.npz").unlink()  # the fix that both messages name
    assert train(short_configuration, short_corpus, tmp_path)["best_epoch"] > 0


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


@pytest.mark.long
def test_full_disk_ends_the_run_and_a_later_call_completes_it(short_text, tmp_path):
    """A limit on file sizes stands for the disk: the checkpoint of the first epoch exceeds it."""
    options = f"--train {short_text} --output {tmp_path}/model --hidden-units 600 --learning-rate 0.3 --epochs 1"
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    limited += "from keras_nplm.cli.main import main; sys.exit(main(['train', *sys.argv[1:]]))"
    run = subprocess.run([sys.executable, "-c", limited, *options.split()], capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    last = run.stderr.splitlines()[-1]
    assert "Cannot write" in last and "free some space" in last and "Traceback" not in run.stderr
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names <= {"config.json", "corpus", "logs", "vocabulary.txt", "spelling.tsv", "history.json"}
    assert main(["train", *options.split(), "--json"]) == 0
