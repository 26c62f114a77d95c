"""Resampled texts: each epoch has the next part of each text, in an order of its own, divided among
workers.
"""

import itertools

import numpy as np
import pytest

import keras_nplm.data.pools as pools
from keras_nplm import Resampled, ngram_dataset


@pytest.fixture
def place_texts(tmp_path_factory, monkeypatch, write_shards):
    """A function that makes `Resampled` texts of small blocks in memory, in shards, or "both": the
    first in memory.
    """
    for name, value in {"RESAMPLED_BLOCK": 5, "ARRAY_BLOCK": 5, "POOL": 50}.items():
        monkeypatch.setattr(pools, name, value)

    def place(sizes, shares, where):
        """Make texts of words that occur once, in sentences of 1 to 5 words."""
        texts = []
        for number, (size, last) in enumerate(zip(sizes, itertools.accumulate(sizes), strict=True)):
            words = np.arange(last - size + 4, last + 4, dtype=np.int32)
            text = np.insert(words, np.flatnonzero(np.isin(words % 7, (0, 2))) + 1, 3)
            is_written = where == "shards" or (where == "both" and number)
            texts.append(
                write_shards(tmp_path_factory.mktemp("text"), text, [size // 3])
                if is_written
                else text
            )
        return Resampled(list(zip(texts, shares, strict=True)))

    return place


def _take(dataset, number):
    """The n-grams in the first batches."""
    taken = dataset.take(number).as_numpy_iterator()
    return [list(map(tuple, np.column_stack(batch).tolist())) for batch in taken]


def _epochs(resampled, size, number, **options):
    """The n-grams of the first epochs, each of `size` n-grams and in its order."""
    options = {"order": 3, "batch_size": 8, "boundary": "stream"} | options
    each = -(-size // options["batch_size"])
    batches = _take(ngram_dataset(resampled, first_epoch=0, **options), number * each)
    return [list(itertools.chain(*batches[i * each : (i + 1) * each])) for i in range(number)]


@pytest.mark.parametrize("where", ["memory", "shards"])
def test_each_ngram_is_used_before_any_repeats(place_texts, where):
    epochs = _epochs(place_texts([20, 100], [1, 0.4], where), 60, 5)
    words = np.array([[target for *_, target in epoch] for epoch in epochs])
    for epoch in words.tolist():
        assert set(range(4, 24)) <= set(epoch) and len(set(epoch)) == 60
    large = words[words >= 24]
    assert len(set(large[:80].tolist())) == 80  # of two epochs
    assert (np.bincount(large)[24:] == 2).all()


@pytest.mark.parametrize("where", [pytest.param("memory", marks=pytest.mark.long), "shards"])
def test_epochs_mix_the_texts_in_an_order_of_their_own(place_texts, where):
    resampled = place_texts([200, 2000], [1, 0.3], where)
    first, second = _epochs(resampled, 800, 2, batch_size=200, seed=5)
    orders = []
    for epoch in (first, second):
        targets = np.array([ngram[-1] for ngram in epoch])
        is_small = targets < 204
        parts = is_small.reshape(8, 100).sum(axis=1)
        assert parts.sum() == 200 and parts.min() >= 12 and parts.max() <= 38  # 25 of each hundred
        large = targets[~is_small]
        assert abs(np.corrcoef(large[1:], large[:-1])[0, 1]) < 0.2
        assert len(set((large - 204) // 100)) == 20  # from all parts of the large text
        orders.append(targets[is_small].tolist())
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]


@pytest.mark.parametrize("where", [pytest.param("memory", marks=pytest.mark.long), "both"])
def test_workers_share_the_ngrams_of_each_text(place_texts, where):
    resampled = place_texts([37, 150], [1, 0.4], where)
    options = dict(order=3, batch_size=6, boundary="stream", drop_remainder=True, seed=3)
    steps = (37 + 60) // 6
    datasets = [ngram_dataset(resampled, first_epoch=0, part=(w, 3), **options) for w in range(3)]
    batches = [_take(dataset, 2 * steps) for dataset in datasets]
    for epoch in (slice(0, steps), slice(steps, 2 * steps)):
        rows = [[row for batch in worker[epoch] for row in batch] for worker in batches]
        assert sum(map(len, rows)) == len(set(itertools.chain(*rows))) == 6 * steps
        small = [sum(row[-1] < 41 for row in worker) for worker in rows]
        assert sum(small) >= 36 and max(small) - min(small) <= (3 if where != "memory" else 20)
