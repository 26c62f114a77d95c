"""The search of settings on perplexities that are known functions of them."""

import dataclasses
import math

import numpy as np
import pytest

from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.tuning import find_settings


def _find(best_rate: float = 0.7, chunks: dict | None = None) -> tuple[DynamicSettings, int]:
    """Search where the perplexity is a bowl around the best rate, times a factor of the chunk; 100
    without steps. Also return the number of readings of the text.
    """
    factors = {16: 1.1, 64: 1.1, **(chunks or {})}
    asked = []

    def evaluate(settings: DynamicSettings) -> np.ndarray:
        asked.append(settings)
        if not settings.rate:
            return np.full(9, -math.log(100))
        distance = math.log2(settings.rate / (best_rate * math.sqrt(settings.chunk / 32)))
        perplexity = 50 * (1 + 0.05 * distance**2) * factors.get(settings.chunk, 1)
        return np.full(9, -math.log(perplexity))

    best, measured = find_settings(evaluate)
    assert best == min(measured, key=measured.__getitem__) or chunks
    # a share of the trained network needs no reading of its own
    assert len(asked) == len(set(asked)) and not any(settings.static_share for settings in asked)
    return best, len(asked)


@pytest.mark.parametrize(
    "chunks, chunk",
    [
        # a smaller chunk costs time: it must be worth half a percent
        ({16: 0.994}, 16),
        ({16: 0.996}, 32),
        # a larger chunk saves time: it may cost half a percent
        ({64: 1.004}, 64),
        ({64: 1.006}, 32),
    ],
)
def test_chunk_is_chosen_by_its_worth(chunks, chunk):
    best, readings = _find(chunks=chunks)
    assert best.chunk == chunk and readings <= 6
    assert abs(math.log2(best.rate / (0.7 * math.sqrt(chunk / 32)))) <= 0.51


@pytest.mark.parametrize("rate", [0.00625, 0.2, 12.8])
def test_rates_are_found(rate):
    best, _ = _find(rate)
    assert abs(math.log2(best.rate / rate)) <= 0.51  # the grid has steps of 2


def _read_two_kinds(settings: DynamicSettings) -> np.ndarray:
    """Return ln P of tokens that repeat, which larger steps predict better, and of others, which
    they forget.
    """
    repeated = np.arange(1000) % 5 < 3
    if not settings.rate:
        return np.log(np.where(repeated, 0.002, 0.01))
    speed = settings.rate / math.sqrt(settings.chunk)
    learnt = min(0.02 * speed, 0.05)
    forgotten = 0.01 / (1 + 20 * speed**2)
    return np.log(np.where(repeated, 0.002 + learnt, forgotten))


def test_a_share_of_the_trained_network_allows_larger_steps():
    def measure(settings: DynamicSettings) -> float:
        shared = dataclasses.replace(settings, static_share=0.0)
        learned = np.exp(_read_two_kinds(shared))
        trained = np.exp(_read_two_kinds(DynamicSettings(rate=0)))
        mixed = (1 - settings.static_share) * learned + settings.static_share * trained
        return float(np.exp(-np.mean(np.log(mixed))))

    best, measured = find_settings(_read_two_kinds)
    assert measured[best] == pytest.approx(measure(best), rel=1e-9)
    rates = [best.rate * 2.0**step for step in range(-6, 7)]
    grid = [
        dataclasses.replace(best, rate=rate, static_share=share)
        for rate in rates
        for share in np.arange(4) / 10
    ]
    assert measured[best] == pytest.approx(min(map(measure, grid)), rel=1e-9)
    alone = [each for each in grid if each.static_share == 0]
    assert best.static_share > 0 and best.rate > min(alone, key=measure).rate
    assert measured[best] < 0.97 * min(map(measure, alone))


@pytest.mark.parametrize(
    "of_steps", [pytest.param(-2.0, id="are worse"), pytest.param(np.nan, id="diverge")]
)
def test_no_step_is_taken_where_steps_do_not_help(of_steps):
    def read(settings: DynamicSettings) -> np.ndarray:
        return np.full(9, of_steps if settings.rate else -1.0)

    best, _ = find_settings(read)
    assert best.rate == 0
