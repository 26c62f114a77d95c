import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm.data.tokenizers.normalisation import NUMBER, build_form_table, is_number, lower
from keras_nplm.data.tokenizers.registry import get_tokenizer

DICTIONARY = {
    "cats": "cat", "sat": "sit", "sits": "sit", "went": "go", "going": "go", "goings": "going",
    "Polish": "Polish", "polish": "pole", "a": "b", "b": "c", "c": "b", "IIs": "II", "first": "1",
    "'d": "had", "ice-cream": "ice cream",
    "<s>": "s", "mats": "mat", "été": "être",
}  # fmt: skip
TEXT = st.text() | st.text("Ab1 ÉéǅİΣς½Ⅳ٣_-'$.,²²\t\x85\u2028<>")


def test_lower_case_follows_the_table_of_single_characters():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    for character, lowered in zip(every, lower(every), strict=True):
        if lowered != character:
            # `str.lower` makes two characters of it
            assert lowered == character.lower() or character == "İ"
            assert len(lowered) == 1 and lower(lowered) == lowered
            # so tokens and numbers do not change
            for test in (str.isalnum, str.isalpha, str.isnumeric, str.isspace):
                assert test(lowered) == test(character)
    assert lower("İ") == "i" and lower("ΌΣΟΣ") == "όσοσ" != "ΌΣΟΣ".lower()


@given(TEXT)
def test_a_number_has_a_numeral_and_no_letter(token):
    numerals = [unicodedata.numeric(character, None) is not None for character in token]
    assert is_number(token) == (
        any(numerals) and "L" not in {unicodedata.category(c)[0] for c in token}
    )


def test_a_form_table_has_forms_that_are_one_token():
    table = build_form_table(DICTIONARY, get_tokenizer("words").split)
    assert (
        table["cats"] == "cat"
        and table["Cats"] == "Cat"
        and table["goings"] == "go"
        and table["Été"] == "Être"
    )
    assert "Polish" not in table and table["polish"] == "pole"
    assert table["a"] == table["c"] == "b" and "b" not in table  # a circle
    assert not {"'d", "ice-cream"} & set(table)  # the form or the lemma is two tokens
    table = build_form_table(DICTIONARY, get_tokenizer("words+lower+numbers").split)
    assert (
        table["polish"] == "pole"
        and table["iis"] == "ii"
        and "Cats" not in table
        and table["first"] == NUMBER
    )


@pytest.mark.long
def test_english_words_become_their_lemmas():
    pytest.importorskip("simplemma")
    tokenize = get_tokenizer("words+lower+lemmas").split
    assert (
        tokenize("The women saw mice; they were running")
        == "the woman see mouse ; they be run".split()
    )
