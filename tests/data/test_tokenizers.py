import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm.data.tokenizers import get_tokenizer, join_tokens, split_characters, split_words
from keras_nplm.io.errors import InputError


@given(st.text())
def test_tokens_joined_by_spaces_split_into_the_same_tokens(text):
    tokens = split_words(text)
    assert split_words(" ".join(tokens)) == tokens


@given(st.text())
def test_no_character_but_white_space_is_lost(text):
    assert "".join(split_words(text)) == "".join(text.split())


@given(st.text())
def test_characters_make_up_the_line_again(text):
    characters = split_characters(text)
    assert all(len(character) == 1 and not character.isspace() for character in characters)
    assert join_tokens(characters, "characters") == " ".join(text.split()).replace("▁", " ")


def test_characters_have_no_numbers_and_lemmas():
    assert get_tokenizer("characters+lower")("Ab C") == ["a", "b", "▁", "c"]
    with pytest.raises(InputError, match="`characters` must have no step but .lower. Received"):
        get_tokenizer("characters+numbers")


def test_an_unknown_tokenizer_is_refused():
    with pytest.raises(InputError, match="words, whitespace, characters. Received: 'nltk'"):
        get_tokenizer("nltk")
