"""What several replicas cannot do is refused; a replica sends the row of a word once."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, InputError

V = 11


@pytest.mark.parametrize(
    "options, message",
    [
        ({"optimizer": keras.optimizers.SGD(gradient_accumulation_steps=2)}, "`gradient_accumulation_steps` must be"),
        ({"steps_per_execution": 2}, "`steps_per_execution` must be 1 under tf.distribute"),
        ({"jit_compile": True}, "`jit_compile` must be False under tf.distribute"),
    ],
)
def test_options_that_fail_on_replicas_are_refused(options, message):
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        model = NPLM(V, 3, 2, 3)
        model.compile("sgd")
        assert model.jit_compile is False
        with pytest.raises(InputError, match=message):
            model.compile(**{"optimizer": "sgd"} | options)


@pytest.mark.parametrize("output", ["full", "nce"])
def test_replicas_send_the_row_of_a_word_once(output, monkeypatch):
    model, sent = NPLM(V, 3, 2, 3, output=output), []
    model.compile("sgd")
    monkeypatch.setattr(model.optimizer, "apply_gradients", lambda pairs: sent.extend(pairs))
    replica = types.SimpleNamespace(num_replicas_in_sync=2, all_reduce=lambda operation, number: 2 * number)
    monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: replica)
    contexts, targets = np.array([[4, 4], [4, 5], [5, 4]], np.int32), np.array([6, 6, 6], np.int32)
    model.train_step((contexts, targets))
    sparse = {variable.name: g.indices.numpy().tolist() for g, variable in sent if isinstance(g, tf.IndexedSlices)}
    assert sparse["C"] == [4, 5]
    assert len(sparse) == (3 if output == "nce" else 1)
    assert all(len(set(ids)) == len(ids) for ids in sparse.values())
