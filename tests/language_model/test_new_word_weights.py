"""Weights of new words: both rules against plain loops, gradients against those of a tape."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, AveragedContext, DeepHidden, LanguageModel, Vocabulary, add_words
from keras_nplm.language_model.new_word_weights import context_gradients
from keras_nplm.layers.outputs import FullSoftmax

WORDS = ["the", "cat", "sat", "on", "mat", "."]
V, N = len(WORDS) + 4, 4
TEXT = ["the dog sat on the mat .", "", "the dog and the cat sat .", "on the dog", "a rug . and the dog"]
NEW = {"dog": 4, "and": 2, "a": 1, "rug": 1}


def _language_model(boundary: str = "stream", **options) -> LanguageModel:
    output = {name: options.pop(name) for name in ("rank", "tied") if name in options}
    options = {"embedding_dim": 3, "hidden_units": 5, "output": FullSoftmax(V, **output)} | options
    model = NPLM(V, order=N, boundary=boundary, **options)
    random = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.6, weight.shape))
    return LanguageModel(model, Vocabulary(WORDS), "whitespace")


def _logits(model: NPLM, context_ids: np.ndarray) -> np.ndarray:
    """y = b + [U W] [tanh(d + H x); x], in NumPy."""
    C = model.embed.C.numpy().astype(np.float64)
    C[0] = 0
    x = C[context_ids].reshape(len(context_ids), -1)
    parts = [np.tanh(x @ model.hidden.H.numpy() + model.hidden.d.numpy())] if model.hidden is not None else []
    features = np.concatenate([*parts, *([x] if model.direct_connections else [])], axis=1)
    features = features if model.prob.P is None else features @ model.prob.P.numpy()
    return features @ model.prob.kernel.numpy().T + model.prob.b.numpy()


def _find_ngrams(boundary: str) -> list[tuple[tuple[int, ...], int, list[int]]]:
    """Each n-gram of the text in known ids, the new word's index as target and as context words (-1: known word)."""
    new, found = list(NEW), []
    lines = [line.split() for line in TEXT if line]
    lines = [list(itertools.chain(*lines))] if boundary == "stream" else [[*line, "</s>"] for line in lines]
    for line in lines:
        tokens = [*["<pad>" if boundary == "stream" else "<s>"] * (N - 1), *line]
        vocabulary = Vocabulary(WORDS).words
        ids = [vocabulary.index(token) if token in vocabulary else 1 for token in tokens]
        numbers = [new.index(token) if token in new else -1 for token in tokens]
        for i in range(N - 1, len(tokens)):
            found.append((tuple(ids[i - N + 1 : i + 1]), numbers[i], numbers[i - N + 1 : i]))
    return found


def _softmax(model: NPLM, context) -> np.ndarray:
    y = np.exp(_logits(model, np.array([context])))[0]
    return y / y.sum()


@pytest.mark.parametrize("boundary, options", [("stream", {}), ("sentence", {"rank": 2}), ("stream", {"tied": True})])
def test_expectation_is_the_papers_rule(boundary, options):
    language_model = _language_model(boundary, **options)
    model, grown = language_model.model, add_words(language_model, TEXT, rule="expectation")
    assert grown.vocabulary.words == [*language_model.vocabulary.words, *NEW]
    C, kernel = model.embed.C.numpy(), model.prob.kernel.numpy()
    for number in range(len(NEW)):
        rows = []
        for ngram, word, _ in _find_ngrams(boundary):
            if word == number and any(ngram[:-1]):
                p = _softmax(model, ngram[:-1])
                p[:4] = 0
                rows.append(np.concatenate([p @ C, p @ kernel]) / p.sum())
        expected = np.mean(rows, axis=0)
        np.testing.assert_allclose(grown.model.embed.C.numpy()[V + number], expected[:3], atol=1e-5)
        np.testing.assert_allclose(grown.model.prob.kernel.numpy()[V + number], expected[3:], atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        dict(order=4),
        dict(order=4, direct_connections=True, hidden_units=0),
        dict(order=8, context=AveragedContext(V, 3, averages_after=(1, 3)), direct_connections=True),
        dict(order=3, hidden=DeepHidden(5, activation="gelu", residual_blocks=1, layer_norm=True)),
        dict(order=6, pointer=True),
    ],
)
def test_gradients_of_given_layers_equal_those_of_a_tape(options):
    """∂ ln P/∂C(w) of each word of a context, summed over the places where it stands."""
    model, random = NPLM(V, **(dict(embedding_dim=3, hidden_units=5) | options)), np.random.default_rng(3)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.5, weight.shape))
    contexts, targets = random.integers(1, V, (6, model.order - 1)), random.integers(1, V, 6)
    found = context_gradients(model, contexts, targets)
    with tf.GradientTape() as tape:
        log_probs = tf.math.log(tf.gather(model(contexts), targets, batch_dims=1))
    expected = tf.convert_to_tensor(tape.gradient(log_probs, model.embed.C.value)).numpy()
    summed = np.zeros_like(expected)
    np.add.at(summed, contexts, found)
    np.testing.assert_allclose(summed[1:], expected[1:], atol=1e-5)


@pytest.mark.parametrize(
    "boundary, options",
    [("stream", {"direct_connections": True}), ("stream", {"rank": 2}), ("sentence", {"tied": True})],
)
def test_likelihood_takes_one_step_up(boundary, options):
    language_model = _language_model(boundary, **options)
    model, grown = language_model.model, add_words(language_model, TEXT).model
    found, m = _find_ngrams(boundary), 3
    sums, numbers, pairs = np.zeros((len(NEW), m)), np.zeros(len(NEW)), []
    for ngram, _, numbers_there in found:
        for place, number in enumerate(numbers_there):
            if number >= 0:
                contexts, target = np.array([ngram[:-1]]), np.array([ngram[-1]])
                gradient = context_gradients(model, contexts, target)[0, place]
                pairs.append(gradient)
                sums[number] += gradient
                numbers[number] += 1
    fisher = sum(np.outer(g, g) for g in pairs) / len(pairs)
    prior = 30 * (N - 1) * np.trace(fisher) / m * np.eye(m)
    steps = [np.linalg.solve(n * fisher + prior, g) for n, g in zip(numbers, sums, strict=True)]

    inside = np.array([ngram[:-1] for ngram, _, _ in found])
    features = np.asarray(model.prob.project(model.features(inside))).astype(np.float64)
    weights = np.array([_softmax(model, context)[1] for context in inside])
    weights /= weights.sum()
    mean = weights @ features
    variance = (weights @ (features - mean) ** 2).mean()
    rows = []
    for number in range(len(NEW)):
        own = features[[word == number and any(ngram[:-1]) for ngram, word, _ in found]]
        rows.append(0.1 * len(own) / (len(own) + 2) * (own.mean(axis=0) - mean) / variance)
    C, kernel = model.embed.C.numpy()[1], model.prob.kernel.numpy()[1]
    if options.get("tied"):
        np.testing.assert_allclose(grown.embed.C.numpy()[V:], C + steps + np.array(rows), atol=1e-4)
    else:
        np.testing.assert_allclose(grown.embed.C.numpy()[V:], C + np.array(steps), atol=1e-4)
        np.testing.assert_allclose(grown.prob.kernel.numpy()[V:], kernel + np.array(rows), atol=1e-4)


@pytest.mark.parametrize("rule, boundary", [("expectation", "stream"), ("likelihood", "sentence")])
def test_a_new_words_mean_probability_is_its_frequency(rule, boundary):
    language_model = _language_model(boundary)
    given = {"dog": 0.3, "and": 0.1, "a": 0.002, "rug": 0.01}
    inside = np.array([ngram[:-1] for ngram, _, _ in _find_ngrams(boundary)])
    for options, expected in (
        ({"prior_tokens": 50}, np.array(list(NEW.values())) / (len(inside) + 50)),
        ({"frequencies": given}, list(given.values())),
    ):
        grown = add_words(language_model, TEXT, rule=rule, **options)
        mean = np.exp(grown.model.next_log_probs(inside)).mean(axis=0)
        np.testing.assert_allclose(mean[V:], expected, rtol=1e-4)
        assert mean.sum() == pytest.approx(1, abs=1e-5)
