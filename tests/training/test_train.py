import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from keras_nplm import (
    CONFIGURATIONS,
    NPLM,
    Configuration,
    InputError,
    RunError,
    evaluate,
    open_corpus,
    train,
)
from keras_nplm.cli.main import main
from keras_nplm.data.encoding import EncodedCorpus
from keras_nplm.data.shards import ShardedIds
from keras_nplm.training.build import build_model, build_optimizer


def _weights(directory):
    return [weight.numpy() for weight in keras.models.load_model(directory / "model.keras").weights]


def test_the_model_directory_is_whole_and_its_figures_are_the_models(model_directory, small_configuration):
    assert {path.name for path in model_directory.iterdir()} == {
        "config.json", "corpus", "history.json", "logs", "metrics.json", "model.keras", "report.html", "vocabulary.txt",
    }  # fmt: skip
    metrics = json.loads((model_directory / "metrics.json").read_text())
    model = keras.models.load_model(model_directory / "model.keras")
    encoded = EncodedCorpus.load(model_directory / "corpus")
    assert metrics["test"] == evaluate(model, encoded.ids("test"), "sentence")
    assert metrics["test"]["tokens"] == encoded.splits["test"]["tokens"] + encoded.splits["test"]["sentences"]
    best = metrics["history"][metrics["best_epoch"] - 1]
    assert metrics["validation"]["perplexity"] == pytest.approx(best["validation_perplexity"], rel=1e-4)
    assert metrics["validation"]["perplexity"] < 150  # the unigram model: about 270
    assert metrics["parameters"] == build_model(small_configuration, model.vocabulary_size).count_params()
    assert list((model_directory / "logs").glob("*/events*"))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path, model_directory, small_configuration):
    train(small_configuration, open_corpus(), tmp_path / "same")
    for left, right in zip(_weights(model_directory), _weights(tmp_path / "same"), strict=True):
        np.testing.assert_array_equal(left, right)
    train(dataclasses.replace(small_configuration, seed=2, epochs=1), open_corpus(), tmp_path / "other")
    assert not np.array_equal(_weights(model_directory)[0], _weights(tmp_path / "other")[0])


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


@pytest.mark.parametrize(
    "file, options",
    [
        ("history.json", {}),
        ("last.npz", {}),
        ("model.keras", {}),
        ("last.npz", {"output_layer": "nce", "num_sampled": 20, "held_out_mass": 0.1, "optimizer": "adagrad"}),
    ],
)
def test_a_run_that_was_killed_goes_on_to_the_same_weights(tmp_path, monkeypatch, small_configuration, file, options):
    """Killed in the second of three epochs, just before one of its files is renamed."""
    configuration = dataclasses.replace(small_configuration, epochs=3, dropout=0.2, **options)
    whole = train(configuration, open_corpus(), tmp_path / "whole")
    rename = shutil.os.replace
    renamed = []

    def killed(source, target):
        renamed.append(target.name)
        if renamed.count(file) == 2:
            raise _Killed
        rename(source, target)

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(_Killed):
        train(configuration, open_corpus(), tmp_path / "killed")
    monkeypatch.undo()
    resumed = train(configuration, open_corpus(), tmp_path / "killed")
    assert len(resumed["history"]) == 3
    assert resumed["test"] == whole["test"]
    for left, right in zip(_weights(tmp_path / "whole"), _weights(tmp_path / "killed"), strict=True):
        np.testing.assert_array_equal(left, right)


TRAIN = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
import keras_nplm.training.train as training
from keras_nplm.cli.main import main
training.SECONDS_PER_SAVE, training._STEPS_PER_CHECK = 0.2, 5
sys.exit(main(["train", *sys.argv[1:]]))
"""
OPTIONS = "--order 3 --embedding-dim 8 --hidden-units 8 --epochs 8 --batch-size 32 --min-count 3 --dropout 0.2".split()


def _start(directory, log):
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, "-c", TRAIN, "--output", directory, *OPTIONS], stdout=file, stderr=file
        )


def test_a_run_that_signals_end_within_epochs_goes_on_to_the_same_weights(tmp_path):
    """Interrupted, killed twice, and terminated, each time after some hundred updates at a moment of chance."""
    assert _start(tmp_path / "whole", tmp_path / "log").wait(300) == 0
    state, random = tmp_path / "ended" / "last.npz", np.random.default_rng()
    reached = []
    for number in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        before = state.stat().st_mtime_ns if state.exists() else 0
        run = _start(tmp_path / "ended", tmp_path / "log")
        while run.poll() is None and (state.stat().st_mtime_ns if state.exists() else 0) == before:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.6))
        run.send_signal(number)
        if (status := run.wait(60)) == 0:
            break  # it was done before
        assert status == (-signal.SIGKILL if number == signal.SIGKILL else 130)
        with np.load(state) as stored:
            reached.append(int(stored["optimizer.0"]))
    assert _start(tmp_path / "ended", tmp_path / "log").wait(300) == 0
    assert "give the same command to go on" in (tmp_path / "log").read_text()
    assert len(reached) >= 2 and reached == sorted(reached) and any(updates % 1716 for updates in reached), reached
    for left, right in zip(_weights(tmp_path / "whole"), _weights(tmp_path / "ended"), strict=True):
        np.testing.assert_array_equal(left, right)
    whole, ended = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("whole", "ended"))
    assert whole["test"] == ended["test"]
    for left, right in zip(whole["history"], ended["history"], strict=True):  # the metrics of an epoch go on, too
        assert left["train_perplexity"] == pytest.approx(right["train_perplexity"], rel=1e-6)


def test_a_full_disk_ends_the_run_and_the_rest_goes_on_with_space(tmp_path):
    """A limit on the size of files stands for the disk: the state of the first epoch does not go below it."""
    text, directory = tmp_path / "text.txt", tmp_path / "model"
    text.write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 200)
    options = ["--train", str(text), "--output", str(directory), "--embedding-dim", "200", "--hidden-units", "200"]
    options += ["--learning-rate", "0.3"]
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n{TRAIN}"
    run = subprocess.run([sys.executable, "-c", limited, *options], capture_output=True, text=True, timeout=300)
    assert run.returncode == 1, run.stderr
    last = run.stderr.splitlines()[-1]
    assert "Cannot write" in last and "Free some space" in last and "Traceback" not in run.stderr
    assert {path.name for path in directory.iterdir()} <= {
        "config.json",
        "corpus",
        "logs",
        "vocabulary.txt",
        "history.json",
    }
    assert main(["train", *options, "--json"]) == 0
    assert main(["train", *options, "--order", "3"]) == 2  # another run's directory stays as it is


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_a_run_on_text_too_big_for_memory_learns_and_goes_on_within_an_epoch(
    tmp_path, monkeypatch, small_configuration, model_directory, boundary
):
    """Shards for ids; killed at the third save, which is in the middle of an epoch."""
    monkeypatch.setattr("keras_nplm.data.encoding.IN_MEMORY", 0)
    monkeypatch.setattr("keras_nplm.data.shuffling.BLOCK", 1 << 10)
    monkeypatch.setattr("keras_nplm.data.shuffling.POOL", 16)
    configuration = dataclasses.replace(small_configuration, boundary=boundary)
    whole = train(configuration, open_corpus(), tmp_path / "whole")
    assert isinstance(EncodedCorpus.load(tmp_path / "whole" / "corpus").for_training(), ShardedIds)
    if boundary == "sentence":
        in_memory = json.loads((model_directory / "metrics.json").read_text())
        assert whole["test"]["perplexity"] == pytest.approx(in_memory["test"]["perplexity"], rel=0.04)

    monkeypatch.setattr("keras_nplm.training.checkpoint.SECONDS_PER_SAVE", 0)
    rename, renamed = shutil.os.replace, []

    def killed(source, target):
        renamed.append(target.name)
        if renamed.count("last.npz") == 3:
            raise _Killed
        rename(source, target)

    with monkeypatch.context() as context:
        context.setattr("os.replace", killed)
        with pytest.raises(_Killed):
            train(configuration, open_corpus(), tmp_path / "killed")
    assert train(configuration, open_corpus(), tmp_path / "killed")["test"] == whole["test"]
    for left, right in zip(_weights(tmp_path / "whole"), _weights(tmp_path / "killed"), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_run_killed_while_it_encodes_starts_anew(tmp_path, monkeypatch, small_configuration):
    configuration = dataclasses.replace(small_configuration, epochs=1)

    def killed(*args):
        raise _Killed

    monkeypatch.setattr("keras_nplm.data.vocabulary.Vocabulary.save", killed)
    with pytest.raises(_Killed):
        train(configuration, open_corpus(), tmp_path / "model")
    monkeypatch.undo()
    assert train(configuration, open_corpus(), tmp_path / "model")["best_epoch"] == 1


def test_training_stops_when_patience_is_spent(tmp_path, small_configuration):
    """A step that is far too large: no epoch is better than one before for long."""
    configuration = dataclasses.replace(
        small_configuration, epochs=9, patience=1, learning_rate=8.0, schedule="constant"
    )
    history = train(configuration, open_corpus(), tmp_path / "model")["history"]
    perplexities = [epoch["validation_perplexity"] for epoch in history]
    assert len(history) < 9
    assert perplexities[-1] > min(perplexities) and perplexities.index(min(perplexities)) == len(history) - 2


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path, small_configuration):
    configuration = dataclasses.replace(small_configuration, learning_rate=1e30)
    with pytest.raises(RunError, match="The loss became (nan|inf) at update .* lower --learning-rate"):
        train(configuration, open_corpus(), tmp_path / "model")


def test_a_sampled_run_says_what_it_measures_and_how_near_ln_z_is(tmp_path, small_configuration, capsys):
    options = dict(output_layer="nce", num_sampled=200, self_normalisation=1.0, learning_rate=1.0)
    metrics = train(dataclasses.replace(small_configuration, **options), open_corpus(), tmp_path / "model")
    assert metrics["test"]["perplexity"] < 200
    for epoch in metrics["history"]:
        assert "nce_loss" in epoch and "loss" not in epoch and "train_perplexity" not in epoch
    assert metrics["training_cpu_seconds"] < metrics["cpu_seconds"]
    recorded = metrics["test"]["ln_z"]
    assert recorded["mean_absolute"] < 0.2
    assert main(["evaluate", str(tmp_path / "model"), "--ln-z", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["ln_z"] == pytest.approx(recorded, abs=1e-4)
    text = tmp_path / "text"
    text.write_text("the value of the object is a string\nreturn the name of the class\n", encoding="utf-8")
    scores = []
    for flags in ([], ["--self-normalised"]):
        assert main(["score", str(tmp_path / "model"), str(text), "--json", *flags]) == 0
        scores.append(json.loads(capsys.readouterr().out)["sentences"])
    for exact, fast in zip(*scores, strict=True):
        assert fast["tokens"] == exact["tokens"]
        assert fast["log_prob"] != exact["log_prob"]
        assert abs(fast["log_prob"] - exact["log_prob"]) < 0.5 * exact["tokens"]


def test_a_directory_of_another_run_is_left_alone(tmp_path, model_directory, small_configuration):
    before = (model_directory / "model.keras").read_bytes()
    metrics = json.loads((model_directory / "metrics.json").read_text())
    assert train(small_configuration, open_corpus(), model_directory) == metrics  # finished: nothing is done
    with pytest.raises(InputError, match="holds a run with other options"):
        train(dataclasses.replace(small_configuration, order=3), open_corpus(), model_directory)
    assert (model_directory / "model.keras").read_bytes() == before
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is no model directory"):
        train(small_configuration, open_corpus(), tmp_path)


def test_a_perplexity_that_is_not_finite_ends_the_run(tmp_path, small_configuration):
    """Steps so large that the perplexity overflows, though the loss does not."""
    configuration = dataclasses.replace(small_configuration, learning_rate=2e4, schedule="constant")
    with pytest.raises(RunError, match="became (nan|inf) .*lower --learning-rate"):
        train(configuration, open_corpus(), tmp_path / "model")
    assert not (tmp_path / "model" / "metrics.json").exists()


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_the_optimisers_weight_decay_is_the_papers_penalty(weight_decay):
    """Plain SGD: the same weights whether it is in the optimiser or in the loss; biases do not decay."""
    options = dict(weight_decay=weight_decay, learning_rate=0.1, schedule="constant", dropout=0.0, held_out_mass=0.0)
    configuration = dataclasses.replace(CONFIGURATIONS["brown"], **options)
    in_optimizer, in_loss = build_model(configuration, 50), NPLM(50, weight_decay=weight_decay)
    rng = np.random.default_rng(0)
    for left, right in zip(in_optimizer.weights, in_loss.weights, strict=True):
        value = rng.normal(0, 0.5, left.shape)
        left.assign(value), right.assign(value)
    in_optimizer.compile(optimizer=build_optimizer(configuration, 10))
    in_loss.compile(optimizer=keras.optimizers.SGD(0.1))
    contexts = rng.integers(1, 50, (64, 4))
    for model in (in_optimizer, in_loss):
        model.fit(contexts, contexts[:, 0], epochs=2, shuffle=False, verbose=0)
    for left, right in zip(in_optimizer.weights, in_loss.weights, strict=True):
        np.testing.assert_allclose(left.numpy(), right.numpy(), atol=1e-6, err_msg=left.path)


@pytest.mark.parametrize(
    "schedule, expected",
    [
        ("linear", [0.5, 0.5 * 0.75, 0.5 * 0.5]),
        ("inverse-time", [0.5, 0.5 / 1.1, 0.5 / 1.2]),
        ("constant", [0.5, 0.5, 0.5]),
    ],
)
def test_schedules(schedule, expected):
    configuration = Configuration(learning_rate=0.5, schedule=schedule, decay_rate=0.1, epochs=2)
    optimizer = build_optimizer(configuration, steps_per_epoch=2)
    rates = []
    for update in range(3):
        optimizer.iterations.assign(update)
        rates.append(float(optimizer.learning_rate))
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
