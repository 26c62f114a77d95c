import collections
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.data.word_counts import WordCounts


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "é", "\ud800", "x y", "\n"]), max_size=9)), st.integers(1, 4))
def test_counts_on_disk_equal_those_of_a_counter(tmp_path_factory, sentences, limit):
    counts = WordCounts(tmp_path_factory.mktemp("runs"))
    with pytest.MonkeyPatch.context() as context:
        context.setattr("keras_nplm.data.word_counts.TYPES_IN_MEMORY", limit)
        for sentence in sentences:
            counts.update(sentence)
    expected = collections.Counter(itertools.chain.from_iterable(sentences))
    pairs = list(counts.pairs())
    assert len(pairs) == len(expected) and dict(pairs) == expected
    spilled = any(len(set(itertools.chain(*sentences[:i]))) > limit for i in range(len(sentences) + 1))
    assert bool(counts.runs) == spilled
