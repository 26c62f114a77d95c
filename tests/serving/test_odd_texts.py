"""Served texts are read as in Python: white space, control characters, line ends, blank lines,
invalid bytes.
"""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import LanguageModel, Vocabulary
from keras_nplm.data.ids import BOS_ID, EOS_ID
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.registry import TOKENIZERS, get_tokenizer
from keras_nplm.serving.signatures import ServedFunction, ServingModule
from keras_nplm.serving.text import TextGraph
from tests.tokenizers import KINDS, build_model, build_vocabulary

ORDER = 3
LINES = [
    "the cat sat, on the mat",
    "Ab 12 a-b 3rd 1,000",
    "a\xa0b:\u3000c é a_b a'b",
    "▁ a b c",
] * 9
LOWERED = [f"{kind}+lower" for kind in KINDS if "lower" in TOKENIZERS[kind].allowed_steps]
NAMES = [*KINDS, *LOWERED, "words+lower+numbers"]
CONTROLS = [chr(code) for code in (*range(0x21), *range(0x7F, 0xA1))]
SPACES = [
    "\u1680",
    "\u180e",
    *map(chr, range(0x2000, 0x2010)),
    "\u2028",
    "\u2029",
    "\u202f",
    "\u205f",
    "\u2060",
    "\u3000",
    "\ufeff",
]
COMPOSED = [
    "\u0301",
    "\u0327\u0301",
    "\u1161\u11ab",
    "\u09c7\u09be",
    "\u212b\u00ad\u0323",
    "\u0958",
]
MARKS = ["▁", "\ufffd", "\ufe0f", "\u0301", "\u202e", "👩\u200d🔬", "\U000e0001", "İ", "ß"]
PATTERNS = ["{0}the", "th{0}e cat", "the{0}", "the {0}", "the{0}cat", "{0}", "{0}{0} a{0} {0}"]
TEXTS = [
    pattern.format(odd) for odd in (*CONTROLS, *SPACES, *COMPOSED, *MARKS) for pattern in PATTERNS
]
TEXTS += ["", "a\r\n", "\r\na", "a\n\nb\n", "a\r\nb \r\n", "a \n", "a\n ", " \n ", "\t\n", "<unk>"]
TEXTS += ["the <unk> ", "x" * 3000, "the" + " " * 500, " " * 500 + "the", "the " * 50]
INVALID = [
    b"\xed\xa0\x80a",
    b"a\xc0\x80\n",
    b"\xf4\x90\x80\x80 ",
    b"a\xe2\x82 b",
    b"\xc2",
    b"\xff ",
]
MARKERS = ["<s>", "a </s> b", "<pad>\n", "<s><unk>"]


@functools.cache
def _build_vocabulary(tokenizer: str) -> Vocabulary:
    chosen = get_tokenizer(tokenizer)
    if chosen.is_trained:
        # on the lines as they are, whatever the steps
        return _train_subwords(chosen.kind)
    return build_vocabulary(tokenizer, LINES, 330)


@functools.cache
def _train_subwords(kind: str) -> Vocabulary:
    return build_vocabulary(kind, LINES, 330)


@functools.cache
def _build_model(tokenizer: str, boundary: str) -> LanguageModel:
    return build_model(tokenizer, LINES, ORDER, boundary, _build_vocabulary(tokenizer))


def _encode_each(texts: list[str], vocabulary: Vocabulary, tokenizer: str) -> list[list[int]]:
    """Encode lines as training does: the ids of each with `</s>`, and none of a blank line."""
    ids = encode_lines(texts, vocabulary, tokenizer, "text")
    ends = np.flatnonzero((ids == EOS_ID) | (ids == BOS_ID)) + 1  # `<s>` stands for a blank line
    lines = np.split(ids, ends)[: len(texts)]
    return [line[line != BOS_ID].tolist() for line in lines]


def _check_ids(tokenizer: str, encoded: list[bytes]) -> None:
    """Compare the predicted tokens of lines, and the contexts after prompts, with those of
    Python.
    """
    vocabulary = _build_vocabulary(tokenizer)
    graph = TextGraph(vocabulary, tokenizer, "sentence")
    served = tf.constant(encoded)
    texts = [text.decode("utf-8", "replace") for text in encoded]
    flat, places, rows = graph.ngrams(served, ORDER)
    targets = tf.RaggedTensor.from_value_rowids(tf.gather(flat, places), rows, nrows=len(texts))
    expected_ids = _encode_each(texts, vocabulary, tokenizer)
    for text, ids, expected in zip(texts, targets.to_list(), expected_ids, strict=True):
        assert ids == expected, repr(text)
    contexts, _ = graph.contexts(served, ORDER, 1 << 16)
    bound = vocabulary.tokenizer(tokenizer)
    for text, ids in zip(texts, contexts.numpy().tolist(), strict=True):
        tokens = bound.split_beginning(text)
        expected = [BOS_ID, BOS_ID, *vocabulary.encode(tokens).tolist()][1 - ORDER :]
        assert ids == expected, repr(text)


@pytest.mark.parametrize(
    "tokenizer",
    [*KINDS, *(pytest.param(name, marks=pytest.mark.long) for name in NAMES if name not in KINDS)],
)
def test_odd_texts_have_the_ids_of_training(tokenizer):
    _check_ids(tokenizer, [*map(str.encode, TEXTS), *INVALID])


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_a_cut_text_has_its_last_tokens(kind, cut_texts):
    vocabulary = _build_vocabulary(kind)
    tokenizer = vocabulary.tokenizer(kind)
    texts = cut_texts(
        "thecatbé▁:,-'a12☃\0\t\u3000   \u0301\u0327ᄒ\u1161\u11ab\u200b\u00ad\u200d", 120
    )
    context_ids, found = TextGraph(vocabulary, tokenizer, "sentence").contexts(
        tf.constant(texts), ORDER, 1 << 20
    )
    assert found.numpy().all()
    for text, ids in zip(texts, context_ids.numpy().tolist(), strict=True):
        tokens = tokenizer.split_beginning(text.decode("utf-8", "replace"))
        expected = [BOS_ID, BOS_ID, *vocabulary.encode(tokens).tolist()]
        assert ids == expected[1 - ORDER :], repr(text)


# lines are lowered by one function, whatever splits them
@pytest.mark.long
@pytest.mark.parametrize("tokenizer", [*KINDS, "sentencepiece+lower", "words+lower+numbers"])
def test_each_character_has_the_ids_of_training(tokenizer):
    characters = [chr(code) for code in range(0x3001)]
    for patterns in (["{0}ab cd{0}ef gh{0}"], ["{0}", "ab {0}"]):
        _check_ids(
            tokenizer,
            [pattern.format(one).encode() for one in characters for pattern in patterns],
        )


@pytest.mark.parametrize(
    "tokenizer, boundary",
    [
        ("sentencepiece", "sentence"),
        pytest.param("words", "stream", marks=pytest.mark.long),
        pytest.param("sentencepiece", "text", marks=pytest.mark.long),
    ],
)
def test_served_scores_of_odd_texts_are_those_of_python(tokenizer, boundary):
    language_model = _build_model(tokenizer, boundary)
    texts = [*map(str.encode, TEXTS), *INVALID]
    if boundary == "text":
        texts = texts[::9]
    decoded = [text.decode("utf-8", "replace") for text in texts]
    scores = language_model.score(decoded)
    if boundary == "text":  # the served signature knows no text before
        scores = [next(language_model.score([text])) for text in decoded]
    served = ServingModule(language_model).functions["score"].compute(tf.constant(texts))
    for place, expected in enumerate(scores):
        found = [served[name][place].numpy() for name in ("tokens", "unk_tokens", "log_prob")]
        numbers = [expected.tokens, expected.unk_tokens, expected.log_prob]
        assert found == pytest.approx(numbers, rel=1e-4, abs=1e-4), repr(texts[place])


def test_markers_in_served_text_are_unknown_words():
    language_model = _build_model("whitespace", "sentence")
    served = ServingModule(language_model).functions["score"].compute(tf.constant(MARKERS))
    expected = language_model.score(["<unk>", "a <unk> b", "<unk>", "<unk>"])
    for log_prob, score in zip(served["log_prob"].numpy(), expected, strict=True):
        assert log_prob == pytest.approx(score.log_prob, abs=1e-4)


PROMPTS = [
    "",
    " ",
    "the",
    "the ",
    "the  ",
    "the\t",
    "the\xa0",
    "the\n",
    "the\r\n",
    "the\u3000",
    " the",
]
PROMPTS += [
    "the cat",
    "the cat ",
    "\n",
    "a\x1c",
    "a\x85 ",
    "a,",
    "a, ",
    "☃ ",
    "▁",
    "a▁",
    "the\u200b",
]


@functools.cache
def _build_functions(tokenizer: str) -> dict[str, ServedFunction]:
    """The functions of a model whose words are searched with the fixture `small_beam`."""
    language_model = _build_model(tokenizer, "sentence")
    return ServingModule(language_model, top_k=3).functions


def _check_words(served: dict[str, tf.Tensor], predict: Callable) -> None:
    """Compare the probabilities of a signature after each prompt with those of Python."""
    for prompt, probabilities in zip(PROMPTS, served["probabilities"].numpy(), strict=True):
        expected = [probability for _, probability in predict(prompt, 3)]
        expected += [0.0] * (3 - len(expected))
        np.testing.assert_allclose(probabilities, expected, 1e-3, 1e-7, err_msg=repr(prompt))


@pytest.mark.long
@pytest.mark.parametrize("tokenizer", KINDS)
@pytest.mark.usefixtures("small_beam")
def test_next_words_after_odd_prompts_are_those_of_python(tokenizer):
    served = _build_functions(tokenizer)["predict_next"].compute(tf.constant(PROMPTS))
    _check_words(served, _build_model(tokenizer, "sentence").next_words)


@pytest.mark.long
@pytest.mark.parametrize("tokenizer", KINDS)
@pytest.mark.usefixtures("small_beam")
def test_completions_of_odd_prompts_are_those_of_python(tokenizer):
    served = _build_functions(tokenizer)["complete_prefix"].compute(tf.constant(PROMPTS))
    _check_words(served, _build_model(tokenizer, "sentence").complete_prefix)
