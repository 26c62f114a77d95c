"""tf.data of n-grams and segments, from memory and from shards: each once an epoch, new orders,
resuming, workers.
"""

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


def _list_batches(dataset) -> list[list[tuple[int, ...]]]:
    found = []
    for inputs, targets in dataset.as_numpy_iterator():
        ids = inputs["segments"] if isinstance(inputs, dict) else inputs
        found.append(list(map(tuple, np.column_stack([ids, targets]).tolist())))
    return found


def _targets(dataset) -> np.ndarray:
    return np.concatenate([target for _, target in dataset.as_numpy_iterator()])


def _list_windows(batches, order: int, boundary: str) -> list[tuple[int, ...]]:
    """List the n-grams, or those of segments without the places that are no targets."""
    found = []
    for inputs, targets in batches:
        ids = inputs["segments"] if isinstance(inputs, dict) else inputs
        targets = targets.reshape(len(ids), -1)
        assert (
            ids.dtype == targets.dtype == np.int32 and ids.shape[1] == order - 2 + targets.shape[1]
        )
        for row, column in zip(*np.nonzero(targets), strict=True):
            context = ids[row, column : column + order - 1].copy()
            if boundary != "stream":
                end = 3 if boundary == "sentence" else 2
                context[: np.max(np.flatnonzero(context == end), initial=-1) + 1] = 2
            found.append((*context.tolist(), int(targets[row, column])))
    return found


@pytest.mark.parametrize(
    "where, boundary, segment, below",
    [
        *itertools.product(PLACES, ["stream", "sentence", "text"], [1], [15]),
        ("memory", "text", 1, None),
        ("shards", "stream", 1, None),
        *itertools.product(PLACES, ["sentence", "text"], [3], [15]),
        ("resampled memory", "text", 3, 15),
        ("resampled shards", "stream", 3, 15),
    ],
)
def test_batches_have_each_ngram_of_the_text_once(
    place_ids, list_ngrams, where, boundary, segment, below
):
    ids = np.array([4, 25, 6, 3, 3, 7, 3, *range(30, 7, -1), 3])
    if boundary == "text":
        ids = np.insert(ids, [0, 4, 7, 7, 31], 2)
    text = place_ids(ids, where)
    ngrams = list_ngrams(ids, 4, boundary)
    expected = [ngram for ngram in ngrams if below is None or ngram[-1] < below]
    options = dict(boundary=boundary, segment=segment, targets_below=below)
    dataset = ngram_dataset(text, 4, 4 * segment, **options)
    for _ in range(1 if segment == 1 else 2):  # with a different offset
        assert sorted(_list_windows(dataset.as_numpy_iterator(), 4, boundary)) == sorted(expected)
    if "resampled" not in where:
        dataset = ngram_dataset(text, 4, 4 * segment, shuffle=False, **options)
        batches = [*dataset.as_numpy_iterator()]
        assert _list_windows(batches, 4, boundary) == expected and dataset.cardinality() == len(
            batches
        )
        if where == "memory":
            places = len(expected) if segment == 1 else len(ngrams) + np.count_nonzero(ids == 2)
            assert len(batches) == -(-places // (4 * segment))


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


# resuming


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


@pytest.mark.parametrize(
    "where, options",
    [
        pytest.param("memory", dict(drop_remainder=True), id="memory"),
        pytest.param("shards", dict(targets_below=60), id="shards of a short-list"),
        pytest.param("shards", dict(drop_remainder=True, most_batches=7), id="parts of shards"),
        pytest.param("shards", dict(most_batches=7), id="some batches of shards"),
        pytest.param(
            "memory",
            dict(drop_remainder=True, segment=2, most_batches=5),
            id="parts of memory in segments",
        ),
        pytest.param(
            "resampled memory",
            dict(drop_remainder=True),
            marks=pytest.mark.long,
            id="resampled memory",
        ),
        pytest.param("resampled shards", dict(segment=2), id="resampled shards in segments"),
    ],
)
def test_training_data_resumes_at_any_batch_of_any_epoch(place_ids, where, options):
    ids = np.random.default_rng(0).integers(3, 99, 150)
    ids[60:70] = 3  # blocks without a word
    text = place_ids(ids, where, share=0.4)
    options = dict(order=3, batch_size=4, seed=3) | options
    dataset = ngram_dataset(text, **options)
    whole = [_list_batches(dataset) for _ in range(3)]
    first_batch = 2 * len(dataset) // 3
    later = ngram_dataset(text, first_epoch=1, first_batch=first_batch, **options)
    assert (
        _list_batches(later.take(2 * len(dataset) - first_batch))
        == whole[1][first_batch:] + whole[2]
    )
    if "most_batches" in options:  # an epoch may have fewer batches than the text
        unlimited = ngram_dataset(text, first_epoch=1, **options | dict(most_batches=None))
        assert _list_batches(unlimited.take(options["most_batches"])) == whole[1]


# several workers


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(dict(boundary="stream"), id="windows"),
        pytest.param(dict(segment=2, drop_remainder=True), id="segments"),
    ],
)
def test_parts_of_workers_are_the_batches_of_one(place_ids, options):
    ids = place_ids(np.arange(4, 75), "memory")
    options = dict(order=3, batch_size=6 * options.get("segment", 1), seed=2) | options
    whole = _list_batches(ngram_dataset(ids, **options))
    parts = [_list_batches(ngram_dataset(ids, part=(w, 3), **options)) for w in range(3)]
    for number, batch in enumerate(whole):
        assert [
            row for part in parts for rows in part[number : number + 1] for row in rows
        ] == batch
    assert all(len(batch) == 2 for part in parts for batch in part[: len(whole) - 1])


@pytest.mark.parametrize("segment", [1, pytest.param(2, marks=pytest.mark.long)])
def test_workers_read_each_ngram_of_shards_once(place_ids, list_ngrams, segment):
    ids = np.array([token if token % 5 else 3 for token in range(4, 100)] + [3])
    options = dict(order=3, batch_size=6 * segment, boundary="stream", segment=segment)
    expected = list_ngrams(ids, 3, "stream")
    shards = place_ids(ids, "shards")
    parts = [ngram_dataset(shards, part=(w, 2), **options).as_numpy_iterator() for w in range(2)]
    assert sorted(_list_windows(itertools.chain(*parts), 3, "stream")) == sorted(expected)
    steps = len(expected) // 6 // segment
    options = options | dict(first_epoch=0, drop_remainder=True)
    batches = [
        _list_batches(ngram_dataset(shards, part=(w, 2), **options).take(2 * steps))
        for w in range(2)
    ]
    for epoch in (slice(0, steps), slice(steps, 2 * steps)):  # in step
        found = [row for worker in batches for batch in worker[epoch] for row in batch]
        assert len(found) == len(set(found)) == 6 * steps
