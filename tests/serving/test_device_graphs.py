"""Graphs for LiteRT and ONNX files give the probabilities of Python."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import InputError, LanguageModel, Mixture
from keras_nplm.models.ngrams import DeletedInterpolation, deleted_interpolation
from keras_nplm.serving.device_graphs import build_device_graph
from keras_nplm.serving.on_device import TextScores
from tests.language_models import BOUNDARIES, VOCABULARY, V, build, make_text


def _list_contexts(length: int) -> np.ndarray:
    random = np.random.default_rng(0)
    contexts = random.integers(0, V, (400, length), np.int32)
    contexts[:50, :-1] = 2  # the start of a sentence
    contexts[50:100, : length // 2] = 0  # padding
    contexts[100] = 2
    contexts[101] = 0
    return contexts


def build_mixture(boundary: str) -> Mixture:
    parts = [build(name, boundary) for name in ("nplm", "kneser-ney", "uniform")]
    return Mixture(parts, [0.5, 0.4, 0.1])


def build_mixture_of_a_mixture(boundary: str) -> Mixture:
    return Mixture([build_mixture(boundary), build("kneser-ney", boundary)], [1.0, 0.0])


def build_interpolation_of_the_paper(boundary: str) -> DeletedInterpolation:
    ids = make_text(1, boundary)
    return deleted_interpolation(ids, make_text(2, boundary), V, 3, boundary, back_off=False)


def build_mixture_by_frequency(boundary: str) -> Mixture:
    binned = build("mixture with bins", boundary)
    network, kneser_ney, _, uniform = binned.models  # a cache has no graph
    parts = [network, kneser_ney, build("interpolation", boundary), uniform]
    return Mixture(parts, binned.weights, binned.bins)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    "build_model",
    [
        pytest.param(functools.partial(build, "kneser-ney"), id="Kneser-Ney"),
        pytest.param(functools.partial(build, "approximation"), id="pruned n-grams"),
        pytest.param(functools.partial(build, "arpa"), id="ARPA"),
        pytest.param(functools.partial(build, "uniform"), id="uniform"),
        pytest.param(functools.partial(build, "interpolation"), id="deleted interpolation"),
        pytest.param(build_interpolation_of_the_paper, id="interpolation of the paper"),
        pytest.param(functools.partial(build, "class-based"), id="class-based"),
        pytest.param(build_mixture_by_frequency, id="mixture by frequency"),
        pytest.param(build_mixture, id="mixture"),
        pytest.param(build_mixture_of_a_mixture, id="mixture of a mixture"),
    ],
)
def test_graphs_give_the_numbers_of_python(build_model, boundary):
    model = build_model(boundary)
    graph = build_device_graph(model)
    contexts = _list_contexts(model.order - 1)
    expected = model.next_log_probs(contexts)
    next_log_probs = graph.next_log_probs(tf.constant(contexts))
    assert next_log_probs.dtype == tf.float32
    np.testing.assert_allclose(next_log_probs, expected, rtol=1e-5, atol=1e-5)
    targets = np.arange(len(contexts), dtype=np.int32) % V
    log_prob = graph.log_prob(tf.constant(contexts), tf.constant(targets))
    np.testing.assert_allclose(
        log_prob, expected[np.arange(len(contexts)), targets], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    "name, received",
    [
        pytest.param("short-list", "Shortlist", id="short-list"),
        pytest.param("hybrid", "Hybrid", id="hybrid"),
        pytest.param("n-gram cache", "NgramCache", id="cache"),
    ],
)
def test_other_models_are_refused_by_name(name, received):
    with pytest.raises(InputError, match=f"^LiteRT and ONNX files .* Received: {received}. Fix: "):
        build_device_graph(build(name, "sentence"))


def test_invalid_texts_have_the_score_nan():
    language_model = LanguageModel(build("kneser-ney", "sentence"), VOCABULARY, "whitespace")
    scores = TextScores(build_device_graph(language_model.model), language_model.codec)
    x = [[5, 6], [5, V], [-1, 5], [5, (1 << 32) + 6], [5, V], [5, 6], [5, 6]]
    nll = scores.function(tf.constant(x, tf.int64), tf.constant([2, 2, 2, 2, 1, 3, -1], tf.int64))
    assert np.isnan(nll["nll"]).tolist() == [False, True, True, True, False, True, True]
