import itertools

import numpy as np
import pytest

import keras_nplm.data.shuffling as shuffling
from keras_nplm import Resampled, ngram_dataset

PLACES = ("memory", "shards")


def _make_texts(*sizes):
    """Texts of different words, so that no n-gram occurs twice, in sentences of 1 to 5 words."""
    texts, first = [], 4
    for size in sizes:
        ids = []
        for word in range(first, first + size):
            ids += [word, 3] if word % 7 in (0, 2) or word == first + size - 1 else [word]
        texts.append(np.array(ids, np.int32))
        first += size
    return texts


@pytest.fixture(scope="module")
def place_texts(tmp_path_factory, write_shards):
    """A function that makes `Resampled` texts in memory, in shards, or "both": the first in memory."""

    def place(texts, shares, where):
        given = list(texts)
        for number, text in enumerate(texts):
            if where == "shards" or (where == "both" and number):
                given[number] = write_shards(tmp_path_factory.mktemp("text"), text, [len(text) // 3])
        return Resampled(list(zip(given, shares, strict=True)))

    return place


def _take(dataset, number):
    """The n-grams in the first batches."""
    taken = dataset.take(number).as_numpy_iterator()
    return [list(map(tuple, np.column_stack(batch).tolist())) for batch in taken]


def _epochs(resampled, number, **options):
    """The n-grams of the first epochs, each in its order."""
    options = {"order": 3, "batch_size": 8, "boundary": "stream"} | options
    each = int(ngram_dataset(resampled, **options).cardinality())
    batches = _take(ngram_dataset(resampled, first_epoch=0, **options), number * each)
    return [list(itertools.chain(*batches[i * each : (i + 1) * each])) for i in range(number)]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 5 ids and pools of about 50 n-grams, so that a small text has many."""
    monkeypatch.setattr(shuffling, "RESAMPLED_BLOCK", 5)
    monkeypatch.setattr(shuffling, "ARRAY_BLOCK", 5)
    monkeypatch.setattr(shuffling, "POOL", 50)


@pytest.mark.parametrize("where", PLACES)
def test_each_ngram_is_used_before_any_repeats(list_ngrams, place_texts, small_blocks, where):
    texts, shares = _make_texts(20, 100), [1, 0.25]
    epochs = _epochs(place_texts(texts, shares, where), 8)
    assert all(len(epoch) == len(set(epoch)) == 45 for epoch in epochs)
    small, large = (list_ngrams(text, 3, "stream") for text in texts)
    assert all(set(small) <= set(epoch) for epoch in epochs)
    used = [[ngram for ngram in epoch if ngram[-1] >= 24] for epoch in epochs]
    for four in (used[:4], used[4:]):
        assert sorted(itertools.chain(*four)) == sorted(large)


@pytest.mark.parametrize("where", PLACES)
def test_epochs_mix_the_texts_in_an_order_of_their_own(place_texts, small_blocks, where):
    resampled = place_texts(_make_texts(200, 2000), [1, 0.3], where)
    first, second = _epochs(resampled, 2, batch_size=200, seed=5)
    assert _epochs(resampled, 1, batch_size=200, seed=5)[0] == first
    assert _epochs(resampled, 1, batch_size=200, seed=-6)[0] != first
    for epoch in (first, second):
        small = np.array([ngram[-1] < 204 for ngram in epoch])
        assert small.sum() == 200 and len(epoch) == 800
        parts = small.reshape(8, 100).sum(axis=1)
        assert parts.min() >= 12 and parts.max() <= 38  # 25 of each hundred
        targets = np.array([ngram[-1] for ngram in epoch])[~small]
        assert abs(np.corrcoef(targets[1:], targets[:-1])[0, 1]) < 0.2
        assert len(set((targets - 204) // 100)) == 20  # from all parts of the large text
    small = [[ngram for ngram in epoch if ngram[-1] < 204] for epoch in (first, second)]
    assert sorted(small[0]) == sorted(small[1]) and small[0] != small[1]


@pytest.mark.parametrize("where, drop_remainder", [("memory", True), ("shards", False)])
def test_resampled_data_resumes_at_any_batch(place_texts, small_blocks, where, drop_remainder):
    resampled = place_texts(_make_texts(37, 150), [1, 0.4], where)
    options = dict(order=3, batch_size=4, drop_remainder=drop_remainder, seed=3)
    each = int(ngram_dataset(resampled, **options).cardinality())
    whole = _take(ngram_dataset(resampled, first_epoch=0, **options), 3 * each)
    for epoch, first_batch in ((1, each // 2), (2, each - 1)):
        rest = ngram_dataset(resampled, first_epoch=epoch, first_batch=first_batch, **options)
        begin = epoch * each + first_batch
        assert _take(rest, 3 * each - begin) == whole[begin:]


@pytest.mark.parametrize("where", ["memory", "both"])
def test_workers_share_the_ngrams_of_each_text(place_texts, small_blocks, where):
    texts = _make_texts(37, 150)
    resampled = place_texts(texts, [1, 0.4], where)
    options = dict(order=3, batch_size=6, boundary="stream", drop_remainder=True, seed=3)
    steps = (37 + 60) // 6
    datasets = [ngram_dataset(resampled, first_epoch=0, part=(w, 3), **options) for w in range(3)]
    batches = [_take(dataset, 2 * steps) for dataset in datasets]
    for epoch in (slice(0, steps), slice(steps, 2 * steps)):
        rows = [[row for batch in worker[epoch] for row in batch] for worker in batches]
        assert sum(map(len, rows)) == len(set(itertools.chain(*rows))) == 6 * steps
        small = [sum(row[-1] < 41 for row in worker) for worker in rows]
        assert sum(small) >= 36 and max(small) - min(small) <= (3 if where != "memory" else 20)
