"""Networks with given layers give the same probabilities as a TensorFlow graph and in Python."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, AveragedContext, DeepHidden, EnergyOutput, FullSoftmax
from keras_nplm.serving.graphs import build_graph

V, M, H = 11, 3, 4


def _networks() -> dict[str, dict]:
    return {
        "averaged": dict(order=8, context=AveragedContext(V, M, averages_after=(1, 3, 6)), direct_connections=True),
        "deep": dict(
            order=3,
            hidden=DeepHidden(H, activation="silu", residual_blocks=2, layer_norm=True),
            output=FullSoftmax(V, tied=True),
        ),
        "pointer": dict(order=9, pointer=True),
        "energy": dict(order=4, output=EnergyOutput(V, H)),
        "float64": dict(order=3, dtype="float64"),
    }


@pytest.mark.parametrize("name", _networks())
def test_graph_gives_the_same_probabilities(name):
    model = NPLM(V, embedding_dim=M, hidden_units=H, **_networks()[name])
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    contexts, targets = rng.integers(0, V, (6, model.order - 1)).astype(np.int32), rng.integers(1, V, 6)
    graph = build_graph(model)
    log_prob = tf.function(graph.log_prob)
    found = log_prob(tf.constant(contexts), tf.constant(targets, tf.int32))
    np.testing.assert_allclose(found, model.log_prob(contexts, targets), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(graph.next_log_probs(contexts), model.next_log_probs(contexts), rtol=1e-4, atol=1e-5)
    probabilities = graph.most_probable(contexts, 4, 3)[1]
    expected = np.sort(np.exp(model.next_log_probs(contexts)[:, 4:]))[:, :-4:-1]
    np.testing.assert_allclose(probabilities, expected.astype(np.float32), rtol=1e-4)
    assert probabilities.dtype == tf.float32
    definition = log_prob.get_concrete_function(contexts, targets.astype(np.int32)).graph.as_graph_def()
    assert "_XlaMustCompile" not in str(definition)  # a server may lack XLA
