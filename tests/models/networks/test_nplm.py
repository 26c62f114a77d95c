"""NPLM computes equation 1 of the paper, and shows the paper's letters.

Its gradients are held by test_every_network.py.
"""

import keras
import numpy as np
import pytest

from keras_nplm import NPLM, ContextEmbedding, ContextNetwork, Likelihood, LinearHead
from keras_nplm.layers.scores import StoredScores
from keras_nplm.models.dynamic.network import copy_network
from tests.formulas import Formulas, log_softmax
from tests.networks import randomise

V = 11
HIDDEN = dict(embedding_dim=3, hidden_units=4)
SHAPES = [
    dict(order=5, **HIDDEN),
    dict(order=5, direct_connections=True, **HIDDEN),
    dict(order=3, embedding_dim=6, hidden_units=0, direct_connections=True),
    dict(order=2, embedding_dim=1, hidden_units=1, direct_connections=True),
]
of_every_shape = pytest.mark.parametrize(
    "shape", SHAPES, ids=["hidden", "hidden, W", "W alone", "bigram"]
)


def build_nplm(shape, **options):
    return randomise(NPLM(V, **shape, **options))


def make_batch(order, size=7):
    rng = np.random.default_rng(1)
    contexts = rng.integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, 0] = 0
    contexts[2] = contexts[2, 0]  # one word fills a context
    return contexts, rng.integers(1, V, size).astype(np.int32)


@of_every_shape
def test_every_way_gives_the_probabilities_of_equation_1(shape):
    model = build_nplm(shape)
    contexts, targets = make_batch(shape["order"])
    expected = log_softmax(Formulas(model).logits({"contexts": contexts}))
    np.testing.assert_allclose(model(contexts), np.exp(expected), rtol=1e-5)
    np.testing.assert_allclose(model.predict(contexts, verbose=0), np.exp(expected), rtol=1e-5)
    np.testing.assert_allclose(model.next_log_probs(contexts), expected, rtol=1e-5)
    chosen = expected[np.arange(len(targets)), targets]
    np.testing.assert_allclose(model.log_prob(contexts, targets), chosen, rtol=1e-5)


@of_every_shape
def test_the_number_of_parameters_is_that_of_the_paper(shape):
    n, m, h = shape["order"], shape["embedding_dim"], shape["hidden_units"]
    of_direct = V * (n - 1) * m if shape.get("direct_connections") else 0
    expected = V * m + V * (1 + h) + h * (1 + (n - 1) * m) + of_direct
    assert NPLM(V, **shape).count_params() == expected


# The paper's letters can be seen


def test_summary_and_weights_show_the_letters():
    model = build_nplm(dict(order=3, embedding_dim=2, hidden_units=4, direct_connections=True))
    lines = []
    model.summary(print_fn=lines.append)
    summary = "\n".join(lines)
    for layer in ("embed", "hidden", "direct", "prob"):
        assert f"{layer} (" in summary
    assert f"{model.count_params():,}" in summary
    paths = {"/".join(weight.path.split("/")[-2:]) for weight in model.trainable_weights}
    assert paths == {"embed/C", "hidden/H", "hidden/d", "direct/W", "prob/U", "prob/b"}


def test_pretrained_vectors_stay_in_a_network():
    embed = ContextEmbedding(V, 3, name="embed")
    embed.build((None, 3))
    vectors = np.random.default_rng(0).normal(size=(V, 3)).astype(np.float32)
    embed.C.assign(vectors)
    networks = [ContextNetwork(4, embed, LinearHead(V), Likelihood()) for _ in range(2)]
    assert networks[0].embed.C is networks[1].embed.C
    np.testing.assert_array_equal(embed.C, vectors)


# A subclass changes a part of equation 1


class SharpScore(NPLM):
    def score(self, context, features, training=False):
        return StoredScores(3 * super().score(context, features, training).logits())


class SharpScores(NPLM):
    def scores(self, inputs, training=False, sum_gradient=True):
        return StoredScores(3 * super().scores(inputs, training, sum_gradient).logits())


@pytest.mark.parametrize("kind", [SharpScore, SharpScores])
def test_call_follows_the_scores_of_a_subclass(kind):
    model = randomise(kind(V, order=3, **HIDDEN))
    paper = randomise(NPLM(V, order=3, **HIDDEN))
    contexts, targets = make_batch(3)
    own = np.log(model(contexts).numpy())
    assert np.abs(own - np.log(paper(contexts).numpy())).max() > 0.1
    np.testing.assert_allclose(own, model.next_log_probs(contexts), atol=1e-5)
    model.compile("sgd", run_eagerly=True)
    logs = model.test_on_batch(contexts, targets, return_dict=True)
    np.testing.assert_allclose(logs["loss"], -own[np.arange(7), targets].mean(), rtol=1e-5)


@pytest.mark.parametrize("part", ["embed", "hidden", "prob"])
def test_a_frozen_layer_stays_frozen_in_files_and_copies(part, tmp_path):
    model = NPLM(9, order=3, embedding_dim=2, hidden_units=4)
    getattr(model, part).trainable = False
    model.save(tmp_path / "model.keras")
    copies = [keras.models.load_model(tmp_path / "model.keras"), copy_network(model)]
    for copy in copies:
        names = [weight.path for weight in copy.trainable_weights]
        assert names == [weight.path for weight in model.trainable_weights]
