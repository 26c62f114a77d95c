"""Saved count-based models in memory-mapped files, and files without a boundary.

Damaged files: tests/cli/test_hostile_input.py; numbers: tests/models/test_contract.py.
"""

import numpy as np
import pytest

from keras_nplm import InputError
from keras_nplm.models.ngrams import BackoffModel, DeletedInterpolation, backoff
from tests.language_models import V, build


def test_memory_mapped_tables_give_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(backoff, "MAPPED_FROM", 0)
    monkeypatch.setattr(backoff, "FREED_FROM", 0)
    path = tmp_path / "ngrams.npz"
    contexts = np.random.default_rng(0).integers(4, V, (60, 3))
    model = build("kneser-ney", "stream")
    model.save(path)
    mapped = BackoffModel.load(path)
    assert not any(
        keys.flags.owndata or keys.flags.writeable for keys in [*mapped.keys, *mapped.contexts.keys]
    )
    np.testing.assert_array_equal(mapped.next_log_probs(contexts), model.next_log_probs(contexts))
    np.testing.assert_array_equal(
        mapped.log_prob(contexts, contexts[:, 0]), model.log_prob(contexts, contexts[:, 0])
    )
    assert mapped.boundary == "stream"  # inferred
    mapped.save(path)  # replaces the file that is mapped
    np.testing.assert_array_equal(BackoffModel.load(path).keys[2], mapped.keys[2])
    with pytest.raises(InputError, match="whole NumPy archive"):
        DeletedInterpolation.load(path)
