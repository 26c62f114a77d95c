"""Rows of the words that characters spell. What is made of them: `tests/models/networks`."""

import numpy as np
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


@settings(max_examples=20)
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


def test_a_network_of_spelled_words_reads_texts_statically_and_dynamically():
    order = 20
    embed = SpelledContext(V, M, near_characters=2, spelled_words=1, spelling_bits=4, name="embed")
    network = ContextNetwork(order, embed, LinearHead(V, name="prob"), Likelihood())
    ids = np.random.default_rng(0).integers(3, V, 150).astype(np.int32)
    ids[-1] = 3
    still = make_dynamic(network, DynamicSettings(chunk=8, rate=1e-9))
    ngrams = extract_ngrams(ids, order, "sentence")
    of_copy = still.log_prob(ngrams[:, :-1], ngrams[:, -1])
    rows = network.next_log_probs(ngrams[:, :-1])
    expected = rows[np.arange(len(ngrams)), ngrams[:, -1]]
    np.testing.assert_allclose(of_copy, expected, rtol=1e-5)
    perplexity = evaluate(network, ids)["perplexity"]
    np.testing.assert_allclose(perplexity, np.exp(-expected.mean()), rtol=1e-5)
