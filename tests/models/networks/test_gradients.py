"""Optimisers and clipping receive each row's whole gradient, however often a word occurs in a batch."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, ContextEmbedding, LazySGD, NoiseContrastive, sum_gradients

V, ORDER = 12, 4
CONTEXTS = np.array([[4, 5, 4], [4, 6, 4], [7, 4, 4], [4, 4, 8]] * 2, np.int32)  # the word 4 in every context
TARGETS = np.array([5, 5, 6, 5] * 2, np.int32)
OPTIMIZERS = {
    "sgd": lambda **clip: keras.optimizers.SGD(0.5, **clip),
    "momentum": lambda **clip: keras.optimizers.SGD(0.5, momentum=0.9, **clip),
    "adam": lambda **clip: keras.optimizers.Adam(0.05, **clip),
    "adamw": lambda **clip: keras.optimizers.AdamW(0.05, weight_decay=0.1, **clip),
    "adagrad": lambda **clip: keras.optimizers.Adagrad(0.1, **clip),
    "rmsprop": lambda **clip: keras.optimizers.RMSprop(0.05, **clip),
    "lazy sgd": lambda **clip: LazySGD(0.5, **clip),
}
CLIPS = ({"clipnorm": 0.02}, {"global_clipnorm": 0.02}, {"clipvalue": 0.005})


def _build_model(output="full") -> NPLM:
    model = NPLM(V, ORDER, embedding_dim=3, hidden_units=5, output=output)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def _dense_updates(model: NPLM, optimizer, steps: int) -> list[np.ndarray]:
    """The weights after some updates with dense gradients, by an optimiser that is not part of a model."""
    weights = [keras.Variable(weight.numpy()) for weight in model.trainable_weights]
    exclude = getattr(optimizer, "exclude_from_weight_decay", None)
    if optimizer.weight_decay:
        exclude(var_list=[w for w, own in zip(weights, model.trainable_weights, strict=True) if own.name in "bd"])
    optimizer.build(weights)
    for _ in range(steps):
        for own, weight in zip(model.trainable_weights, weights, strict=True):
            own.assign(weight)
        with tf.GradientTape() as tape:
            loss, _ = model.prob.training_loss(model.features(CONTEXTS, training=True), TARGETS)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients], weights)
    return [weight.numpy() for weight in weights]


def _assert_weights(model: NPLM, expected: list[np.ndarray]) -> None:
    for weight, value in zip(model.trainable_weights, expected, strict=True):
        np.testing.assert_allclose(weight.numpy(), value, atol=2e-6, err_msg=weight.path)


@pytest.mark.parametrize(
    "name, clip", [*((name, {}) for name in OPTIMIZERS), *itertools.product(("momentum", "adam", "lazy sgd"), CLIPS)]
)
def test_update_equals_that_of_a_dense_gradient(name, clip):
    reference = _dense_updates(_build_model(), OPTIMIZERS[name](**clip), steps=2)
    model, optimizer = _build_model(), OPTIMIZERS[name](**clip)
    if optimizer.weight_decay:
        optimizer.exclude_from_weight_decay(var_list=model.biases)
    model.compile(optimizer, run_eagerly=True)
    for _ in range(2):
        model.train_on_batch(CONTEXTS, TARGETS)
    _assert_weights(model, reference)


def _fit(model: NPLM, optimizer) -> None:
    model.compile(optimizer, run_eagerly=True)
    model.train_on_batch(CONTEXTS, TARGETS)


def _fit_as_layer(network: NPLM, optimizer) -> None:
    inputs = keras.Input((ORDER - 1,), dtype="int32")
    model = keras.Model(inputs, network(inputs))
    model.compile(optimizer, "sparse_categorical_crossentropy")
    model.train_on_batch(CONTEXTS, TARGETS)


def _train_in_own_loop(model: NPLM, optimizer) -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model.prob.training_loss(model.features(CONTEXTS, training=True), TARGETS)[0])
    gradients = sum_gradients(tape.gradient(loss, model.trainable_weights))
    optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))


def _scale(optimizer):
    return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)


@pytest.mark.parametrize(
    "train, output",
    [
        *((_fit, output) for output in ("nce", "sampled", "energy")),
        (lambda model, optimizer: _fit(model, _scale(optimizer)), "full"),
        (_fit_as_layer, "full"),
        *((_train_in_own_loop, output) for output in ("energy", "tied")),
    ],
)
def test_every_way_of_training_updates_as_with_a_dense_gradient(train, output):
    models = []
    for _ in range(2):
        tied = NoiseContrastive(V, num_sampled=5, tied=True, seed=1)
        keras.utils.set_random_seed(1)
        models.append(_build_model(tied if output == "tied" else output))
    reference = _dense_updates(models[0], keras.optimizers.Adagrad(0.1), steps=1)
    train(models[1], keras.optimizers.Adagrad(0.1))
    _assert_weights(models[1], reference)


def test_embedding_in_a_stock_model_updates_each_row_once():
    """In a model of stock layers no code of NPLM runs: the lookup itself has one slice per row."""
    inputs = keras.Input((ORDER - 1,))  # float ids, Keras's default
    embed = ContextEmbedding(V, 3)
    outputs = keras.layers.Dense(V, activation="softmax")(embed(inputs))
    model = keras.Model(inputs, outputs)
    C, dense = embed.C.numpy(), keras.Variable(embed.C.numpy())
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(TARGETS, model(CONTEXTS)))
    gradient = tf.convert_to_tensor(tape.gradient(loss, embed.C.value))
    keras.optimizers.Adagrad(0.1, initial_accumulator_value=1e-4).apply([gradient], [dense])
    adagrad = keras.optimizers.Adagrad(0.1, initial_accumulator_value=1e-4)
    model.compile(adagrad, "sparse_categorical_crossentropy")
    model.train_on_batch(CONTEXTS, TARGETS)
    assert np.abs(dense.numpy() - C).max() > 0.05
    np.testing.assert_allclose(embed.C.numpy(), dense.numpy(), atol=1e-6)
