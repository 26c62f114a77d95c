"""Search the settings of dynamic evaluation on held-out text."""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_nplm.models.dynamic.settings import DynamicSettings

TOKENS = 20_000  # of the validation text that settings are tuned on
STILL = DynamicSettings(rate=0)
STARTS = {"sgd": DynamicSettings(32, 0.1), "rms": DynamicSettings(32, 0.5, "rms", biases=4.0)}
_RATES, _CHUNKS = (1e-4, 1e3), (16, 64)
_WORTH = 0.995  # a smaller chunk must lower the perplexity to this, as it costs time


def find_settings(
    evaluate: Callable[[DynamicSettings], np.ndarray], rule: str
) -> tuple[DynamicSettings, dict[DynamicSettings, float]]:
    """Return the settings with the lowest perplexity, and the perplexity of each that was measured.

    `evaluate` returns ln P of each token for settings. The rate is chosen first, in steps of 2 and of √2, then the
    chunk. A rate of 0 is a candidate. The factors of groups of weights are those of `STARTS`: they suit all networks
    that were measured.
    """
    measured: dict[DynamicSettings, float] = {}

    def measure(settings: DynamicSettings) -> float:
        """Return the perplexity of the text; infinity where the weights diverge."""
        if settings not in measured:
            with np.errstate(over="ignore", invalid="ignore"):
                perplexity = float(np.exp(-np.mean(evaluate(settings), dtype=np.float64)))
            measured[settings] = perplexity if np.isfinite(perplexity) else np.inf
        return measured[settings]

    best = STARTS[rule]
    for factor in (2, 0.5, 2**0.5, 0.5**0.5):
        while _RATES[0] <= best.rate * factor <= _RATES[1]:
            other = _change_rate(best, factor)
            if not measure(other) < measure(best):
                break
            best = other
    if min(map(measure, (STILL, best))) == measured[STILL]:
        return STILL, measured
    for chunk in _CHUNKS:  # a step on a smaller chunk is noisier, so smaller
        other = dataclasses.replace(_change_rate(best, (chunk / best.chunk) ** 0.5), chunk=chunk)
        if measure(other) < measure(best) * (_WORTH if chunk < best.chunk else 1 / _WORTH):
            best = other
    return best, measured


def _change_rate(settings: DynamicSettings, factor: float) -> DynamicSettings:
    return dataclasses.replace(settings, rate=float(f"{settings.rate * factor:.3g}"))
