"""Parameters and operations of a network, counted from its options."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import Configuration
from keras_nplm.training.build import build_model
from keras_nplm.training.sizes import compute_sizes

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
        dict(shortlist_size=30, outside_output=True),
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
