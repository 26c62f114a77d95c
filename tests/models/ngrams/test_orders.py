"""N-gram models of order 1, and orders without an n-gram: longer than every sentence, or pruned
away.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import KenlmModel, LanguageModel, Vocabulary, evaluate
from keras_nplm.data.shards import encode_lines
from keras_nplm.models.mixture import Uniform, fit_mixture
from keras_nplm.models.ngrams import (
    BackoffModel,
    FrequencyBins,
    count_ngrams,
    kneser_ney,
    prune,
    read_arpa,
    write_arpa,
)
from keras_nplm.models.ngrams.approximation import approximate, fit_unigrams
from keras_nplm.serving import build_graph
from keras_nplm.training.methods import Method
from tests.language_models import METHODS

LINES = ["a b", "b c a", "c", "a", "b b a c"] * 4
VOCABULARY = Vocabulary.build(LINES, tokenizer="whitespace")
SIZE = len(VOCABULARY)
HIGH = 9  # longer than the sentences
TEXTS = ["b c a x", "a", "", "c c c c c c c c c"]


IDS = encode_lines(LINES, VOCABULARY, "whitespace", "sentence")


def _score(model):
    """ln P of `TEXTS`."""
    scores = LanguageModel(model, VOCABULARY, "whitespace").score(TEXTS, alone=True)
    return [score.log_prob for score in scores]


def _approximate():
    model = approximate(kneser_ney(IDS, SIZE, HIGH), IDS, HIGH, "sentence")
    return fit_unigrams(prune(model, 1e-2), model.unigrams)


def _mix(order):
    bins = FrequencyBins.from_counts(count_ngrams(IDS, SIZE, HIGH))
    return fit_mixture([kneser_ney(IDS, SIZE, order), Uniform(SIZE, "sentence")], IDS, bins=bins)


ESTIMATED = {
    f"{method} of order {order}": functools.partial(
        METHODS[method], IDS, IDS, SIZE, order, "sentence"
    )
    for method, part in Method.kinds.items()
    for order in (part.least_order, HIGH)
}
BACKOFF_MODELS = {
    **{
        name: estimate
        for name, estimate in ESTIMATED.items()
        if Method.kinds[name.split()[0]].model_kind == "back-off"
    },
    "pruned": lambda: prune(kneser_ney(IDS, SIZE, HIGH), 1e-2),
    "pruned to unigrams": lambda: prune(kneser_ney(IDS, SIZE, 3), 1e9),
    "order 1, pruned": lambda: prune(kneser_ney(IDS, SIZE, 1), 1e9),
    "approximated": _approximate,
}
MODELS = {
    **ESTIMATED,
    **BACKOFF_MODELS,
    "mixed by frequency": lambda: _mix(HIGH),
    "order 1, mixed by frequency": lambda: _mix(1),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_with_empty_orders_are_distributions_also_served(name):
    model = MODELS[name]()
    rng = np.random.default_rng(0)
    contexts = rng.choice([0, 1, 2, 4, 5, 6], (40, model.order - 1)).astype(np.int32)
    targets = rng.choice([1, 3, 4, 5, 6], 40).astype(np.int32)
    log_probs = model.next_log_probs(contexts)
    np.testing.assert_allclose(np.exp(log_probs, dtype=np.float64).sum(axis=1), 1, atol=1e-5)
    of_targets = log_probs[np.arange(40), targets]
    np.testing.assert_allclose(model.log_prob(contexts, targets), of_targets, atol=1e-5)
    assert 1 < evaluate(model, IDS)["perplexity"] < SIZE
    graph = build_graph(model)
    given = tf.constant(contexts)
    found = graph.log_prob(given, tf.constant(targets))
    np.testing.assert_allclose(found, of_targets, atol=1e-5)
    np.testing.assert_allclose(np.exp(graph.next_log_probs(given)), np.exp(log_probs), atol=1e-6)


@pytest.mark.parametrize("name", BACKOFF_MODELS)
def test_written_files_have_the_orders_with_ngrams(tmp_path, name):
    model = MODELS[name]()
    model.save(tmp_path / "ngrams.npz")
    loaded = BackoffModel.load(tmp_path / "ngrams.npz", "sentence")
    assert loaded.order == model.order and _score(loaded) == _score(model)
    write_arpa(tmp_path / "model.arpa", model, VOCABULARY)
    text = (tmp_path / "model.arpa").read_text()
    orders = max(2, sum(number > 0 for number in model.num_ngrams))  # KenLM refuses 1-grams alone
    assert text.count("\nngram ") == text.count("-grams:") == orders
    read, _ = read_arpa(tmp_path / "model.arpa", VOCABULARY)
    assert read.num_ngrams == [number for number in model.num_ngrams if number]
    expected = _score(model)
    assert _score(read) == pytest.approx(expected, rel=1e-5)
    scores = map(KenlmModel(tmp_path / "model.arpa").score, TEXTS)
    assert [score * np.log(10) for score in scores] == pytest.approx(expected, rel=1e-5)


@pytest.mark.packages
@pytest.mark.parametrize("name", BACKOFF_MODELS)
def test_kenlm_reads_the_written_files(tmp_path, name):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install kenlm")
    write_arpa(tmp_path / "model.arpa", MODELS[name](), VOCABULARY)
    scores = map(real.Model(str(tmp_path / "model.arpa")).score, TEXTS)
    expected = _score(MODELS[name]())
    assert [score * np.log(10) for score in scores] == pytest.approx(expected, rel=1e-5)


EMPTY_TRIGRAMS = """\\data\\
ngram 1=4
ngram 2=1
ngram 3=0

\\1-grams:
-1 <unk>
-99 <s>
-0.5 </s>
-0.3 a -0.1

\\2-grams:
-0.2 a a -0.7

\\3-grams:

\\end\\
"""


def test_back_off_weights_below_an_empty_order_count(tmp_path):
    (tmp_path / "model.arpa").write_text(EMPTY_TRIGRAMS)
    model, vocabulary = read_arpa(tmp_path / "model.arpa")
    write_arpa(tmp_path / "again.arpa", model, vocabulary)
    again, _ = read_arpa(tmp_path / "again.arpa", vocabulary)
    expected = np.log(10) * (-0.5 - 0.1 - 0.7)
    for each in (model, again):
        assert each.log_prob([[4, 4]], [3])[0] == pytest.approx(expected, abs=1e-5)


def test_text_is_scored_and_continued_by_unigrams():
    language_model = LanguageModel(kneser_ney(IDS, SIZE, 1), VOCABULARY, "whitespace")
    scorer = language_model.scorer()
    assert scorer.begin() == b""
    log_prob, state = scorer.score(b"", "a x c")
    [score] = language_model.score(["a x c"])
    expected = language_model.model.unigrams[[4, 1, 6, 3]].sum()
    assert [log_prob + scorer.end(state), score.log_prob] == pytest.approx([expected] * 2, abs=1e-5)
    assert language_model.next_words("a", 3) == language_model.next_words("", 3)
    assert len(language_model.generate("a", 5).split()) >= 5
