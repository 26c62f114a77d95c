"""Figures beside the perplexity: accuracy, perplexity by order, a copy that learns."""

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    DynamicSettings,
    Mixture,
    Uniform,
    evaluate,
    kneser_ney,
    make_dynamic,
)
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.collectors import Accuracy, Perplexity, PerplexityByOrder
from keras_nplm.models.dynamic.collector import Dynamic

V = 40
# more than a block of n-grams, with more contexts than a block of distributions
TEXT = np.random.default_rng(0).choice([1, 3, 4, 4, *range(5, V)], 70_000).astype(np.int32)
TEXT[-1] = 3


def _build_kneser_ney():
    return kneser_ney(TEXT[:2000], V, 3, "sentence")


def _build_network():
    return NPLM(V, order=3, embedding_dim=3, hidden_units=4)


of_two_models = pytest.mark.parametrize("build", [_build_kneser_ney, _build_network])


@of_two_models
def test_accuracy_is_the_share_of_most_probable_words(build):
    model = build()
    ngrams = extract_ngrams(TEXT, 3, "sentence")
    best = model.next_log_probs(ngrams[:, :-1]).argmax(axis=1)
    figures = evaluate(model, TEXT, [Accuracy(), Perplexity()])
    assert figures["accuracy"] == (best == ngrams[:, -1]).mean()
    assert figures["perplexity"] == pytest.approx(evaluate(model, TEXT)["perplexity"], rel=1e-12)


@of_two_models
def test_figures_by_order_are_those_of_their_ngrams(build):
    model = build()
    ngrams = extract_ngrams(TEXT, 3, "sentence")
    orders = model.find_orders(ngrams[:, :-1], ngrams[:, -1])
    log_prob = model.log_prob(ngrams[:, :-1], ngrams[:, -1])
    rows = evaluate(model, TEXT, [PerplexityByOrder()])["orders"]
    assert [row["order"] for row in rows] == sorted(set(orders.tolist()))
    for row in rows:
        of_order = log_prob[orders == row["order"]]
        assert row["tokens"] == len(of_order)
        assert row["perplexity"] == pytest.approx(np.exp(-of_order.mean()), rel=1e-6)


def test_a_learning_copy_reads_the_text_in_the_same_pass():
    mixture = Mixture([_build_kneser_ney(), Uniform(V)], [0.5, 0.5])
    settings = DynamicSettings(chunk=64, mixture_rate=0.1)
    together = evaluate(
        mixture,
        iter(np.split(TEXT, 5)),
        [Perplexity(), Dynamic(make_dynamic(mixture, settings), settings)],
    )
    learned = together.pop("dynamic")
    assert learned.pop("settings")["mixture_rate"] == 0.1
    assert together == pytest.approx(evaluate(mixture, TEXT))
    assert learned == pytest.approx(evaluate(make_dynamic(mixture, settings), TEXT))
    assert learned["perplexity"] != together["perplexity"]
