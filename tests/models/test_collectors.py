"""Figures beside the perplexity: accuracy, perplexity by order, a copy that learns."""

import numpy as np
import pytest

from keras_nplm import DynamicSettings, Mixture, evaluate, make_dynamic
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.collectors import Accuracy, Perplexity, PerplexityByOrder
from keras_nplm.models.dynamic.collector import Dynamic
from tests.language_models import build, make_text

# more than a block of n-grams, with more contexts of order 4 than a block of distributions
TEXT = make_text(3, "sentence", 69_999)
of_two_models = pytest.mark.parametrize("name", ["kneser-ney", "nplm"])


@of_two_models
def test_accuracy_is_the_share_of_most_probable_words(name):
    model = build(name, "sentence")
    ngrams = extract_ngrams(TEXT, model.order, "sentence")
    best = model.next_log_probs(ngrams[:, :-1]).argmax(axis=1)
    figures = evaluate(model, TEXT, [Accuracy(), Perplexity()])
    assert figures["accuracy"] == (best == ngrams[:, -1]).mean()
    assert figures["perplexity"] == pytest.approx(evaluate(model, TEXT)["perplexity"], rel=1e-12)


@of_two_models
def test_figures_by_order_are_those_of_their_ngrams(name):
    model = build(name, "sentence")
    ngrams = extract_ngrams(TEXT, model.order, "sentence")
    orders = model.find_orders(ngrams[:, :-1], ngrams[:, -1])
    log_prob = model.log_prob(ngrams[:, :-1], ngrams[:, -1])
    rows = evaluate(model, TEXT, [PerplexityByOrder()])["orders"]
    assert [row["order"] for row in rows] == sorted(set(orders.tolist()))
    for row in rows:
        of_order = log_prob[orders == row["order"]]
        assert row["tokens"] == len(of_order)
        assert row["perplexity"] == pytest.approx(np.exp(-of_order.mean()), rel=1e-6)


def test_a_learning_copy_reads_the_text_in_the_same_pass():
    parts = [build(name, "sentence") for name in ("kneser-ney", "uniform")]
    mixture = Mixture(parts, [0.5, 0.5])
    settings = DynamicSettings(chunk=64, mixture_rate=0.1)
    together = evaluate(
        mixture,
        iter(np.split(TEXT, 5)),
        [Perplexity(), Dynamic(make_dynamic(mixture, settings), settings, share=0.0)],
    )
    learned = together.pop("dynamic")
    assert learned.pop("settings")["mixture_rate"] == 0.1
    assert together == pytest.approx(evaluate(mixture, TEXT))
    assert learned == pytest.approx(evaluate(make_dynamic(mixture, settings), TEXT))
    assert learned["perplexity"] != together["perplexity"]
