"""What several replicas cannot do is refused; a replica sends the row of a word once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    ContextEmbedding,
    ContextNetwork,
    InputError,
    LinearHead,
    NoiseContrastive,
    TanhHidden,
)

V = 11


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param(
            dict(optimizer=keras.optimizers.SGD(gradient_accumulation_steps=2)),
            "`gradient_accumulation_steps` must be",
            id="accumulation",
        ),
        pytest.param(
            dict(optimizer="sgd", steps_per_execution=2),
            "`steps_per_execution` must be 1 under tf.distribute",
            id="steps",
        ),
        pytest.param(
            dict(optimizer="sgd", jit_compile=True),
            "`jit_compile` must be False under tf.distribute",
            id="XLA",
        ),
    ],
)
def test_options_that_fail_on_replicas_are_refused(options, message):
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        model = NPLM(V, 3, 2, 3)
        model.compile("sgd")
        assert model.jit_compile is False
        with pytest.raises(InputError, match=message):
            model.compile(**options)


class TwoReplicas:
    """The replica context of the first of two replicas whose parts of a batch are alike."""

    num_replicas_in_sync = 2

    def all_reduce(self, operation, number):
        return 2 * number


def build_nce():
    embed = ContextEmbedding(V, 2, name="embed")
    hidden = TanhHidden(3, name="hidden")
    return ContextNetwork(3, embed, LinearHead(V, name="prob"), NoiseContrastive(), hidden)


def build_nplm():
    return NPLM(V, 3, 2, 3)


@pytest.mark.parametrize(
    "build, sparse_weights",
    [
        pytest.param(build_nplm, {"C"}, id="likelihood"),
        pytest.param(build_nce, {"C", "U", "b"}, id="nce"),
    ],
)
def test_replicas_send_the_row_of_a_word_once(build, sparse_weights, monkeypatch):
    model = build()
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
    for ids in rows.values():
        assert len(set(ids)) == len(ids)


@pytest.mark.long
def test_replicas_fit_save_and_summarise(tmp_path):
    """`fit` under a strategy builds the metrics, and a layer that nothing has called."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        hidden = keras.Sequential([keras.layers.Dense(8), keras.layers.ReLU()], name="hidden")
        embed = ContextEmbedding(V, 2, name="embed")
        head = LinearHead(V, name="prob")
        model = ContextNetwork(3, embed, head, NoiseContrastive(seed=1), hidden)
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
    lines = []
    loaded.summary(print_fn=lines.append)
    trained = sum(weight.numpy().size for weight in model.trainable_weights)
    assert f"Trainable params: {trained:,}" in "\n".join(lines)
