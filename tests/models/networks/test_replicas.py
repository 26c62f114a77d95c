"""A replica sends the row of a word once; `fit` and `save` work under a strategy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import Likelihood, NoiseContrastive
from tests.networks import compose

V = 11


class TwoReplicas:
    """The replica context of the first of two replicas whose parts of a batch are alike."""

    num_replicas_in_sync = 2

    def all_reduce(self, operation, number):
        return 2 * number


@pytest.mark.parametrize(
    "objective, sparse_weights", [(Likelihood(), {"C"}), (NoiseContrastive(), {"C", "U", "b"})]
)
def test_replicas_send_the_row_of_a_word_once(objective, sparse_weights, monkeypatch):
    model = compose(V, objective=objective)
    model.compile("sgd")
    sent = []

    def record(pairs):
        sent.extend(pairs)

    monkeypatch.setattr(model.optimizer, "apply_gradients", record)
    monkeypatch.setattr(tf.distribute, "get_replica_context", TwoReplicas)
    contexts = np.array([[4, 4], [4, 5], [5, 4]], np.int32)
    model.train_step((contexts, np.array([6, 6, 6], np.int32)))
    rows = {
        variable.name: gradient.indices.numpy().tolist()
        for gradient, variable in sent
        if isinstance(gradient, tf.IndexedSlices)
    }
    assert rows["C"] == [4, 5]
    assert set(rows) == sparse_weights
    assert all(len(set(ids)) == len(ids) for ids in rows.values())


@pytest.mark.long
def test_replicas_fit_and_save(tmp_path):
    """`fit` under a strategy builds the metrics, and a layer that nothing has called."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        hidden = keras.Sequential([keras.layers.Dense(8), keras.layers.ReLU()], name="hidden")
        model = compose(V, hidden=hidden, objective=NoiseContrastive(seed=1))
        model.compile("sgd", metrics=["accuracy"])
    rng = np.random.default_rng(0)
    data = (rng.integers(4, V, (64, 2)), rng.integers(4, V, 64))
    history = model.fit(*data, validation_data=data, batch_size=30, shuffle=False, verbose=0)
    of_validation = {"val_loss", "val_perplexity", "val_accuracy"}
    assert set(history.history) == {"nce_loss", "accuracy"} | of_validation
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = model.evaluate(*data, verbose=0)
    np.testing.assert_allclose(loaded.evaluate(*data, verbose=0), expected, rtol=1e-5)
