"""The base class: blocks of rows, checks, and n-gram models without Keras."""

import subprocess
import sys

import numpy as np
import pytest

import keras_nplm.models.base as base
from keras_nplm import NPLM, Mixture, Uniform
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams import deleted_interpolation, kneser_ney


class Counting(NextWordModel):
    """ln P(w | v) = -(v + w), and the sizes of the blocks."""

    order, vocabulary_size = 2, 9

    def __init__(self):
        self.blocks = []

    def _log_prob(self, context_ids, target_ids):
        self.blocks.append(len(target_ids))
        return -(context_ids[:, 0] + target_ids).astype(np.float32)

    def _next_log_probs(self, context_ids):
        self.blocks.append(len(context_ids))
        return -(context_ids + np.arange(9)).astype(np.float32)


@pytest.mark.parametrize(("rows", "blocks"), [(0, [0]), (1, [1]), (4, [4]), (9, [4, 4, 1])])
def test_rows_are_computed_in_blocks_and_joined_in_order(rows, blocks, monkeypatch):
    monkeypatch.setattr(base, "NGRAM_ROWS", 4)
    monkeypatch.setattr(base, "DISTRIBUTION_ROWS", 4)
    contexts, targets = np.arange(rows)[:, None] % 9, np.arange(rows) * 2 % 9
    model = Counting()
    np.testing.assert_array_equal(model.log_prob(contexts, targets), -(contexts[:, 0] + targets))
    assert model.blocks == blocks
    found = model.next_log_probs(contexts)
    np.testing.assert_array_equal(found, -(contexts + np.arange(9)))
    assert model.blocks == blocks * 2 and found.shape == (rows, 9) and found.dtype == np.float32


def test_ngram_models_import_neither_keras_nor_tensorflow():
    modules = "base evaluation mixture shortlist ngrams ngrams.approximation ngrams.mass".split()
    imports = "".join(f"import keras_nplm.models.{module}\n" for module in modules)
    check = "assert not {'keras', 'tensorflow'} & set(sys.modules), 'imported'\n"
    subprocess.run([sys.executable, "-c", f"import sys\n{imports}{check}"], check=True)


def test_models_describe_themselves_in_one_line():
    ids = np.array([4, 5, 8, 3])
    models = [
        (Uniform(9), "Uniform(order=2, |V|=9, boundary='sentence')"),
        (kneser_ney(ids, 9, 2), "BackoffModel(order=2, |V|=9, boundary='sentence', n-grams=11)"),
        (deleted_interpolation(ids, ids, 9, 2), "DeletedInterpolation(order=2, |V|=9, boundary='sentence')"),
        (NPLM(9, order=3), "NPLM(order=3, |V|=9, boundary='sentence')"),
        (
            Mixture([Uniform(9), Uniform(9)], [0.25, 0.75]),
            "Mixture(order=2, |V|=9, boundary='sentence', weights=[0.250 Uniform, 0.750 Uniform])",
        ),
    ]
    for model, shown in models:
        assert repr(model) == shown
