"""tf.data of n-grams and segments: how random the orders are, seeds, checkpoints, workers."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.data.pools as pools
from keras_nplm import Resampled, ngram_dataset
from keras_nplm.training.distribution import shard_batches

PLACES = ("memory", "shards")


@pytest.fixture
def place_ids(tmp_path, monkeypatch, write_shards):
    """A function that leaves ids in memory or writes them as shards, of many small blocks and
    pools.
    """
    monkeypatch.setattr(pools, "BLOCK", 5)
    monkeypatch.setattr(pools, "POOL", 15)

    def place(ids: np.ndarray, where: str, share: float = 1.0):
        ids = (
            ids.astype(np.int32)
            if "memory" in where
            else write_shards(tmp_path, ids, [len(ids) // 3])
        )
        return Resampled([(ids, share)]) if "resampled" in where else ids

    return place


def _targets(dataset) -> np.ndarray:
    return np.concatenate([target for _, target in dataset.as_numpy_iterator()])


@pytest.mark.parametrize("where", PLACES)
def test_epochs_differ_and_the_same_seed_repeats_them(place_ids, monkeypatch, where):
    monkeypatch.setattr(pools, "BLOCK", 100)
    monkeypatch.setattr(pools, "POOL", 400)
    ids = place_ids(np.arange(4, 804), where)
    dataset = ngram_dataset(ids, 3, 64, seed=1)
    epochs = [_targets(dataset) for _ in range(3)]
    assert all(sorted(epoch) == list(range(4, 804)) for epoch in epochs)
    for one, two in itertools.pairwise(epochs):
        assert (one != two).mean() > 0.9
    keras.utils.set_random_seed(7)  # the global seed must not matter
    numbered = ngram_dataset(ids, 3, 64, seed=1, first_epoch=0).take(26)
    np.testing.assert_array_equal(_targets(numbered), np.concatenate(epochs[:2]))
    if where == "memory":
        return
    # a pool mixes the n-grams of its blocks, in an order of its own, other blocks each epoch
    blocks = (np.array(epochs) - 4) // 100
    assert len({frozenset(epoch[:400].tolist()) for epoch in blocks}) > 1
    assert len(set(blocks[0, :400])) == 4
    first = epochs[0]
    assert abs(np.corrcoef(first[1:400], first[:399])[0, 1]) < 0.2
    assert ((first[:400] - first[400:]) % 100 != 0).mean() > 0.9


def test_neighbours_in_an_epoch_are_not_neighbours_in_the_text():
    targets = _targets(ngram_dataset(np.arange(4, 100_004, dtype=np.int32), 2, 1000))
    for lag in (1, 2, 8, 1000):
        assert abs(np.corrcoef(targets[lag:], targets[:-lag])[0, 1]) < 0.02


def test_no_thread_tunes_the_pipeline():
    """`fit` would wait for that thread when its iterator ends, for as long as the iterator lived,
    up to a minute.
    """
    for dataset in (ngram_dataset(np.arange(4, 9), 3, 2, first_epoch=epoch) for epoch in (None, 0)):
        assert shard_batches(dataset).options().autotune.enabled is False


@pytest.mark.parametrize("where", PLACES)
def test_all_bits_of_a_seed_count(place_ids, where):
    ids = place_ids(np.arange(4, 40), where)
    seeds = (np.int64(0), 1 << 8, (1 << 64) + 1, -1) if where == "memory" else (0, 1 << 8)
    orders = {tuple(_targets(ngram_dataset(ids, 3, 80, seed=seed)).tolist()) for seed in seeds}
    orders |= {tuple(_targets(ngram_dataset(ids, 3, 80, first_epoch=256).take(1)).tolist())}
    assert len(orders) == len(seeds) + 1


def test_offsets_of_segments_do_not_come_twice_in_as_many_epochs():
    dataset = ngram_dataset(np.arange(4, 40, dtype=np.int32), 3, 60, segment=6, first_epoch=0).take(
        12
    )
    offsets = [
        min(int(np.argmax(row > 0)) or 6 for row in batch if 4 in row)
        for _, batch in dataset.as_numpy_iterator()
    ]
    assert sorted(offsets[:6]) == sorted(offsets[6:]) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("where, first_epoch", [("shards", 0), ("resampled shards", None)])
def test_a_checkpoint_of_an_iterator_restores_its_place(place_ids, tmp_path, where, first_epoch):
    text = place_ids(np.arange(4, 76), where, share=0.6)
    dataset = ngram_dataset(text, 3, 4, seed=5, first_epoch=first_epoch)
    iterator = iter(dataset)
    restored = iter(ngram_dataset(text, 3, 4, seed=5, first_epoch=first_epoch))
    for _ in range(3 if first_epoch is None else 22):  # the latter in the second epoch
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(iterator=restored).restore(path).assert_consumed()
    expected, found = (
        [targets.numpy().tolist() for _, targets in itertools.islice(each, 30)]
        for each in (iterator, restored)
    )
    assert found == expected and len(found) > 3


@pytest.mark.parametrize("segment", [1, 2])
def test_parts_of_workers_are_the_batches_of_one(segment):
    """Of a text in memory, so that several workers train as one does."""
    ids = np.arange(4, 75, dtype=np.int32)
    options = dict(order=3, batch_size=6 * segment, segment=segment, seed=2)
    whole = ngram_dataset(ids, **options)
    parts = [ngram_dataset(ids, part=(w, 3), **options) for w in range(3)]
    rows = [_split_rows(part, 2) for part in parts]
    for number, batch in enumerate(_split_rows(whole, 6)):
        found = [row for part in rows for row in part[number : number + 1]]
        np.testing.assert_array_equal(np.concatenate(found), batch)


def _split_rows(dataset, size: int) -> list[np.ndarray]:
    """List the targets of batches, none larger than `size` rows."""
    batches = [targets for _, targets in dataset.as_numpy_iterator()]
    assert max(map(len, batches)) == size
    return batches


@pytest.mark.parametrize("epoch", [0, 1])
def test_epochs_limit_their_batches(place_ids, epoch):
    """An epoch may have fewer batches than the text."""
    text = place_ids(np.arange(4, 76), "shards")
    limited = ngram_dataset(text, 3, 4, first_epoch=epoch, first_batch=5, most_batches=7)
    whole = ngram_dataset(text, 3, 4, first_epoch=epoch)
    expected = np.concatenate([_targets(whole.take(7).skip(5)), _targets(whole.skip(18).take(7))])
    np.testing.assert_array_equal(_targets(limited.take(9)), expected)


def test_resampled_texts_are_mixed(monkeypatch, write_shards, tmp_path):
    for name, value in {"RESAMPLED_BLOCK": 5, "ARRAY_BLOCK": 5, "POOL": 50}.items():
        monkeypatch.setattr(pools, name, value)
    small = np.arange(4, 204, dtype=np.int32)
    large = write_shards(tmp_path, np.arange(204, 2204), [700])
    texts = Resampled([(small, 1.0), (large, 0.3)])
    dataset = ngram_dataset(texts, 3, 200, boundary="stream", seed=5, first_epoch=0)
    orders = []
    for targets in _targets(dataset.take(8)).reshape(2, 800):
        is_small = targets < 204
        parts = is_small.reshape(8, 100).sum(axis=1)
        assert parts.sum() == 200 and parts.min() >= 12 and parts.max() <= 38  # 25 of each hundred
        others = targets[~is_small]
        assert abs(np.corrcoef(others[1:], others[:-1])[0, 1]) < 0.2
        assert len(set((others - 204) // 100)) == 20  # from all parts of the large text
        orders.append(targets[is_small].tolist())
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]
