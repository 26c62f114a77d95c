"""Completion in the graph: the unfinished word, the words with a prefix and the beam search are
those of Python.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, LanguageModel, Uniform, Vocabulary
from keras_nplm.data.prefixes import PrefixIndex, split_unfinished_word
from keras_nplm.data.subwords import Subwords
from keras_nplm.language_model.completion import LONGEST_PREFIX, split_unfinished
from keras_nplm.serving.prefixes import PrefixTable, UnfinishedWords
from keras_nplm.serving.signatures import ServingModule

WORDS = ["the", "cat", "cat's", "a-b", "ca", "éa字", "C", "."]
TEXTS = st.text("acC tÉé字-'’.\x1c\u2028\ufffd😀\u0301\u00ad\u200b", max_size=40) | st.text(
    max_size=10
)


@functools.cache
def _build_functions(tokenizer_name: str):
    prefixes = PrefixTable(PrefixIndex(WORDS, first=0))
    longest = LONGEST_PREFIX if tokenizer_name == "characters" else prefixes.longest
    texts = tf.TensorSpec([None], tf.string)
    split = UnfinishedWords(tokenizer_name, longest).split
    return tuple(
        tf.function(function, [texts], autograph=False) for function in (split, prefixes.match)
    )


@pytest.mark.parametrize("name", ["words", "whitespace", "words+lower", "characters"])
@given(text=TEXTS)
@example(text="The cat's mother-in-law sat on the C")
@example(text="x-yyyy" * 19)
@example(text="我们可以 ไทย a\u0301é")
@example(text="a\u0301'b\u0301 हिन्दी-में'")
@example(text="a \u0301")
@settings(max_examples=10, deadline=None)
def test_texts_and_prefixes_are_split_as_in_python(name, text):
    split, match = _build_functions(name)
    context, word = (part[0].numpy() for part in split(tf.constant([text.encode()])))
    if name == "characters":
        expected = split_unfinished(text)
        is_long = len(expected[1]) > LONGEST_PREFIX
        assert (
            len(word.decode()) > LONGEST_PREFIX
            if is_long
            else (context.decode(), word.decode()) == expected
        )
        return
    expected = split_unfinished_word(text, name, longest=max(map(len, WORDS)))
    fits = match(tf.constant([word]))[0].numpy().tolist()
    assert fits == [each.startswith(expected[1]) for each in WORDS]
    if any(fits):
        assert (context.decode(), word.decode()) == expected


def test_long_prefixes_of_a_long_word_fit_no_word():
    table = PrefixTable(PrefixIndex(["a" * 1000, "b"], first=0))
    fits = table.match(tf.constant(["a" * 256, "a" * 257, "b"]))
    assert fits.numpy().tolist() == [[True, False], [False, False], [False, True]]


LINES = ["the cat sat, they ate that hat", "chat: the act – 我们可以", "that cat's hat", "é ☃"] * 5
TYPED = (
    "the ca|the ||c|(ch|the cat-|x|the\tca|the\xa0 ca|the▁ca| \t|我 |☃ca|é|</s>|If the "
    "o|tttttt|ttttttt|The CA|Ca|NAM|Va|IS|É|e\u0301|the\u200bC|iF"
).split("|")


def _check(functions: dict, language_model: LanguageModel, top_k: int) -> None:
    """Compare both served functions with Python."""
    calls = {"complete_prefix": ("texts", language_model.complete_prefix)}
    if language_model.vocabulary.subwords is not None:
        calls["predict_next"] = ("contexts", language_model.next_words)
    for name, (argument, predict) in calls.items():
        served = functions[name](**{argument: tf.constant(TYPED)})
        for i, text in enumerate(TYPED):
            words = predict(text, top_k)
            probabilities = served["probabilities"][i].numpy()
            assert [word.decode() for word in served["words"][i].numpy() if word] == [
                word for word, _ in words
            ]
            np.testing.assert_allclose(
                probabilities, [p for _, p in words] + [0] * (top_k - len(words)), 1e-3, 1e-30
            )


def test_served_completions_of_words_are_those_of_python(loaded, language_model):
    _check(loaded.signatures, language_model, 5)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, space, network, is_traced",
    [
        pytest.param("characters", "▁", NPLM, True, id="characters"),
        pytest.param("characters", "▁", Uniform, False, id="equal probabilities"),
        pytest.param("unigram", "", NPLM, False, id="unigram subwords"),
        pytest.param("bpe", "", NPLM, True, id="byte-pair subwords"),
    ],
)
@pytest.mark.usefixtures("small_beam")
def test_pieces_complete_words_in_the_served_graph(
    randomise, monkeypatch, kind, space, network, is_traced
):
    """Two cases run eagerly, as tracing takes most of the time."""
    monkeypatch.setattr("keras_nplm.language_model.completion.LONGEST_PREFIX", 6)
    monkeypatch.setattr("keras_nplm.language_model.completion.MOST_PIECES", 8)
    tokenizer = "characters"
    vocabulary = Vocabulary([*space, *sorted({*"".join(LINES)} - {" "})])
    if kind != "characters":
        tokenizer = "sentencepiece"
        vocabulary = Vocabulary.from_subwords(Subwords.train(LINES, 300, kind))
    size = len(vocabulary)
    model = Uniform(size, "sentence") if network is Uniform else randomise(NPLM(size, 3, 5, 8))
    language_model = LanguageModel(model, vocabulary, tokenizer, "sentence")
    module = ServingModule(language_model, 3)
    functions = {name: function.compute for name, function in module.functions.items()}
    _check(module.signatures() if is_traced else functions, language_model, 3)
