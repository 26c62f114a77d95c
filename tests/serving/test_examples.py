"""Example inputs of served functions are words of the model's own text."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_nplm import LanguageModel, Uniform, Vocabulary
from keras_nplm.serving.examples import build_examples, choose_text
from tests.language_models import VOCABULARY, build

WORDS = ["the", "cat", "sat", "(", "here"]


def build_language_model(sentences: list[str], split: str = "validation") -> LanguageModel:
    vocabulary = Vocabulary(WORDS)
    language_model = LanguageModel(Uniform(len(vocabulary)), vocabulary, "words")
    ids = [[*vocabulary.encode(sentence.split()), 3] for sentence in sentences]
    parts = [np.concatenate([*ids, []]).astype(np.int32)]
    language_model.corpus = SimpleNamespace(splits=("train", split), parts=lambda split: parts)
    return language_model


@pytest.mark.parametrize(
    "sentences, text",
    [
        pytest.param(["cat sat here the", "the cat sat"], "cat sat here", id="first sentence"),
        pytest.param(["the dog sat", "here the cat sat"], "here the cat", id="unknown word"),
        pytest.param(["the ( cat", "sat", "sat the cat"], "sat the cat", id="mark, short"),
    ],
)
def test_the_text_is_a_beginning_that_the_model_knows(sentences, text):
    assert choose_text(build_language_model(sentences)) == text


@pytest.mark.parametrize(
    "sentences, split", [([], "validation"), (["( the cat"], "validation"), (["cat sat"], "test")]
)
def test_without_such_a_sentence_the_text_is_generated(sentences, split):
    # of equal words the first, which is `</s>` or letters
    words = choose_text(build_language_model(sentences, split)).split()
    assert {*words} <= {*WORDS} - {"("}


def test_examples_follow_from_one_text():
    examples = build_examples(build_language_model(["cat sat here"]))
    assert examples["contexts"] == examples["sentences"] == ["cat sat here"]
    assert (examples["texts"], examples["words"]) == (["cat sat h"], ["here"])
    assert examples["context_ids"] == [[8]]
    language_model = LanguageModel(build("kneser-ney", "stream"), VOCABULARY, "whitespace")
    examples = build_examples(language_model)
    assert {len(rows) for rows in examples.values()} == {1}
    assert len(examples["context_ids"][0]) == language_model.model.order - 1
    assert examples["target_ids"][0] in language_model.codec.proposed_ids
