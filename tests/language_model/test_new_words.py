"""Adding out-of-vocabulary words: both rules against plain loops, the vocabulary, and the
command.
"""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    AveragedContext,
    DeepHidden,
    LanguageModel,
    LinearHead,
    PointerNetwork,
    Vocabulary,
    add_words,
)
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import encode_lines
from keras_nplm.language_model.new_word_weights import context_gradients
from keras_nplm.models.networks.context_network import ContextNetwork
from tests.networks import compose, randomise

WORDS = ["the", "cat", "sat", "on", "mat", "."]
V = len(WORDS) + 4
N = 4
M = 3
TEXT = [
    "the dog sat on the mat .",
    "",
    "the dog and the cat sat .",
    "on the dog",
    "a rug . and the dog",
]
NEW = {"dog": 4, "and": 2, "a": 1, "rug": 1}


def _build(boundary: str = "stream", direct_connections: bool = False, **output) -> LanguageModel:
    head = LinearHead(V, name="prob", **output)
    model = compose(V, N, M, head=head, direct_connections=direct_connections, boundary=boundary)
    return LanguageModel(randomise(model, 0.6), Vocabulary(WORDS), "whitespace")


def _stack_kernel(model: ContextNetwork) -> np.ndarray:
    """Return [U W]."""
    kernels = [model.prob.U] if model.direct is None else [model.prob.U, model.direct.W]
    return np.concatenate([kernel.numpy() for kernel in kernels], axis=1)


def _find_ngrams(boundary: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the n-grams of the text in known ids; and the number of the new word at each place,
    below 0 for known words.
    """
    ids = encode_lines(TEXT, Vocabulary([*WORDS, *NEW]), "whitespace", boundary)
    ngrams = extract_ngrams(ids, N, boundary)
    return np.where(ngrams < V, ngrams, 1), ngrams - V


def _check_frequencies(grown: ContextNetwork, contexts: np.ndarray, prior: int) -> None:
    """Check that the mean probability of each new word is its frequency."""
    mean = np.exp(grown.next_log_probs(contexts)).mean(axis=0)
    np.testing.assert_allclose(
        mean[V:], np.array([*NEW.values()]) / (len(contexts) + prior), rtol=1e-4
    )
    assert mean.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "boundary, options", [("sentence", {"rank": 2}), ("stream", {"tied": True})]
)
def test_expectation_is_the_papers_rule(boundary, options):
    language_model = _build(boundary, **options)
    model = language_model.model
    grown = add_words(language_model, TEXT, rule="expectation", prior_tokens=50)
    assert grown.vocabulary.words == [*language_model.vocabulary.words, *NEW]
    C = model.embed.C.numpy()
    kernel = _stack_kernel(model)
    ngrams, numbers = _find_ngrams(boundary)
    _check_frequencies(grown.model, ngrams[:, :-1], 50)
    for number in range(len(NEW)):
        contexts = ngrams[numbers[:, -1] == number, :-1]
        p = np.exp(model.next_log_probs(contexts[contexts.any(axis=1)]))
        p[:, :4] = 0
        p = (p / p.sum(axis=1, keepdims=True)).mean(axis=0)
        np.testing.assert_allclose(grown.model.embed.C.numpy()[V + number], p @ C, atol=1e-5)
        np.testing.assert_allclose(_stack_kernel(grown.model)[V + number], p @ kernel, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        dict(order=8, embed=AveragedContext(V, 3, averages_after=(1, 3)), direct_connections=True),
        dict(order=3, hidden=DeepHidden(5, activation="gelu", residual_blocks=1, layer_norm=True)),
        dict(order=6, kind=PointerNetwork),
    ],
)
def test_gradients_of_given_layers_equal_those_of_a_tape(options):
    """∂ ln P/∂C(w) of each word of a context, summed over the places where it stands."""
    model = randomise(compose(V, embedding_dim=3, **options), 0.6)
    random = np.random.default_rng(3)
    contexts = random.integers(1, V, (6, model.order - 1))
    targets = random.integers(1, V, 6)
    with tf.GradientTape() as tape:
        log_probs = tf.math.log(tf.gather(model(contexts), targets, batch_dims=1))
    expected = tf.convert_to_tensor(tape.gradient(log_probs, model.embed.C.value)).numpy()
    summed = np.zeros_like(expected)
    np.add.at(summed, contexts, context_gradients(model, contexts, targets))
    np.testing.assert_allclose(summed[1:], expected[1:], atol=1e-5)


@pytest.mark.parametrize(
    "boundary, options",
    [("stream", {"direct_connections": True, "rank": 2}), ("sentence", {"tied": True})],
)
def test_likelihood_takes_one_step_up(boundary, options):
    language_model = _build(boundary, **options)
    model = language_model.model
    grown = add_words(language_model, TEXT).model
    ngrams, numbers = _find_ngrams(boundary)
    inside = ngrams[:, :-1]
    _check_frequencies(grown, inside, 10_000)
    of_places = context_gradients(model, inside, ngrams[:, -1])
    is_new = numbers[:, :-1] >= 0
    fisher = np.mean([np.outer(g, g) for g in of_places[is_new]], axis=0)
    prior = 30 * (N - 1) * np.trace(fisher) / M * np.eye(M)
    features = np.asarray(model.scores(inside).features).astype(np.float64)
    weights = np.exp(model.next_log_probs(inside)[:, 1])
    weights /= weights.sum()
    mean = weights @ features
    variance = (weights @ (features - mean) ** 2).mean()
    steps = np.zeros((len(NEW), M))
    rows = np.zeros((len(NEW), features.shape[1]))
    for number in range(len(NEW)):
        gradients = of_places[numbers[:, :-1] == number]
        steps[number] = np.linalg.solve(len(gradients) * fisher + prior, gradients.sum(axis=0))
        own = features[(numbers[:, -1] == number) & inside.any(axis=1)]
        k = len(own)
        rows[number] = 0.1 * k / (k + 2) * (own.mean(axis=0) - mean) / variance
    is_tied = "tied" in options
    expected = model.embed.C.numpy()[1] + steps + (rows if is_tied else 0)
    np.testing.assert_allclose(grown.embed.C.numpy()[V:], expected, atol=1e-4)
    if not is_tied:
        expected = _stack_kernel(model)[1] + rows
        np.testing.assert_allclose(_stack_kernel(grown)[V:], expected, atol=1e-4)


def test_the_command_writes_a_model_directory(model_directory, tmp_path, ask):
    text = tmp_path / "text.txt"
    target = tmp_path / "grown"
    text.write_text("The frumple is an object.\nA frumple has a zonk.\n", encoding="utf-8")
    command = ["add-words", str(model_directory), "--text", str(text), "--output", str(target)]
    result = ask(*command, "--words", "frumple", "zonk")
    assert result["added_words"] == {"frumple": 2, "zonk": 1}
    small = LanguageModel.load(model_directory)
    grown = LanguageModel.load(target)
    assert grown.vocabulary.words == [*small.vocabulary.words, "frumple", "zonk"]
    lines = text.read_text().splitlines()
    made = add_words(small, lines, ["frumple", "zonk"])
    assert list(grown.score(lines)) == list(made.score(lines)) and grown.corpus is None
