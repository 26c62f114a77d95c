"""Options in which the tokens of two models differ, and the figures that they make incomparable."""

import dataclasses

import pytest

from keras_nplm import InputError, LanguageModel, Likelihood, Mixture, Uniform, Vocabulary
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.language_model.differences import (
    TokenOptions,
    check_same_tokens,
    describe_incomparable,
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


@pytest.mark.parametrize(
    "other, properties, received",
    [
        pytest.param(
            _change_words(["the"], min_count=5),
            "vocabulary",
            "--min-count 5, and --min-count 2 of one. Fix: train both with the same --min-count; "
            "or train the second with --vocabulary one/vocabulary.txt.",
            id="the least count",
        ),
        pytest.param(
            _change_words(["the"], max_size=5, min_count=3),
            "vocabulary",
            "--min-count 3, and --min-count 2 of one; --max-size 5, and no --max-size of one.",
            id="two options",
        ),
        pytest.param(
            _change_words(["the", "dog"], corpus=TEXT.replace("a.txt", "b.txt")),
            "text and splits",
            "'text b.txt split 0.8 0.1 0.1', and 'text a.txt split 0.8 0.1 0.1' of one. "
            "Fix: train both with the same text; or",
            id="the text",
        ),
        pytest.param(
            _change(vocabulary=Vocabulary(["the", "dog", "sat"]), config={}),
            "vocabulary",
            "7 words (2 only there), and 6 words (1 only there) of one. Fix: prepare one text",
            id="words of unknown options",
        ),
        pytest.param(
            _change(vocabulary=Vocabulary(["cat", "the"]), config={}),
            "vocabulary",
            "the same words in a different order, and the words in one order of one.",
            id="the order of words",
        ),
        pytest.param(
            _change(tokenizer=get_tokenizer("characters"), vocabulary=Vocabulary(["t"])),
            "tokenizer",
            "--token character, and --tokenizer words of one. "
            "Fix: train both with the same --tokenizer or --token.",
            id="the tokenizer",
        ),
        pytest.param(
            _change(tokenizer=get_tokenizer("words+lower"), boundary="stream"),
            "normalisation and boundary",
            "--normalise lower, and no --normalise of one; --boundary stream, and --boundary "
            "sentence of one. Fix: train both with the same --normalise and --boundary.",
            id="normalisation and boundary",
        ),
    ],
)
def test_a_model_of_other_tokens_is_refused_with_both_values(other, properties, received):
    with pytest.raises(InputError) as caught:
        check_same_tokens(ONE, other)
    message = f"two must have the same {properties} as one. Received: {received}"
    assert message in str(caught.value)


def test_words_in_a_different_order_have_comparable_perplexities():
    other = _change(vocabulary=Vocabulary(["cat", "the"]))
    assert describe_incomparable([ONE, other, ONE]) == []


def test_boundaries_that_predict_the_same_tokens_are_comparable_but_not_mixed():
    other = _change(boundary="text")
    assert describe_incomparable([ONE, other]) == []
    with pytest.raises(InputError, match="two must have the same boundary as one"):
        check_same_tokens(ONE, other)


def test_incomparable_figures_have_the_reasons_of_all_models():
    stream = _change(boundary="stream")
    rare = dataclasses.replace(_change_words(["the"], min_count=5), name="rare")
    assert describe_incomparable([ONE, stream, rare]) == [
        "Perplexities and tokens are not comparable: --boundary sentence (one), --boundary stream "
        "(two); --min-count 2 (one), --min-count 5 (rare).",
        "With --boundary stream, bits per character and byte leave out the ends of lines.",
    ]


def test_held_out_mass_of_some_models_is_named():
    smoothed = _change(held_out_mass=0.04)
    [sentence] = describe_incomparable([ONE, smoothed])
    assert sentence == (
        "Perplexities and bits per character and byte are not comparable: --held-out-mass 0 (one), "
        "--held-out-mass 0.04 (two). Held-out mass uses which words of the vocabulary occur in the "
        "other splits alone. Fix: train with --held-out-mass 0."
    )
    assert describe_incomparable([smoothed, smoothed]) == []
    stream = dataclasses.replace(smoothed, boundary="stream")
    assert sentence in describe_incomparable([ONE, stream])


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
