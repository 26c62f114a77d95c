import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.shuffling as pools
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.shards import ShardedIds
from keras_nplm.io.errors import InputError

sentences = st.lists(st.lists(st.integers(4, 9), max_size=6), min_size=1, max_size=6)


def _ids(sentences):
    return np.array([token for sentence in sentences for token in (*sentence, 3)], np.int32)


def _shards(directory, ids, sizes=()):
    """The ids as shards on disk, cut after so many."""
    parts = np.split(ids.astype("<i4"), np.cumsum(sizes))
    paths = [directory / f"{number:05d}.ids" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        part.tofile(path)
    return ShardedIds(paths, vocabulary_size=2000)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 5 ids, pools of 3 blocks, so that a small text has many."""
    monkeypatch.setattr(pools, "BLOCK", 5)
    monkeypatch.setattr(pools, "POOL", 3)


def _enumerate(sentences, order, boundary):
    """The n-grams of a corpus, one by one in plain Python."""
    ngrams = []
    if boundary == "stream":
        running = [word for sentence in sentences for word in sentence]
        for i, target in enumerate(running):
            context = running[max(0, i - order + 1) : i]
            ngrams.append(([0] * (order - 1 - len(context)) + context, target))
    else:
        for sentence in sentences:
            context = [2] * (order - 1)
            for target in [*sentence, 3]:
                ngrams.append((list(context), target))
                context = [*context[1:], target]
    return ngrams


def _collect(dataset):
    return [
        (context.tolist(), int(target))
        for contexts, targets in dataset.as_numpy_iterator()
        for context, target in zip(contexts, targets, strict=True)
    ]


@settings(deadline=None, max_examples=60)
@given(sentences, st.integers(2, 5), st.sampled_from(["stream", "sentence"]), st.integers(1, 7), st.booleans())
def test_windows_are_the_ngrams_of_a_plain_enumeration(sentences, order, boundary, batch_size, shuffle):
    expected = _enumerate(sentences, order, boundary)
    if not expected:
        with pytest.raises(InputError, match="no word to predict"):
            ngram_dataset(_ids(sentences), order, batch_size, boundary=boundary)
        return
    dataset = ngram_dataset(_ids(sentences), order, batch_size, boundary=boundary, shuffle=shuffle)
    found = _collect(dataset)
    assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)
    batches = list(dataset)
    assert len(batches) == dataset.cardinality() == -(-len(expected) // batch_size)
    assert batches[0][0].dtype == batches[0][1].dtype == "int32"


def _check_orders(ids, number, other_seed):
    """The targets of three epochs of n-grams 4, 5, …: each in an order of its own, and the same from the same seed."""

    def epochs(seed):
        dataset = ngram_dataset(ids, 3, 64, seed=seed)
        return [np.concatenate([target for _, target in dataset.as_numpy_iterator()]) for _ in range(3)]

    first, second, third = epochs(1)
    assert sorted(first) == sorted(second) == sorted(third) == list(range(4, 4 + number))
    assert (first != second).mean() > 0.9 and (second != third).mean() > 0.9
    keras.utils.set_random_seed(7)  # what else draws random numbers has no part in it
    np.testing.assert_array_equal(epochs(1), [first, second, third])
    assert (epochs(other_seed)[0] != first).mean() > 0.9
    return first, second, third


def test_each_epoch_has_its_own_order_and_the_same_seed_gives_the_same_orders():
    _check_orders(np.arange(4, 1004, dtype=np.int32), 1000, other_seed=2)


def test_neighbours_in_an_epoch_are_not_neighbours_in_the_text():
    targets = np.concatenate(
        [target for _, target in ngram_dataset(np.arange(4, 100_004, dtype=np.int32), 2, 1000).as_numpy_iterator()]
    )
    for lag in (1, 2, 8, 1000):
        assert abs(np.corrcoef(targets[lag:], targets[:-lag])[0, 1]) < 0.02


def test_the_remainder_is_dropped_on_request():
    ids = np.arange(4, 14, dtype=np.int32)
    dataset = ngram_dataset(ids, 3, 4, drop_remainder=True)
    assert [len(target) for _, target in dataset] == [4, 4] and dataset.cardinality() == 2
    assert dataset.element_spec[0].shape == (4, 2)


def test_an_endless_dataset_goes_on_from_any_epoch():
    ids = np.arange(4, 54, dtype=np.int32)
    options = dict(order=3, batch_size=8, drop_remainder=True, seed=3)
    whole = ngram_dataset(ids, first_epoch=0, **options).take(18)
    later = ngram_dataset(ids, first_epoch=2, **options).take(6)
    assert _collect(whole)[12 * 8 :] == _collect(later)
    finite = ngram_dataset(ids, **options)
    assert [ngram for _ in range(3) for ngram in _collect(finite)] == _collect(whole)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 1}, "`order` .* must be 2 or more"),
        ({"batch_size": 0}, "`batch_size` must be 1 or more"),
        ({"boundary": "line"}, "`boundary` must be one of stream, sentence"),
        ({"batch_size": 8, "drop_remainder": True}, "3 n-grams do not fill a batch of 8"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        ngram_dataset(np.array([4, 5, 3], np.int32), **{"order": 3, "batch_size": 2} | options)


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_goes_on_where_it_was_left(boundary, shuffle):
    ids = np.random.default_rng(0).integers(3, 9, 1000).astype(np.int32)
    ids[-1] = 3
    options = dict(order=3, batch_size=7, boundary=boundary, shuffle=shuffle, drop_remainder=True)
    whole = [batch[1].numpy() for batch in ngram_dataset(ids, first_epoch=2, **options).take(400)]
    for left_out in (1, 90):
        rest = ngram_dataset(ids, first_epoch=2, first_batch=left_out, **options).take(400 - left_out)
        for expected, batch in zip(whole[left_out:], rest, strict=True):  # on into the next epochs
            np.testing.assert_array_equal(expected, batch[1])
    for options["first_batch"], first_epoch in ((-1, 0), (1000, 0), (1, None)):
        with pytest.raises(InputError, match="`first_batch` must be 0 to"):
            ngram_dataset(ids, first_epoch=first_epoch, **options)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.integers(4, 9), max_size=12), min_size=1, max_size=8),
    st.lists(st.integers(0, 7), max_size=4),
    st.integers(2, 6),
    st.sampled_from(["stream", "sentence"]),
    st.integers(1, 7),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_windows_of_shards_are_the_ngrams_of_a_plain_enumeration(
    tmp_path_factory, sentences, sizes, order, boundary, batch_size, shuffle, block, pool
):
    """Contexts reach over the ends of sentences, shards, blocks and pools; every n-gram comes once an epoch."""
    expected = _enumerate(sentences, order, boundary)
    shards = _shards(tmp_path_factory.mktemp("shards"), _ids(sentences), sizes)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(pools, "BLOCK", block)
        context.setattr(pools, "POOL", pool)
        if not expected:
            with pytest.raises(InputError, match="no word to predict"):
                ngram_dataset(shards, order, batch_size, boundary=boundary)
            return
        dataset = ngram_dataset(shards, order, batch_size, boundary=boundary, shuffle=shuffle)
        for _ in range(2):
            found = _collect(dataset)
            assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)
        batches = list(dataset)
    assert len(batches) == dataset.cardinality() == -(-len(expected) // batch_size)
    assert batches[0][0].dtype == batches[0][1].dtype == "int32"


def test_epochs_of_shards_have_their_own_orders_and_the_same_seed_gives_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "BLOCK", 100)
    monkeypatch.setattr(pools, "POOL", 4)
    shards = _shards(tmp_path, np.arange(4, 1504, dtype=np.int32), [333])
    first, second, _ = _check_orders(shards, 1500, other_seed=-2)
    assert all(len(set((targets[:400] - 4) // 100)) == 4 for targets in (first, second))  # the first pool: four blocks
    assert set((first[:400] - 4) // 100) != set((second[:400] - 4) // 100)
    assert abs(np.corrcoef(first[1:400], first[:399])[0, 1]) < 0.2  # and their n-grams mixed


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
@pytest.mark.parametrize("drop_remainder", [True, False])
def test_an_endless_dataset_of_shards_goes_on_from_any_batch(tmp_path, small_blocks, boundary, drop_remainder):
    random = np.random.default_rng(0)
    sentences = [random.integers(4, 2000, size).tolist() for size in random.integers(0, 9, 30)]
    sentences[7:7] = [[]] * 9  # blocks without a word
    shards = _shards(tmp_path, _ids(sentences), [40, 1, 30])
    options = dict(order=3, batch_size=4, drop_remainder=drop_remainder, seed=3, boundary=boundary)
    number = len(_enumerate(sentences, 3, boundary))
    batches = number // 4 if drop_remainder else -(-number // 4)
    whole = list(ngram_dataset(shards, first_epoch=0, **options).take(3 * batches).as_numpy_iterator())
    for first_batch in (0, 1, 2, batches // 2, batches - 2, batches - 1):
        left = 2 * batches - first_batch
        later = ngram_dataset(shards, first_epoch=1, first_batch=first_batch, **options).take(left)
        for one, other in zip(later.as_numpy_iterator(), whole[batches + first_batch :], strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])
    with pytest.raises(InputError, match=f"`first_batch` must be 0 to {batches - 1}"):
        ngram_dataset(shards, first_epoch=1, first_batch=batches, **options)


def test_only_some_of_the_text_is_in_memory(tmp_path, monkeypatch, small_blocks):
    held = []
    load = pools.Pools.load
    monkeypatch.setattr(pools.Pools, "load", lambda *some: held.append(load(*some)) or held[-1])
    list(ngram_dataset(_shards(tmp_path, np.arange(4, 1004, dtype=np.int32)), 3, 8))
    assert max(len(tokens) for tokens, _ in held) <= 3 * (5 + 2) and len(held) == 67


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 1}, "`order` .* must be 2 or more"),
        ({"batch_size": 0}, "`batch_size` must be 1 or more"),
        ({"boundary": "line"}, "`boundary` must be one of stream, sentence"),
        ({"batch_size": 8, "drop_remainder": True}, "3 n-grams do not fill a batch of 8"),
        ({"first_batch": 1}, "`first_batch` must be 0 to 1, with `first_epoch`"),
    ],
)
def test_options_out_of_range_are_refused_for_shards(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        ngram_dataset(_shards(tmp_path, np.array([4, 5, 3])), **{"order": 3, "batch_size": 2} | options)


def test_shards_that_changed_are_refused(tmp_path):
    shards = _shards(tmp_path, np.array([4, 5, 3]))
    (tmp_path / "00000.ids").write_bytes(b"\4\0\0\0")
    with pytest.raises(InputError, match=r"00000.ids was truncated"):
        ngram_dataset(shards, 3, 2, boundary="stream")
    np.array([4, 5, 9999], "<i4").tofile(tmp_path / "00000.ids")
    with pytest.raises(InputError, match="Ids must be 0 to 1999. Received: 9999"):
        ngram_dataset(shards, 3, 2, boundary="stream")
    (tmp_path / "00000.ids").unlink()
    with pytest.raises(InputError, match=r"Cannot read .*00000.ids"):
        ngram_dataset(shards, 3, 2, boundary="stream")
