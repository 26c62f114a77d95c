"""The beam search in the graph finds the words that Python's finds."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, LanguageModel, Vocabulary
from keras_nplm.data.subwords import Subwords
from keras_nplm.language_model.completion import LONGEST_PREFIX, WordPieces, complete_words
from keras_nplm.serving.graphs import build_graph
from keras_nplm.serving.signatures import ServingModule
from keras_nplm.serving.word_search import WordSearch

LINES = ["the cat sat, they ate that hat", "chat: the act – 我们可以", "that cat's hat", "é ☃"] * 5
PREFIXES = ["", "th", "c", "é", "x☃", "the", "</s>", "我", "t" * (LONGEST_PREFIX + 1)]


def _build_network(randomise, size: int) -> NPLM:
    return randomise(NPLM(size, order=3, embedding_dim=5, hidden_units=8))


@pytest.mark.parametrize("beam, with_end", [pytest.param(3, False, marks=pytest.mark.long), (16, True)])
def test_words_are_those_of_python(randomise, beam, with_end):
    vocabulary = Vocabulary.from_subwords(Subwords.train(LINES, 300))
    model, pieces = _build_network(randomise, len(vocabulary)), WordPieces(vocabulary)
    search = WordSearch(build_graph(model), pieces, top_k=5, beam=beam)
    contexts = np.random.default_rng(0).integers(4, len(vocabulary), (len(PREFIXES), 2)).astype(np.int32)
    spaces = np.arange(len(PREFIXES), dtype=np.int32) % 3
    complete = tf.function(search.complete)
    words, probabilities = complete(tf.constant(contexts), tf.constant(PREFIXES), tf.constant(spaces), with_end)
    found = 0
    for i, prefix in enumerate(PREFIXES):
        options = dict(prefix=prefix, after_space=[None, True, False][spaces[i]], with_end=with_end)
        expected = complete_words(model, contexts[i], pieces, top_k=5, beam=beam, **options)
        assert [word.decode() for word in words[i].numpy() if word] == [word for word, _ in expected]
        np.testing.assert_allclose(probabilities[i, : len(expected)], [p for _, p in expected], rtol=1e-3)
        assert not probabilities[i, len(expected) :].numpy().any()
        single = complete(
            tf.constant(contexts[i : i + 1]), tf.constant([prefix]), tf.constant(spaces[i : i + 1]), with_end
        )
        assert (single[0] == words[i]).numpy().all()
        found += len(expected)
    assert found > 10


TYPED = ["the ca", "the ", "", "c", "(ch", "the cat-", "x"]


@pytest.mark.long
def test_characters_complete_words_in_the_served_graph(randomise):
    characters = sorted({*"".join(LINES)} - {" "})
    vocabulary = Vocabulary(["▁", *characters])
    language_model = LanguageModel(_build_network(randomise, len(vocabulary)), vocabulary, "characters", "sentence")
    served = ServingModule(language_model, top_k=3).signatures()["complete_prefix"](texts=tf.constant(TYPED))
    for i, text in enumerate(TYPED):
        expected = language_model.complete_prefix(text, 3)
        assert [word.decode() for word in served["words"][i].numpy() if word] == [word for word, _ in expected]
        np.testing.assert_allclose(served["probabilities"][i, : len(expected)], [p for _, p in expected], rtol=1e-3)
    assert served["words"][0, 0].numpy().startswith(b"ca")


@pytest.mark.long  # a fast test completes words from characters
def test_served_subwords_are_completed_to_words(randomise):
    vocabulary = Vocabulary.from_subwords(Subwords.train(LINES, 300))
    network = _build_network(randomise, len(vocabulary))
    language_model = LanguageModel(network, vocabulary, "sentencepiece", "sentence")
    signatures = ServingModule(language_model, top_k=3).signatures()
    calls = {"predict_next": ("contexts", language_model.next_words)}
    calls |= {"complete_prefix": ("texts", language_model.complete_prefix)}
    for name, (argument, predict) in calls.items():
        served = signatures[name](**{argument: tf.constant(TYPED)})
        for i, text in enumerate(TYPED):
            expected = predict(text, 3)
            assert [word.decode() for word in served["words"][i].numpy() if word] == [word for word, _ in expected]
            np.testing.assert_allclose(served["probabilities"][i, : len(expected)], [p for _, p in expected], rtol=1e-3)
