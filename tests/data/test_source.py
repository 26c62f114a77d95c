"""NgramSource and Epochs: batches stay the same, bit for bit, so that runs resume after updates."""

import dataclasses
import zlib

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import Resampled, ngram_dataset
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.source import NgramSource

EOS = 3
BOS = 2


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
        if where == "resampled memory":
            return Resampled([(ids[:60], 1.0), (ids[60:], 0.4)])
        return ids

    return place


@pytest.mark.parametrize(
    "where, options, checksum",
    [
        pytest.param("memory", {}, 0x1DDBE163, id="windows"),
        pytest.param("memory", {"shuffle": False, "boundary": "text"}, 0x74BE8A1E, id="in order"),
        pytest.param(
            "memory",
            {"seed": 1 << 40, "first_epoch": 300, "drop_remainder": True, "targets_below": 20},
            0x1C75051F,
            id="large seed and epoch",
        ),
        pytest.param(
            "memory",
            {"part": (1, 3), "first_epoch": 2, "first_batch": 4, "most_batches": 9},
            0xDB343CD0,
            id="resumed part",
        ),
        pytest.param("memory", {"segment": 3, "boundary": "text"}, 0x891CA15E, id="segments"),
        pytest.param(
            "memory",
            {"segment": 2, "boundary": "stream", "part": (1, 2), "targets_below": 20},
            0x6446DA1A,
            id="part of segments",
        ),
        pytest.param(
            "memory",
            {"segment": 4, "first_epoch": 5, "first_batch": 3, "drop_remainder": True},
            0x2FBB676C,
            id="resumed segments",
        ),
        pytest.param("memory", {"segment": 3, "shuffle": False}, 0x3A936EAA, id="T in order"),
        pytest.param("shards", {"boundary": "text"}, 0x6C36B978, id="shards"),
        pytest.param(
            "shards",
            {"shuffle": False, "targets_below": 20},
            0x75FF2BD6,
            id="shards in order",
        ),
        pytest.param(
            "shards",
            {"first_epoch": 1, "first_batch": 7, "drop_remainder": True, "part": (1, 3)},
            0xD7B9B1E1,
            id="resumed part of shards",
        ),
        pytest.param("shards", {"segment": 3, "part": (0, 2)}, 0xD7B56EAD, id="segments of shards"),
        pytest.param("resampled", {"first_epoch": 3, "first_batch": 2}, 0xD2378007, id="resampled"),
        pytest.param(
            "resampled",
            {"segment": 2, "boundary": "stream", "drop_remainder": True},
            0x6B9C318D,
            id="segments resampled",
        ),
    ],
)
def test_batches_stay_the_same(place_text, where, options, checksum):
    ids = TEXT if options.get("boundary") == "text" else SENTENCES
    batch_size = 12 * options.get("segment", 1)
    options = {"seed": 5, **options}
    dataset = ngram_dataset(place_text(ids, where), 4, batch_size, **options)
    assert _compute_checksum(dataset.take(40)) == checksum


@pytest.mark.parametrize(
    "where, limit, checksum",
    [("memory", 20, 0xCFA3BD74), ("resampled memory", None, 0x1344520A)],
)
def test_folds_stay_the_same(place_text, where, limit, checksum):
    source = NgramSource(place_text(SENTENCES, where), 4, targets_below=limit, fold_starts=[40, 90])
    dataset = source.windows(12, Epochs(seed=5))
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
