"""An interrupted run resumes from its checkpoint to the same weights, bit for bit."""

import contextlib
import errno
import functools
import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, InputError, LanguageModel, Options, RunError, open_corpus, train
from keras_nplm.cli.main import main
from keras_nplm.data.epochs import Epochs
from keras_nplm.io.files import read_json
from keras_nplm.language_model.word_vectors import write_word2vec
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.fit import Fitting

pytestmark = pytest.mark.usefixtures("no_report")


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


def _kill() -> None:
    raise _Killed


def _press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def _at(number: int, end: Callable[[], None]) -> Callable[[str], None]:
    """A function that ends a run at a call of this number, from 1."""
    calls = itertools.count(1)

    def end_at_number(_: str) -> None:
        if next(calls) == number:
            end()

    return end_at_number


PLACES = {
    "rename": (os, "replace"),
    "update": (Fitting, "on_train_batch_end"),
    "validation": (Fitting, "on_test_batch_end"),
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


# random numbers and variables of all kinds: dropout, shuffled segments, moments, a moving average
NETWORKS = {
    "softmax": dict(
        optimizer="adam", learning_rate=0.01, dropout=0.2, segment=16, weight_average=0.9
    ),
    "nce": dict(
        objective="nce", num_sampled=20, optimizer="adagrad", boundary="text", freeze_embedding=True
    ),
    "shortlist": dict(
        objective="sampled", num_sampled=9, shortlist_size=10, boundary="stream", dropout=0.2
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
        "training.fit._MAX_STEPS_PER_EXECUTION": 5,
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
            with contextlib.suppress(_Killed, KeyboardInterrupt):
                train(corpus, tmp_path / "cut", **arguments)
    assert ends
    assert _read_results(tmp_path / "cut") == _read_results(tmp_path / "whole")
    weights = (
        LanguageModel.load(tmp_path / name).network.get_weights() for name in ("whole", "cut")
    )
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def options(short_options) -> Options:
    return short_options.replace(epochs=3, **NETWORKS["softmax"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory, short_corpus, options, train_without_report) -> Path:
    """The directory of a run without interruption."""
    directory = tmp_path_factory.mktemp("whole") / "model"
    train_without_report(options, short_corpus, directory)
    return directory


@pytest.fixture(scope="module")
def interrupt(short_corpus, options, train_without_report):
    """A function that trains in a directory until Ctrl-C is pressed in some batch of a place."""

    def interrupt(directory: Path, place: str, number: int) -> None:
        end = _at(number, _press_ctrl_c)
        with _ended_by(end, place), pytest.raises(KeyboardInterrupt):
            train_without_report(options, short_corpus, directory)

    return interrupt


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory, interrupt) -> Path:
    """The directory of a run that was interrupted in its third epoch: it has two checkpoints."""
    directory = tmp_path_factory.mktemp("interrupted") / "model"
    interrupt(directory, "update", 2 * 41 + 8)
    return directory


@pytest.mark.long
def test_training_ends_at_the_next_batch_after_an_interruption(
    tmp_path, monkeypatch, short_corpus, options, whole, interrupted
):
    """The resumed run reads the next batches of the third epoch."""
    directory = tmp_path / "model"
    shutil.copytree(interrupted, directory)
    with np.load(directory / "last.npz") as stored:
        arrays = dict(stored)
    assert len(read_json(directory / "history.json")["epochs"]) == 2
    assert int(arrays["optimizer.0"]) == 2 * 41 + 8 and 0 < arrays["spent"][1] < 1000
    np.savez(directory / "last.npz", **arrays | {"spent": arrays["spent"] + 1000})
    opened = Mock(wraps=Epochs)
    monkeypatch.setattr("keras_nplm.training.fit.Epochs", opened)
    resumed = train(short_corpus, directory, options)
    assert [call.kwargs.get("first_epoch") for call in opened.mock_calls] == [None, 2]
    seconds = [epoch["training_cpu_seconds"] for epoch in resumed["history"]]
    assert [second > 1000 for second in seconds] == [False, False, True]
    assert _read_results(directory) == _read_results(whole)


@pytest.mark.long
def test_sigterm_ends_a_command_with_a_checkpoint(tmp_path, short_text, capsys):
    """Its message says how to resume."""
    flags = "--epochs 2 --embedding-dim 4 --set batch_size=64"
    command = ["train", *flags.split(), "--train", str(short_text), "--output", str(tmp_path)]
    terminate = functools.partial(signal.raise_signal, signal.SIGTERM)
    with _ended_by(_at(2, terminate), "update"):
        assert main(command) == 130
    with np.load(tmp_path / "last.npz") as stored:
        assert int(stored["optimizer.0"]) == 2
    message = "keras-nplm train: interrupted. Finished work is saved. Run the same command again"
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_validation_ends_at_the_next_batch_and_is_repeated(
    tmp_path, short_corpus, options, whole, interrupt, assert_same_weights
):
    """The weights are replaced by their average as Ctrl-C is pressed."""
    interrupt(tmp_path, "validation", 1)
    with np.load(tmp_path / "last.npz") as stored:
        assert int(stored["optimizer.0"]) == 41
        assert json.loads(bytes(stored["epochs"])) == []
    train(short_corpus, tmp_path, options)
    assert _read_results(tmp_path) == _read_results(whole)
    assert_same_weights(tmp_path, whole)


@pytest.mark.long
def test_finished_run_removes_what_a_killed_one_left(tmp_path, short_corpus, options, whole):
    """SIGKILL after metrics.json was written."""
    shutil.copytree(whole, tmp_path / "model")
    left = [tmp_path / "model" / name for name in (".lock", "last.npz", ".report.nplm-4711.html")]
    for path in left:
        path.touch()
        os.utime(path, (0, 0))
    train(short_corpus, tmp_path / "model", options)
    assert not any(path.exists() for path in left)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _halve(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _garble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    path.write_bytes(content)


@pytest.mark.long
def test_run_with_damaged_files_resumes_to_the_same_weights(
    tmp_path, short_corpus, options, whole, interrupted, assert_same_weights, capsys
):
    shutil.copytree(interrupted, directory := tmp_path / "model")
    _garble(directory / "last.npz")
    _empty(directory / "history.json")
    train(short_corpus, directory, options)
    assert _read_results(directory) == _read_results(whole)
    assert_same_weights(whole, directory)
    warning = "Resuming from previous.npz, after update 0 of epoch 3."
    assert warning in capsys.readouterr().err
    assert not list(directory.glob("*.npz"))


NEEDED = [
    "manifest.json",
    "vocabulary.txt",
    "spelling.tsv",
    "corpus/corpus.json",
    "corpus/train.00000.ids",
    "corpus/validation.00000.ids",
]


@pytest.mark.parametrize("damage", [_halve, pytest.param(_empty, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "names",
    [["last.npz", "previous.npz"], ["model.keras"], *([name] for name in NEEDED)],
    ids="+".join,
)
def test_damage_beyond_repair_names_the_directory_to_remove(
    tmp_path, short_corpus, options, interrupted, names, damage
):
    shutil.copytree(interrupted, directory := tmp_path / "model")
    for name in names:
        damage(directory / name)
    before = _list_files(directory)
    fix = f"The run in {directory} .* Fix: restore .*, or remove {directory} "
    with pytest.raises(InputError, match=fix):
        train(short_corpus, directory, options)
    assert _list_files(directory) == before


def _list_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.name != ".lock")


def test_a_checkpoint_of_a_different_run_is_refused(
    tmp_path, short_corpus, options, whole, interrupted, messages
):
    shutil.copytree(interrupted, directory := tmp_path / "model")
    (directory / "previous.npz").unlink()
    with np.load(directory / "last.npz") as stored:
        arrays = dict(stored)
    for changed in (
        {"epochs": np.frombuffer(b"[]", np.uint8)},
        *({f"{part}.0": np.zeros(9)} for part in ("weights", "average", "metrics")),
    ):
        np.savez(directory / "last.npz", **arrays | changed)
        messages.refuse(lambda: train(short_corpus, directory, options))
    shutil.copytree(whole, tmp_path / "finished")
    more = options.replace(epochs=4)
    messages.refuse(lambda: train(short_corpus, tmp_path / "finished", **more._asdict()))


def test_a_damaged_background_is_written_again(
    tmp_path, monkeypatch, short_corpus, options, capsys
):
    mixed = options.replace(epochs=2, interpolated=True)
    begun = tmp_path / "begun"
    fit_network = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("keras_nplm.training.train.fit_network", fit_network)
    with pytest.raises(KeyboardInterrupt):
        train(short_corpus, begun, **mixed._asdict())
    background = Path("components", "1", "ngrams.npz")
    for damage in (_halve, Path.unlink):
        directory = tmp_path / damage.__name__
        shutil.copytree(begun, directory)
        damage(directory / background)
        with pytest.raises(KeyboardInterrupt):
            train(short_corpus, directory, **mixed._asdict())
        assert (directory / background).read_bytes() == (begun / background).read_bytes()
        assert "It is made again." in capsys.readouterr().err


@pytest.mark.long
def test_a_run_that_diverges_ends_and_says_where(
    tmp_path, short_corpus, options, messages, monkeypatch
):
    monkeypatch.setattr("keras_nplm.training.fit.UPDATES_PER_CHECK", 1)
    wild = options.replace(optimizer="sgd", learning_rate=1e30, weight_average=0)
    messages.refuse(lambda: train(short_corpus, tmp_path, **wild._asdict()), RunError)
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
        return Checkpoint(model, tmp_path, changed, steps, devices, is_validated=is_validated)

    return build


def _make_epoch(checkpoint: Checkpoint, perplexity: float) -> dict:
    figures = dict.fromkeys(("seconds", "cpu_seconds", "training_cpu_seconds"), 1.0)
    figures |= {"epoch": len(checkpoint.history) + 1, "ngrams_per_second": 1}
    return figures | {"validation_perplexity": perplexity}


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


def test_figures_that_are_not_finite_end_the_run(build_checkpoint, messages):
    checkpoint = build_checkpoint()
    messages.refuse(lambda: checkpoint.check_finite("validation perplexity", np.inf), RunError)
    checkpoint.model.embed.C.assign(np.full((9, 2), np.nan))
    messages.refuse(checkpoint.save, RunError)
    assert not checkpoint.last_path.exists()


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


def test_average_of_a_short_first_epoch_is_its_weights(build_checkpoint):
    checkpoint = build_checkpoint(20, weight_average=0.99)
    checkpoint.model.prob.b.assign(np.full(9, 20.0))
    checkpoint.model.optimizer.iterations.assign(20)
    with checkpoint.average_weights():
        np.testing.assert_array_equal(checkpoint.model.prob.b, np.full(9, 20.0))


def _save_twice(checkpoint: Checkpoint) -> None:
    for updates in (1, 2):
        checkpoint.model.optimizer.iterations.assign(updates)
        checkpoint.save()


def test_a_full_disk_keeps_both_checkpoints(monkeypatch, build_checkpoint):
    checkpoint = build_checkpoint()
    _save_twice(checkpoint)
    paths = (checkpoint.last_path, checkpoint.previous_path)
    contents = [path.read_bytes() for path in paths]
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("keras_nplm.io.files.open_archive_to_write", full)
    with pytest.raises(RunError, match="Cannot write .*last.npz: No space left on device"):
        checkpoint.save()
    assert [path.read_bytes() for path in paths] == contents


@pytest.mark.parametrize("damage", [_halve, _garble, Path.unlink])
def test_a_damaged_checkpoint_does_not_replace_a_whole_one(build_checkpoint, damage):
    checkpoint = build_checkpoint()
    _save_twice(checkpoint)
    damage(checkpoint.last_path)
    resumed = build_checkpoint()
    assert resumed.position == (0, 1)
    previous = resumed.previous_path.read_bytes()
    resumed.save()
    assert resumed.previous_path.read_bytes() == previous
