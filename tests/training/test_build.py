"""Model and optimiser of a configuration: learning-rate schedules, bounds, and operations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import CONFIGURATIONS, Options
from keras_nplm.training.build import build_model
from keras_nplm.training.optimizers import LazyAdagrad, LazyAdam, LazySGD
from keras_nplm.training.sizes import compute_sizes


def _build_optimizer(options: Options, steps: int) -> keras.optimizers.Optimizer:
    return options.training.build_optimizer(options.network, steps)


def test_random_features_that_stay_have_variance_1():
    network = build_model(CONFIGURATIONS["brown"].options.replace(freeze_embedding=True), 500)
    assert float(keras.ops.std(network.embed.C)) == pytest.approx(1)
    assert [weight.name for weight in network.embed.trainable_weights] == []
    assert build_model(CONFIGURATIONS["brown"].options, 500).embed.trainable_weights


@pytest.mark.parametrize(
    "options, kind, settings",
    [
        pytest.param(dict(optimizer="adam"), LazyAdam, {}, id="Adam"),
        pytest.param(
            dict(optimizer="adagrad", initial_accumulator=0.5),
            LazyAdagrad,
            {"initial_accumulator_value": 0.5},
            id="Adagrad",
        ),
        pytest.param(dict(order=8), LazySGD, {"row_clipnorm": None}, id="short context"),
        pytest.param(dict(order=9), LazySGD, {"row_clipnorm": 1.0}, id="long context"),
        pytest.param(
            dict(order=8, network="pointer"), LazySGD, {"row_clipnorm": 0.25}, id="pointer"
        ),
        pytest.param(dict(objective="nce"), LazySGD, {"dense_clipnorm": None}, id="not tied"),
        pytest.param(
            dict(objective="likelihood", tied_output=True, weight_decay=0.1),
            LazySGD,
            {"dense_clipnorm": None, "dense_decay": True, "weight_decay": 0.1},
            id="tied, all words",
        ),
        pytest.param(
            dict(objective="nce", tied_output=True, weight_decay=0.1),
            LazySGD,
            {"dense_clipnorm": 1.0, "dense_decay": False},
            id="tied, sampled",
        ),
    ],
)
def test_an_optimizer_is_built_for_its_network(options, kind, settings):
    """Rows without a gradient decay with all words only. Bounds are on rows of words that fill the
    context, and on dense gradients of an output tied to the embedding.
    """
    optimizer = _build_optimizer(Options.of(**options), 1)
    assert type(optimizer) is kind
    assert {name: getattr(optimizer, name) for name in settings} == settings


@pytest.mark.parametrize(
    "schedule, factors",
    [("linear", [1, 0.75, 0.5]), ("inverse-time", [1, 1 / 1.1, 1 / 1.2]), ("constant", [1, 1, 1])],
)
def test_learning_rate_follows_its_schedule(schedule, factors):
    given = {"decay_rate": 0.1} if schedule == "inverse-time" else {}
    options = Options.of(learning_rate=0.5, schedule=schedule, epochs=2, **given)
    optimizer = _build_optimizer(options, 2)
    for update, factor in enumerate(factors):
        optimizer.iterations.assign(update)
        assert float(optimizer.learning_rate) == pytest.approx(0.5 * factor, rel=1e-6)


def test_operations_are_those_of_the_graph():
    """The forward pass of the full softmax has these matrix products."""
    options = Options.of(embedding_dim=12, hidden_units=20, order=31, averages_after=(4, 10))
    model = build_model(options, 200)
    ids = tf.TensorSpec([1, 30], tf.int32)
    graph = tf.function(model, autograph=False).get_concrete_function(ids).graph
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    counted = sum(2 * int(np.prod(op.inputs[1].shape)) for op in products)
    assert counted == compute_sizes(options.network, 200)["flops_scoring"]
