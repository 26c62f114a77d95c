"""Energies v · tanh(z + t) and their gradients, against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.layers.energy_ops import all_energies, energies


def compute(compute_energies, inputs, upstream):
    """Return energies and their gradients, in a graph."""

    @tf.function(autograph=False)
    def run(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            found = compute_energies(*tensors)
        return found, tape.gradient(found, tensors, output_gradients=upstream)

    return run(*map(tf.constant, inputs))


@pytest.mark.parametrize(
    "compute_energies, number",
    [(energies, 40), (all_energies, 1500), (lambda *all: all_energies(*all, loop=False), 1500)],
    ids=["of few words", "of all words", "in tiles of words"],
)
@pytest.mark.parametrize("contexts", [4, 0])
def test_energies_and_their_gradient(compute_energies, number, contexts):
    """`v` is that of each context, as dropout of hidden units gives it."""
    rng = np.random.default_rng(0)
    z, t, v = inputs = [
        rng.normal(size=(size, 5)).astype(np.float32) for size in (contexts, number, contexts)
    ]
    upstream = rng.normal(size=(contexts, number)).astype(np.float32)
    found, gradients = compute(compute_energies, inputs, upstream)
    a = np.tanh(z[:, None].astype(np.float64) + t)  # [B, k, h]
    slope = (1 - a**2) * upstream[:, :, None] * v[:, None]
    np.testing.assert_allclose(found, np.einsum("ijk,ik->ij", a, v), atol=1e-5)
    wanted = slope.sum(axis=1), slope.sum(axis=0), np.einsum("ij,ijk->ik", upstream, a)
    for gradient, expected in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-3)


def test_training_holds_the_hidden_units_of_one_context():
    """The gradient computes them again: no list has those of all contexts."""
    inputs = [tf.zeros([size, 5]) for size in (7, 300, 7)]

    @tf.function(autograph=False)
    def run(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            found = all_energies(*tensors)
        return tape.gradient(found, tensors)

    definition = run.get_concrete_function(*inputs).graph.as_graph_def()
    nodes = [*definition.node]
    for function in definition.library.function:
        nodes += function.node_def
    # a loop keeps what its gradient needs in lists of this name
    assert not [node.name for node in nodes if "accumulator" in node.name]
