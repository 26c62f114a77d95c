"""Log-probabilities of rows and the perplexities of their mixtures."""

import numpy as np
import pytest

from keras_nplm.experiments.log_probs import SPLITS, compute_log_probs, compute_perplexities, measure_mixture
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.ngrams import kneser_ney

IDS = np.random.default_rng(0).choice([1, 4, 5, 6, 7, 3], 300).astype(np.int32)


@pytest.fixture
def columns():
    models = {order: kneser_ney(IDS[:200], 8, order, "stream") for order in (2, 3)}
    texts = dict(zip(SPLITS, (IDS[200:250], IDS[250:]), strict=True))
    return {n: {split: compute_log_probs(m, ids) for split, ids in texts.items()} for n, m in models.items()}


def test_perplexities_are_those_of_evaluate(columns):
    model = kneser_ney(IDS[:200], 8, 2, "stream")
    assert compute_perplexities(columns[2])["test"] == pytest.approx(evaluate(model, IDS[250:], "stream")["perplexity"])


def test_a_mixture_with_given_weights_is_the_weighted_sum(columns):
    mixture = measure_mixture(columns, [2, 3], [0.3, 0.7])
    probability = 0.3 * np.exp(columns[2]["test"].astype(float)) + 0.7 * np.exp(columns[3]["test"].astype(float))
    assert mixture["test"] == pytest.approx(np.exp(-np.log(probability).mean()), rel=1e-6)
    assert mixture["components"] == [2, 3] and mixture["weights"] == [0.3, 0.7]


def test_fitted_weights_are_at_least_as_good_on_validation(columns):
    fitted, half = measure_mixture(columns, [2, 3]), measure_mixture(columns, [2, 3], [0.5, 0.5])
    assert fitted["validation"] <= half["validation"] + 0.01
    bins = {split: np.arange(len(columns[2][split])) % 2 for split in SPLITS}
    binned = measure_mixture(columns, [2, 3], bins=bins)
    assert binned["validation"] <= fitted["validation"] + 0.05 and sum(binned["weights"]) == pytest.approx(1)
