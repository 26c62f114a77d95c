import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.shuffling as shuffling
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.resampling import Resampled
from keras_nplm.data.shards import ShardedIds
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.training.distribution import shard_batches

PLACES = ("memory", "shards")
sentences = st.lists(st.lists(st.integers(4, 9), max_size=6), min_size=1, max_size=6)


@pytest.fixture
def place_ids(tmp_path, monkeypatch, write_shards):
    """A function that leaves ids in memory or writes them as shards, of many small blocks and pools."""
    monkeypatch.setattr(shuffling, "BLOCK", 5)
    monkeypatch.setattr(shuffling, "POOL", 3)

    def place(ids: np.ndarray, where: str):
        return ids.astype(np.int32) if where == "memory" else write_shards(tmp_path, ids, [len(ids) // 3])

    return place


def _collect(dataset) -> list[tuple[int, ...]]:
    batches = [np.column_stack(batch) for batch in dataset.as_numpy_iterator()]
    return list(map(tuple, np.concatenate(batches).tolist()))


def _targets(dataset) -> np.ndarray:
    return np.concatenate([target for _, target in dataset.as_numpy_iterator()])


def _check_epochs(ids, expected, order, boundary, batch_size, shuffle):
    dataset = ngram_dataset(ids, order, batch_size, boundary=boundary, shuffle=shuffle)
    for _ in range(2):
        found = _collect(dataset)
        assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)
    batches = list(dataset)
    assert len(batches) == dataset.cardinality() == -(-len(expected) // batch_size)
    assert batches[0][0].dtype == batches[0][1].dtype == "int32"


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
@pytest.mark.parametrize("where", PLACES)
def test_batches_have_each_ngram_of_the_text_once(place_ids, list_ngrams, where, boundary):
    ids = np.array([4, 5, 6, 3, 3, 7, 3, *range(8, 30), 3])
    for shuffle in (True, False):
        _check_epochs(place_ids(ids, where), list_ngrams(ids, 4, boundary), 4, boundary, 4, shuffle)


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(sentences, st.integers(2, 5), st.sampled_from(["stream", "sentence"]), st.integers(1, 7), st.booleans())
def test_any_text_gives_each_of_its_ngrams_once(list_ngrams, sentences, order, boundary, batch_size, shuffle):
    ids = np.array([token for sentence in sentences for token in (*sentence, 3)], np.int32)
    expected = list_ngrams(ids, order, boundary)
    if expected:
        _check_epochs(ids, expected, order, boundary, batch_size, shuffle)


@pytest.mark.long
@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.integers(4, 9), max_size=12), min_size=1, max_size=8),
    st.lists(st.integers(0, 30), max_size=4).map(sorted),
    st.integers(2, 6),
    st.sampled_from(["stream", "sentence"]),
    st.integers(1, 7),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_any_shards_give_each_of_their_ngrams_once(
    tmp_path_factory, write_shards, list_ngrams, sentences, cuts, order, boundary, batch_size, shuffle, block, pool
):
    ids = np.array([token for sentence in sentences for token in (*sentence, 3)], np.int32)
    expected = list_ngrams(ids, order, boundary)
    shards = write_shards(tmp_path_factory.mktemp("shards"), ids, [min(cut, len(ids)) for cut in cuts])
    with pytest.MonkeyPatch.context() as context:
        context.setattr(shuffling, "BLOCK", block)
        context.setattr(shuffling, "POOL", pool)
        if expected:
            _check_epochs(shards, expected, order, boundary, batch_size, shuffle)


@pytest.mark.parametrize("where", PLACES)
def test_epochs_differ_and_the_same_seed_repeats_them(place_ids, monkeypatch, where):
    monkeypatch.setattr(shuffling, "BLOCK", 100)
    ids = place_ids(np.arange(4, 804), where)

    def epochs(seed):
        dataset = ngram_dataset(ids, 3, 64, seed=seed)
        return [_targets(dataset) for _ in range(3)]

    first, second, third = epochs(1)
    assert sorted(first) == sorted(second) == sorted(third) == list(range(4, 804))
    assert (first != second).mean() > 0.9 and (second != third).mean() > 0.9
    keras.utils.set_random_seed(7)  # the global seed must not matter
    np.testing.assert_array_equal(epochs(1), [first, second, third])
    assert (epochs(-2)[0] != first).mean() > 0.9
    if where == "shards":  # a pool mixes the n-grams of its blocks, in an order of its own
        assert len(set((first[:300] - 4) // 100)) == 3 and abs(np.corrcoef(first[1:300], first[:299])[0, 1]) < 0.2
        assert ((first[:300] - 4) % 100 != (first[300:600] - 4) % 100).mean() > 0.9


def test_shards_of_one_block_have_a_new_order_in_each_epoch(tmp_path, write_shards):
    dataset = ngram_dataset(write_shards(tmp_path, np.arange(4, 404, dtype=np.int32)), 3, 64, seed=1)
    first, second = (_targets(dataset) for _ in range(2))
    assert sorted(first) == sorted(second) and (first != second).mean() > 0.9


def test_neighbours_in_an_epoch_are_not_neighbours_in_the_text():
    targets = _targets(ngram_dataset(np.arange(4, 100_004, dtype=np.int32), 2, 1000))
    for lag in (1, 2, 8, 1000):
        assert abs(np.corrcoef(targets[lag:], targets[:-lag])[0, 1]) < 0.02


@pytest.mark.parametrize("first_epoch", [None, 0])
def test_no_thread_tunes_the_pipeline(first_epoch):
    """`fit` would wait for that thread when its iterator ends, for as long as the iterator lived, up to a minute."""
    dataset = shard_batches(ngram_dataset(np.arange(4, 9), 3, 2, first_epoch=first_epoch))
    assert dataset.options().autotune.enabled is False


def test_drop_remainder_gives_batches_of_one_size():
    dataset = ngram_dataset(np.arange(4, 14, dtype=np.int32), 3, 4, drop_remainder=True)
    assert [len(target) for _, target in dataset] == [4, 4] and dataset.cardinality() == 2
    assert dataset.element_spec[0].shape == (4, 2)


def test_an_endless_dataset_has_the_epochs_of_a_finite_one():
    options = dict(order=3, batch_size=8, drop_remainder=True, seed=3)
    ids = np.arange(4, 54, dtype=np.int32)
    finite = ngram_dataset(ids, **options)
    endless = ngram_dataset(ids, first_epoch=0, **options).take(18)
    assert [ngram for _ in range(3) for ngram in _collect(finite)] == _collect(endless)


@pytest.mark.parametrize("where", [*PLACES, "resampled", "resampled shards"])
@pytest.mark.parametrize("first_epoch", [None, 0])
def test_a_checkpoint_of_an_iterator_restores_its_place(place_ids, tmp_path, where, first_epoch):
    ids = place_ids(np.arange(4, 76), where.split()[-1].replace("resampled", "memory"))
    text = Resampled([(ids, 0.6)]) if "resampled" in where else ids

    def build():
        return ngram_dataset(text, 3, 4, seed=5, first_epoch=first_epoch)

    dataset = build()
    epoch = int(ngram_dataset(text, 3, 4).cardinality())
    if first_epoch is None:
        list(dataset)
        iterator = iter(dataset)  # of the second epoch
    else:
        iterator = iter(dataset)
        for _ in range(epoch):
            next(iterator)
    for _ in range(3):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    restored = iter(build())
    tf.train.Checkpoint(iterator=restored).restore(path).assert_consumed()
    left = epoch - 3 if first_epoch is None else 2 * epoch
    for _ in range(left):
        np.testing.assert_array_equal(next(restored)[1], next(iterator)[1])
    if first_epoch is None:
        assert next(restored, None) is next(iterator, None) is None


@pytest.mark.parametrize("where", PLACES)
def test_all_bits_of_a_seed_count(place_ids, where):
    ids = place_ids(np.arange(4, 76), where)
    seeds = (0, 1, 1 << 8, 1 << 20, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 64, (1 << 64) + 1, 10**30, -1, 2**32 - 1)
    orders = {tuple(_targets(ngram_dataset(ids, 3, 80, seed=seed)).tolist()) for seed in seeds}
    assert len(orders) == len(seeds)
    assert {tuple(_targets(ngram_dataset(ids, 3, 80, seed=np.int64(1))).tolist())} <= orders
    far = [_targets(ngram_dataset(ids, 3, 80, first_epoch=epoch).take(1)).tolist() for epoch in (0, 256, 512)]
    assert far[0] != far[1] != far[2] != far[0]
    for seed in (None, 1.5, "1"):
        with pytest.raises(InputError, match="`seed` must be an integer. Received"):
            ngram_dataset(ids, 3, 80, seed=seed)


@pytest.mark.parametrize(
    "where, boundary, shuffle, drop_remainder",
    [
        ("memory", "sentence", True, True),
        ("shards", "sentence", True, False),
        pytest.param("memory", "stream", True, True, marks=pytest.mark.long),
        pytest.param("memory", "stream", False, True, marks=pytest.mark.long),
        pytest.param("memory", "sentence", False, False, marks=pytest.mark.long),
        pytest.param("shards", "stream", True, True, marks=pytest.mark.long),
        pytest.param("shards", "stream", True, False, marks=pytest.mark.long),
        pytest.param("shards", "sentence", True, True, marks=pytest.mark.long),
    ],
)
def test_training_data_resumes_at_any_batch_of_any_epoch(place_ids, where, boundary, shuffle, drop_remainder):
    random = np.random.default_rng(0)
    ids = random.integers(3, 99, 150)
    ids[60:70] = 3  # blocks without a word
    ids, options = place_ids(ids, where), dict(order=3, batch_size=4, boundary=boundary, shuffle=shuffle, seed=3)
    options |= dict(drop_remainder=drop_remainder)
    batches = int(ngram_dataset(ids, **options).cardinality())
    whole = list(ngram_dataset(ids, first_epoch=0, **options).take(3 * batches).as_numpy_iterator())
    for first_batch in (0, 1, batches // 2, batches - 1):
        left = 2 * batches - first_batch
        later = ngram_dataset(ids, first_epoch=1, first_batch=first_batch, **options).take(left)
        for one, two in zip(later.as_numpy_iterator(), whole[batches + first_batch :], strict=True):
            np.testing.assert_array_equal(one[0], two[0])
            np.testing.assert_array_equal(one[1], two[1])
    for options["first_batch"], first_epoch in ((-1, 0), (batches, 1), (1, None)):
        with pytest.raises(InputError, match=f"`first_batch` must be 0 to {batches - 1}, with `first_epoch`"):
            ngram_dataset(ids, first_epoch=first_epoch, **options)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 1}, "`order` .* must be 2 or more"),
        ({"batch_size": 0}, "`batch_size` must be 1 or more"),
        ({"boundary": "line"}, "`boundary` must be one of stream, sentence"),
        ({"batch_size": 8, "drop_remainder": True}, "3 n-grams do not fill a batch of 8"),
        ({"first_batch": 1}, "`first_batch` must be 0 to 1, with `first_epoch`"),
        ({"targets_below": 3}, "no word to predict"),
    ],
)
def test_options_out_of_range_are_refused(place_ids, where, options, message):
    with pytest.raises(InputError, match=message):
        ngram_dataset(place_ids(np.array([4, 5, 3]), where), **{"order": 3, "batch_size": 2} | options)


def test_strings_give_the_ngrams_of_their_tokens():
    lines = ["The cat sat.", "", "The dog ran."]
    vocabulary = Vocabulary.build(lines, tokenizer="words")
    ids = encode_sentences([["The", "cat", "sat", "."], ["The", "dog", "ran", "."]], vocabulary)
    options = dict(order=3, batch_size=4, shuffle=False)
    for mine, wanted in zip(
        ngram_dataset(lines, vocabulary=vocabulary, **options), ngram_dataset(ids, **options), strict=True
    ):
        np.testing.assert_array_equal(mine[0], wanted[0])
        np.testing.assert_array_equal(mine[1], wanted[1])


@pytest.mark.parametrize(
    "text, message",
    [(["a b"], "Received: strings.* give `vocabulary`"), ("a b", "Received: 'a b'"), ([4, 3], "Received: token ids")],
)
def test_strings_need_a_vocabulary(text, message):
    vocabulary = None if "give" in message else Vocabulary(["a", "b"])
    with pytest.raises(InputError, match=message):
        ngram_dataset(text, order=2, batch_size=1, vocabulary=vocabulary)


@pytest.mark.parametrize("drop_remainder", [True, False])
@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_parts_of_workers_are_the_batches_of_one(place_ids, boundary, drop_remainder):
    ids = place_ids(np.arange(4, 75), "memory")
    options = dict(order=3, batch_size=6, boundary=boundary, seed=2, drop_remainder=drop_remainder)
    whole = [np.column_stack(batch).tolist() for batch in ngram_dataset(ids, **options)]
    parts = [
        [np.column_stack(batch).tolist() for batch in ngram_dataset(ids, part=(w, 3), **options)] for w in range(3)
    ]
    for number, batch in enumerate(whole):
        assert [row for part in parts for rows in part[number : number + 1] for row in rows] == batch
    assert all(len(batch) == 2 for part in parts for batch in part[: len(whole) - 1])


@pytest.mark.parametrize(
    "boundary, shuffle",
    [
        ("stream", True),
        ("sentence", False),
        pytest.param("stream", False, marks=pytest.mark.long),
        pytest.param("sentence", True, marks=pytest.mark.long),
    ],
)
def test_workers_read_each_ngram_of_shards_once(place_ids, list_ngrams, boundary, shuffle):
    ids = np.array([token if token % 5 else 3 for token in range(4, 100)] + [3])
    options = dict(order=3, batch_size=6, boundary=boundary, shuffle=shuffle, first_epoch=0)
    expected, shards = list_ngrams(ids, 3, boundary), place_ids(ids, "shards")
    for drop_remainder in (True, False):
        steps = len(expected) // 6
        datasets = [ngram_dataset(shards, part=(w, 3), drop_remainder=drop_remainder, **options) for w in range(3)]
        if drop_remainder:  # two epochs, in step
            batches = [list(dataset.take(2 * steps).as_numpy_iterator()) for dataset in datasets]
            for part in (slice(0, steps), slice(steps, 2 * steps)):
                found = [tuple(row) for worker in batches for batch in worker[part] for row in np.column_stack(batch)]
                assert len(found) == len(set(found)) == 6 * steps and set(found) <= set(expected)
        else:
            finite = [ngram_dataset(shards, part=(w, 3), **options | {"first_epoch": None}) for w in range(3)]
            assert sorted(row for dataset in finite for row in _collect(dataset)) == sorted(expected)


def test_workers_resume_at_any_batch_of_shards(place_ids):
    shards = place_ids(np.arange(4, 100), "shards")
    options = dict(order=3, batch_size=6, boundary="stream", drop_remainder=True, seed=3, part=(1, 2))
    steps = 96 // 6
    whole = [
        np.column_stack(batch).tolist() for batch in ngram_dataset(shards, first_epoch=0, **options).take(3 * steps)
    ]
    for epoch, batch in ((0, 1), (1, 7), (1, steps - 1)):
        rest = ngram_dataset(shards, first_epoch=epoch, first_batch=batch, **options).take((3 - epoch) * steps - batch)
        assert [np.column_stack(part).tolist() for part in rest] == whole[epoch * steps + batch :]


def test_a_worker_reads_its_own_part_of_the_shards(place_ids, monkeypatch):
    monkeypatch.setattr(shuffling, "BLOCK", 50)
    shards = place_ids(np.arange(4, 4004), "shards")
    datasets = [ngram_dataset(shards, 3, 8, boundary="sentence", part=(w, 4)) for w in range(4)]
    read, whole = [], ShardedIds.read
    monkeypatch.setattr(ShardedIds, "read", lambda self, *range: read.append(range) or whole(self, *range))
    _collect(datasets[2])
    assert 1000 <= sum(stop - start for start, stop in read) < 1300


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 4)])
def test_parts_out_of_range_are_refused(part):
    with pytest.raises(InputError, match=r"`part` must be \(w, N\) with 0 <= w < N and `batch_size` a multiple of N"):
        ngram_dataset(np.arange(4, 20), 3, 6, boundary="stream", part=part)


@pytest.mark.parametrize("where", PLACES)
def test_an_epoch_may_have_fewer_batches_than_the_text(place_ids, where):
    ids = place_ids(np.arange(4, 75), where)
    options = dict(order=3, batch_size=6, boundary="stream", drop_remainder=True)
    epochs = [ngram_dataset(ids, first_epoch=epoch, **options).take(4) for epoch in range(2)]
    expected = [_targets(epoch).tolist() for epoch in epochs]
    limited = ngram_dataset(ids, first_epoch=0, most_batches=4, **options).take(8)
    assert _targets(limited).tolist() == expected[0] + expected[1]
    resumed = ngram_dataset(ids, first_epoch=0, first_batch=3, most_batches=4, **options).take(5)
    assert _targets(resumed).tolist() == expected[0][18:] + expected[1]
    assert len(ngram_dataset(ids, most_batches=4, **options)) == 4
