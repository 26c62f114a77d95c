"""Local SGD: workers take K updates each, then their weights are averaged. A second worker is simulated here."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.training.local_updates as local_updates
from keras_nplm import Configuration, InputError, train
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.fit import _divide_epoch
from keras_nplm.training.local_updates import LocalUpdates
from keras_nplm.training.prepare import prepare_directory
from keras_nplm.training.targets import TrainingTargets

pytestmark = pytest.mark.usefixtures("no_report")
K = 6


class _Eager:
    """TensorFlow whose functions run eagerly."""

    function = staticmethod(lambda function: function)

    def __getattr__(self, name):
        return getattr(tf, name)


@pytest.fixture
def first_of_two(monkeypatch):
    """This process is worker 0 of two, and a function sets what `_reduce` makes of its tensors."""
    monkeypatch.setattr(local_updates, "check_local_updates", lambda devices: None)
    monkeypatch.setattr("keras_nplm.training.train.check_local_updates", lambda devices: None)
    monkeypatch.setattr(local_updates, "read_cluster", lambda: (["a:1", "b:1"], 0))

    def simulate(reduce) -> None:
        monkeypatch.setattr(LocalUpdates, "_reduce", lambda self, tensors, kind: reduce(tensors, kind))
        monkeypatch.setattr(LocalUpdates, "_sum", lambda self, *tensors: [2 * tensor for tensor in tensors])
        monkeypatch.setattr(local_updates, "tf", _Eager())

    return simulate


@pytest.fixture
def local_configuration(short_configuration) -> Configuration:
    return dataclasses.replace(short_configuration, average_every=K, epochs=1, dropout=0.0, embedding_dropout=0.0)


def test_weights_equal_those_of_two_workers_trained_by_turns(
    tmp_path, short_corpus, local_configuration, first_of_two, train_by_turns, load_weights
):
    configuration = dataclasses.replace(local_configuration, optimizer="adam", learning_rate=0.01)
    text = dict(vocabulary_scope="train", min_count=2, max_size=None)
    encoded, _ = prepare_directory(tmp_path / "encoded", short_corpus, {}, **text)
    expected, second = train_by_turns(configuration, encoded, 2)
    seen = []

    def average(tensors, kind):
        assert kind == "MEAN"
        first, other = second[len(seen)]
        for tensor, part in zip(tensors, first, strict=True):
            np.testing.assert_allclose(tensor, part, atol=1e-6)
        seen.append(len(tensors))
        return [(tensor + part) / 2 for tensor, part in zip(tensors, other, strict=True)]

    first_of_two(average)
    train(configuration, short_corpus, tmp_path / "model")
    assert len(seen) == len(second) > 3
    for one, two in zip(load_weights(tmp_path / "model"), expected, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("end", [2 * K + 3, 2 * K])
def test_interrupted_run_resumes_from_the_last_average(
    tmp_path, monkeypatch, short_corpus, local_configuration, first_of_two, assert_same_weights, end
):
    """Killed between two averages, or while the moving average is updated: then the checkpoint is older, or none."""
    options = dict(output_layer="nce", num_sampled=16, dropout=0.1, weight_average=0.9, optimizer="adam")
    configuration = dataclasses.replace(local_configuration, learning_rate=0.01, **options)
    monkeypatch.setattr("keras_nplm.training.checkpoint.UPDATES_PER_AVERAGE", 1)
    first_of_two(lambda tensors, kind: [0.99 * tensor for tensor in tensors])
    train(configuration, short_corpus, tmp_path / "whole")

    def interrupt(checkpoint, *arguments, **options):
        if checkpoint._count_updates() >= end:
            raise KeyboardInterrupt
        return method(checkpoint, *arguments, **options)

    name = "on_train_batch_end" if end % K else "_update_average"
    with monkeypatch.context() as patch:
        method = getattr(Checkpoint, name)
        patch.setattr(Checkpoint, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(configuration, short_corpus, tmp_path / "cut")
    assert (tmp_path / "cut" / "last.npz").exists() == (end % K > 0)
    if end % K:
        with np.load(tmp_path / "cut" / "last.npz") as stored:
            assert 2 * K in [int(array) for array in stored.values() if array.ndim == 0 and array.dtype.kind == "i"]
    train(configuration, short_corpus, tmp_path / "cut")
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("validated", [3, 0])
def test_figures_of_an_epoch_are_weighted_means(monkeypatch, first_of_two, validated):
    first_of_two(None)
    model = local_updates.NPLM(9, 3, 2, 3, dropout=0.1)
    model.compile("sgd")
    model.perplexity.update_state(np.zeros(validated, np.float32))
    local = LocalUpdates(model, tf.distribute.get_strategy(), K, 10)
    # the other worker has 5 n-grams of validation
    other = [np.array([3.0, np.log(8.0), 5 * 7.0, 5 * np.log(4.0)]), np.array([1.0, 1.0, 5.0, 5.0])]
    monkeypatch.setattr(LocalUpdates, "_sum", lambda self, *own: [a + b for a, b in zip(own, other, strict=True)])
    logs = {"loss": 1.0, "perplexity": 2.0}
    if validated:  # Keras has no figures of an empty validation set
        logs |= {"val_loss": 2.0, "val_perplexity": 1.0}
    local.on_epoch_end(0, logs)
    share = 5 / (5 + validated)
    assert logs == pytest.approx(
        {"loss": 2.0, "perplexity": 4.0, "val_loss": 2 + 5 * share, "val_perplexity": 4.0**share}
    )


def test_workers_have_their_own_dropout_and_samples(monkeypatch, first_of_two):
    first_of_two(None)
    states = []
    for index in range(3):
        keras.utils.set_random_seed(1)
        model = local_updates.NPLM(9, 3, 2, 3, output="nce", dropout=0.1)
        model.compile("sgd")
        monkeypatch.setattr(local_updates, "read_cluster", lambda index=index: (["a:1", "b:1", "c:1"], index))
        chief = [state.numpy() for state in model.random_states()]
        LocalUpdates(model, tf.distribute.get_strategy(), K, 10).vary_random_states()
        states.append([state.numpy().tolist() for state in model.random_states()])
        for state, (seed, count) in zip(chief, states[-1], strict=True):
            assert (seed == state[0]) == (index == 0) and count == state[1]
    assert len(states[0]) > 1 and states[1] != states[2]


@pytest.mark.parametrize(
    "several, message",
    [(False, "1 without several workers. Received: 4 dev"), (True, "1 with several devices in a worker. Received: 2")],
)
def test_local_updates_need_workers_with_one_device(monkeypatch, several, message):
    devices = type("Devices", (), {"num_replicas_in_sync": 4})()
    monkeypatch.setattr(local_updates, "has_several_workers", lambda strategy: several)
    monkeypatch.setattr(local_updates, "read_cluster", lambda: (["a:1", "b:1"], 0))
    with pytest.raises(InputError, match=f"`average_every` must be {message}"):
        local_updates.check_local_updates(devices)


@pytest.mark.parametrize(
    "every, updates, output, expected",
    [
        (1, 1562, "nce", (1562, 22)),
        (12, 1562, "nce", (1560, 12)),
        (64, 1562, "nce", (1536, 32)),
        (64, 90, "nce", (88, 4)),
        (7, 13, "nce", (13, 1)),
        (64, 1562, "full", (1562, 1)),
    ],
)
def test_executions_divide_the_updates_between_averages(every, updates, output, expected):
    configuration = Configuration(batch_size=64, average_every=every, output_layer=output)
    targets = TrainingTargets(np.ones((1, 5000), np.int64), np.ones(1), 64 * updates)
    assert _divide_epoch(configuration, targets, tf.distribute.get_strategy()) == (64, *expected)
