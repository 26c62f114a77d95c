"""What holds for every registered tokenizer; `tests/serving/test_text.py` has their graphs."""

import functools
import pickle
import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError, LanguageModel, Uniform, Vocabulary, estimate, open_corpus
from keras_nplm.data.ids import UNK_ID
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.normalisation import STEPS, lower
from keras_nplm.data.tokenizers.pieces import SPACE
from keras_nplm.data.tokenizers.registry import TOKENIZERS, add_steps, get_tokenizer
from keras_nplm.io.text import split_fields
from keras_nplm.training.options import TextOptions
from tests.text_cases import build_case_vocabulary
from tests.tokenizers import KINDS, PARTS_OF_WORDS, build_vocabulary

LINES = [
    "The cat sat, on the mat",
    "Été: 3rd  猫 ☃",
    "a-b cat's <0x41> <s",
    "on\tthe\xa0mat ",
    "the cat sat",
] * 9
TEXTS = st.text() | st.text("abÉİΣ猫☃▁ \t\xa0\u3000<0x41>-'’.\0")


@functools.cache
def _bind(name: str) -> tuple[Vocabulary, Tokenizer]:
    if name.endswith("+lemmas"):
        vocabulary = build_case_vocabulary(name)
    else:
        vocabulary = build_vocabulary(name, LINES, 330)
    return vocabulary, vocabulary.tokenizer(name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_is_found_by_its_name_and_pickled(kind):
    tokenizer = get_tokenizer(kind)
    assert tokenizer.name == tokenizer.kind == kind
    assert type(tokenizer) is TOKENIZERS[kind]
    assert get_tokenizer(tokenizer) is tokenizer
    assert tokenizer.describe().startswith("Tokens are ")
    vocabulary, bound = _bind(kind)
    ids = encode_lines(["Ωψ 〇 qz"], vocabulary, kind, "sentence")
    assert (UNK_ID in ids) == tokenizer.has_unknown
    restored = pickle.loads(pickle.dumps(bound))
    assert restored.name == kind
    assert restored.split(LINES[1]) == bound.split(LINES[1])
    joined = [bound.join(bound.split(line)).split() for line in LINES]
    assert (joined == [line.split() for line in LINES]) == (kind != "words")
    assert bound.separator == (" " if bound.tokens_are_words else "")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not get_tokenizer(kind).has_unknown])
@settings(max_examples=60)
@given(text=TEXTS)
def test_tokens_without_unk_spell_every_text(kind, text):
    vocabulary, tokenizer = _bind(kind)
    tokens = tokenizer.split(text)
    assert UNK_ID not in vocabulary.encode(tokens)
    assert tokenizer.join(tokens).split() == clean_text(text).split()


_LOWERED = [f"{kind}+lower" for kind in KINDS]
_LEMMAS = ["words+lower+numbers+lemmas", "whitespace+numbers+lemmas"]
# accents, Korean, a Bengali vowel of two parts, composites that NFC excludes, invisible characters
ODD_TEXTS = st.text("aeJåΪệ각ব\u0301\u0323\u030c\u0307İ\u09c7\u09be\u0958'-. \u1100\u1161\u11a8K…")
_CF = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) == "Cf"]
_VISIBLE = re.compile(
    "[\u0600-\u0605\u06dd\u070f\u0890-\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f]"
)
_KEPT = "\u200b\u200c\u200d"


@pytest.mark.parametrize("name", [*KINDS, *_LOWERED, *_LEMMAS])
@settings(max_examples=60)
@given(text=ODD_TEXTS | TEXTS | st.text("Ab1 ½Ⅳ٣_-'$.,²²\t\x85<>"))
def test_joined_equivalent_and_normalised_texts_have_the_same_tokens(name, text):
    _, tokenizer = _bind(name)
    if tokenizer.space == SPACE:  # this character is white space
        text = text.replace(SPACE, " ")
    tokens = tokenizer.split(text)
    assert all(split_fields(token) == [token] for token in tokens)
    assert tokenizer.split(tokenizer.join(tokens)) == tokens
    for form in ("NFC", "NFD"):
        equivalent = unicodedata.normalize(form, text)
        assert tokenizer.split(equivalent) == tokens
        assert tokenizer.split_beginning(equivalent) == tokenizer.split_beginning(text)


@pytest.mark.parametrize("name", [*KINDS, *_LOWERED])
def test_invisible_format_characters_are_no_tokens(name):
    _, tokenizer = _bind(name)
    for invisible in _CF:
        if invisible in _KEPT or _VISIBLE.match(invisible):
            continue
        for text in ("{0}the cat", "the c{0}at", "e{0}\u0301", "the {0}", "{0}", "{0} a"):
            expected = text.format("")
            assert tokenizer.split_beginning(text.format(invisible)) == (
                tokenizer.split_beginning(expected)
            ), (text, hex(ord(invisible)))
    for text in ("the{0}cat", "the{0}", "{0}the", "{0}"):  # of zero width: a space
        expected = tokenizer.split_beginning(text.format(" "))
        assert tokenizer.split_beginning(text.format("\u200b")) == expected
    for text in ("می\u200cخواهم", "ක්\u200dර"):
        assert tokenizer.join(tokenizer.split(text)) == text


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in PARTS_OF_WORDS])
def test_words_of_a_list_in_another_form_are_found(kind):
    words = [unicodedata.normalize("NFD", word) for word in ("été", "각")] + ["so\u00adfa", "é"]
    vocabulary = Vocabulary([*words, "e\u0301"])
    tokens = vocabulary.tokenizer(kind).split("été 각 sofa é")
    assert vocabulary.encode(tokens).tolist() == [4, 5, 6, 7]
    model = LanguageModel(Uniform(len(vocabulary), "sentence"), vocabulary, kind)
    assert [word for word, _ in model.complete_prefix("ét")] == [words[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_are_not_allowed_are_refused(kind):
    for step in STEPS:
        if step in TOKENIZERS[kind].allowed_steps:
            assert add_steps(kind, [step]).name == f"{kind}+{step}"
        else:
            with pytest.raises(InputError, match=f"`normalise` must be .* the tokenizer `{kind}`"):
                add_steps(kind, [step])


@pytest.mark.parametrize("kind", KINDS)
def test_white_space_at_the_end_of_a_prompt_is_a_token_if_it_is_one_between_words(kind):
    _, tokenizer = _bind(kind)
    tokens = tokenizer.split("the cat")
    spaces = [tokenizer.space] if tokenizer.space else []
    assert tokenizer.split_beginning("the cat") == tokens
    if not tokenizer.is_trained:  # whose pieces have the white space of a text
        assert tokenizer.split_beginning("the cat ") == [*tokens, *spaces]
    assert tokenizer.split_sentence(" \t") == []
    assert tokenizer.ends_with_space("the ") and not tokenizer.ends_with_space("the")
    assert not tokenizer.ends_with_space("")


@pytest.mark.parametrize("boundary", ["sentence", "text", "stream"])
@pytest.mark.parametrize("name", KINDS)
def test_ids_have_the_log_probability_of_their_lines(name, boundary):
    vocabulary, tokenizer = _bind(name)
    language_model = LanguageModel(Uniform(len(vocabulary), boundary), vocabulary, tokenizer)
    ids = encode_lines(LINES, vocabulary, tokenizer, boundary)
    of_lines, of_ids = (language_model.evaluate(text) for text in (LINES, ids))
    assert of_ids["log_prob"] == of_lines["log_prob"] and of_lines["bits_per_character"]
    assert of_ids["bits_per_character"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_text_files_is_estimated_saved_and_used(kind, tmp_path):
    lines = ["the red cat sat", "the red dog sat", "the reddest cat ran"] * 20
    (tmp_path / "text.txt").write_text("\n".join(lines))
    corpus = open_corpus(train=[str(tmp_path / "text.txt")], tokenizer=TOKENIZERS[kind]())
    metrics = estimate(
        "kneser-ney", corpus, tmp_path / "model", order=6, text=TextOptions(min_count=1)
    )
    language_model = LanguageModel.load(tmp_path / "model")
    assert language_model.tokenizer.name == kind
    again = language_model.evaluate("test")
    assert metrics["test"]["bits_per_character"] == again["bits_per_character"] < 2
    assert {*TOKENIZERS[kind].alphabet} <= {*language_model.vocabulary.words}
    completed = [word for word, _ in language_model.complete_prefix("the red d", 1)]
    assert completed == ["dog"]
    assert language_model.generate("the", 3, seed=1)
    [score] = language_model.score(["the red cat"])
    ids = encode_lines(["the red cat"], language_model.vocabulary, kind, "sentence")
    assert score.tokens == len(ids)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(text=TEXTS)
def test_lower_case_may_come_before_the_split(kind, text):
    plain, lowered = (_bind(name)[1] for name in (kind, f"{kind}+lower"))
    assert lowered.split(text) == plain.split(lower(text))
