"""The search of settings on perplexities that are known functions of them."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.tuning import find_settings


@settings(max_examples=20)
@given(rate=st.floats(0.01, 12), smaller=st.floats(0.98, 1.02), larger=st.floats(0.98, 1.02))
@example(0.00625, 1.1, 1.1)
@example(12.8, 1.1, 1.1)
@example(0.7, 0.996, 1.1)
@example(0.7, 0.994, 1.1)
def test_rate_and_chunk_are_found_in_few_readings(rate, smaller, larger):
    """The perplexity is a bowl around the best rate, times a factor of the chunk; 100 without
    steps.
    """
    factors = {16: smaller, 32: 1.0, 64: larger}
    asked = []

    def measure(settings: DynamicSettings) -> float:
        distance = math.log2(settings.rate / (rate * math.sqrt(settings.chunk / 32)))
        return 50 * (1 + 0.01 * distance**2) * factors[settings.chunk]

    def read(settings: DynamicSettings) -> np.ndarray:
        asked.append(settings)
        return np.full(9, -math.log(measure(settings) if settings.rate else 100))

    best, measured = find_settings(read)
    assert measured[best] == pytest.approx(measure(best), rel=1e-9)
    # the grid has steps of 2, from 0.5
    at_32 = best.rate * math.sqrt(32 / best.chunk)
    assert abs(math.log2(at_32 / rate)) <= 0.51
    # a smaller chunk costs time: it must be worth half a percent, and a larger one may cost as much
    chunk = 64 if larger < 1.005 else 16 if smaller < 0.995 else 32
    is_close = min(abs(larger - 1.005), abs(smaller - 0.995)) < 1e-4  # rates are rounded
    assert best.chunk == chunk or is_close
    # each is read once, and a share of the trained network needs no reading of its own
    assert len(asked) == len(set(asked)) <= abs(math.log2(rate / 0.5)) + 7
    assert not any(settings.static_share for settings in asked)


def test_a_share_of_the_trained_network_allows_larger_steps():
    """Tokens that repeat, which larger steps predict better, and others, which they forget."""
    repeated = np.arange(1000) % 5 < 3
    trained = np.where(repeated, 0.002, 0.01)

    def learn(settings: DynamicSettings) -> np.ndarray:
        if not settings.rate:
            return trained
        speed = settings.rate / math.sqrt(settings.chunk)
        learnt = min(0.02 * speed, 0.05)
        return np.where(repeated, 0.002 + learnt, 0.01 / (1 + 20 * speed**2))

    def measure(rate: float, share: float, chunk: int) -> float:
        mixed = (1 - share) * learn(DynamicSettings(chunk, rate)) + share * trained
        return float(np.exp(-np.mean(np.log(mixed))))

    best, measured = find_settings(lambda settings: np.log(learn(settings)))
    grid = {
        (rate, share): measure(rate, share, best.chunk)
        for rate in [best.rate * 2.0**step for step in range(-6, 7)]
        for share in (0.0, 0.1, 0.2, 0.3)
    }
    assert measured[best] == pytest.approx(min(grid.values()), rel=1e-9)
    assert grid[best.rate, best.static_share] == pytest.approx(measured[best], rel=1e-9)
    alone = {rate: grid[rate, share] for rate, share in grid if not share}
    assert best.static_share > 0 and best.rate > min(alone, key=alone.__getitem__)
    assert measured[best] < 0.97 * min(alone.values())


@pytest.mark.parametrize("of_steps", [-2.0, np.nan, -np.inf], ids=["worse", "diverged", "zero"])
def test_no_step_is_taken_where_steps_do_not_help(of_steps):
    def read(settings: DynamicSettings) -> np.ndarray:
        return np.full(9, of_steps if settings.rate else -1.0)

    best, _ = find_settings(read)
    assert best.rate == 0
