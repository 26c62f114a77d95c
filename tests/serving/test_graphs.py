"""Every kind of language model gives the same probabilities as a TensorFlow graph and in Python."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    AveragedContext,
    ContextNetwork,
    DeepHidden,
    Hybrid,
    HybridNetwork,
    LanguageModel,
    LinearHead,
    PointerNetwork,
    Shortlist,
    SpelledContext,
    Vocabulary,
)
from keras_nplm.models import ngrams
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.serving import build_graph
from keras_nplm.serving.signatures import ServingModule
from tests import language_models
from tests.networks import compose, compose_energy

WORDS = ["the", "cat", "sat", "on", "mat", ".", "a", "dog"]
SIZE = len(WORDS) + 4
# Graphs do not read the objective of a network.
# a mixture by frequency has a network and an interpolated model
FAST = ["Kneser-Ney", "class-based"]
LONG = [
    "mixture by frequency",
    "hybrid",
    "hybrid of spelled words",
    "adaptive",
    "tied",
    "no hidden layer",
    "bfloat16",
    "float64",
    "averaged",
    "deep",
    "pointer",
    "energy",
    "full",
    "deleted interpolation",
    "deleted interpolation, paper",
    "mixture",
    "keras model",
    "short-list",
    "short-list of all words",
    "network of a short-list",
]
# sums are rounded in other places
TOLERANCES = {
    "bfloat16": 0.03,
    "short-list of all words": 5e-4,
    "hybrid": 1e-4,
    "hybrid of spelled words": 1e-4,
}
# 3 ends a sentence
IDS = np.append(np.random.default_rng(0).choice([1, 3, *range(4, 11)], 600), 3).astype(np.int32)


@functools.cache
def _build_model(kind: str, boundary: str):
    ids = IDS
    held_out = IDS[::-1][1:].copy()
    if kind == "Kneser-Ney":
        return ngrams.kneser_ney(ids, SIZE, 4, boundary)
    if kind.startswith("deleted interpolation"):
        return ngrams.deleted_interpolation(ids, held_out, SIZE, 3, boundary, "paper" not in kind)
    if kind == "class-based":
        classes = np.array([0, 4, 2, 3, 4, 5, 4, 5, 6, 6, 4, 6], np.int32)
        return ngrams.class_based(ids, held_out, classes, 3, boundary)
    if kind == "keras model":
        return language_models.build(kind, boundary)
    if kind == "mixture":
        models = [
            _build_model("full", boundary),
            _build_model("Kneser-Ney", boundary),
            Uniform(SIZE, boundary),
        ]
        return Mixture(models, [0.5, 0.3, 0.2])
    if kind == "mixture by frequency":
        bins = ngrams.FrequencyBins(
            ngrams.ContextFrequencies.from_counts(ngrams.count_ngrams(ids, SIZE, 3, boundary))
        )
        models = [
            _build_model("no hidden layer", boundary),
            _build_model("deleted interpolation", boundary),
        ]
        return Mixture(models, np.random.default_rng(0).dirichlet([1, 1], bins.number), bins)
    if kind == "hybrid":
        network = compose(SIZE, 5, 6, 100, kind=HybridNetwork, boundary=boundary)
        return Hybrid(_randomise(network), _build_model("Kneser-Ney", boundary))
    if kind == "hybrid of spelled words":
        spelling = dict(near_characters=3, spelled_words=2, spelling_bits=5)
        embed = SpelledContext(SIZE, 6, name="embed", **spelling)
        network = compose(SIZE, 9, 6, embed=embed, kind=HybridNetwork, boundary=boundary)
        return Hybrid(_randomise(network), _build_model("Kneser-Ney", boundary))
    if kind == "short-list":
        head = LinearHead(SIZE, num_outputs=8, name="prob")
        network = compose(SIZE, 5, 6, 100, head=head, boundary=boundary)
        return Shortlist(_randomise(network), _build_model("Kneser-Ney", boundary))
    if kind == "short-list of all words":
        head = LinearHead(SIZE, num_outputs=SIZE - 1, name="prob")
        network = compose(SIZE, 5, 6, 100, head=head, boundary=boundary)
        return Shortlist(_randomise(network), _build_model("deleted interpolation", boundary))
    network = _randomise(_build_network(kind, boundary))
    if kind == "full":
        network.prob.b.assign(network.prob.b + 90)  # exp of such logits overflows
    return network


def _build_network(kind: str, boundary: str) -> ContextNetwork:
    if kind == "full":
        return NPLM(SIZE, 4, 6, 5, direct_connections=True, boundary=boundary)
    if kind == "no hidden layer":
        return NPLM(SIZE, 3, 6, hidden_units=0, direct_connections=True, boundary=boundary)
    if kind == "bfloat16":
        return NPLM(SIZE, 3, 6, 5, boundary=boundary, dtype="mixed_bfloat16")
    if kind == "float64":
        return NPLM(SIZE, 3, 6, 5, boundary=boundary, dtype="float64")
    if kind == "network of a short-list":
        return compose(
            SIZE, 3, 6, head=LinearHead(SIZE, num_outputs=8, name="prob"), boundary=boundary
        )
    if kind == "tied":
        return compose(SIZE, 2, 6, head=LinearHead(SIZE, tied=True, name="prob"), boundary=boundary)
    if kind == "adaptive":
        return compose(SIZE, 4, 6, head=AdaptiveHead(SIZE, name="prob"), boundary=boundary)
    if kind == "energy":
        return compose_energy(SIZE, 4, 6, boundary=boundary)
    if kind == "pointer":
        return compose(SIZE, 6, 6, kind=PointerNetwork, boundary=boundary)
    if kind == "averaged":
        embed = AveragedContext(SIZE, 6, averages_after=(1, 3), name="embed")
        return compose(SIZE, 8, 6, embed=embed, direct_connections=True, boundary=boundary)
    assert kind == "deep"
    hidden = DeepHidden(5, activation="silu", residual_blocks=2, layer_norm=True, name="hidden")
    return compose(SIZE, 3, 6, hidden=hidden, boundary=boundary)


def _randomise(network: ContextNetwork) -> ContextNetwork:
    """Set larger weights than the initial ones, so that probabilities differ."""
    random = np.random.default_rng(0)
    for weight in network.trainable_weights:
        weight.assign(random.normal(0, 0.7, weight.shape))
    return network


@pytest.mark.parametrize(
    "kind", [*FAST, *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG)]
)
def test_graphs_give_the_probabilities_of_python(kind):
    model = _build_model(kind, "sentence")
    number = 50 if kind == "energy" else 500  # its distribution is a loop over contexts
    contexts = np.random.default_rng(1).integers(0, SIZE, (number, model.order - 1))
    contexts = contexts.astype(np.int32)
    targets = np.random.default_rng(2).integers(1, SIZE, number).astype(np.int32)
    graph = build_graph(model)
    traced = tf.function(graph.log_prob, autograph=False).get_concrete_function(contexts, targets)
    assert "_XlaMustCompile" not in str(traced.graph.as_graph_def())  # a server may lack XLA
    tolerance = dict(rtol=TOLERANCES.get(kind, 2e-5), atol=1e-7)
    log_prob = graph.log_prob(tf.constant(contexts), tf.constant(targets))
    expected = np.exp(model.log_prob(contexts, targets))
    np.testing.assert_allclose(np.exp(log_prob), expected, **tolerance)
    expected = np.exp(model.next_log_probs(contexts))
    log_probs = graph.next_log_probs(tf.constant(contexts))
    np.testing.assert_allclose(np.exp(log_probs), expected, **tolerance)
    ids, probabilities = graph.most_probable(tf.constant(contexts), first=4, k=3)
    highest = -np.sort(-expected[:, 4:], axis=1)[:, :3]
    np.testing.assert_allclose(probabilities, highest, **tolerance)
    of_ids = np.take_along_axis(expected, ids.numpy(), axis=1)
    np.testing.assert_allclose(of_ids, probabilities, **tolerance)


@pytest.mark.parametrize("boundary", ["stream", "text"])
def test_served_functions_give_the_results_of_python(boundary):
    language_model = LanguageModel(_build_model("Kneser-Ney", boundary), Vocabulary(WORDS), "words")
    sentences = ["the cat sat on the mat .", "", "a bird sat", "dog dog dog dog dog"]
    served = ServingModule(language_model, len(WORDS)).functions
    scores = served["score"].compute(tf.constant(sentences))
    predicted = served["predict_next"].compute(tf.constant(sentences))
    for i, sentence in enumerate(sentences):  # each is a text of its own
        [score] = language_model.score([sentence])
        words = dict(language_model.next_words(sentences[i], len(WORDS)))
        found = zip(
            predicted["words"][i].numpy().astype(str),
            predicted["probabilities"][i].numpy(),
            strict=True,
        )
        assert dict(found) == pytest.approx(words, rel=2e-5)
        assert (scores["tokens"][i], scores["unk_tokens"][i]) == (score.tokens, score.unk_tokens)
        assert float(scores["log_prob"][i]) == pytest.approx(score.log_prob, rel=2e-5)
