"""Words are counted in bounded memory, and get ids by frequency; forms are saved with them."""

import collections
import contextlib
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.data.word_counts import WordCounts
from keras_nplm.io.errors import InputError

words = st.text(alphabet="abcd", min_size=1, max_size=2)


@settings(max_examples=50)
@given(st.lists(st.lists(words, max_size=8), min_size=1, max_size=8), st.integers(1, 3))
def test_ids_are_by_decreasing_frequency_then_by_word(sentences, min_count):
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    kept = sorted(
        (word for word in counts if counts[word] >= min_count),
        key=lambda word: (-counts[word], word),
    )
    with contextlib.nullcontext() if kept else pytest.raises(InputError):
        vocabulary = Vocabulary.build(sentences, min_count=min_count)
        assert vocabulary.words == ["<pad>", "<unk>", "<s>", "</s>", *kept]
        assert (
            Vocabulary.build(sentences, min_count=min_count, max_size=1).words
            == vocabulary.words[:5]
        )


def test_forms_are_saved_with_the_vocabulary(tmp_path):
    path = tmp_path / "vocabulary.txt"
    vocabulary = Vocabulary(["cat", "mat"], {"cats": "cat", "mats": "mat"})
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary != Vocabulary(["cat", "mat"])
    assert vocabulary.with_words(["dromedary"]).forms == vocabulary.forms
    Vocabulary(["the"]).save(path)  # removes the old forms
    assert Vocabulary.load(path).forms is None


@pytest.mark.parametrize("name", ["forms.tsv", "sentencepiece.model"])
def test_files_of_other_software_stay(tmp_path, name):
    vocabulary = Vocabulary(["cat", "mat"], {"cats": "cat"})
    vocabulary.save(tmp_path / "vocabulary.txt")
    (tmp_path / name).write_text("theirs\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for saved in (vocabulary, Vocabulary(["cat"])):
        with pytest.raises(InputError, match=f"{name} must be absent or a file of keras_nplm"):
            saved.save(tmp_path / "vocabulary.txt")
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "é", "\ud800", "x y", "\n"]), max_size=9)),
    st.integers(1, 4),
)
def test_counts_on_disk_equal_those_of_a_counter(tmp_path_factory, sentences, limit):
    counts = WordCounts(tmp_path_factory.mktemp("runs"))
    with pytest.MonkeyPatch.context() as context:
        context.setattr("keras_nplm.data.word_counts.TYPES_IN_MEMORY", limit)
        for sentence in sentences:
            counts.update(sentence)
    expected = collections.Counter(itertools.chain.from_iterable(sentences))
    pairs = list(counts.pairs())
    assert len(pairs) == len(expected) and dict(pairs) == expected
    spilled = any(
        len(set(itertools.chain(*sentences[:i]))) > limit for i in range(len(sentences) + 1)
    )
    assert bool(counts.runs) == spilled
