"""Options in which the tokens of two models differ, and the figures that they make incomparable."""

import dataclasses

from keras_nplm import LanguageModel, Likelihood, Mixture, Uniform, Vocabulary
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.language_model.comparison import describe_incomparable
from keras_nplm.language_model.differences import (
    TokenOptions,
    check_same_tokens,
    find_held_out_mass,
)
from tests.networks import compose

TEXT = "text a.txt (10 bytes, crc32 00000001) split 0.8 0.1 0.1"
ONE = TokenOptions(
    "one",
    Vocabulary(["the", "cat"]),
    get_tokenizer("words"),
    "sentence",
    {"corpus": TEXT, "min_count": 2, "max_size": None},
)


def _change(**changes) -> TokenOptions:
    return dataclasses.replace(ONE, name="two", **changes)


def _change_words(words, **config) -> TokenOptions:
    return _change(vocabulary=Vocabulary(words), config={**ONE.config, **config})


OTHERS = [
    _change_words(["the"], min_count=5),
    _change_words(["the"], max_size=5, min_count=3),
    _change_words(["the", "dog"], corpus=TEXT.replace("a.txt", "b.txt")),
    _change(vocabulary=Vocabulary(["the", "dog", "sat"]), config={}),
    _change(vocabulary=Vocabulary(["cat", "the"]), config={}),
    _change(tokenizer=get_tokenizer("characters"), vocabulary=Vocabulary(["t"])),
    _change(tokenizer=get_tokenizer("words+lower"), boundary="stream"),
    _change(boundary="text"),
]


def test_a_model_of_other_tokens_is_refused_with_both_values(messages):
    for other in OTHERS:
        messages.refuse(lambda other=other: check_same_tokens(ONE, other))


def test_what_is_not_comparable_is_said_in_two_sentences(messages):
    rare = dataclasses.replace(_change_words(["the"], min_count=5), name="rare")
    stream = _change(boundary="stream")
    smoothed = _change(held_out_mass=0.04)
    for others in ([rare], [stream, rare], [smoothed], [stream, smoothed, rare]):
        sentences = describe_incomparable([ONE, *others])
        assert len(sentences) <= 2
        messages.add(" ".join(sentences))
    assert describe_incomparable([smoothed, smoothed]) == []
    # words in a different order, and boundaries that predict the same tokens
    reordered = _change(vocabulary=Vocabulary(["cat", "the"]))
    assert describe_incomparable([ONE, reordered, _change(boundary="text")]) == []


def test_held_out_mass_of_a_saved_mixture_is_known(tmp_path):
    vocabulary = Vocabulary(["the", "cat"])
    network = compose(len(vocabulary), objective=Likelihood(held_out_mass=0.04), boundary="stream")
    parts = [Uniform(len(vocabulary), "stream"), network]
    LanguageModel(Mixture(parts, [0.5, 0.5]), vocabulary, "words").save(tmp_path / "mixture")
    loaded = LanguageModel.load(tmp_path / "mixture")
    assert TokenOptions.of_model(tmp_path / "mixture", loaded).held_out_mass == 0.04
    assert find_held_out_mass(loaded.model, {"vocabulary_scope": "corpus"}) == 0.04
    # no word of the vocabulary is only in the other splits
    assert find_held_out_mass(loaded.model, {"vocabulary_scope": "train"}) == 0
