"""Figures of log Z; scores from tables are the logits of every network by test_every_network.py."""

import numpy as np
import pytest

from keras_nplm import evaluate
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.collectors import Perplexity
from keras_nplm.models.networks.log_z import LogZ
from tests.every_network import N, V, build_network
from tests.formulas import Formulas, log_sum_exp


@pytest.mark.parametrize("name", ["paper", "linear / nce"])
def test_figures_of_log_z(monkeypatch, name):
    monkeypatch.setattr("keras_nplm.models.evaluation.BLOCK_SIZE", 7)
    model = build_network(name)
    ids = np.random.default_rng(3).integers(4, V, 50).astype(np.int32)
    contexts = extract_ngrams(ids, N, "stream")[:, :-1]
    log_z = log_sum_exp(Formulas(model).logits({"contexts": contexts}))
    figures = evaluate(model, ids, [Perplexity(), LogZ()])
    ln_z = figures.pop("ln_z")
    np.testing.assert_allclose(ln_z["mean"], log_z.mean(), rtol=1e-4)
    np.testing.assert_allclose(ln_z["standard_deviation"], log_z.std(), rtol=1e-4)
    np.testing.assert_allclose(ln_z["mean_absolute"], np.abs(log_z).mean(), rtol=1e-4)
    assert figures == evaluate(model, ids)
