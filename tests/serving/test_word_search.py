"""The beam search in the graph finds the words that Python's finds."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, LanguageModel, Uniform, Vocabulary
from keras_nplm.data.subwords import Subwords
from keras_nplm.language_model.completion import LONGEST_PREFIX
from keras_nplm.serving.signatures import ServingModule

LINES = ["the cat sat, they ate that hat", "chat: the act – 我们可以", "that cat's hat", "é ☃"] * 5
TYPED = [
    "the ca",
    "the ",
    "",
    "c",
    "(ch",
    "the cat-",
    "x",
    "the\tca",
    "the\xa0 ca",
    "the▁ca",
    " \t",
    "我",
    "我 ",
    "☃ca",
    "é",
]
TYPED += ["t" * LONGEST_PREFIX, "t" * (LONGEST_PREFIX + 1), "</s>", "</"]


def _check(language_model: LanguageModel, top_k: int) -> None:
    """Compare both signatures, for a batch and for single texts, with Python."""
    signatures = ServingModule(language_model, top_k).signatures()
    calls = {"complete_prefix": ("texts", language_model.complete_prefix)}
    if language_model.vocabulary.subwords is not None:
        calls["predict_next"] = ("contexts", language_model.next_words)
    for name, (argument, predict) in calls.items():
        served = signatures[name](**{argument: tf.constant(TYPED)})
        for i, text in enumerate(TYPED):
            words, probabilities = predict(text, top_k), served["probabilities"][i].numpy()
            assert [word.decode() for word in served["words"][i].numpy() if word] == [word for word, _ in words]
            np.testing.assert_allclose(probabilities, [p for _, p in words] + [0] * (top_k - len(words)), 1e-3, 1e-30)
        single = signatures[name](**{argument: tf.constant(TYPED[:1])})
        assert (single["words"][0] == served["words"][0]).numpy().all()


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "space, network", [("▁", NPLM), pytest.param("▁", Uniform, marks=LONG), pytest.param("", NPLM, marks=LONG)]
)
def test_characters_complete_words_in_the_served_graph(randomise, space, network):
    vocabulary = Vocabulary([*space, *sorted({*"".join(LINES)} - {" "})])
    size = len(vocabulary)
    model = Uniform(size, "sentence") if network is Uniform else randomise(NPLM(size, 3, 5, 8))
    _check(LanguageModel(model, vocabulary, "characters", "sentence"), 5)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_served_subwords_are_completed_to_words(randomise, kind):
    vocabulary = Vocabulary.from_subwords(Subwords.train(LINES, 300, kind))
    network = randomise(NPLM(len(vocabulary), order=3, embedding_dim=5, hidden_units=8))
    _check(LanguageModel(network, vocabulary, "sentencepiece", "sentence"), 3)
