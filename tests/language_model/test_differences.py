"""Properties in which the tokens of two models differ, and the figures that they make
incomparable.
"""

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

ONE = TokenOptions("one", Vocabulary(["the", "cat"]), get_tokenizer("words"), "sentence")
SMOOTHED = dataclasses.replace(ONE, name="smoothed", held_out_mass=0.04)
REORDERED = dataclasses.replace(ONE, name="reordered", vocabulary=Vocabulary(["cat", "the"]))
TEXT = dataclasses.replace(ONE, name="text", boundary="text")
OTHERS = [
    dataclasses.replace(ONE, name="rare", vocabulary=Vocabulary(["the"])),
    dataclasses.replace(ONE, name="characters", tokenizer=get_tokenizer("characters")),
    dataclasses.replace(
        ONE, name="lower", tokenizer=get_tokenizer("words+lower"), boundary="stream"
    ),
]


def test_a_model_of_other_tokens_is_refused_with_both_values(messages):
    for other in [*OTHERS, REORDERED, TEXT]:
        messages.refuse(lambda other=other: check_same_tokens(ONE, other))
    check_same_tokens(ONE, SMOOTHED)


def test_what_is_not_comparable_is_said_in_two_sentences(messages):
    for others in ([other] for other in [*OTHERS, SMOOTHED]):
        messages.add(" ".join(describe_incomparable([ONE, *others])))
    sentences = describe_incomparable([ONE, *OTHERS, SMOOTHED], ["a.arpa"])
    assert len(sentences) == 2
    messages.add(" ".join(sentences))
    assert describe_incomparable([SMOOTHED, SMOOTHED]) == []
    # words of the test split, which cost no spelling
    knowing = dataclasses.replace(OTHERS[0], name="knowing", vocabulary_scope="corpus")
    messages.add(" ".join(describe_incomparable([ONE, knowing])))
    assert describe_incomparable([knowing, knowing]) == []
    # words in a different order, and boundaries that predict the same tokens
    assert describe_incomparable([ONE, REORDERED, TEXT]) == []


def test_held_out_mass_of_a_saved_mixture_is_known(tmp_path):
    vocabulary = Vocabulary(["the", "cat"])
    network = compose(len(vocabulary), objective=Likelihood(held_out_mass=0.04), boundary="stream")
    parts = [Uniform(len(vocabulary), "stream"), network]
    LanguageModel(Mixture(parts, [0.5, 0.5]), vocabulary, "words").save(tmp_path / "mixture")
    loaded = LanguageModel.load(tmp_path / "mixture")
    options = TokenOptions.of_model(tmp_path / "mixture", loaded)
    assert (options.held_out_mass, options.vocabulary_scope) == (0.04, "train")
    # no word of the vocabulary is only in the other splits
    assert find_held_out_mass(loaded.model, {"vocabulary_scope": "train"}) == 0
