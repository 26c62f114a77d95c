"""NgramSource: its batches have the n-grams of a plain enumeration, wherever the text is, and stay
the same, bit for bit, so that runs resume after updates.
"""

import collections
import dataclasses
import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keras_nplm import Resampled, ngram_dataset
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.resampling import TextIds
from keras_nplm.data.source import NgramSource

EOS = 3
BOS = 2


@dataclasses.dataclass(frozen=True)
class _Case:
    """A text, where it is, and how it is read."""

    where: str
    boundary: str
    order: int
    segment: int
    below: int | None
    fold_starts: tuple[int, ...] | None
    share: float
    batch: int
    workers: int

    @property
    def is_resampled(self) -> bool:
        return "resampled" in self.where

    def open(self, ids: TextIds, worker: int, **epochs) -> tf.data.Dataset:
        folds = None if self.fold_starts is None else np.array(self.fold_starts)
        source = NgramSource(ids, self.order, self.boundary, self.below, folds)
        size = self.batch * self.segment * self.workers
        options = Epochs(part=(worker, self.workers), **epochs)
        if self.segment == 1:
            return source.windows(size, options)
        return source.segments(self.segment, size, options)


@st.composite
def _draw_cases(draw) -> _Case:
    where = draw(st.sampled_from(["memory", "shards", "resampled memory", "resampled shards"]))
    segment = draw(st.sampled_from([1, 1, 2, 3]))
    folds = st.sets(st.integers(1, 80), max_size=3).map(sorted).map(tuple)
    return _Case(
        where,
        draw(st.sampled_from(["sentence", "text", "stream"])),
        draw(st.integers(2, 5)),
        segment,
        draw(st.none() | st.integers(6, 9)),
        draw(st.none() | folds) if segment == 1 else None,
        draw(st.sampled_from([1.0, 0.3])) if "resampled" in where else 1.0,
        draw(st.integers(1, 5)),
        draw(st.integers(1, 2)),
    )


def _list_windows(batch: tuple, case: _Case) -> list[tuple[int, ...]]:
    """List the n-grams of a batch, each with its fold, without the places that are no targets."""
    inputs, targets = batch
    ids, folds = inputs if case.fold_starts is not None else (inputs, np.zeros(len(targets), int))
    ids = ids["segments"] if case.segment > 1 else ids
    targets = targets.reshape(len(ids), -1)
    assert ids.dtype == targets.dtype == np.int32
    assert ids.shape[1] == case.order - 2 + case.segment and targets.shape[1] == case.segment
    found = []
    for row, column in zip(*np.nonzero(targets), strict=True):
        context = ids[row, column : column + case.order - 1].copy()
        if case.boundary != "stream":
            end = EOS if case.boundary == "sentence" else BOS
            context[: np.max(np.flatnonzero(context == end), initial=-1) + 1] = BOS
        found.append((int(folds[row]), *context.tolist(), int(targets[row, column])))
    return found


def _read_plainly(ids: np.ndarray, case: _Case, list_ngrams) -> list[tuple[int, ...]]:
    """List (fold, *n-gram) of a text in plain Python."""
    fold = 0
    folds = []
    for place, word in enumerate(ids.tolist()):
        fold += place in (case.fold_starts or ())
        if word != (EOS if case.boundary == "stream" else BOS):
            folds.append(fold)
    ngrams = list_ngrams(ids, case.order, case.boundary)
    below = 1 << 30 if case.below is None else case.below
    return [(k, *ngram) for k, ngram in zip(folds, ngrams, strict=True) if ngram[-1] < below]


@settings(max_examples=8)
@given(
    ids=st.lists(st.integers(2, 3) | st.integers(4, 9), min_size=2, max_size=60)
    | st.just([4, 5, 3, 6, 3, 7, 3, 3, 3, 3, 8, 9, 3, 4, 5] * 4),
    cuts=st.lists(st.integers(0, 60), max_size=3).map(sorted),
    case=_draw_cases(),
    block=st.integers(1, 9),
    pool=st.integers(1, 30),
    drop=st.booleans(),
    seed=st.sampled_from([0, 7, -1, 1 << 40]),
)
def test_batches_have_the_ngrams_of_a_plain_enumeration(
    tmp_path_factory, write_shards, list_ngrams, ids, cuts, case, block, pool, drop, seed
):
    """Each once an epoch, by all workers together; in the order of the text; from any batch on."""
    ids = np.array([word for word in ids if word > 2 or case.boundary == "text"], np.int32)
    expected = _read_plainly(ids, case, list_ngrams)
    expected_counts = collections.Counter(expected)
    wanted = round(case.share * len(expected))
    size = case.batch * case.workers
    assume(wanted >= size * case.segment)
    text: TextIds = ids
    if "shards" in case.where:
        cuts = [min(cut, len(ids)) for cut in cuts]
        text = write_shards(tmp_path_factory.mktemp("shards"), ids, cuts)
    if case.is_resampled:
        text = Resampled([(text, case.share)])
    with pytest.MonkeyPatch.context() as context:
        for name in ("BLOCK", "RESAMPLED_BLOCK", "ARRAY_BLOCK"):
            context.setattr(f"keras_nplm.data.pools.{name}", block)
        context.setattr("keras_nplm.data.pools.POOL", pool)
        options = {"drop_remainder": drop, "seed": seed}
        opened = [case.open(text, worker, **options) for worker in range(case.workers)]
        later = len(opened[0]) // 2
        resumed = case.open(text, 0, first_epoch=1, first_batch=later, **options)
        if not case.is_resampled:
            in_order = dataclasses.replace(case, workers=1).open(text, 0, shuffle=False)
            assert [
                ngram
                for batch in in_order.as_numpy_iterator()
                for ngram in _list_windows(batch, case)
            ] == expected
    epochs = [[list(dataset.as_numpy_iterator()) for dataset in opened] for _ in range(2)]
    for epoch in epochs:
        found = _count_windows(epoch, case)
        if case.segment == 1:
            assert found.total() == (wanted // size * size if drop else wanted)
        assert found <= expected_counts
        assert found == expected_counts or drop or case.share < 1
        assert [len(batches) for batches in epoch] == [len(dataset) for dataset in opened]
        full = [batch for batches in epoch for batch in (batches if drop else batches[:-1])]
        assert {len(targets) for _, targets in full} <= {case.batch}
    if case.segment == 1 and 2 * wanted <= len(expected):  # each is used before any repeats
        assert _count_windows([*epochs[0], *epochs[1]], case) <= expected_counts
    rest = epochs[1][0][later:]
    for batch, again in zip(rest, resumed.take(len(rest)).as_numpy_iterator(), strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, batch, again)


def _count_windows(epoch: list[list[tuple]], case: _Case) -> collections.Counter:
    return collections.Counter(
        ngram for batches in epoch for batch in batches for ngram in _list_windows(batch, case)
    )


def _write_text(length: int) -> np.ndarray:
    """Ids of about 20 words in sentences of six words, with empty sentences and two documents."""
    numbers = np.arange(length)
    ids = 4 + (7 * numbers * numbers + 3 * numbers) % 23
    ids[6::7] = EOS
    ids[30:35] = EOS
    ids[[0, 50]] = BOS
    return ids.astype(np.int32)


TEXT = _write_text(200)
SENTENCES = np.where(TEXT == BOS, EOS, TEXT)


def _compute_checksum(dataset: tf.data.Dataset) -> int:
    """The CRC-32 of all arrays of a dataset, with their types and shapes."""
    checksum = 0
    for batch in dataset.as_numpy_iterator():
        for array in tf.nest.flatten(batch):
            checksum = zlib.crc32(f"{array.dtype} {array.shape}".encode(), checksum)
            checksum = zlib.crc32(array.tobytes(), checksum)
    return checksum


@pytest.fixture
def place_text(tmp_path, monkeypatch, write_shards):
    """A function that leaves a text in memory, writes it as shards, or resamples a part of it."""
    monkeypatch.setattr("keras_nplm.data.pools.BLOCK", 16)
    monkeypatch.setattr("keras_nplm.data.pools.RESAMPLED_BLOCK", 8)
    monkeypatch.setattr("keras_nplm.data.pools.ARRAY_BLOCK", 4)
    monkeypatch.setattr("keras_nplm.data.pools.POOL", 64)

    def place(ids: np.ndarray, where: str):
        if where == "shards":
            return write_shards(tmp_path, ids, [70])
        if where == "resampled":
            rest = write_shards(tmp_path, ids[60:], [50])
            return Resampled([(ids[:60], 1.0), (rest, 0.4)])
        return ids

    return place


@pytest.mark.parametrize(
    "where, options, checksum",
    [
        ("memory", {}, 0x1DDBE163),
        ("memory", {"shuffle": False, "boundary": "text"}, 0x74BE8A1E),
        (
            "memory",
            {"seed": 1 << 40, "first_epoch": 300, "drop_remainder": True, "targets_below": 20},
            0x1C75051F,
        ),
        (
            "memory",
            {"part": (1, 3), "first_epoch": 2, "first_batch": 4, "most_batches": 9},
            0xDB343CD0,
        ),
        (
            "memory",
            {"segment": 2, "boundary": "stream", "part": (1, 2), "targets_below": 20},
            0x6446DA1A,
        ),
        (
            "memory",
            {"segment": 4, "first_epoch": 5, "first_batch": 3, "drop_remainder": True},
            0x2FBB676C,
        ),
        ("memory", {"segment": 3, "shuffle": False}, 0x3A936EAA),
        (
            "shards",
            {"first_epoch": 1, "first_batch": 7, "drop_remainder": True, "part": (1, 3)},
            0xD7B9B1E1,
        ),
        ("shards", {"segment": 3, "part": (0, 2)}, 0xD7B56EAD),
        ("resampled", {"first_epoch": 3, "first_batch": 2}, 0xD2378007),
        ("resampled", {"segment": 2, "boundary": "stream", "drop_remainder": True}, 0x6B9C318D),
    ],
)
def test_batches_stay_the_same(place_text, where, options, checksum):
    ids = TEXT if options.get("boundary") == "text" else SENTENCES
    batch_size = 12 * options.get("segment", 1)
    dataset = ngram_dataset(place_text(ids, where), 4, batch_size, **{"seed": 5, **options})
    assert _compute_checksum(dataset.take(40)) == checksum


class _Counter:
    """A model whose ln Q of word w after a context is its last word times w, and minus the part."""

    order = 2
    vocabulary_size = 30

    def next_log_probs(self, context_ids, folds=None):
        assert context_ids.shape[1] == self.order - 1
        values = context_ids[:, -1:] * np.arange(self.vocabulary_size)
        return values if folds is None else values - folds[:, None]


@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("starts", [None, [10, 50]], ids=["one model", "folds"])
@pytest.mark.parametrize("order", [2, 4])
def test_log_q_is_that_of_the_context_beside_it(order, starts, drop_remainder):
    source = NgramSource(SENTENCES, order, fold_starts=starts)
    epochs = Epochs(shuffle=False, drop_remainder=drop_remainder)
    batches = list(source.with_log_q(_Counter(), 16, epochs).as_numpy_iterator())
    windows = list(
        dataclasses.replace(source, fold_starts=None).windows(16, epochs).as_numpy_iterator()
    )
    number = 0
    for (inputs, targets), (context_ids, target_ids) in zip(batches, windows, strict=True):
        np.testing.assert_array_equal(inputs["contexts"], context_ids)
        np.testing.assert_array_equal(targets, target_ids)
        expected = context_ids[:, -1:] * np.arange(30.0)
        numbers = number + np.arange(len(targets))
        if starts is not None:
            expected -= np.searchsorted(starts, numbers, side="right")[:, None]
        np.testing.assert_array_equal(inputs["log_q"], expected)
        number += len(targets)
