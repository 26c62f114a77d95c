"""Context layer of characters: near characters concatenated, vectors of the words they spell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    ContextNetwork,
    DynamicSettings,
    Likelihood,
    LinearHead,
    SpelledContext,
    evaluate,
    make_dynamic,
)
from keras_nplm.data.ngram_arrays import extract_ngrams
from tests.formulas import list_spelled_rows

V = 12  # characters
M = 3  # components of a vector
SPACE = 4


def _build(size: int, **options) -> SpelledContext:
    chosen = dict(near_characters=2, spelled_words=2, spelling_bits=12, **options)
    embed = SpelledContext(V, M, **chosen)
    embed.build((None, size))
    return embed


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_rows_are_the_hashes_of_the_spelled_words(data):
    size = data.draw(st.integers(2, 14))
    bits = data.draw(st.integers(1, 20))
    words = data.draw(st.integers(0, 4))
    options = dict(near_characters=1, spelled_words=words, spelling_bits=bits)
    embed = SpelledContext(V, M, separator=5, **options)
    embed.build((None, size))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    contexts = rng.integers(0, 8, (9, size)).astype(np.int32)
    expected = [list_spelled_rows(embed, context) for context in contexts]
    assert np.asarray(embed.find_rows(contexts)).tolist() == expected


def test_x_has_the_spelled_words_and_the_near_characters():
    embed = _build(8)
    context = np.array([[6, SPACE, 7, 8, SPACE, 9, 0, 11]], np.int32)
    S = embed.S.numpy()
    C = embed.C.numpy()
    rows = np.asarray(embed.find_rows(context))[0]
    # near: `<pad>` has no vector
    expected = np.concatenate([*S[rows], 0 * C[0], C[11]])
    x = np.asarray(embed(context))
    np.testing.assert_array_equal(x, [expected])
    assert embed.compute_output_shape((None, 8)) == (None, x.shape[1])
    assert embed.num_single_words(8) == 2


def test_a_word_has_one_row_wherever_it_stands():
    embed = _build(8)
    texts = [
        [SPACE, 9, 7, SPACE, 6, SPACE, 10, 11],
        [2, 2, 2, SPACE, 9, 7, SPACE, 6],
        [SPACE, 6, 6, 6, SPACE, 9, 7, 3],
    ]
    rows = np.asarray(embed.find_rows(np.array(texts, np.int32)))
    assert rows[0, 2] == rows[1, 1] == rows[2, 1]
    assert rows[0, 1] == rows[1, 0]
    assert rows[2, 0] == 0  # after `</s>` the word is empty
    reversed_word = np.asarray(embed.find_rows(np.array([[2, 2, 2, 2, 2, SPACE, 7, 9]], np.int32)))
    assert reversed_word[0, 0] != rows[0, 2]


def test_a_word_that_the_context_cuts_counts_as_empty():
    embed = _build(5)
    rows = np.asarray(embed.find_rows(np.array([[6, 7, SPACE, 8, 9], [6, 7, 8, 9, 6]], np.int32)))
    assert rows[0, 0] > 0
    assert rows[:, 1:].tolist() == [[0, 0], [0, 0]]
    assert rows[1, 0] == 0


def test_vectors_of_words_have_no_weight_decay():
    embed = _build(5, weight_decay=0.1)
    assert any(weight is embed.S for weight in embed.biases)
    assert len(embed.losses) == 1  # of C


@pytest.mark.parametrize("order", [10, 20])
def test_a_network_of_spelled_words_reads_texts_statically_and_dynamically(order):
    embed = SpelledContext(V, M, near_characters=2, spelled_words=1, spelling_bits=4, name="embed")
    network = ContextNetwork(order, embed, LinearHead(V, name="prob"), Likelihood())
    ids = np.random.default_rng(0).integers(3, V, 150).astype(np.int32)
    ids[-1] = 3
    still = make_dynamic(network, DynamicSettings(chunk=8, rate=0.0))
    ngrams = extract_ngrams(ids, order, "sentence")
    of_copy = still.log_prob(ngrams[:, :-1], ngrams[:, -1])
    rows = network.next_log_probs(ngrams[:, :-1])
    expected = rows[np.arange(len(ngrams)), ngrams[:, -1]]
    np.testing.assert_allclose(of_copy, expected, rtol=1e-5)
    perplexity = evaluate(network, ids)["perplexity"]
    np.testing.assert_allclose(perplexity, np.exp(-expected.mean()), rtol=1e-5)
