"""Datasets of n-grams with targets in a short-list: words outside the list are in contexts only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.shuffling as shuffling
from keras_nplm import InputError, ngram_dataset
from keras_nplm.data.shards import ShardedIds

sentences = st.lists(st.lists(st.integers(4, 9), max_size=9), min_size=1, max_size=8)


def _list_ngrams(sentences, order, boundary, below):
    """The n-grams whose target is in the list, in plain Python."""
    ngrams = []
    running = [0] * (order - 1)
    for sentence in sentences:
        if boundary == "sentence":
            running = [2] * (order - 1)
        for target in [*sentence, *([3] if boundary == "sentence" else [])]:
            if target < below:
                ngrams.append((running[len(running) - order + 1 :], target))
            running = [*running, target]
    return ngrams


def _collect(dataset):
    return [
        (context.tolist(), int(target))
        for contexts, targets in dataset.as_numpy_iterator()
        for context, target in zip(contexts, targets, strict=True)
    ]


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_words_outside_the_list_are_in_contexts_only(boundary):
    sentences = [[4, 9, 5], [8], [6, 7, 4]]
    ids = np.array([token for sentence in sentences for token in (*sentence, 3)], np.int32)
    dataset = ngram_dataset(ids, 3, 4, boundary=boundary, shuffle=False, targets_below=8)
    assert _collect(dataset) == _list_ngrams(sentences, 3, boundary, 8)


@pytest.mark.long
@settings(deadline=None, max_examples=12)
@given(sentences, st.integers(2, 4), st.sampled_from(["stream", "sentence"]), st.integers(4, 10), st.booleans())
def test_listed_targets_of_any_text_are_those_of_a_loop(tmp_path_factory, sentences, order, boundary, below, shuffle):
    expected = _list_ngrams(sentences, order, boundary, below)
    ids = np.array([token for sentence in sentences for token in (*sentence, 3)], np.int32)
    path = tmp_path_factory.mktemp("shards") / "0.ids"
    ids.astype("<i4").tofile(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shuffling, "BLOCK", 5)
        patched.setattr(shuffling, "POOL", 2)
        for given_ids in (ids, ShardedIds([path], vocabulary_size=10)):
            options = dict(boundary=boundary, shuffle=shuffle, targets_below=below)
            if not expected:
                with pytest.raises(InputError, match="no word to predict"):
                    ngram_dataset(given_ids, order, 4, **options)
                continue
            dataset = ngram_dataset(given_ids, order, 4, **options)
            found = _collect(dataset)
            assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)
            assert dataset.cardinality() == -(-len(expected) // 4)


@pytest.mark.parametrize("boundary", [pytest.param("stream", marks=pytest.mark.long), "sentence"])
def test_epochs_of_listed_targets_resume_at_a_batch(tmp_path, monkeypatch, boundary):
    monkeypatch.setattr(shuffling, "BLOCK", 50)
    monkeypatch.setattr(shuffling, "POOL", 3)
    ids = np.random.default_rng(0).integers(3, 12, 600).astype(np.int32)
    ids[-1] = 3
    ids.tofile(tmp_path / "0.ids")
    for given_ids in (ids, ShardedIds([tmp_path / "0.ids"], vocabulary_size=12)):
        options = dict(order=3, batch_size=7, boundary=boundary, drop_remainder=True, targets_below=8)
        whole = [batch[1].numpy() for batch in ngram_dataset(given_ids, first_epoch=2, **options).take(60)]
        assert max(map(np.max, whole)) == 7
        for first_batch in (1, 30):
            rest = ngram_dataset(given_ids, first_epoch=2, first_batch=first_batch, **options).take(60 - first_batch)
            for expected, batch in zip(whole[first_batch:], rest, strict=True):  # into the next epochs
                np.testing.assert_array_equal(expected, batch[1])
