"""Perplexity by hand, cuts of the text, and texts without words to predict."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import evaluate
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.io.errors import RunError
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import format_perplexity


class Bigram(NextWordModel):
    """P(w | v) = 1 / (1 + v): a language model whose perplexities can be computed by hand."""

    order = 2

    def log_prob(self, context_ids, target_ids):
        return -np.log1p(context_ids[:, 0].astype(np.float64))


def test_perplexity_by_hand():
    ids = np.array([4, 1, 3, 7, 3])  # contexts in a stream: 0, 4, 1
    result = evaluate(Bigram(), ids, boundary="stream")
    assert result["perplexity"] == pytest.approx((1 * 5 * 2) ** (1 / 3))
    assert result["perplexity_without_unk"] == pytest.approx((1 * 2) ** (1 / 2))
    assert (result["tokens"], result["unk_tokens"]) == (3, 1)
    assert result["log_prob"] == pytest.approx(-math.log(10))
    assert result["bits_per_word"] == pytest.approx(math.log2(10) / 3)
    result = evaluate(Bigram(), ids)  # contexts: 2, 4, 1; 2, 7
    assert result["perplexity"] == pytest.approx((3 * 5 * 2 * 3 * 8) ** (1 / 5))
    assert result["tokens"] == 5
    result = evaluate(Bigram(), np.array([1, 1, 3]), boundary="stream")
    assert result["perplexity_without_unk"] is None
    assert format_perplexity(None) == "–"


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 70_000)), boundary=st.sampled_from(["sentence", "stream"]))
def test_cuts_of_a_text_change_nothing(cuts, boundary):
    rng = np.random.default_rng(0)
    ids = np.append(rng.choice([1, 3, 4, 5, 6], 70_000), 3)  # more than a block of n-grams
    whole = evaluate(Bigram(), ids, boundary=boundary)
    in_parts = evaluate(Bigram(), iter(np.split(ids, sorted(cuts))), boundary=boundary)
    assert in_parts == pytest.approx(whole, rel=1e-12)
    ngrams = extract_ngrams(ids, 2, boundary)
    log_prob = Bigram().log_prob(ngrams[:, :-1], ngrams[:, -1]).sum()
    assert whole["log_prob"] == pytest.approx(log_prob, rel=1e-12)


class Constant(Bigram):
    """Every word has one log-probability, float32."""

    def __init__(self, log_prob):
        self._log_prob = np.float32(log_prob)

    def log_prob(self, context_ids, target_ids):
        return np.full(len(target_ids), self._log_prob)


def test_log_probabilities_are_summed_in_float64():
    figures = evaluate(Constant(-1 / 3), np.full(70_000, 4))
    assert figures["log_prob"] == pytest.approx(70_000 * float(np.float32(-1 / 3)), rel=1e-13)


def test_a_perplexity_beyond_float64_is_infinite():
    figures = evaluate(Constant(-800), np.array([4, 1, 5, 3]))
    assert figures["perplexity"] == math.inf and figures["perplexity_without_unk"] == math.inf
    assert figures["bits_per_word"] == pytest.approx(800 / math.log(2))


@pytest.mark.parametrize("log_prob", [-np.inf, np.nan])
def test_probability_0_or_nan_is_refused(log_prob, messages):
    messages.refuse(lambda: evaluate(Constant(log_prob), np.array([4, 5, 3])), RunError)
