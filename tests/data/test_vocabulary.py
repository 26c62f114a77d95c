import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError

words = st.text(alphabet="abcd", min_size=1, max_size=2)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(words, max_size=8), min_size=1, max_size=8), st.integers(1, 3))
def test_ids_are_by_decreasing_frequency_then_by_word(sentences, min_count):
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    kept = [word for word in counts if counts[word] >= min_count]
    if not kept:
        with pytest.raises(InputError):
            Vocabulary.build(sentences, min_count=min_count)
        return
    vocabulary = Vocabulary.build(sentences, min_count=min_count)
    assert vocabulary.words == ["<pad>", "<unk>", "<s>", "</s>", *sorted(kept, key=lambda word: (-counts[word], word))]
    assert Vocabulary.build(sentences, min_count=min_count, max_size=1).words == vocabulary.words[:5]


def test_the_keras_lookup_gives_the_ids_of_encode():
    tokens = ["猫", "the", "dog", "<unk>", "<pad>", "<s>", "</s>", ""]
    vocabulary = Vocabulary(["the", "été", "猫"])
    np.testing.assert_array_equal(vocabulary.lookup(tokens), vocabulary.encode(tokens))


def test_forms_are_saved_with_the_vocabulary(tmp_path):
    path = tmp_path / "vocabulary.txt"
    vocabulary = Vocabulary(["cat", "mat"], {"cats": "cat", "mats": "mat"})
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary != Vocabulary(["cat", "mat"])
    assert vocabulary.with_words(["dromedary"]).forms == vocabulary.forms
    Vocabulary(["the"]).save(path)  # removes the old forms
    assert Vocabulary.load(path).forms is None
