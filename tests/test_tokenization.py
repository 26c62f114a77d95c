import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm.errors import InputError
from keras_nplm.tokenization import split_words, tokenizer


@given(st.text())
def test_tokens_joined_by_spaces_split_into_the_same_tokens(text):
    tokens = split_words(text)
    assert split_words(" ".join(tokens)) == tokens


@given(st.text())
def test_no_character_but_white_space_is_lost(text):
    assert "".join(split_words(text)) == "".join(text.split())


def test_an_unknown_tokenizer_is_refused():
    with pytest.raises(InputError, match="words, whitespace. Received: 'nltk'"):
        tokenizer("nltk")
