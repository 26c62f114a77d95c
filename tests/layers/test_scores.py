"""Scores answer every question as the logits of all words do."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import LinearHead
from keras_nplm.layers.scores import Scores, compute_log_prob
from tests.every_network import N, V, build, make_inputs, make_segments
from tests.formulas import log_sum_exp, wide
from tests.networks import randomise

# names of networks
SCORES = [
    "paper",
    "embed concatenated",  # direct connections
    "hidden without units",  # direct connections alone
    "biases alone",
    "hybrid",
    "pointer linear",
    "pointer linear of segments",
    "adaptive / likelihood",
    "energy / likelihood",
]


def make_scores(name: str) -> Scores:
    if name == "biases alone":
        head = LinearHead(V)
        head.build((None, 0))
        return randomise(head).scores(tf.zeros((N, 0)))
    network = build(name.removesuffix(" of segments"))
    if name.endswith("segments"):
        return network.scores({"segments": make_segments("stream", 3)[0]})
    return network.scores(make_inputs(network))


def test_every_class_of_scores_is_tried():
    classes = {kind for kind in Scores.__subclasses__() if kind.__module__.startswith("keras_nplm")}
    assert classes == {type(make_scores(name)) for name in SCORES}


@pytest.mark.parametrize("name", SCORES)
def test_every_question_has_the_answer_of_all_logits(name):
    scores = make_scores(name)
    y = wide(scores.logits())
    assert y.shape[1] == V
    log_z = log_sum_exp(y)
    places = np.arange(len(y), dtype=np.int32)
    chosen = np.resize([4, 9, 20, 4, 29, 5, 6], len(y)).astype(np.int32)  # a word of each context
    words = np.array([9, 4, 9, 20, 4], np.int32)
    offset = np.array([0.5, -1, 2, 0, 3], np.float32)
    q = np.random.default_rng(2).dirichlet(np.ones(V))
    for found, expected in (
        (scores.logit(chosen), y[places, chosen]),
        (scores.logits_of(words), y[:, words]),
        (scores.logits_of(words, offset=tf.constant(offset)), y[:, words] + offset),
        (scores.log_z(), log_z),
        (tf.stack(scores.for_training(chosen)), [log_z, y[places, chosen]]),
        (scores.expected_logit(tf.constant(q)), y @ q),
        (compute_log_prob(scores, chosen), y[places, chosen] - log_z),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    places = np.array([2, 0, 2, 7], np.int32)
    np.testing.assert_allclose(scores.take(places).logits(), y[places], atol=1e-5)
    nothing = scores.take(places[:0])
    assert nothing.logits().shape == (0, V)
    assert nothing.log_z().shape == (0,)
    of_places = y[places, chosen[:4]] - log_z[places]
    found = compute_log_prob(scores, chosen[:4], places)
    np.testing.assert_allclose(found, of_places, atol=1e-4)
