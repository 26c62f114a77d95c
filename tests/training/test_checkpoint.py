"""An interrupted run resumes from its checkpoint to the same weights, bit for bit."""

import collections
import contextlib
import errno
import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, InputError, LanguageModel, Options, RunError, open_corpus, train
from keras_nplm.data.corpus import Corpus
from keras_nplm.language_model.word_vectors import write_word2vec
from keras_nplm.training.checkpoint import Checkpoint, read_history

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture(scope="module")
def options(short_options) -> Options:
    """Random numbers and variables of all kinds: dropout, shuffled segments, moments, a moving
    average of weights.
    """
    adam = dict(optimizer="adam", learning_rate=0.01, segment=16)
    return short_options.replace(epochs=3, dropout=0.2, weight_average=0.9, **adam)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, short_corpus, options, train_without_report) -> Path:
    """The directory of a run without interruption."""
    directory = tmp_path_factory.mktemp("whole") / "model"
    train_without_report(options, short_corpus, directory)
    return directory


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory, short_corpus, options, train_without_report) -> Path:
    """The directory of a run that was killed in its second epoch, before the checkpoint was
    complete.
    """
    directory = tmp_path_factory.mktemp("killed") / "model"
    rename = os.replace
    renamed = []

    def replace(source, target):
        renamed.append(Path(target).name)
        if renamed.count("last.npz") == 2:
            raise _Killed
        rename(source, target)

    with pytest.MonkeyPatch.context() as context, pytest.raises(_Killed):
        context.setattr("os.replace", replace)
        train_without_report(options, short_corpus, directory)
    return directory


@pytest.mark.long
def test_killed_run_resumes_to_the_same_weights(
    tmp_path, short_corpus, options, whole, killed, assert_same_weights
):
    shutil.copytree(killed, tmp_path / "model")
    resumed = train(short_corpus, tmp_path / "model", **options._asdict())
    assert [epoch["epoch"] for epoch in resumed["history"]] == [1, 2, 3]
    assert resumed["test"] == json.loads((whole / "metrics.json").read_text())["test"]
    assert_same_weights(whole, tmp_path / "model")


@pytest.fixture(scope="module")
def interrupted(
    tmp_path_factory, short_corpus, options, train_without_report, interrupted_after
) -> Path:
    """The directory of a run that was interrupted in its third epoch: it has two checkpoints."""
    directory = tmp_path_factory.mktemp("interrupted") / "model"

    def is_in_the_third_epoch(checkpoint: Checkpoint) -> bool:
        return checkpoint.position == (2, 8)

    with interrupted_after(Checkpoint, "on_train_batch_end", is_in_the_third_epoch):
        train_without_report(options, short_corpus, directory)
    return directory


@pytest.mark.long
def test_interrupted_run_saves_a_checkpoint_and_resumes(
    tmp_path, short_corpus, options, whole, interrupted, assert_same_weights
):
    """Ctrl-C in the middle of the third epoch."""
    directory = tmp_path / "model"
    shutil.copytree(interrupted, directory)
    with np.load(directory / "last.npz") as stored:
        arrays = dict(stored)
    assert len(read_history(directory / "history.json")) == 2
    assert int(arrays["optimizer.0"]) == 2 * 41 + 8 and 0 < arrays["spent"][1] < 1000
    np.savez(directory / "last.npz", **arrays | {"spent": arrays["spent"] + 1000})
    resumed = train(short_corpus, directory, **options._asdict())
    metrics = json.loads((whole / "metrics.json").read_text())
    assert resumed["test"] == metrics["test"]
    # metrics of the epoch continue
    for left, right in zip(metrics["history"], resumed["history"], strict=True):
        assert left["train_perplexity"] == pytest.approx(right["train_perplexity"], rel=1e-6)
    assert_same_weights(whole, directory)
    assert [epoch["training_cpu_seconds"] > 1000 for epoch in resumed["history"]] == [
        False,
        False,
        True,
    ]


@pytest.fixture
def check_resume(tmp_path, train_without_report, interrupted_after, assert_same_weights):
    """Function that interrupts a run in its second epoch, resumes it, and compares the weights with
    those of a whole run.
    """

    def is_in_the_second_epoch(checkpoint: Checkpoint) -> bool:
        return checkpoint.position == (1, 25)

    def check(options: Options, corpus: Corpus, **arguments) -> None:
        with interrupted_after(Checkpoint, "on_train_batch_end", is_in_the_second_epoch):
            train_without_report(options, corpus, tmp_path / "resumed", **arguments)
        train_without_report(options, corpus, tmp_path / "resumed", **arguments)
        train_without_report(options, corpus, tmp_path / "whole", **arguments)
        assert_same_weights(tmp_path / "whole", tmp_path / "resumed")

    return check


@pytest.mark.long
@pytest.mark.parametrize("place", ["on_test_begin", "on_test_batch_end", "save_best"])
def test_an_epoch_interrupted_in_validation_is_validated_on_resume(
    tmp_path,
    short_corpus,
    options,
    whole,
    train_without_report,
    interrupted_after,
    assert_same_weights,
    place,
):
    """Ctrl-C as the second epoch is trained, and its weights are exchanged with their average."""
    directory = tmp_path / "model"

    def is_in_the_second_epoch(checkpoint: Checkpoint) -> bool:
        return checkpoint.position == (2, 0)

    with interrupted_after(Checkpoint, place, is_in_the_second_epoch):
        train_without_report(options, short_corpus, directory)
    with np.load(directory / "last.npz") as stored:
        assert int(stored["optimizer.0"]) == 2 * 41
        assert len(json.loads(bytes(stored["history"]))["epochs"]) == 1
    train_without_report(options, short_corpus, directory)
    expected = read_history(whole / "history.json")
    timed = ("seconds", "cpu_seconds", "training_cpu_seconds", "ngrams_per_second")
    for one, other in zip(expected, read_history(directory / "history.json"), strict=True):
        assert {name: one[name] for name in one.keys() - {*timed}} == {
            name: other[name] for name in other.keys() - {*timed}
        }
    assert_same_weights(whole, directory)


@pytest.mark.long
def test_a_run_without_validation_text_resumes_to_the_same_weights(
    tmp_path, short_text, options, check_resume
):
    corpus = open_corpus(train=[str(short_text)], all_lines=True)
    check_resume(options, corpus)
    history = read_history(tmp_path / "resumed" / "history.json")
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3]


@pytest.mark.long
def test_a_run_that_starts_from_word_vectors_resumes_to_the_same_weights(
    tmp_path, short_text, options, check_resume
):
    """The words, and so their ids, are those of a list; some have no vector."""
    width = options.network.embedding_dim
    words = [f"w{i}" for i in range(30)]
    vectors = np.random.default_rng(0).normal(0, 1, (20, width))
    write_word2vec(tmp_path / "some.vec", words[:20], vectors)
    (tmp_path / "list.txt").write_text("\n".join(words), encoding="utf-8")
    corpus = open_corpus(train=[str(short_text)], vocabulary=tmp_path / "list.txt")
    check_resume(options, corpus, vectors=tmp_path / "some.vec")
    with pytest.raises(InputError, match=r"epochs: 3 there, 4 now\. A finished run does not"):
        train(
            corpus,
            tmp_path / "whole",
            **options.replace(epochs=4)._asdict(),
            vectors=tmp_path / "some.vec",
        )


# the tests above have the full output
OUTPUTS = {
    "energy": dict(
        head="energy", hidden="none", objective="sampled", optimizer="adagrad", learning_rate=0.1
    ),
    "nce": dict(
        objective="nce",
        num_sampled=20,
        optimizer="adam",
        learning_rate=0.01,
        boundary="text",
        segment=4,
        freeze_embedding=True,
    ),
    "shortlist": dict(objective="sampled", num_sampled=9, shortlist_size=10, boundary="stream"),
}


CHECKPOINTS = ("last.npz", "previous.npz")


@pytest.mark.long
@pytest.mark.parametrize("output", OUTPUTS)
def test_runs_of_outputs_resume_from_kills_at_renames_of_all_files(
    tmp_path, monkeypatch, short_text, short_options, output
):
    """A run is killed before its third rename to `last.npz`.

    With a short-list, which has the most files, it is killed before its first and third rename to
    each checkpoint and before the first rename to each other name: renames do not know the output.
    The text is on disk, and a share of it is resampled. Checkpoints are written all the time.
    """
    options = short_options.replace(dropout=0.2, **OUTPUTS[output])
    small = {
        "data.encoded_corpus.IN_MEMORY": 0,
        "data.pools.BLOCK": 1 << 8,
        "data.pools.POOL": 4 << 8,
    }
    small |= {
        "training.checkpoint.SECONDS_PER_SAVE": 0.0,
        "training.checkpoint.UPDATES_PER_CHECK": 3,
    }
    for name, value in small.items():
        monkeypatch.setattr(f"keras_nplm.{name}", value)
    corpus = open_corpus(train=[str(short_text)], resample=[(0.5, [str(short_text)])])
    whole = train(corpus, tmp_path / "whole", **options._asdict())
    rename = os.replace
    renames = collections.Counter()
    kills = []

    def replace(source, target):
        path = Path(target)
        name = path.suffix if path.suffix == ".counts" else path.name  # counts have random names
        renames[name] += 1
        is_killed = name == "last.npz" and renames[name] == 3
        if output == "shortlist":
            is_killed = renames[name] in (1, 3) if name in CHECKPOINTS else renames[name] == 1
        if is_killed:
            kills.append(name)
            raise _Killed
        rename(source, target)

    monkeypatch.setattr("os.replace", replace)
    while not (tmp_path / "cut" / "metrics.json").exists():
        with contextlib.suppress(_Killed):
            resumed = train(corpus, tmp_path / "cut", **options._asdict())
    if output == "shortlist":
        assert all(kills.count(name) == 2 for name in CHECKPOINTS), kills
        assert {"history.json", "metrics.json"} < {*kills}
    else:
        assert kills == ["last.npz"]
    assert resumed["test"] == whole["test"]
    one, two = (
        LanguageModel.load(tmp_path / name).network.get_weights() for name in ("whole", "cut")
    )
    assert all(np.array_equal(left, right) for left, right in zip(one, two, strict=True))


@pytest.fixture
def build_checkpoint(tmp_path, short_options):
    """A function from the updates of an epoch and options to the checkpoint of a tiny model as
    training begins.
    """

    def build(steps: int, begins: bool = True, is_validated: bool = True, **options) -> Checkpoint:
        model = NPLM(9, order=3, embedding_dim=2, hidden_units=3)
        model.compile("sgd")
        devices = tf.distribute.get_strategy()
        changed = short_options.replace(**options)
        run = dict(batch_size=4, devices=devices, is_validated=is_validated)
        checkpoint = Checkpoint(model, tmp_path, changed, steps, **run)
        checkpoint.on_train_begin()
        if begins:
            checkpoint.on_epoch_begin(0)
        return checkpoint

    return build


def test_checkpoint_is_saved_only_where_a_run_can_resume(build_checkpoint):
    """Not from weights that are not finite."""
    checkpoint = build_checkpoint(2)
    for updates, is_saved, weight in ((1, True, 0.0), (2, True, 0.0), (1, False, np.nan)):
        checkpoint.model.optimizer.iterations.assign(updates)
        checkpoint.model.embed.C.assign(np.full((9, 2), weight))
        checkpoint.save()
        assert checkpoint.last_path.exists() == is_saved
        checkpoint.last_path.unlink(missing_ok=True)


def test_several_workers_save_no_epoch_that_is_not_validated(monkeypatch, build_checkpoint):
    """Only all workers together can read the metrics of training."""
    checkpoint = build_checkpoint(2)
    several = Mock(return_value=True)
    checkpoint.model.optimizer.iterations.assign(2)
    monkeypatch.setattr("keras_nplm.training.checkpoint.has_several_workers", several)
    checkpoint.save()
    assert not checkpoint.last_path.exists()
    several.return_value = False
    checkpoint.save()
    several.return_value = True
    with pytest.raises(InputError, match="several workers: its last epoch is not validated"):
        build_checkpoint(2)


def test_the_clock_is_read_at_each_update(monkeypatch, build_checkpoint):
    checkpoint = build_checkpoint(99)
    checkpoint.model.optimizer.iterations.assign(8)
    checkpoint.on_train_batch_end(7, {"loss": 1.0})
    assert not checkpoint.last_path.exists()
    monkeypatch.setattr("keras_nplm.training.checkpoint.SECONDS_PER_SAVE", 0.0)
    checkpoint.on_train_batch_end(7, {"loss": 1.0})
    assert checkpoint.last_path.exists()


def test_an_interruption_amid_the_exchange_with_the_average_saves_nothing(
    monkeypatch, build_checkpoint
):
    checkpoint = build_checkpoint(2, weight_average=0.9)
    checkpoint.model.optimizer.iterations.assign(2)
    monkeypatch.setattr(checkpoint.average, "swap", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        checkpoint.on_test_begin()
    checkpoint.save()
    assert not checkpoint.last_path.exists()


def test_the_best_epoch_is_kept_and_training_stops_after_patience_is_spent(build_checkpoint):
    checkpoint = build_checkpoint(2, epochs=9, patience=1)
    stopped = []
    for epoch, perplexity in enumerate((8.0, 7.0, 7.5)):
        checkpoint.model.embed.C.assign(np.full((9, 2), perplexity))
        checkpoint.on_test_begin()
        checkpoint.on_epoch_end(
            epoch, {"loss": 2.0, "perplexity": 7.4, "val_perplexity": perplexity}
        )
        stopped.append(checkpoint.model.stop_training)
    assert stopped == [False, False, True]
    np.testing.assert_array_equal(
        keras.models.load_model(checkpoint.best_path).embed.C, np.full((9, 2), 7.0)
    )


def test_figures_that_are_not_finite_end_the_run(build_checkpoint):
    checkpoint = build_checkpoint(2)
    with pytest.raises(
        RunError, match="The loss became nan at update 1 of epoch 1. Fix: lower --learning-rate"
    ):
        checkpoint.on_train_batch_end(0, {"loss": np.nan})
    with pytest.raises(
        RunError, match="perplexity became inf in epoch 1. Fix: lower --learning-rate"
    ):
        checkpoint.on_epoch_end(0, {"loss": 1.0, "val_perplexity": np.inf})


@pytest.mark.parametrize(
    "steps, taken",
    [
        pytest.param(64, [32, 64, 96, 128], id="epochs of 64 updates"),
        pytest.param(20, [32], id="an epoch of 20 updates"),
    ],
)
def test_average_of_the_weights_follows_its_formula_and_is_saved(build_checkpoint, steps, taken):
    """Every 32 updates enter the average, and the end of a shorter first epoch does.

    Training goes on from weights.
    """
    checkpoint = build_checkpoint(steps, weight_average=0.99)
    expected = float(taken[0])
    model = checkpoint.model
    for epoch in range(2):
        for batch in range(steps):
            update = epoch * steps + batch + 1
            model.optimizer.iterations.assign(update)
            model.prob.b.assign(np.full(9, float(update)))
            checkpoint.on_train_batch_end(batch, {"loss": 1.0})
        checkpoint.on_test_begin()
        validated = model.prob.b.numpy()
        checkpoint.on_epoch_end(epoch, {"loss": 1.0, "val_perplexity": 5.0 - epoch})
        np.testing.assert_array_equal(model.prob.b, update)
        if epoch == 0 and steps < 32:
            np.testing.assert_array_equal(validated, steps)
    for update in taken[1:]:
        expected = 0.99**32 * expected + (1 - 0.99**32) * update
    np.testing.assert_allclose(validated, expected, rtol=1e-6)
    np.testing.assert_array_equal(keras.models.load_model(checkpoint.best_path).prob.b, validated)


@pytest.mark.long
def test_interruption_after_a_failed_update_saves_no_checkpoint(
    tmp_path, monkeypatch, short_corpus, options
):
    """Ctrl-C while workers wait for a lost one: a part of the weights may be updated."""

    def fail(checkpoint, batch, logs=None):
        try:
            raise tf.errors.UnavailableError(None, None, "a worker was lost")
        finally:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "on_train_batch_end", fail)
    with pytest.raises(KeyboardInterrupt):
        train(short_corpus, tmp_path, **options._asdict())
    assert (tmp_path / "config.json").exists() and not (tmp_path / "last.npz").exists()


@pytest.mark.long
def test_finished_run_removes_what_a_killed_one_left(tmp_path, short_corpus, options, whole):
    """SIGKILL after metrics.json was written."""
    shutil.copytree(whole, tmp_path / "model")
    left = [tmp_path / "model" / name for name in (".lock", "last.npz", ".report.nplm-4711.html")]
    for path in left:
        path.touch()
        os.utime(path, (0, 0))
    train(short_corpus, tmp_path / "model", **options._asdict())
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


@pytest.mark.parametrize(
    "name, damage",
    [
        pytest.param("last.npz", _garble, marks=pytest.mark.long),
        pytest.param("history.json", _empty, marks=pytest.mark.long),
    ],
)
def test_run_with_a_damaged_file_resumes_to_the_same_weights(
    tmp_path, short_corpus, options, whole, interrupted, assert_same_weights, capsys, name, damage
):
    shutil.copytree(interrupted, directory := tmp_path / "model")
    damage(directory / name)
    resumed = train(short_corpus, directory, **options._asdict())
    assert [epoch["epoch"] for epoch in resumed["history"]] == [1, 2, 3]
    assert resumed["test"] == json.loads((whole / "metrics.json").read_text())["test"]
    assert_same_weights(whole, directory)
    is_announced = (
        "Resuming from previous.npz, after update 0 of epoch 3." in capsys.readouterr().err
    )
    assert is_announced == (name == "last.npz")
    assert not list(directory.glob("*.npz"))


NEEDED = [
    "config.json",
    "vocabulary.txt",
    "spelling.tsv",
    "corpus/corpus.json",
    "corpus/train.00000.ids",
    "corpus/validation.00000.ids",
]


@pytest.mark.parametrize(
    "names",
    [["last.npz", "previous.npz"], ["model.keras"], *([name] for name in NEEDED)],
    ids=" and ".join,
)
@pytest.mark.parametrize("damage", [_halve, pytest.param(_empty, marks=pytest.mark.long)])
def test_damage_beyond_repair_names_the_directory_to_remove(
    tmp_path, short_corpus, options, interrupted, names, damage
):
    shutil.copytree(interrupted, directory := tmp_path / "model")
    for name in names:
        damage(directory / name)
    before = sorted(path.name for path in directory.rglob("*") if path.name != ".lock")
    with pytest.raises(
        InputError, match=f"The run in {directory} .* Fix: restore .*, or remove {directory} "
    ):
        train(short_corpus, directory, **options._asdict())
    assert sorted(path.name for path in directory.rglob("*") if path.name != ".lock") == before


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
        assert "The n-gram model is written again." in capsys.readouterr().err


def test_a_full_disk_keeps_both_checkpoints(monkeypatch, build_checkpoint):
    checkpoint = build_checkpoint(9)
    for updates in (1, 2):
        checkpoint.model.optimizer.iterations.assign(updates)
        checkpoint.save()
    paths = (checkpoint.last_path, checkpoint.previous_path)
    contents = [path.read_bytes() for path in paths]

    @contextlib.contextmanager
    def fail(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield

    monkeypatch.setattr("keras_nplm.io.files.open_archive_to_write", fail)
    with pytest.raises(RunError, match="Cannot write .*last.npz: No space left on device"):
        checkpoint.save()
    assert [path.read_bytes() for path in paths] == contents


@pytest.mark.parametrize("damage", [_halve, _garble, Path.unlink])
def test_a_damaged_checkpoint_does_not_replace_a_whole_one(build_checkpoint, damage):
    checkpoint = build_checkpoint(9)
    for updates in (1, 2):
        checkpoint.model.optimizer.iterations.assign(updates)
        checkpoint.save()
    damage(checkpoint.last_path)
    resumed = build_checkpoint(9)
    assert resumed.position == (0, 1)
    previous = resumed.previous_path.read_bytes()
    resumed.save()
    assert resumed.previous_path.read_bytes() == previous


def test_an_interruption_before_the_first_epoch_saves_nothing(build_checkpoint):
    checkpoint = build_checkpoint(9, begins=False)
    checkpoint.save()
    assert not checkpoint.last_path.exists()


def test_an_average_that_is_due_is_saved(build_checkpoint):
    """Ctrl-C after an update, before `on_train_batch_end` of it."""
    averages = []
    for is_called in (True, False):
        keras.utils.set_random_seed(1)
        checkpoint = build_checkpoint(99, weight_average=0.99)
        checkpoint.model.optimizer.iterations.assign(64)
        checkpoint.model.prob.b.assign(np.full(9, 5.0))
        if is_called:
            checkpoint.on_train_batch_end(63, {"loss": 1.0})
        checkpoint.save()
        resumed = build_checkpoint(99, weight_average=0.99)
        resumed.save()  # the average of this update is not taken twice
        averages.append([average.numpy() for average in resumed.average.averages])
        checkpoint.last_path.unlink()
        checkpoint.previous_path.unlink()
    expected = np.full(9, 5.0 * (1 - 0.99**32))  # b began at 0
    assert any(np.allclose(average, expected) for average in averages[0] if average.shape == (9,))
    for one, other in zip(*averages, strict=True):
        np.testing.assert_array_equal(one, other)


def test_checkpoint_that_does_not_match_is_refused(
    tmp_path, monkeypatch, short_corpus, options, interrupted
):
    monkeypatch.setattr(Checkpoint, "is_done", True)  # a run that is not refused ends
    shutil.copytree(interrupted, directory := tmp_path / "model")
    (directory / "previous.npz").unlink()
    with np.load(directory / "last.npz") as stored:
        arrays = dict(stored)
    name = next(name for name in sorted(arrays) if name.startswith("weights"))
    history = np.frombuffer(b'{"epochs": []}', np.uint8)
    np.savez(directory / "last.npz", **arrays | {"history": history})
    with pytest.raises(InputError, match="last.npz does not match the epochs of this run"):
        train(short_corpus, directory, **options._asdict())
    np.savez(directory / "last.npz", **arrays | {name: arrays[name][:-1]})
    with pytest.raises(InputError, match="last.npz does not match this model's weight shapes"):
        train(short_corpus, directory, **options._asdict())


@pytest.mark.parametrize("is_validated", [True, False])
def test_all_workers_know_the_finished_epochs_of_the_chief(
    monkeypatch, build_checkpoint, is_validated
):
    """With validation text and without: they must stop after the same epoch."""
    run = dict(steps=2, epochs=3, is_validated=is_validated)
    chief = build_checkpoint(**run)
    for epoch in range(2):
        chief.model.optimizer.iterations.assign(2 * (epoch + 1))
        chief.on_test_begin()
        chief.on_epoch_end(epoch, {"loss": 2.0, "perplexity": 7.4, "val_perplexity": 8.0 - epoch})
    sent = []

    def broadcast(devices, arrays):
        return sent or arrays

    broadcast = Mock(side_effect=broadcast)
    monkeypatch.setattr("keras_nplm.training.checkpoint.broadcast_from_chief", broadcast)
    monkeypatch.setattr(
        "keras_nplm.training.checkpoint.has_several_workers", Mock(return_value=True)
    )
    resumed = build_checkpoint(**run)
    sent.extend(broadcast.call_args.args[1])
    monkeypatch.setattr("keras_nplm.training.checkpoint.is_chief", Mock(return_value=False))
    worker = build_checkpoint(**run)
    assert resumed.position == worker.position == (2, 0)
    assert len(resumed.history) == len(worker.history) == 2
    assert [epoch.get("validation_perplexity") for epoch in worker.history] == [
        epoch.get("validation_perplexity") for epoch in resumed.history
    ]
