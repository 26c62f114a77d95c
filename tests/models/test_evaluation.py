import math

import numpy as np
import pytest

from keras_nplm import InputError, evaluate


class Bigram:
    """P(w | v) = 1 / (1 + v): a language model whose perplexities can be worked out by hand."""

    order = 2

    def log_prob(self, context_ids, target_ids):
        return -np.log1p(context_ids[:, 0].astype(np.float64))


def test_perplexity_by_hand():
    ids = np.array([4, 1, 3, 7, 3])  # contexts in a stream: 0, 4, 1
    result = evaluate(Bigram(), ids, "stream")
    assert result["perplexity"] == pytest.approx((1 * 5 * 2) ** (1 / 3))
    assert result["perplexity_without_unk"] == pytest.approx((1 * 2) ** (1 / 2))
    assert (result["tokens"], result["unk_tokens"]) == (3, 1)
    assert result["log_prob"] == pytest.approx(-math.log(10))
    assert result["bits_per_word"] == pytest.approx(math.log2(10) / 3)
    result = evaluate(Bigram(), ids, "sentence")  # contexts: 2, 4, 1; 2, 7
    assert result["perplexity"] == pytest.approx((3 * 5 * 2 * 3 * 8) ** (1 / 5))
    assert result["tokens"] == 5


def test_a_text_of_unknown_words_alone_has_no_perplexity_without_them():
    assert evaluate(Bigram(), np.array([1, 1, 3]))["perplexity_without_unk"] is None


def test_a_long_text_is_summed_in_float64():
    ids = np.full(300_001, 4)

    class Third(Bigram):
        def log_prob(self, context_ids, target_ids):
            return np.full(len(target_ids), np.float32(np.log(1 / 3)), np.float32)

    assert evaluate(Third(), ids)["perplexity"] == pytest.approx(3, rel=1e-7)


def test_nothing_to_predict_is_refused():
    with pytest.raises(InputError, match="no word to predict"):
        evaluate(Bigram(), np.array([], np.int32))
