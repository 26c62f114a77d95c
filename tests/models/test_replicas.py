"""What several replicas cannot do is refused; the environment variable TF_CONFIG is read with care."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, InputError, LazySGD
from keras_nplm.models.replicas import has_several_workers, read_workers

V = 11


@pytest.mark.parametrize(
    "options, message",
    [
        ({"optimizer": keras.optimizers.SGD(gradient_accumulation_steps=2)}, "`gradient_accumulation_steps` must be"),
        ({"optimizer": "sgd", "steps_per_execution": 2}, "`steps_per_execution` must be 1 under tf.distribute"),
        ({"optimizer": "sgd", "jit_compile": True}, "`jit_compile` must be False under tf.distribute"),
    ],
)
def test_options_that_fail_on_replicas_are_refused(options, message):
    model = NPLM(V, 3, 2, 3)
    model.compile(**options)
    with pytest.raises(InputError, match=message):
        model.check_replicable()


def test_any_optimizer_and_clipping_may_have_replicas():
    model = NPLM(V, 3, 2, 3, output="nce")
    for optimizer in ("adam", LazySGD(0.1), keras.optimizers.SGD(clipnorm=1), keras.optimizers.Adagrad(clipvalue=1)):
        model.compile(optimizer)
        model.check_replicable()


def test_compile_checks_under_a_strategy():
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        model = NPLM(V, 3, 2, 3)
        model.compile("sgd")
        assert model.jit_compile is False
        with pytest.raises(InputError, match="`steps_per_execution` must be 1 under tf.distribute"):
            model.compile("sgd", steps_per_execution=2)


def test_one_replica_has_the_whole_weight():
    model, mean = NPLM(V, 3, 2, 3), tf.constant(2.0)
    model.compile("sgd")
    assert model.weight_by_examples(mean, tf.ones(5)) is mean
    assert model.add_worker_dimension({"loss": 1.0}) == {"loss": 1.0}
    assert not has_several_workers(tf.distribute.get_strategy())


def test_build_reads_no_batch_of_the_data():
    """Keras builds from a batch, which replicas have in parts."""
    model = NPLM(V, 3, 2, 3)
    model.compile("sgd", metrics=["accuracy"])
    model._maybe_symbolic_build(iterator=iter([]))
    data = tf.data.Dataset.from_tensor_slices((np.ones((4, 2), np.int32), np.ones(4, np.int32))).batch(2)
    assert {"accuracy", "loss", "perplexity"} == set(model.fit(data, shuffle=False, verbose=0).history)


CLUSTER = {"cluster": {"worker": ["one:1", "two:2"]}, "task": {"type": "worker", "index": 1}}


def test_addresses_of_workers_are_read(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert read_workers() == []
    monkeypatch.setenv("TF_CONFIG", json.dumps(CLUSTER))
    assert read_workers() == ["one:1", "two:2"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"cluster": {}}',
        json.dumps(CLUSTER | {"task": {"type": "worker", "index": 2}}),
        json.dumps(CLUSTER | {"task": {"type": "ps", "index": 0}}),
        json.dumps(CLUSTER | {"cluster": {"worker": ["one:1", "two"]}}),
        json.dumps(CLUSTER | {"cluster": {"worker": ["one:1", "two:2"], "ps": ["three:3"]}}),
        json.dumps(CLUSTER | {"task": {"type": "worker", "index": "x"}}),
        json.dumps(CLUSTER | {"task": {"type": "worker", "index": "1"}}),
        json.dumps(CLUSTER | {"cluster": {"worker": ["one:1", "two:99999"]}}),
        json.dumps(CLUSTER | {"cluster": {"worker": ["one:1", ":2"]}}),
        json.dumps(CLUSTER | {"cluster": {"worker": ["one:1", 2]}}),
    ],
)
def test_invalid_cluster_is_refused(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="TF_CONFIG must .* Fix: write it like"):
        read_workers()
