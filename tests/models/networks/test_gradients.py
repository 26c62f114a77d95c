"""Optimisers and clipping receive each row's whole gradient, however often a word occurs."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import ContextEmbedding, LazySGD, sum_gradients
from tests.every_network import N, V, build_network, make_contexts, make_targets
from tests.networks import compose

CONTEXTS = np.repeat(make_contexts()[:3], 4, axis=0)  # words that come again and again


def compute_loss(model):
    """Return the loss of a step that a loop of the user computes."""
    targets = make_targets(model, CONTEXTS)
    scores = model.scores(CONTEXTS, training=True)
    loss = tf.reduce_mean(model.objective.losses(scores, targets).loss)
    return loss + tf.add_n([*model.losses, tf.zeros([])])


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
            loss = compute_loss(model)
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients], weights)
    return [weight.numpy() for weight in weights]


def assert_weights(model, expected):
    for weight, value in zip(model.trainable_weights, expected, strict=True):
        np.testing.assert_allclose(weight.numpy(), value, atol=2e-6, err_msg=weight.path)


partial = functools.partial
SGD = partial(keras.optimizers.SGD, 0.5)
MOMENTUM = partial(keras.optimizers.SGD, 0.5, momentum=0.9)
LAZY = partial(LazySGD, 0.5)


@pytest.mark.parametrize(
    "make_optimizer",
    [
        SGD,
        MOMENTUM,
        partial(keras.optimizers.Adam, 0.05),
        partial(keras.optimizers.AdamW, 0.05, weight_decay=0.1),
        partial(keras.optimizers.Adagrad, 0.1),
        partial(keras.optimizers.RMSprop, 0.05),
        LAZY,
        *(
            partial(optimizer, **{clip: least})
            for optimizer in (MOMENTUM, LAZY)
            for clip, least in [("clipnorm", 0.02), ("global_clipnorm", 0.02), ("clipvalue", 0.005)]
        ),
    ],
)
def test_an_update_is_that_of_a_dense_gradient(make_optimizer):
    def build():
        """Return a network without weight decay in the loss, whose gradient is dense."""
        keras.utils.set_random_seed(1)
        return compose(V, N, 5, 6)

    reference = find_dense_updates(build(), make_optimizer(), steps=2)
    model = build()
    optimizer = make_optimizer()
    if optimizer.weight_decay:
        optimizer.exclude_from_weight_decay(var_list=model.biases)
    model.compile(optimizer, run_eagerly=True)
    for _ in range(2):
        model.train_on_batch(CONTEXTS, make_targets(model, CONTEXTS))
    assert_weights(model, reference)


# Every way of training


def train_by_fit(model, optimizer):
    model.compile(optimizer, run_eagerly=True)
    model.train_on_batch(CONTEXTS, make_targets(model, CONTEXTS))


def train_with_scaled_loss(model, optimizer):
    train_by_fit(model, keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0))


def train_as_layer(model, optimizer):
    """Train the network as a layer of a functional model."""
    inputs = keras.Input((N - 1,), dtype="int32")
    outer = keras.Model(inputs, model(inputs))
    outer.compile(optimizer, "sparse_categorical_crossentropy", run_eagerly=True)
    outer.train_on_batch(CONTEXTS, make_targets(model, CONTEXTS))


def train_in_own_loop(model, optimizer):
    with tf.GradientTape() as tape:
        loss = compute_loss(model)
    gradients = sum_gradients(tape.gradient(loss, model.trainable_weights))
    optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))


@pytest.mark.parametrize(
    "train, name",
    [
        (train_by_fit, "linear / nce"),
        (train_by_fit, "linear / sampled"),
        (train_by_fit, "energy / sampled"),
        (train_with_scaled_loss, "paper"),
        (train_as_layer, "paper"),
        (train_in_own_loop, "energy / sampled"),
        (train_in_own_loop, "tied / nce"),
    ],
)
def test_every_way_of_training_updates_as_with_a_dense_gradient(train, name):
    reference = find_dense_updates(build_network(name), keras.optimizers.Adagrad(0.1), steps=1)
    model = build_network(name)
    train(model, keras.optimizers.Adagrad(0.1))
    assert_weights(model, reference)


def test_embedding_in_a_stock_model_updates_each_row_once():
    """In a model of stock layers no code of a network runs: the lookup has one slice per row."""
    # float ids, Keras's default
    inputs = keras.Input((N - 1,))
    embed = ContextEmbedding(V, 3)
    outputs = keras.layers.Dense(V, activation="softmax")(embed(inputs))
    model = keras.Model(inputs, outputs)
    targets = CONTEXTS[:, 3]
    before = embed.C.numpy()
    dense = keras.Variable(before)
    with tf.GradientTape() as tape:
        losses = keras.losses.sparse_categorical_crossentropy(targets, model(CONTEXTS))
        loss = tf.reduce_mean(losses)
    gradient = tf.convert_to_tensor(tape.gradient(loss, embed.C.value))
    keras.optimizers.Adagrad(0.1, initial_accumulator_value=1e-4).apply([gradient], [dense])
    adagrad = keras.optimizers.Adagrad(0.1, initial_accumulator_value=1e-4)
    model.compile(adagrad, "sparse_categorical_crossentropy")
    model.train_on_batch(CONTEXTS, targets)
    assert np.abs(dense.numpy() - before).max() > 0.05
    np.testing.assert_allclose(embed.C.numpy(), dense.numpy(), atol=1e-6)
