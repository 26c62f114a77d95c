"""Model and optimiser of a configuration: weight decay, learning-rate schedules, parameters and operations."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import CONFIGURATIONS, NPLM, Configuration
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.sizes import compute_sizes


def test_weight_decay_of_sgd_is_the_penalty_of_the_paper():
    """With plain SGD, decay in the optimiser and L2 penalty in the loss give equal weights. Biases do not decay."""
    options = dict(weight_decay=0.3, learning_rate=0.1, schedule="constant", dropout=0.0, held_out_mass=0.0)
    configuration = dataclasses.replace(CONFIGURATIONS["brown"], **options)
    in_optimizer, in_loss = build_model(configuration, 50), NPLM(50, weight_decay=0.3)
    rng = np.random.default_rng(0)
    for left, right in zip(in_optimizer.weights, in_loss.weights, strict=True):
        value = rng.normal(0, 0.5, left.shape)
        left.assign(value), right.assign(value)
    optimizer = build_optimizer(configuration, 10)
    optimizer.exclude_from_weight_decay(var_list=in_optimizer.biases)
    in_optimizer.compile(optimizer)
    in_loss.compile(optimizer=keras.optimizers.SGD(0.1))
    contexts = rng.integers(1, 50, (64, 4))
    for model in (in_optimizer, in_loss):
        model.fit(contexts, contexts[:, 0], epochs=2, shuffle=False, verbose=0)
    for left, right in zip(in_optimizer.weights, in_loss.weights, strict=True):
        np.testing.assert_allclose(left.numpy(), right.numpy(), atol=1e-6, err_msg=left.path)


def test_rows_without_a_gradient_decay_with_a_full_softmax_only():
    for output, expected in (("full", True), ("nce", False)):
        assert build_optimizer(Configuration(output_layer=output, weight_decay=0.1), 1).dense_decay == expected


@pytest.mark.parametrize(
    "schedule, factors", [("linear", [1, 0.75, 0.5]), ("inverse-time", [1, 1 / 1.1, 1 / 1.2]), ("constant", [1, 1, 1])]
)
def test_learning_rate_follows_its_schedule(schedule, factors):
    configuration = Configuration(learning_rate=0.5, schedule=schedule, decay_rate=0.1, epochs=2)
    optimizer = build_optimizer(configuration, steps_per_epoch=2)
    for update, factor in enumerate(factors):
        optimizer.iterations.assign(update)
        assert float(optimizer.learning_rate) == pytest.approx(0.5 * factor, rel=1e-6)


SMALL = dict(embedding_dim=12, hidden_units=20, order=6, averages_after="2")
PAPER = dict(residual_blocks=0, layer_norm=False, direct_connections=True, averages_after="")


@pytest.mark.parametrize(
    "options",
    [
        PAPER,
        PAPER | dict(hidden_units=0),
        dict(averages_after="1,3", residual_blocks=2),
        dict(residual_blocks=0, layer_norm=False),
        dict(tied_output=True),
        dict(output_rank=7),
        dict(pointer=True),
        dict(output_layer="energy"),
        dict(output_layer="adaptive", cutoffs="50,60,150"),
        dict(shortlist_size=30),
    ],
)
def test_parameters_are_those_of_the_network(options):
    configuration = Configuration(**SMALL | options)
    model = build_model(configuration, 200)
    parameters = sum(weight.numpy().size for weight in model.trainable_weights)
    assert compute_sizes(configuration, 200)["parameters"] == parameters


def test_operations_are_those_of_the_graph():
    """The forward pass of the full softmax has these matrix products."""
    configuration = Configuration(**SMALL | dict(order=31, averages_after="4,10"))
    model = build_model(configuration, 200)
    ids = tf.TensorSpec([1, 30], tf.int32)
    graph = tf.function(model).get_concrete_function(ids).graph
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    counted = sum(2 * int(np.prod(op.inputs[1].shape)) for op in products)
    assert counted == compute_sizes(configuration, 200)["flops_scoring"]
