"""An interrupted run resumes from its checkpoint to the same weights, bit for bit."""

import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.callbacks import CallbackList

from keras_nplm import NPLM, InputError, LanguageModel, RunError, open_corpus, train
from keras_nplm.language_model.word_vectors import write_word2vec
from keras_nplm.training.checkpoint import Checkpoint, remove_checkpoints
from tests.kills import Killed

pytestmark = pytest.mark.usefixtures("no_report")


def _kill() -> None:
    raise Killed


def _press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


PLACES = {
    "rename": (os, "replace"),
    "update": (CallbackList, "on_train_batch_end"),  # twice: of Keras, and of the run
    "validation": (CallbackList, "on_test_batch_end"),
}


@contextlib.contextmanager
def _ended_by(end: Callable[[str], None], *places: str) -> Iterator[None]:
    """Call a function, which may end a run, before each rename, update or batch of validation."""
    with pytest.MonkeyPatch.context() as context:
        for place in places or PLACES:
            owner, name = PLACES[place]
            context.setattr(owner, name, _precede(getattr(owner, name), end, place))
        yield


def _precede(call: Callable, end: Callable[[str], None], place: str) -> Callable:
    def end_and_call(*arguments, **options):
        end(place)
        return call(*arguments, **options)

    return end_and_call


def _read_results(directory: Path) -> dict:
    """The figures of a finished run that do not depend on time."""
    metrics = json.loads((directory / "metrics.json").read_text())
    timed = {"seconds", "cpu_seconds", "training_cpu_seconds", "ngrams_per_second"}
    history = [{name: epoch[name] for name in epoch.keys() - timed} for epoch in metrics["history"]]
    return {"history": history, "test": metrics.get("test"), "best_epoch": metrics["best_epoch"]}


# random numbers and variables of all kinds: dropout, shuffled segments, moments, a moving average,
# C at the last sharing
NETWORKS = {
    "softmax": dict(
        optimizer="adam", learning_rate=0.01, dropout=0.2, segment=16, weight_average=0.9
    ),
    "nce": dict(
        objective="nce", num_sampled=20, optimizer="adagrad", boundary="text", freeze_embedding=True
    ),
    "shortlist": dict(
        objective="sampled",
        num_sampled=9,
        shortlist_size=10,
        boundary="stream",
        dropout=0.2,
        spelling_share=0.5,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
def test_runs_that_are_killed_and_interrupted_reach_the_same_weights(
    tmp_path, monkeypatch, short_text, short_options, network
):
    """A run is ended at random renames, updates and batches of validation, until it is complete.

    A checkpoint is written after every execution of five updates. One network starts from word
    vectors, one has no validation text, one reads a text of which a share is resampled.
    """
    # word vectors are of some words of a list
    words = [f"w{i}" for i in range(30)]
    vectors = np.random.default_rng(0).normal(0, 1, (20, short_options.network.embedding_dim))
    write_word2vec(tmp_path / "some.vec", words[:20], vectors)
    (tmp_path / "list.txt").write_text("\n".join(words), encoding="utf-8")
    changes, arguments = {
        "softmax": (dict(vocabulary=tmp_path / "list.txt"), dict(vectors=tmp_path / "some.vec")),
        "nce": (dict(all_lines=True), {}),
        "shortlist": (dict(resample=[(0.5, [str(short_text)])]), {}),
    }[network]
    for name, value in {
        "data.encoded_corpus.IN_MEMORY": 0,
        "data.pools.BLOCK": 1 << 8,
        "data.pools.POOL": 4 << 8,
        "training.fit.UPDATES_PER_CHECK": 3,
        "training.fit.MAX_STEPS_PER_EXECUTION": 5,
        "training.shared_spelling.UPDATES_PER_SHARING": 10,
    }.items():
        monkeypatch.setattr(f"keras_nplm.{name}", value)
    corpus = open_corpus(train=[str(short_text)], **changes)
    options = short_options.replace(batch_size=128, epochs=2, **NETWORKS[network])
    arguments["options"] = options
    train(corpus, tmp_path / "whole", **arguments)
    monkeypatch.setattr("keras_nplm.training.fit.SECONDS_PER_SAVE", 0.0)
    rng = np.random.default_rng(1)
    rates = {"rename": 0.1, "update": 0.3, "validation": 0.5}
    ends = []

    def end(place: str) -> None:
        if rng.random() < rates[place]:
            ends.append(place)
            rng.choice([_kill, _press_ctrl_c])()

    with _ended_by(end):
        while not (tmp_path / "cut" / "metrics.json").exists():
            with contextlib.suppress(Killed, KeyboardInterrupt):
                train(corpus, tmp_path / "cut", **arguments)
    assert ends
    train(corpus, tmp_path / "cut", **arguments)  # which may have been killed at its very end
    assert not [*(tmp_path / "cut").rglob("*previous.npz"), *(tmp_path / "cut").rglob("*.nplm-*")]
    assert _read_results(tmp_path / "cut") == _read_results(tmp_path / "whole")
    weights = (
        LanguageModel.load(tmp_path / name).network.get_weights() for name in ("whole", "cut")
    )
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def _end_at(number: int, end: Callable[[], None]) -> contextlib.AbstractContextManager:
    """Call a function, which ends a run, before the update of this number."""
    calls = itertools.count(2)
    return _ended_by(lambda place: end() if next(calls) == 2 * number else None, "update")


@pytest.mark.long
def test_sigterm_ends_a_command_with_a_checkpoint(monkeypatch, here, run, ask, short_text):
    """The same command resumes. The time that was spent before counts."""
    command = f"train --train {short_text} --epochs 1 --embedding-dim 4 --set batch_size=64 "
    command += "--no-interpolated --output model"
    terminate = functools.partial(signal.raise_signal, signal.SIGTERM)
    with monkeypatch.context() as context, _end_at(2, terminate):
        context.setattr("time.process_time", itertools.count(0, 1000.0).__next__)
        message = run(command, status=130).err
    assert "interrupted. Finished work is saved. Run the same command again" in message
    (epoch,) = ask(command)["history"]
    assert epoch["training_cpu_seconds"] > 1000


def _garble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    path.write_bytes(content)


@pytest.mark.long
def test_damaged_files_of_an_interrupted_run(
    tmp_path, short_corpus, short_options, assert_same_weights, capsys
):
    """A run resumes from the checkpoint before a damaged one; other damage names the directory."""
    options = short_options.replace(epochs=2, **NETWORKS["softmax"])
    begun, whole = tmp_path / "begun", tmp_path / "whole"
    train(short_corpus, whole, options)
    with _end_at(41 + 8, _press_ctrl_c), pytest.raises(KeyboardInterrupt):
        train(short_corpus, begun, options)
    for number, names in enumerate(
        (
            ["last.npz", "history.json"],
            ["last.npz", "previous.npz"],
            ["model.keras"],
            ["vocabulary.txt"],
            ["corpus/train.00000.ids"],
        )
    ):
        shutil.copytree(begun, directory := tmp_path / str(number))
        for name in names:
            _garble(directory / name)
        before = sorted(directory.rglob("*"))
        if number == 0:
            train(short_corpus, directory, options)
            assert "Resuming from previous.npz, after update 0 of epoch 2." in (
                capsys.readouterr().err
            )
            assert _read_results(directory) == _read_results(whole)
            assert_same_weights(whole, directory)
            continue
        fix = f"The run in {directory} .* Fix: restore .*, or remove {directory} "
        with pytest.raises(InputError, match=fix):
            train(short_corpus, directory, options)
        assert sorted(directory.rglob("*")) == before


@pytest.mark.long
def test_a_run_that_diverges_ends_and_says_where(
    tmp_path, short_corpus, short_options, messages, monkeypatch
):
    monkeypatch.setattr("keras_nplm.training.fit.UPDATES_PER_CHECK", 1)
    wild = short_options.replace(optimizer="sgd", learning_rate=1e30)
    messages.refuse(lambda: train(short_corpus, tmp_path, wild), RunError)
    assert not (tmp_path / "last.npz").exists()


# A tiny model


@pytest.fixture
def build_checkpoint(tmp_path, short_options):
    """A function from the updates of an epoch and options to the checkpoint of a tiny model."""

    def build(steps: int = 9, is_validated: bool = True, **options) -> Checkpoint:
        model = NPLM(9, order=3, embedding_dim=2, hidden_units=3)
        model.compile("sgd")
        devices = tf.distribute.get_strategy()
        changed = short_options.replace(**options)
        return Checkpoint(
            model, tmp_path, changed, steps, devices, is_validated=is_validated, words=[]
        )

    return build


def _make_epoch(checkpoint: Checkpoint, perplexity: float) -> dict:
    figures = dict.fromkeys(("seconds", "cpu_seconds", "training_cpu_seconds"), 1.0)
    figures |= {"epoch": len(checkpoint.history) + 1, "ngrams_per_second": 1}
    return figures | {"validation_perplexity": perplexity}


def test_a_checkpoint_restores_the_state_of_a_run(build_checkpoint):
    checkpoint = build_checkpoint(3, epochs=9)
    checkpoint.add_epoch(_make_epoch(checkpoint, 5.0))
    checkpoint.model.embed.C.assign(np.full((9, 2), 7.0))
    checkpoint.model.optimizer.iterations.assign(5)
    checkpoint.metrics = [metric + 3 for metric in checkpoint.metrics]
    checkpoint.spent += [1.5, 2.5]
    checkpoint.save()
    (checkpoint.directory / "history.json").unlink()
    resumed = build_checkpoint(3, epochs=9)
    resumed.restore_metrics()
    assert resumed.position == (1, 2)
    assert resumed.history == checkpoint.history
    assert not resumed.is_done and build_checkpoint(3, epochs=1).is_done
    assert resumed.spent.tolist() == [1.5, 2.5]
    assert {float(metric.numpy().min()) for metric in resumed.model.metrics_variables} == {3.0}
    np.testing.assert_array_equal(resumed.model.embed.C, np.full((9, 2), 7.0))
    assert json.loads((resumed.directory / "history.json").read_text())["epochs"]
    remove_checkpoints(resumed.directory)
    remove_checkpoints(resumed.directory)
    assert build_checkpoint().position == (0, 0)


def test_a_checkpoint_that_does_not_fit_is_refused(build_checkpoint, messages):
    checkpoint = build_checkpoint(3)
    checkpoint.add_epoch(_make_epoch(checkpoint, 5.0))
    for updates in (6, 3, 5):
        checkpoint.model.optimizer.iterations.assign(updates)
        checkpoint.save()
        assert build_checkpoint(3).position == (1, updates - 3)
    messages.refuse(lambda: build_checkpoint(1))
    messages.refuse(lambda: build_checkpoint(6))
    messages.refuse(lambda: build_checkpoint(3, weight_average=0.9))
    _garble(checkpoint.best_path)
    messages.refuse(lambda: build_checkpoint(3))
    remove_checkpoints(checkpoint.directory)
    build_checkpoint(3, weight_average=0.9).save()
    messages.refuse(lambda: build_checkpoint(3))


def test_a_run_that_has_diverged_is_not_saved(build_checkpoint, messages):
    checkpoint = build_checkpoint()
    checkpoint.check_finite("validation perplexity", 3.0)
    messages.refuse(lambda: checkpoint.check_finite("validation perplexity", np.inf), RunError)
    checkpoint.model.prob.b.assign(np.full(9, np.nan))
    messages.refuse(checkpoint.save, RunError)
    assert not checkpoint.last_path.exists()


def test_the_best_epoch_is_kept_and_training_stops_after_patience_is_spent(build_checkpoint):
    checkpoint = build_checkpoint(epochs=9, patience=1)
    done = []
    for perplexity in (8.0, 7.0, 7.5):
        checkpoint.model.embed.C.assign(np.full((9, 2), perplexity))
        checkpoint.add_epoch(_make_epoch(checkpoint, perplexity))
        done.append(checkpoint.is_done)
    assert done == [False, False, True]
    best = keras.models.load_model(checkpoint.best_path)
    np.testing.assert_array_equal(best.embed.C, np.full((9, 2), 7.0))


def test_without_validation_the_last_epoch_is_kept(build_checkpoint):
    checkpoint = build_checkpoint(is_validated=False, epochs=9)
    for number in (1.0, 2.0):
        checkpoint.model.embed.C.assign(np.full((9, 2), number))
        checkpoint.add_epoch({"epoch": number})
        assert not checkpoint.is_done
        best = keras.models.load_model(checkpoint.best_path)
        np.testing.assert_array_equal(best.embed.C, checkpoint.model.embed.C)


def test_average_of_the_weights_follows_its_formula_and_is_saved(build_checkpoint):
    """The average replaces the weights in validation. Training goes on from the weights."""
    checkpoint = build_checkpoint(128, weight_average=0.99)
    model = checkpoint.model
    expected = 32.0
    for update in (32, 64, 96, 128):
        model.prob.b.assign(np.full(9, float(update)))
        checkpoint.average.update(update)
        if update > 32:
            expected = 0.99**32 * expected + (1 - 0.99**32) * update
    model.optimizer.iterations.assign(128)
    checkpoint.save()
    for resumed in (checkpoint, build_checkpoint(128, weight_average=0.99)):
        with resumed.average_weights():
            resumed.add_epoch(_make_epoch(resumed, 5.0))
        best = keras.models.load_model(resumed.best_path)
        np.testing.assert_allclose(best.prob.b, expected, rtol=1e-6)
        np.testing.assert_array_equal(resumed.model.prob.b, np.full(9, 128.0))


@pytest.mark.parametrize("damage", [_garble, Path.unlink])
def test_a_damaged_checkpoint_does_not_replace_a_whole_one(build_checkpoint, damage):
    checkpoint = build_checkpoint()
    for updates in (1, 2):
        checkpoint.model.optimizer.iterations.assign(updates)
        checkpoint.save()
    damage(checkpoint.last_path)
    resumed = build_checkpoint()
    assert resumed.position == (0, 1)
    previous = resumed.previous_path.read_bytes()
    resumed.save()
    assert resumed.previous_path.read_bytes() == previous


def test_average_of_a_short_first_epoch_is_its_weights(build_checkpoint):
    checkpoint = build_checkpoint(20, weight_average=0.99)
    checkpoint.model.prob.b.assign(np.full(9, 20.0))
    checkpoint.model.optimizer.iterations.assign(20)
    with checkpoint.average_weights():
        np.testing.assert_array_equal(checkpoint.model.prob.b, np.full(9, 20.0))
