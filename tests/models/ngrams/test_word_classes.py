"""The exchange algorithm against a plain likelihood, resuming it, and files of classes."""

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError
from keras_nplm.models.ngrams import exchange_classes
from tests.models.ngrams.plain import V, list_events, texts


def _class_likelihood(events, classes):
    bigrams = collections.Counter()
    for context, word in events:
        if context:
            bigrams[classes[context[0]], classes[word]] += 1
    left = collections.Counter()
    right = collections.Counter()
    for (g, h), n in bigrams.items():
        left[g] += n
        right[h] += n
    return _sum_f(bigrams) - _sum_f(left) - _sum_f(right)


def _sum_f(counter):
    """The sum of f(n) = n ln n over counts."""
    return sum(n * math.log(n) for n in counter.values())


@settings(max_examples=25)
@given(st.data(), st.integers(1, 3), st.sampled_from(["stream", "sentence", "text"]))
def test_no_move_of_one_word_raises_the_likelihood(data, num_classes, boundary):
    ids = data.draw(texts(boundary))
    seen = sorted(set(ids.tolist()) - {2, 3})
    if num_classes > len(seen):
        with pytest.raises(InputError, match="`num_classes` must be 1 to" if seen else "`ids`"):
            exchange_classes(ids, V, num_classes, boundary)
        return
    moved = []

    def record_moved(classes, number, sweeps_left):
        moved.append(number)

    classes = exchange_classes(ids, V, num_classes, boundary, after_sweep=record_moved)
    assert classes[[0, 2, 3]].tolist() == [0, 2, 3]
    assert set(classes[[1, *range(4, V)]].tolist()) <= set(range(4, num_classes + 4))
    events = list(list_events(ids, 2, boundary))
    best = _class_likelihood(events, classes.tolist())
    if moved[-1]:  # it stopped at the maximum number of sweeps
        return
    for word, other in itertools.product(seen, range(4, num_classes + 4)):
        changed = classes.tolist()
        changed[word] = other
        assert _class_likelihood(events, changed) <= best + 1e-6


def test_a_word_stays_where_another_class_is_as_good():
    ids = np.append(np.tile([4, 5, 4, 6, 4, 4, 6, 5], 9), 3).astype(np.int32)
    start = np.array([0, 0, 2, 3, 5, 6, 6], np.int32)  # class 4 has no word
    assert exchange_classes(ids, 7, 3, "stream", start=start)[4] == 5
