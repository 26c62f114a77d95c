"""What several replicas cannot do is refused; the environment variable TF_CONFIG is read with care."""

import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, InputError
from keras_nplm.models.replicas import read_cluster, read_workers

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


def test_compile_checks_under_a_strategy():
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        model = NPLM(V, 3, 2, 3)
        model.compile("sgd")
        assert model.jit_compile is False
        with pytest.raises(InputError, match="`steps_per_execution` must be 1 under tf.distribute"):
            model.compile("sgd", steps_per_execution=2)


CLUSTER = {"cluster": {"worker": ["one:1", "two:2"]}, "task": {"type": "worker", "index": 1}}


def test_cluster_and_number_of_this_worker_are_read(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert read_cluster() == ([], 0) and read_workers() == []
    monkeypatch.setenv("TF_CONFIG", json.dumps(CLUSTER))
    assert read_cluster() == (["one:1", "two:2"], 1) and read_workers() == ["one:1", "two:2"]
    monkeypatch.setenv("TF_CONFIG", _change({"index": 0}, worker=["one:65535"]))
    assert read_cluster() == (["one:65535"], 0)


def _change(task: dict | None = None, **cluster) -> str:
    return json.dumps({"cluster": CLUSTER["cluster"] | cluster, "task": CLUSTER["task"] | (task or {})})


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "describe a cluster .*JSONDecodeError"),
        ("[]", "describe a cluster .*TypeError"),
        ('{"cluster": {"worker": ["one:1"]}}', "describe a cluster .*KeyError.'task'"),
        (_change(ps=["three:3"]), r"list workers only, .* Received: \['ps', 'worker'\]"),
        (_change(worker=[]), r"list the addresses of the workers. Received: \[\]"),
        (_change(worker="one:1"), "list the addresses of the workers. Received: 'one:1'"),
        (_change(worker=["one:1", "two"]), "give each worker as host:port, .* Received: 'two'"),
        (_change(worker=["one:1", "localhost:99999"]), "port of 1 to 65535. Received: 'localhost:99999'"),
        (_change(worker=["one:1", "two:0"]), "Received: 'two:0'"),
        (_change(worker=["one:1", ":2"]), "Received: ':2'"),
        (_change(worker=["one:1", 2]), "Received: 2"),
        (_change(worker=["one:1", "two:2", "one:1"]), "list each address once. Received: 'one:1'"),
        (_change({"type": "ps"}), "give this process the type worker. Received: 'ps'"),
        (_change({"index": 2}), "an integer index of 0 to 1. Received: 2"),
        (_change({"index": -1}), "an integer index of 0 to 1. Received: -1"),
        (_change({"index": True}), "an integer index of 0 to 1. Received: True"),
    ],
)
def test_invalid_cluster_is_refused(text, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match=rf"TF_CONFIG must .*{message}.* Fix: write it like"):
        read_workers()


@pytest.mark.parametrize("output", ["full", "nce"])
def test_replicas_send_the_row_of_a_word_once(output, monkeypatch):
    model, sent = NPLM(V, 3, 2, 3, output=output), []
    model.compile("sgd")
    monkeypatch.setattr(model.optimizer, "apply_gradients", lambda pairs: sent.extend(pairs))
    monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: types.SimpleNamespace(num_replicas_in_sync=2))
    contexts, targets = np.array([[4, 4], [4, 5], [5, 4]], np.int32), np.array([6, 6, 6], np.int32)
    model.train_step((contexts, targets))
    sparse = {variable.name: g.indices.numpy().tolist() for g, variable in sent if isinstance(g, tf.IndexedSlices)}
    assert sparse["C"] == [4, 5]
    assert len(sparse) == (3 if output == "nce" else 1)
    assert all(len(set(ids)) == len(ids) for ids in sparse.values())
