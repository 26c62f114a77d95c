"""Texts of `tests/text_cases.json` have the tokens that are recorded there."""

import pytest

from keras_nplm.data.tokenizers.registry import get_tokenizer
from tests.text_cases import TOKENS


@pytest.mark.parametrize("text", TOKENS)
def test_a_text_has_its_recorded_tokens(text):
    for name, tokens in TOKENS[text].items():
        assert get_tokenizer(name).split(text) == tokens, name
