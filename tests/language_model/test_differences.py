"""Properties in which the tokens of two models differ, and the figures that they make
incomparable.
"""

import dataclasses

from keras_nplm import LanguageModel, Likelihood, Mixture, Uniform, Vocabulary
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.comparison import describe_incomparable
from keras_nplm.language_model.differences import TokenOptions, check_same_tokens
from tests.networks import compose

ONE = TokenOptions("one", TextCodec(Vocabulary(["the", "cat"]), "words"))


def _change(name, **changes):
    return TokenOptions(name, ONE.codec.replace(**changes))


SMOOTHED = dataclasses.replace(ONE, name="smoothed", held_out_mass=0.04)
REORDERED = _change("reordered", vocabulary=Vocabulary(["cat", "the"]))
TEXT = _change("text", boundary="text")
OTHERS = [
    _change("rare", vocabulary=Vocabulary(["the"])),
    _change("characters", tokenizer="characters"),
    _change("lower", tokenizer="words+lower", boundary="stream"),
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
    knowing = _change("knowing", vocabulary=Vocabulary(["the"]), vocabulary_scope="corpus")
    messages.add(" ".join(describe_incomparable([ONE, knowing])))
    assert describe_incomparable([knowing, knowing]) == []
    # words in a different order, and boundaries that predict the same tokens
    assert describe_incomparable([ONE, REORDERED, TEXT]) == []


def test_held_out_mass_of_a_saved_mixture_is_known(tmp_path):
    vocabulary = Vocabulary(["the", "cat"])
    network = compose(len(vocabulary), objective=Likelihood(held_out_mass=0.04), boundary="stream")
    mixture = Mixture([Uniform(len(vocabulary), "stream"), network], [0.5, 0.5])
    # no word of the vocabulary of the training split is only in the other splits
    for scope, mass in ((None, 0.04), ("corpus", 0.04), ("train", 0)):
        codec = TextCodec(vocabulary, "words", "stream", vocabulary_scope=scope)
        LanguageModel.of(mixture, codec).save(tmp_path / str(scope))
        loaded = LanguageModel.load(tmp_path / str(scope))
        options = TokenOptions.of_model("mixture", loaded)
        assert (options.held_out_mass, loaded.codec.vocabulary_scope) == (mass, scope)
