"""Figures beside the perplexity: accuracy, perplexity by order, a copy that learns."""

import math
import tracemalloc
import unittest.mock

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
from keras_nplm.models import base
from keras_nplm.models.base import count_distribution_rows
from keras_nplm.models.collectors import Accuracy, Perplexity, PerplexityByOrder
from keras_nplm.models.dynamic.collector import Dynamic

V = 9
TEXT = np.random.default_rng(0).choice([1, 3, 4, 4, 5, 6, 7], 300).astype(np.int32)
TEXT[-1] = 3


def _build_kneser_ney():
    return kneser_ney(TEXT[:200], V, 3, "sentence")


def _build_network():
    return NPLM(V, order=3, embedding_dim=3, hidden_units=4)


of_two_models = pytest.mark.parametrize("build", [_build_kneser_ney, _build_network])


@of_two_models
def test_accuracy_is_the_share_of_most_probable_words(build, monkeypatch):
    monkeypatch.setattr("keras_nplm.models.evaluation.BLOCK_SIZE", 50)
    monkeypatch.setattr("keras_nplm.models.base.DISTRIBUTION_ROWS", 7)
    model = build()
    ngrams = extract_ngrams(TEXT, 3, "sentence")
    best = model.next_log_probs(ngrams[:, :-1]).argmax(axis=1)
    figures = evaluate(model, TEXT, [Accuracy(), Perplexity()])
    assert figures["accuracy"] == (best == ngrams[:, -1]).mean()
    assert figures["perplexity"] == pytest.approx(evaluate(model, TEXT)["perplexity"], rel=1e-12)


@of_two_models
def test_figures_by_order_are_those_of_their_ngrams(build, monkeypatch):
    monkeypatch.setattr("keras_nplm.models.evaluation.BLOCK_SIZE", 50)
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
    settings = DynamicSettings(chunk=8, mixture_rate=0.1)
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


def test_each_value_is_computed_once_for_all_collectors():
    model = _build_kneser_ney()
    kind = type(model)

    def count_calls(name):
        return unittest.mock.patch.object(
            kind, name, autospec=True, side_effect=getattr(kind, name)
        )

    with count_calls("log_prob") as log_prob, count_calls("next_log_probs") as distributions:
        evaluate(model, TEXT, [Perplexity(), PerplexityByOrder(), Accuracy(), Accuracy()])
    assert log_prob.call_count == distributions.call_count == 1


def test_distributions_of_a_large_vocabulary_are_computed_a_few_at_a_time(monkeypatch):
    assert [*map(count_distribution_rows, (9, 20_000, 200_000, 1 << 25))] == [512, 512, 83, 1]
    monkeypatch.setattr(base, "_DISTRIBUTION_WORDS", 1 << 18, raising=False)
    size = 20_000
    mixture = Mixture([Uniform(size), Uniform(size)], [0.5, 0.5])
    ids = np.append(np.arange(4, 60), 3)
    tracemalloc.start()
    evaluate(mixture, ids, [Accuracy()])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * (1 << 18)


class Constant:
    """Every word has one log-probability, float32."""

    order = 2

    def __init__(self, log_prob):
        self._log_prob = np.float32(log_prob)

    def log_prob(self, context_ids, target_ids):
        return np.full(len(target_ids), self._log_prob)


def test_log_probabilities_are_summed_in_float64(monkeypatch):
    monkeypatch.setattr("keras_nplm.models.evaluation.BLOCK_SIZE", 7)
    figures = evaluate(Constant(-1 / 3), np.full(10_000, 4))
    assert figures["log_prob"] == pytest.approx(10_000 * float(np.float32(-1 / 3)), rel=1e-13)


def test_a_perplexity_beyond_float64_is_infinite():
    figures = evaluate(Constant(-800), np.array([4, 1, 5, 3]))
    assert figures["perplexity"] == math.inf and figures["perplexity_without_unk"] == math.inf
    assert figures["bits_per_word"] == pytest.approx(800 / math.log(2))
