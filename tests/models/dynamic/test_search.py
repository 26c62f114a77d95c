"""The search of settings on perplexities that are known functions of them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from keras_nplm import NPLM, Uniform
from keras_nplm.layers.outputs import FullSoftmax
from keras_nplm.models.dynamic import DynamicSettings, tune_dynamic, tuning
from keras_nplm.models.dynamic.network import measure_mean_squares
from keras_nplm.models.dynamic.search import SettingsSearch


def _perplexity(settings: DynamicSettings, best_rate: float = 0.2, **factors: dict) -> float:
    """100 without steps; with steps a bowl around the best rate, times a factor of each other setting."""
    if not settings.rate:
        return 100.0
    middle = best_rate * math.sqrt(settings.chunk / 32 * settings.copies)  # that of two copies lies above
    distance = math.log2(settings.rate / middle)
    chosen = (values.get(getattr(settings, name), 1.0) for name, values in ({"copies": {2: 1.0}} | factors).items())
    return 50 * (1 + 0.05 * distance**2) * math.prod(chosen)


def _find_best(perplexity=_perplexity, tokens: int = 100, rules=("sgd",), **factors) -> DynamicSettings:
    def evaluate(settings: DynamicSettings, tokens: int) -> np.ndarray:
        return np.full(tokens, -math.log(perplexity(settings, **factors)))

    return SettingsSearch(evaluate, tokens, rules).find_best()


@pytest.mark.parametrize(
    "factors, chunk",
    [
        ({16: 0.994}, 16),  # a smaller chunk costs time: it must be worth half a percent
        ({16: 0.996}, 32),
        ({16: 0.98, 8: 0.9}, 16),
        ({64: 1.004}, 64),  # a larger chunk saves time: it may cost half a percent
        ({64: 1.006}, 32),
        ({64: 1.004, 128: 1.008}, 128),
        ({64: 1.0, 128: 0.98, 256: 0.9}, 128),
    ],
)
def test_chunk_is_chosen_by_its_worth(factors, chunk):
    best = _find_best(chunk={16: 1.1, 64: 1.1, 128: 1.1} | factors)
    assert best.chunk == chunk and best.rate == pytest.approx(0.2 * math.sqrt(chunk / 32), rel=0.01)


@pytest.mark.parametrize("factor, copies", [(0.994, 2), (0.996, 1)])
def test_two_copies_have_rates_around_the_best_and_are_worth_their_time(factor, copies):
    best = _find_best(chunk={16: 1.1, 64: 1.1}, copies={2: factor})
    assert best.copies == copies and best.rate == pytest.approx(0.2 * math.sqrt(copies), rel=0.01)


@pytest.mark.parametrize("rate", [0.00625, 0.2, 12.8])
def test_rates_factors_of_groups_and_rule_are_found(rate):
    factors = dict(hidden={2.0: 0.9, 4.0: 0.95}, biases={0.5: 0.9, 0.25: 0.8}, chunk={16: 1.1, 64: 1.1})
    best = _find_best(best_rate=rate, rules=("sgd", "rms"), rule={"rms": 0.97}, **factors, copies={2: 1.1})
    assert best == DynamicSettings(32, best.rate, "rms", hidden=2.0, biases=0.25)
    assert abs(math.log2(best.rate / rate)) <= 0.26  # the grid has steps of √2


def test_no_step_is_a_candidate():
    assert _find_best(lambda settings: 99.0 + settings.rate * 100).rate == 0


def _tune(monkeypatch, tokens: int) -> DynamicSettings:
    """Tune on a text of 40 tokens, where a decay of 0.0003 halves the perplexity."""
    decays = {0.0: 1.0, 1e-4: 0.8, 3e-4: 0.5, 1e-3: 0.7}

    def make_dynamic(model, settings, mean_squares):
        log_prob = -math.log(_perplexity(settings, decay=decays))
        return SimpleNamespace(log_prob=lambda contexts, targets: np.full(len(targets), log_prob))

    monkeypatch.setattr(tuning, "make_dynamic", make_dynamic)
    monkeypatch.setattr(tuning, "find_networks", lambda model: [SimpleNamespace(trainable_weights=[])])
    return tune_dynamic(Uniform(9, "stream"), np.full(40, 5), "stream", tokens=tokens).settings


def test_decay_is_tuned_on_the_whole_of_a_short_text_only(monkeypatch):
    assert _tune(monkeypatch, 41).decay == 3e-4
    assert _tune(monkeypatch, 40).decay == 0  # the beginning of a longer text, perhaps


@pytest.mark.parametrize("outside", [False, True])
def test_mean_squares_of_a_short_list_are_those_of_its_outputs(outside):
    network = NPLM(9, 3, 2, 3, output=FullSoftmax(9, shortlist_size=2, outside_output=outside), boundary="stream")
    text = np.random.default_rng(0).integers(4, 9, 300).astype(np.int32)
    ngrams = np.lib.stride_tricks.sliding_window_view(np.concatenate([[0, 0], text]), 3).astype(np.int32)
    if outside:
        ngrams[:, -1] = np.minimum(ngrams[:, -1], 6)
    expected = measure_mean_squares(network, ngrams[ngrams[:, -1] < 6 + outside], 32)
    for square, wanted in zip(tuning._measure(network, text, "stream"), expected, strict=True):
        np.testing.assert_allclose(square, wanted, rtol=1e-5)
