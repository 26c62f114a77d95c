"""Example inputs of served functions are words of the model's own text."""

import numpy as np
import pytest

from keras_nplm import LanguageModel, Uniform, Vocabulary
from keras_nplm.serving.examples import build_examples, choose_text
from tests.language_models import VOCABULARY, build

WORDS = ["the", "cat", "sat", "(", "here"]


class Corpus:
    """A validation text."""

    splits = ("train", "validation")

    def __init__(self, vocabulary, sentences):
        ids = [[*vocabulary.encode(sentence.split()), 3] for sentence in sentences]
        self.ids = np.concatenate([*ids, []]).astype(np.int32)

    def parts(self, split):
        assert split == "validation" and split in self.splits
        yield self.ids


def _build_language_model(sentences) -> LanguageModel:
    vocabulary = Vocabulary(WORDS)
    language_model = LanguageModel(Uniform(len(vocabulary)), vocabulary, "words")
    language_model.corpus = Corpus(vocabulary, sentences)
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
    assert choose_text(_build_language_model(sentences)) == text


@pytest.mark.parametrize("sentences", [[], ["( the cat"]])
def test_without_such_a_sentence_the_text_is_generated(sentences):
    # of equal words the first, which is `</s>` or letters
    words = choose_text(_build_language_model(sentences)).split()
    assert set(words) <= {"the", "cat", "sat", "here"}


def test_without_validation_text_the_text_is_generated():
    language_model = _build_language_model(["cat sat here"])
    language_model.corpus.splits = ("train",)
    words = choose_text(language_model).split()
    assert set(words) <= {"the", "cat", "sat", "here"}


def test_examples_have_one_row_of_the_right_length():
    language_model = LanguageModel(build("kneser-ney", "stream"), VOCABULARY, "whitespace")
    examples = build_examples(language_model)
    assert {len(rows) for rows in examples.values()} == {1}
    assert len(examples["context_ids"][0]) == language_model.model.order - 1
    assert examples["target_ids"][0] in language_model.codec.proposed_ids
    assert examples["words"][0] in VOCABULARY.words


def test_examples_follow_from_one_text():
    examples = build_examples(_build_language_model(["cat sat here"]))
    assert examples["contexts"] == examples["sentences"] == ["cat sat here"]
    assert examples["texts"] == ["cat sat h"]
    assert examples["words"] == ["here"]
    assert examples["context_ids"] == [[8]]
