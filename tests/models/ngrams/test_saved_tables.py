"""Saved count-based models: the same numbers, and refusal of damaged files."""

import contextlib

import numpy as np
import pytest

from keras_nplm import InputError
from keras_nplm.models.ngrams import (
    BackoffModel,
    ClassBased,
    DeletedInterpolation,
    backoff,
    class_based,
    deleted_interpolation,
    exchange_classes,
    kneser_ney,
)

V = 9  # <pad> <unk> <s> </s> and five words
BOUNDARIES = ("stream", "sentence")


def _text():
    return np.append(np.random.default_rng(0).choice([1, 4, 5, 6, 7, 8], 400), 3).astype(np.int32)


@pytest.fixture
def saved(tmp_path):
    """A class-based model, and the file that it is saved in."""
    model = class_based(_text(), _text(), exchange_classes(_text(), V, 3), 4)
    model.save(tmp_path / "ngrams.npz")
    return model, tmp_path / "ngrams.npz"


def test_a_flipped_bit_is_found_or_changes_nothing(saved):
    model, path = saved
    whole, contexts = path.read_bytes(), np.random.default_rng(0).integers(4, V, (30, 3))
    for place in range(0, len(whole), 97):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(bytes(flipped))
        with contextlib.suppress(InputError):
            np.testing.assert_array_equal(
                ClassBased.load(path).next_log_probs(contexts), model.next_log_probs(contexts)
            )


def test_memory_mapped_tables_give_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(backoff, "MAPPED_FROM", 0)
    monkeypatch.setattr(backoff, "_FREED_FROM", 0)
    path, contexts = tmp_path / "ngrams.npz", np.random.default_rng(0).integers(4, V, (60, 3))
    model = kneser_ney(_text(), V, 4, "stream")
    model.save(path)
    mapped = BackoffModel.load(path)
    assert not any(keys.flags.owndata or keys.flags.writeable for keys in [*mapped.keys, *mapped.contexts.keys])
    np.testing.assert_array_equal(mapped.next_log_probs(contexts), model.next_log_probs(contexts))
    np.testing.assert_array_equal(mapped.log_prob(contexts, contexts[:, 0]), model.log_prob(contexts, contexts[:, 0]))
    mapped.save(path)  # replaces the file that is mapped
    np.testing.assert_array_equal(BackoffModel.load(path).keys[2], mapped.keys[2])
    stored = dict(np.load(path))
    for damaged in ({"keys.1": stored["keys.1"][::-1]}, {"log_probs.1": -stored["log_probs.1"]}):
        np.savez(path, **stored | damaged)
        with pytest.raises(InputError, match="fit together"):
            BackoffModel.load(path)


def test_absent_short_and_foreign_files_are_refused(saved):
    path = saved[1]
    with pytest.raises(InputError, match="weights"):
        DeletedInterpolation.load(path)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(InputError, match="whole NumPy archive"):
        ClassBased.load(path)
    with pytest.raises(InputError, match="Cannot read"):
        ClassBased.load(path.with_name("none.npz"))


def test_tables_that_do_not_fit_together_are_refused(tmp_path):
    ids, path = _text(), tmp_path / "ngrams.npz"
    damages = [
        (BackoffModel, kneser_ney(ids, V, 4, "stream"), ["keys.1", "log_probs.2", "backoffs.0", "contexts.0"]),
        (DeletedInterpolation, deleted_interpolation(ids, ids, V, 3, "stream"), ["keys.1", "context_counts.1"]),
    ]
    for cls, model, names in damages:
        model.save(path)
        stored = dict(np.load(path))
        for name in names:
            np.savez(path, **{key: value for key, value in stored.items() if key != name})
            with pytest.raises(InputError, match="fit together|lacks"):
                cls.load(path)
        np.savez(path, **stored | {"keys.0": stored["keys.0"][::-1]})
        with pytest.raises(InputError, match="fit together"):
            cls.load(path)
    with pytest.raises(InputError, match="fit together|lacks"):
        BackoffModel.load(path)  # a model of a different kind


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_boundary_of_a_file_without_one_is_inferred(boundary, tmp_path):
    kneser_ney(_text(), V, 3, boundary).save(tmp_path / "ngrams.npz")
    assert BackoffModel.load(tmp_path / "ngrams.npz").boundary == boundary
    assert BackoffModel.load(tmp_path / "ngrams.npz", "stream").boundary == "stream"
