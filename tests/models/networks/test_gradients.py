"""Optimisers and clipping receive each row's whole gradient, however often a word occurs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    ContextEmbedding,
    ContextNetwork,
    EnergyHead,
    LazySGD,
    LinearHead,
    NoiseContrastive,
    SampledSoftmax,
    TanhHidden,
    sum_gradients,
)

V = 12
ORDER = 4
M = 3
H = 5
# the word 4 is in every context
CONTEXTS = np.array([[4, 5, 4], [4, 6, 4], [7, 4, 4], [4, 4, 8]] * 2, np.int32)
TARGETS = np.array([5, 5, 6, 5] * 2, np.int32)


def randomise(model):
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def build_nplm():
    return randomise(NPLM(V, ORDER, M, H))


def build_network(head, objective):
    embed = ContextEmbedding(V, M, name="embed")
    hidden = TanhHidden(H, name="hidden")
    return randomise(ContextNetwork(ORDER, embed, head, objective, hidden))


def build_nce():
    return build_network(LinearHead(V, name="prob"), NoiseContrastive(num_sampled=5, seed=1))


def build_sampled():
    return build_network(LinearHead(V, name="prob"), SampledSoftmax(num_sampled=5, seed=1))


def build_tied():
    head = LinearHead(V, tied=True, name="prob")
    return build_network(head, NoiseContrastive(num_sampled=5, seed=1))


def build_energy():
    embed = ContextEmbedding(V, M, name="embed")
    head = EnergyHead(V, hidden_units=H, name="prob")
    return randomise(ContextNetwork(ORDER, embed, head, SampledSoftmax(num_sampled=5, seed=1)))


def find_dense_updates(model, optimizer, steps):
    """Return the weights after updates with dense gradients, outside of `fit`."""
    weights = [keras.Variable(weight.numpy()) for weight in model.trainable_weights]
    if optimizer.weight_decay:
        pairs = zip(weights, model.trainable_weights, strict=True)
        biases = [weight for weight, own in pairs if own.name in ("b", "d")]
        optimizer.exclude_from_weight_decay(var_list=biases)
    optimizer.build(weights)
    for _ in range(steps):
        for own, weight in zip(model.trainable_weights, weights, strict=True):
            own.assign(weight)
        with tf.GradientTape() as tape:
            scores = model.scores(CONTEXTS, training=True)
            loss = tf.reduce_mean(model.objective.losses(scores, TARGETS).loss)
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients], weights)
    return [weight.numpy() for weight in weights]


def assert_weights(model, expected):
    for weight, value in zip(model.trainable_weights, expected, strict=True):
        np.testing.assert_allclose(weight.numpy(), value, atol=2e-6, err_msg=weight.path)


OPTIMIZERS = [
    pytest.param(keras.optimizers.SGD, dict(learning_rate=0.5), id="sgd"),
    pytest.param(keras.optimizers.SGD, dict(learning_rate=0.5, momentum=0.9), id="momentum"),
    pytest.param(keras.optimizers.Adam, dict(learning_rate=0.05), id="adam"),
    pytest.param(keras.optimizers.AdamW, dict(learning_rate=0.05, weight_decay=0.1), id="adamw"),
    pytest.param(keras.optimizers.Adagrad, dict(learning_rate=0.1), id="adagrad"),
    pytest.param(keras.optimizers.RMSprop, dict(learning_rate=0.05), id="rmsprop"),
    pytest.param(LazySGD, dict(learning_rate=0.5), id="lazy sgd"),
]
CLIPPED = [
    pytest.param(keras.optimizers.SGD, dict(learning_rate=0.5, momentum=0.9), id="momentum"),
    pytest.param(keras.optimizers.Adam, dict(learning_rate=0.05), id="adam"),
    pytest.param(LazySGD, dict(learning_rate=0.5), id="lazy sgd"),
]


def check_updates(kind, options):
    reference = find_dense_updates(build_nplm(), kind(**options), steps=2)
    model = build_nplm()
    optimizer = kind(**options)
    if optimizer.weight_decay:
        optimizer.exclude_from_weight_decay(var_list=model.biases)
    model.compile(optimizer, run_eagerly=True)
    for _ in range(2):
        model.train_on_batch(CONTEXTS, TARGETS)
    assert_weights(model, reference)


@pytest.mark.parametrize("kind, options", OPTIMIZERS)
def test_an_update_is_that_of_a_dense_gradient(kind, options):
    check_updates(kind, options)


@pytest.mark.parametrize("clip", ["clipnorm", "global_clipnorm", "clipvalue"])
@pytest.mark.parametrize("kind, options", CLIPPED)
def test_clipping_sees_the_dense_gradient(kind, options, clip):
    least = 0.005 if clip == "clipvalue" else 0.02
    check_updates(kind, {**options, clip: least})


# Every way of training


def train_by_fit(model, optimizer):
    model.compile(optimizer, run_eagerly=True)
    model.train_on_batch(CONTEXTS, TARGETS)


def train_with_scaled_loss(model, optimizer):
    train_by_fit(model, keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0))


def train_as_layer(model, optimizer):
    """Train the network as a layer of a functional model."""
    inputs = keras.Input((ORDER - 1,), dtype="int32")
    outer = keras.Model(inputs, model(inputs))
    outer.compile(optimizer, "sparse_categorical_crossentropy", run_eagerly=True)
    outer.train_on_batch(CONTEXTS, TARGETS)


def train_in_own_loop(model, optimizer):
    with tf.GradientTape() as tape:
        scores = model.scores(CONTEXTS, training=True)
        loss = tf.reduce_mean(model.objective.losses(scores, TARGETS).loss)
    gradients = sum_gradients(tape.gradient(loss, model.trainable_weights))
    optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))


@pytest.mark.parametrize(
    "train, build",
    [
        (train_by_fit, build_nce),
        (train_by_fit, build_sampled),
        (train_by_fit, build_energy),
        (train_with_scaled_loss, build_nplm),
        (train_as_layer, build_nplm),
        (train_in_own_loop, build_energy),
        (train_in_own_loop, build_tied),
    ],
)
def test_every_way_of_training_updates_as_with_a_dense_gradient(train, build):
    reference = find_dense_updates(build(), keras.optimizers.Adagrad(0.1), steps=1)
    model = build()
    train(model, keras.optimizers.Adagrad(0.1))
    assert_weights(model, reference)


def test_embedding_in_a_stock_model_updates_each_row_once():
    """In a model of stock layers no code of a network runs: the lookup has one slice per row."""
    # float ids, Keras's default
    inputs = keras.Input((ORDER - 1,))
    embed = ContextEmbedding(V, 3)
    outputs = keras.layers.Dense(V, activation="softmax")(embed(inputs))
    model = keras.Model(inputs, outputs)
    before = embed.C.numpy()
    dense = keras.Variable(before)
    with tf.GradientTape() as tape:
        losses = keras.losses.sparse_categorical_crossentropy(TARGETS, model(CONTEXTS))
        loss = tf.reduce_mean(losses)
    gradient = tf.convert_to_tensor(tape.gradient(loss, embed.C.value))
    keras.optimizers.Adagrad(0.1, initial_accumulator_value=1e-4).apply([gradient], [dense])
    adagrad = keras.optimizers.Adagrad(0.1, initial_accumulator_value=1e-4)
    model.compile(adagrad, "sparse_categorical_crossentropy")
    model.train_on_batch(CONTEXTS, TARGETS)
    assert np.abs(dense.numpy() - before).max() > 0.05
    np.testing.assert_allclose(embed.C.numpy(), dense.numpy(), atol=1e-6)
