"""The unfinished last word of a text, and the words that begin with it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keras_nplm.data.prefixes import PrefixIndex, WordIndex, split_unfinished_word
from keras_nplm.data.tokenizers.normalisation import lower
from keras_nplm.data.tokenizers.registry import get_tokenizer

WORDS = st.lists(st.text("aéb字-😀", min_size=1, max_size=5), min_size=1, max_size=20, unique=True)
TEXTS = st.text("aÉb字-'’_. (\t\ufffd😀", max_size=20)


@given(words=WORDS, prefix=st.text("aéb字-😀", max_size=4))
def test_words_with_a_prefix_are_found(words, prefix):
    index = PrefixIndex(["<pad>", "<unk>", "<s>", "</s>", *words], range(4, 4 + len(words)))
    expected = sorted(word for word in words if word.startswith(prefix))
    assert [index.words[i] for i in index.find(prefix)] == expected
    assert index.find("<") == []  # special tokens
    start, stop = index.list_ranges().get(prefix, (0, 0))
    assert [index.words[i] for i in index.ids[start:stop]] == expected


@given(words=WORDS, prefix=st.text("aAéÉ字-", max_size=3))
def test_words_with_a_prefix_in_any_case_are_found(words, prefix):
    words = [*dict.fromkeys([*words, *map(str.upper, words)])]
    index = WordIndex(words, range(len(words)))
    expected = [i for i, word in enumerate(words) if lower(word).startswith(lower(prefix))]
    assert index.find_other_case(prefix) == expected


def test_long_prefixes_of_a_long_word_are_left_out():
    index = PrefixIndex(["a" * 100_000, "b"], range(2))
    assert (index.longest, len(index.list_ranges())) == (256, 258)
    assert [index.find("a" * length) for length in (1, 256, 257)] == [[0], [0], []]


@pytest.mark.parametrize("name", ["words", "whitespace", "words+lower"])
@given(text=TEXTS)
@example(text="it don'")
@example(text="x-yyyy")
def test_the_unfinished_word_is_the_last_token(name, text):
    context, word = split_unfinished_word(text, name, longest=30)
    tokenize = get_tokenizer(name).split
    assert context + text[len(context) :] == text and len(context) + len(word) == len(text)
    assert word == text[len(context) :]
    if word and word[-1] not in "'’-" and "\ufffd" not in text:
        assert tokenize(text) == [*tokenize(context), *tokenize(word)]
    if not word:
        assert text[-1:] in ("", " ", "\t", "\ufffd") or tokenize(text)[-1] == text[-1]


@given(text=st.text("ab-' .", max_size=30), longest=st.integers(1, 5))
@example(text="a-b", longest=1)
def test_a_word_beyond_the_longest_stays_longer(text, longest):
    whole = split_unfinished_word(text, "words", longest=100)
    cut = split_unfinished_word(text, "words", longest)
    assert cut == whole if len(whole[1]) <= longest else len(cut[1]) > longest
