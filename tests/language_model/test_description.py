"""What a model is: its facts, with perplexities of the splits that the corpus has."""

import numpy as np
import pytest

from keras_nplm import LanguageModel, Uniform, Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.description import describe


class Corpus:
    """A text with some of the splits."""

    def __init__(self, *splits):
        self.splits = dict.fromkeys(splits)

    def ids(self, split):
        if split not in self.splits:
            raise InputError(f"`split` must be one of {', '.join(self.splits)}.")
        return np.array([4, 5, 3], np.int32)


def test_the_tokenizer_names_the_form_of_text_that_it_reads():
    language_model = LanguageModel(Uniform(5), Vocabulary(["the"]), "words+lower")
    assert describe(language_model)["tokenizer"]["description"].endswith(" Text is read in NFC.")


@pytest.mark.parametrize(
    "splits, expected",
    [
        pytest.param(("train", "validation", "test"), ["validation", "test"], id="all"),
        pytest.param(("train", "test"), ["test"], id="no validation"),
        pytest.param(("train",), [], id="no held-out text"),
    ],
)
def test_a_part_is_evaluated_on_the_splits_of_the_corpus(splits, expected):
    vocabulary = Vocabulary(["the", "cat"])
    language_model = LanguageModel(Uniform(len(vocabulary)), vocabulary, "words")
    language_model.corpus = Corpus(*splits)
    assert [*describe(language_model, Uniform(len(vocabulary)))["perplexity"]] == expected
