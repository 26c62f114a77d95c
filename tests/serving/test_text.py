"""Served texts are read as in Python: tokens, ends of texts, scores, words and completions."""

import functools
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, InputError, LanguageModel, Uniform, Vocabulary
from keras_nplm.data.ids import BOS_ID, EOS_ID
from keras_nplm.data.prefixes import PrefixIndex, split_unfinished_word
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.normalisation import is_number, lower
from keras_nplm.data.tokenizers.registry import TOKENIZERS, get_tokenizer
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.completion import LONGEST_PREFIX, split_unfinished
from keras_nplm.serving.prefixes import PrefixTable, UnfinishedWords
from keras_nplm.serving.signatures import ServingModule
from keras_nplm.serving.text import TextGraph
from tests.serving.served import check_served_scores, check_served_words
from tests.text_cases import (
    INVALID,
    LEMMAS,
    ODD_TEXTS,
    PROMPTS,
    build_case_vocabulary,
)
from tests.tokenizers import KINDS, CommaTokenizer, build_model

ORDER = 3
STEPS = [f"{kind}+lower" for kind in KINDS if "lower" in TOKENIZERS[kind].allowed_steps]
STEPS += ["words+lower+numbers", "words+lower+numbers+lemmas", "whitespace+lemmas"]
LINES = [text for text in PROMPTS if not {"<s>", "</s>", "<pad>"} & {*text.split()}]
TEXTS = [*map(str.encode, [*LINES, *ODD_TEXTS]), *INVALID]
TEXTS += [np.random.default_rng(seed).bytes(seed) for seed in range(40)]


def long(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.long)


@functools.cache
def build_graph(tokenizer: str, subwords: str = "unigram") -> TextGraph:
    return TextGraph(TextCodec(build_case_vocabulary(tokenizer, subwords), tokenizer))


def check_ids(tokenizer: str, texts: list[bytes], subwords: str = "unigram") -> None:
    """Compare the predicted tokens of lines with those of training, and contexts with those of
    Python.
    """
    graph = build_graph(tokenizer, subwords)
    decoded = [text.decode("utf-8", "replace") for text in texts]
    flat, places, rows = graph.ngrams(tf.constant(texts, tf.string), ORDER)
    targets = tf.RaggedTensor.from_value_rowids(tf.gather(flat, places), rows, nrows=len(texts))
    vocabulary = build_case_vocabulary(tokenizer, subwords)
    ids = encode_lines(decoded, vocabulary, tokenizer, "text")
    ends = np.flatnonzero((ids == EOS_ID) | (ids == BOS_ID)) + 1  # `<s>` stands for a blank line
    for text, found, line in zip(decoded, targets.to_list(), np.split(ids, ends), strict=False):
        assert found == line[line != BOS_ID].tolist(), repr(text)
    check_contexts(tokenizer, texts, subwords)


def check_contexts(tokenizer: str, texts: list[bytes], subwords: str = "unigram") -> None:
    vocabulary = build_case_vocabulary(tokenizer, subwords)
    bound = vocabulary.tokenizer(tokenizer)
    graph = build_graph(tokenizer, subwords)
    contexts, is_read = graph.contexts(tf.constant(texts, tf.string), ORDER, 1 << 20)
    assert is_read.numpy().all()
    for text, ids in zip(texts, contexts.numpy().tolist(), strict=True):
        tokens = bound.split_beginning(text.decode("utf-8", "replace"))
        known = vocabulary.encode_text(tokens).tolist()
        assert ids == [BOS_ID, BOS_ID, *known][1 - ORDER :], repr(text)


@pytest.mark.parametrize(
    "tokenizer, subwords",
    [
        *((kind, "unigram") for kind in KINDS),
        ("sentencepiece+lower", "bpe"),
        *(long(steps, "unigram") for steps in STEPS),
    ],
)
def test_odd_texts_have_the_ids_of_training(tokenizer, subwords):
    check_ids(tokenizer, TEXTS, subwords)
    check_contexts(tokenizer, [*map(str.encode, PROMPTS)], subwords)
    check_contexts(tokenizer, [], subwords)


@pytest.mark.long
@given(
    texts=st.lists(
        st.text()
        | st.text("Ab1 ÉéǅİΣς½Ⅳ٣_-'’$.,²²\u0301\u200dि\t\0\x1c\x85\u2028\ufeff<>▁我们w0")
        | st.lists(st.sampled_from([*LEMMAS, "Cats", "CATS", "Goings", "12", "."])).map(" ".join),
        max_size=3,
    ),
    tokenizer=st.sampled_from([*KINDS, *STEPS]),
    subwords=st.sampled_from(["unigram", "bpe"]),
)
@settings(max_examples=300)
def test_any_text_has_the_ids_of_training(texts, tokenizer, subwords):
    if get_tokenizer(tokenizer).kind != "sentencepiece":
        subwords = "unigram"
    words = [text for text in texts if not {"<s>", "</s>", "<pad>"} & {*text.split()}]
    check_ids(tokenizer, [word.encode() for word in words], subwords)


ALL = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
EQUIVALENT = [unicodedata.normalize("NFD", character) for character in ALL]
CHANGED = [one for one in ALL if lower(one) != one or is_number(one)]
LINE = 1 << 16  # characters


@pytest.mark.long
@pytest.mark.parametrize(
    "tokenizer, subwords, characters, pattern",
    [
        pytest.param("words", "", ALL, "{0}a{0}'b ", id="words"),
        pytest.param("characters", "", EQUIVALENT, "{0}a", id="decomposed characters"),
        pytest.param("characters+lower", "", ALL, "{0}a", id="characters in lower case"),
        pytest.param(
            *("words+lower+numbers", "", CHANGED, "{0}1 A{0}{0}'{0}-{0} {0} -{0} "),
            id="words in lower case, with numbers",
        ),
        # the later planes are not told apart: the graph knows a character by its bytes
        *(
            pytest.param("sentencepiece", kind, ALL[: 1 << 17] + ALL[1 << 17 :: 61], "{0}a{0} ")
            for kind in ("unigram", "bpe")
        ),
    ],
)
def test_every_character_has_the_ids_of_training(tokenizer, subwords, characters, pattern):
    text = [pattern.replace("{0}", character) for character in characters]
    lines = ["".join(text[start : start + LINE]) for start in range(0, len(text), LINE)]
    check_ids(tokenizer, [line.encode() for line in lines], subwords or "unigram")


# lines are lowered by one function, whatever splits them
@pytest.mark.long
@pytest.mark.parametrize("tokenizer", [*KINDS, "sentencepiece+lower", "words+lower+numbers"])
def test_each_character_stands_anywhere_in_a_line(tokenizer):
    patterns = ("{0}ab cd{0}ef gh{0}", "{0}", "ab {0}")
    for start in range(0, 0x3001, 0x1000):
        characters = map(chr, range(start, start + 0x1000))
        lines = [pattern.replace("{0}", one) for one in characters for pattern in patterns]
        check_ids(tokenizer, [line.encode() for line in lines])


@pytest.mark.parametrize("tokenizer", [*KINDS, long("words+lower+numbers")])
def test_the_end_of_a_cut_text_has_its_last_tokens(tokenizer, monkeypatch):
    monkeypatch.setattr("keras_nplm.serving.text.BYTES_PER_TOKEN", 1)
    monkeypatch.setattr("keras_nplm.serving.text.MORE_BYTES", 3)
    characters = [*"thecatbé▁:,-_.'’¡ßİ字a012½☃😀\0\t\u3000      \u0301\u0327ᄒ\u1161\u11ab"]
    characters += [*"\u200b\u00ad\u200d\u2028\ufeff\ufffd"]
    random = np.random.default_rng(0)
    texts = []
    for number in range(150):
        length = random.choice([0, 3, 12, 90])
        text = bytearray("".join(random.choice(characters, length)).encode())
        for place in random.integers(0, len(text), 4) if text and number % 3 == 0 else ():
            text[place] = random.choice([0x80, 0xBF, 0xE3, 0xF0, 0x9F, 0x20, 0xFF, 0xC3])
        texts.append(bytes(text))
    check_contexts(tokenizer, texts)


@pytest.mark.parametrize("boundary, padding", [("sentence", 2), ("text", 2), ("stream", 0)])
def test_short_contexts_are_padded_by_boundary(boundary, padding):
    text = TextGraph(TextCodec(Vocabulary(["the", "cat"]), "whitespace", boundary))
    texts = tf.constant(["the cat"])
    context_ids, _ = text.contexts(texts, order=4, max_length=100)
    assert context_ids.numpy().tolist() == [[padding, 4, 5]]
    ids, _, _ = text.ngrams(texts, order=4)
    assert ids.numpy()[:5].tolist() == [padding, padding, padding, 4, 5]


def test_a_context_that_just_fits_the_limit_is_read_and_forms_are_their_words():
    codec = TextCodec(Vocabulary(["the", "cat"], {"cats": "cat"}), "whitespace+lemmas")
    text = TextGraph(codec)
    context_ids, is_read = text.contexts(tf.constant(["cat the cats"]), order=3, max_length=9)
    assert context_ids.numpy().tolist() == [[4, 5]] and is_read.numpy().all()


# Words


@pytest.fixture
def small_beam(monkeypatch):
    """Words of several tokens are searched with a small beam, in Python and in graphs."""

    def choose_small_beam(top_k: int, vocabulary_size: int) -> tuple[int, int]:
        return 16, 64

    monkeypatch.setattr("keras_nplm.language_model.completion.choose_beam", choose_small_beam)
    monkeypatch.setattr("keras_nplm.language_model.completion.LONGEST_PREFIX", 6)
    monkeypatch.setattr("keras_nplm.language_model.completion.MOST_PIECES", 8)


@pytest.mark.long
@pytest.mark.usefixtures("small_beam")
@pytest.mark.parametrize(
    "tokenizer, subwords, network, is_traced",
    [
        pytest.param("characters", "", NPLM, True, id="characters"),
        pytest.param("characters", "", Uniform, False, id="equal probabilities"),
        pytest.param("sentencepiece", "bpe", NPLM, True, id="byte-pair subwords"),
    ],
)
def test_pieces_complete_words_in_traced_graphs(randomise, tokenizer, subwords, network, is_traced):
    vocabulary = build_case_vocabulary(tokenizer, subwords)
    size = len(vocabulary)
    model = Uniform(size, "sentence") if network is Uniform else randomise(NPLM(size, 3, 5, 8))
    language_model = LanguageModel(model, vocabulary, tokenizer, "sentence")
    module = ServingModule(language_model, 3)
    functions = module.signatures() if is_traced else module.functions
    check_served_words(functions, language_model, PROMPTS[::4], 3)


WORDS = ["the", "cat", "cat's", "a-b", "ca", "éa字", "C", "."]


@functools.cache
def build_split_and_match(tokenizer: str):
    index = PrefixIndex(WORDS, range(len(WORDS)))
    longest = LONGEST_PREFIX if tokenizer == "characters" else index.longest
    texts = tf.TensorSpec([None], tf.string)
    functions = (UnfinishedWords(get_tokenizer(tokenizer), longest).split, PrefixTable(index).match)
    return [tf.function(function, [texts], autograph=False) for function in functions]


@pytest.mark.parametrize("name", ["words", "whitespace", "words+lower", "characters"])
@given(text=st.text("acC tÉé字-'’.\x1c\u2028\ufffd😀\u0301\u00ad\u200b", max_size=40) | st.text())
@example(text="The cat's mother-in-law sat on the C")
@example(text="x-yyyy" * 19)
@settings(max_examples=10)
def test_texts_and_prefixes_are_split_as_in_python(name, text):
    split, match = build_split_and_match(name)
    context, word = (part[0].numpy() for part in split(tf.constant([text.encode()])))
    if name == "characters":
        expected = split_unfinished(text)
        is_long = len(expected[1]) > LONGEST_PREFIX
        assert is_long or (context.decode(), word.decode()) == expected
        assert is_long == (len(word.decode()) > LONGEST_PREFIX)
        return
    expected = split_unfinished_word(text, name, longest=max(map(len, WORDS)))
    fits = match(tf.constant([word]))[0].numpy().tolist()
    assert fits == [each.startswith(expected[1]) for each in WORDS]
    if any(fits):
        assert (context.decode(), word.decode()) == expected


# A tokenizer of one's own


class ServedCommaTokenizer(CommaTokenizer):
    allowed_steps = ("lower",)
    unfinished_word = r"[^,\ufffd]*\Z"

    def build_split_graph(self):
        def split(texts):
            texts = tf.strings.regex_replace(texts, "[ \t\n]+", "")
            tokens = tf.strings.split(texts, ",")
            return tf.ragged.boolean_mask(tokens, tokens != "")

        return split

    def match_partial_token(self):
        return "^[^,]*(,|$)"

    def match_unfinished_word(self):
        return r"[^,\x{fffd}]*"


FIELDS = ["Red cat,dog", "dog,Red cat,dog", "dog, cow"] * 5


def test_a_tokenizer_without_a_graph_is_refused_by_name(messages):
    messages.refuse(lambda: ServingModule(build_model(CommaTokenizer(), FIELDS)), InputError)


def test_a_tokenizer_of_ones_own_is_served_as_in_python():
    model = build_model(ServedCommaTokenizer(["lower"]), FIELDS)
    functions = ServingModule(model, top_k=2).functions
    texts = ["", "dog", "dog,", "red cat,d", " a , b,c", "dog,dog,,red\tcat"]
    check_served_scores(functions["score"], model, texts)
    check_served_words(functions, model, texts, 2)
