"""tf.data of n-grams, from memory and from shards: each n-gram once an epoch, new orders, resuming, workers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.data.shuffling as shuffling
from keras_nplm import Resampled, ngram_dataset
from keras_nplm.data.shards import ShardedIds
from keras_nplm.training.distribution import shard_batches

PLACES = ("memory", "shards")


@pytest.fixture
def place_ids(tmp_path, monkeypatch, write_shards):
    """A function that leaves ids in memory or writes them as shards, of many small blocks and pools."""
    monkeypatch.setattr(shuffling, "BLOCK", 5)
    monkeypatch.setattr(shuffling, "POOL", 15)

    def place(ids: np.ndarray, where: str):
        return ids.astype(np.int32) if where == "memory" else write_shards(tmp_path, ids, [len(ids) // 3])

    return place


def _list_batches(dataset) -> list[list[tuple[int, ...]]]:
    return [list(map(tuple, np.column_stack(batch).tolist())) for batch in dataset.as_numpy_iterator()]


def _collect(dataset) -> list[tuple[int, ...]]:
    return [ngram for batch in _list_batches(dataset) for ngram in batch]


def _targets(dataset) -> np.ndarray:
    return np.concatenate([target for _, target in dataset.as_numpy_iterator()])


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
@pytest.mark.parametrize("where", PLACES)
def test_batches_have_each_ngram_of_the_text_once(place_ids, list_ngrams, where, boundary):
    text = np.array([4, 25, 6, 3, 3, 7, 3, *range(30, 7, -1), 3])
    ids = place_ids(text, where)
    for shuffle, below in ((True, None), (False, 15)):
        expected = [ngram for ngram in list_ngrams(text, 4, boundary) if below is None or ngram[-1] < below]
        dataset = ngram_dataset(ids, 4, 4, boundary=boundary, shuffle=shuffle, targets_below=below)
        batches = _list_batches(dataset)
        found = [ngram for batch in batches for ngram in batch]
        assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)
        assert len(batches) == dataset.cardinality() == -(-len(expected) // 4)
        assert {spec.dtype for spec in dataset.element_spec} == {tf.int32}


@pytest.mark.parametrize("where", PLACES)
def test_epochs_differ_and_the_same_seed_repeats_them(place_ids, monkeypatch, where):
    monkeypatch.setattr(shuffling, "BLOCK", 100)
    monkeypatch.setattr(shuffling, "POOL", 400)
    ids = place_ids(np.arange(4, 804), where)

    def epochs(seed):
        dataset = ngram_dataset(ids, 3, 64, seed=seed)
        return [_targets(dataset) for _ in range(3)]

    first, second, third = epochs(1)
    assert sorted(first) == sorted(second) == sorted(third) == list(range(4, 804))
    assert (first != second).mean() > 0.9 and (second != third).mean() > 0.9
    keras.utils.set_random_seed(7)  # the global seed must not matter
    np.testing.assert_array_equal(epochs(1), [first, second, third])
    if where == "shards":  # a pool mixes the n-grams of its blocks, in an order of its own, other blocks each epoch
        assert len({frozenset(((epoch[:400] - 4) // 100).tolist()) for epoch in (first, second, third)}) > 1
        assert len(set((first[:400] - 4) // 100)) == 4 and abs(np.corrcoef(first[1:400], first[:399])[0, 1]) < 0.2
        assert ((first[:400] - 4) % 100 != (first[400:] - 4) % 100).mean() > 0.9


def test_neighbours_in_an_epoch_are_not_neighbours_in_the_text():
    targets = _targets(ngram_dataset(np.arange(4, 100_004, dtype=np.int32), 2, 1000))
    for lag in (1, 2, 8, 1000):
        assert abs(np.corrcoef(targets[lag:], targets[:-lag])[0, 1]) < 0.02


@pytest.mark.parametrize("first_epoch", [None, 0])
def test_no_thread_tunes_the_pipeline(first_epoch):
    """`fit` would wait for that thread when its iterator ends, for as long as the iterator lived, up to a minute."""
    dataset = shard_batches(ngram_dataset(np.arange(4, 9), 3, 2, first_epoch=first_epoch))
    assert dataset.options().autotune.enabled is False


@pytest.mark.parametrize("where, first_epoch", [("shards", 0), ("resampled memory", 0), ("resampled shards", None)])
def test_a_checkpoint_of_an_iterator_restores_its_place(place_ids, tmp_path, where, first_epoch):
    ids = place_ids(np.arange(4, 76), where.split()[-1])
    text = Resampled([(ids, 0.6)]) if "resampled" in where else ids

    def build():
        return ngram_dataset(text, 3, 4, seed=5, first_epoch=first_epoch)

    dataset = build()
    epoch = int(ngram_dataset(text, 3, 4).cardinality())
    if first_epoch is None:
        list(dataset)
    iterator = iter(dataset)
    for _ in range(3 if first_epoch is None else epoch + 3):  # in the second epoch
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    restored = iter(build())
    tf.train.Checkpoint(iterator=restored).restore(path).assert_consumed()
    for _ in range(epoch - 3 if first_epoch is None else 2 * epoch):
        np.testing.assert_array_equal(next(restored)[1], next(iterator)[1])
    if first_epoch is None:
        assert next(restored, None) is next(iterator, None) is None


@pytest.mark.parametrize("where", PLACES)
def test_all_bits_of_a_seed_count(place_ids, where):
    ids = place_ids(np.arange(4, 40), where)
    seeds = (np.int64(0), 1 << 8, (1 << 64) + 1, -1) if where == "memory" else (0, 1 << 8, 1 << 32, -1)
    orders = {tuple(_targets(ngram_dataset(ids, 3, 80, seed=seed)).tolist()) for seed in seeds}
    orders |= {tuple(_targets(ngram_dataset(ids, 3, 80, first_epoch=256).take(1)).tolist())}
    assert len(orders) == len(seeds) + 1


@pytest.mark.parametrize("where, drop_remainder, below", [("memory", True, None), ("shards", False, 60)])
def test_training_data_resumes_at_any_batch_of_any_epoch(place_ids, where, drop_remainder, below):
    ids = np.random.default_rng(0).integers(3, 99, 150)
    ids[60:70] = 3  # blocks without a word
    ids, options = place_ids(ids, where), dict(order=3, batch_size=4, boundary="sentence", seed=3)
    options |= dict(drop_remainder=drop_remainder, targets_below=below)
    batches = int(ngram_dataset(ids, **options).cardinality())
    whole = _list_batches(ngram_dataset(ids, first_epoch=0, **options).take(3 * batches))
    for first_batch in (1, batches // 2):
        later = ngram_dataset(ids, first_epoch=1, first_batch=first_batch, **options).take(2 * batches - first_batch)
        assert _list_batches(later) == whole[batches + first_batch :]


# several workers


@pytest.mark.parametrize("boundary, drop_remainder", [("stream", True), ("sentence", False)])
def test_parts_of_workers_are_the_batches_of_one(place_ids, boundary, drop_remainder):
    ids = place_ids(np.arange(4, 75), "memory")
    options = dict(order=3, batch_size=6, boundary=boundary, seed=2, drop_remainder=drop_remainder)
    whole = _list_batches(ngram_dataset(ids, **options))
    parts = [_list_batches(ngram_dataset(ids, part=(w, 3), **options)) for w in range(3)]
    for number, batch in enumerate(whole):
        assert [row for part in parts for rows in part[number : number + 1] for row in rows] == batch
    assert all(len(batch) == 2 for part in parts for batch in part[: len(whole) - 1])


def test_workers_read_each_ngram_of_shards_once(place_ids, list_ngrams):
    ids = np.array([token if token % 5 else 3 for token in range(4, 100)] + [3])
    options = dict(order=3, batch_size=6, boundary="stream")
    expected, shards = list_ngrams(ids, 3, "stream"), place_ids(ids, "shards")
    parts = [ngram_dataset(shards, part=(w, 3), **options) for w in range(3)]
    assert sorted(row for dataset in parts for row in _collect(dataset)) == sorted(expected)
    steps, options = len(expected) // 6, options | dict(first_epoch=0, drop_remainder=True)
    batches = [_list_batches(ngram_dataset(shards, part=(w, 3), **options).take(2 * steps)) for w in range(3)]
    for epoch in (slice(0, steps), slice(steps, 2 * steps)):  # in step
        found = [row for worker in batches for batch in worker[epoch] for row in batch]
        assert len(found) == len(set(found)) == 6 * steps and set(found) <= set(expected)


def test_a_worker_reads_its_own_part_of_the_shards(place_ids, monkeypatch):
    monkeypatch.setattr(shuffling, "BLOCK", 50)
    monkeypatch.setattr(shuffling, "POOL", 1000)
    dataset = ngram_dataset(place_ids(np.arange(4, 4004), "shards"), 3, 8, boundary="sentence", part=(2, 4))
    read, whole = [], ShardedIds.read
    monkeypatch.setattr(ShardedIds, "read", lambda self, *range: read.append(range) or whole(self, *range))
    _collect(dataset)
    assert 1000 <= sum(stop - start for start, stop in read) < 1300


@pytest.mark.parametrize("where", PLACES)
def test_an_epoch_may_have_fewer_batches_than_the_text(place_ids, where):
    ids = place_ids(np.arange(4, 75), where)
    options = dict(order=3, batch_size=6, boundary="stream", drop_remainder=True)
    expected = [_targets(ngram_dataset(ids, first_epoch=epoch, **options).take(4)).tolist() for epoch in range(2)]
    limited = ngram_dataset(ids, first_epoch=0, most_batches=4, **options).take(8)
    assert _targets(limited).tolist() == expected[0] + expected[1]
    resumed = ngram_dataset(ids, first_epoch=0, first_batch=3, most_batches=4, **options).take(5)
    assert _targets(resumed).tolist() == expected[0][18:] + expected[1]


# segments


@pytest.fixture
def list_windows(list_ngrams):
    """A function that lists the n-grams of segments with their targets, without the places that are no targets."""

    def windows(dataset, order: int, boundary: str) -> list[tuple[int, ...]]:
        found = []
        for ids, targets in dataset.as_numpy_iterator():
            assert ids.shape[1] == order - 2 + targets.shape[1]
            for row, column in zip(*np.nonzero(targets), strict=True):
                context = ids[row, column : column + order - 1].copy()
                if boundary == "sentence":
                    context[: np.max(np.flatnonzero(context == 3), initial=-1) + 1] = 2
                found.append((*context.tolist(), int(targets[row, column])))
        return found

    return windows


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
@pytest.mark.parametrize("where", [*PLACES, "resampled memory", "resampled shards"])
def test_segments_have_each_ngram_once(place_ids, list_ngrams, list_windows, where, boundary):
    ids = np.array([4, 25, 6, 3, 3, 7, 3, *range(30, 7, -1), 3])
    text = place_ids(ids, where.split()[-1])
    text = Resampled([(text, 1.0), (text, 1.0)]) if "resampled" in where else text
    for segment, below in ((2, None), (3, 15), (40, None)):
        expected = [row for row in list_ngrams(ids, 4, boundary) if below is None or row[-1] < below]
        expected = sorted(expected * (1 + ("resampled" in where)))
        options = dict(boundary=boundary, segment=segment, targets_below=below)
        dataset = ngram_dataset(text, 4, segment, **options)
        for _ in range(2):
            assert sorted(list_windows(dataset, 4, boundary)) == expected
        if "resampled" not in where:
            dataset = ngram_dataset(text, 4, segment, shuffle=False, **options)
            assert sorted(list_windows(dataset, 4, boundary)) == expected
            assert dataset.cardinality() == len(list(dataset))
            if where == "memory":
                assert len(list(dataset)) == -(-len(list_ngrams(ids, 4, boundary)) // segment)


def test_offsets_of_segments_do_not_come_twice_in_as_many_epochs():
    dataset = ngram_dataset(np.arange(4, 40, dtype=np.int32), 3, 6, segment=6)
    offsets = [
        min(int(np.argmax(row > 0)) or 6 for row in _targets_of_segments(dataset) if 4 in row) for _ in range(12)
    ]
    assert sorted(offsets[:6]) == sorted(offsets[6:]) == [1, 2, 3, 4, 5, 6]


def _targets_of_segments(dataset) -> np.ndarray:
    return np.concatenate([targets for _, targets in dataset.as_numpy_iterator()])


@pytest.mark.parametrize("where", PLACES)
def test_segments_resume_and_divide_among_workers(place_ids, where):
    ids = place_ids(np.arange(4, 154), where)
    options = dict(order=3, batch_size=12, segment=3, seed=3, drop_remainder=True)

    def segments(take, **more):
        dataset = ngram_dataset(ids, **options, **more).take(take)
        return [np.column_stack(batch).tolist() for batch in dataset.as_numpy_iterator()]

    batches = int(ngram_dataset(ids, **options).cardinality())
    whole = segments(2 * batches, first_epoch=0)
    assert segments(batches - 2, first_epoch=1, first_batch=2) == whole[batches + 2 :]
    parts = [segments(batches, first_epoch=1, part=(worker, 2)) for worker in range(2)]
    if where == "memory":
        assert [one + other for one, other in zip(*parts, strict=True)] == whole[batches:]
    found = np.array([row[-3:] for part in parts for batch in part for row in batch])
    assert len(found) == 4 * batches and np.max(np.bincount(found[found > 0])) == 1
