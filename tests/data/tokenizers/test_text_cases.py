"""Texts of `tests/text_cases.json` have the tokens that are recorded there."""

import pytest

from keras_nplm.data.tokenizers.registry import get_tokenizer
from tests.text_cases import TOKENS
from tests.tokenizers import KINDS


def test_each_tokenizer_is_recorded_or_spells_its_text():
    """`test_contract.py` spells any text by tokens without <unk>."""
    recorded = {name.partition("+")[0] for tokens in TOKENS.values() for name in tokens}
    assert {kind for kind in KINDS if get_tokenizer(kind).has_unknown} <= recorded


@pytest.mark.parametrize("text", TOKENS)
def test_a_text_has_its_recorded_tokens(text):
    for name, tokens in TOKENS[text].items():
        assert get_tokenizer(name).split(text) == tokens, name
