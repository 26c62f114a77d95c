"""Search the settings of dynamic evaluation, one after the other, on held-out text."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from keras_nplm.models.dynamic.settings import GROUPS, RULES, DynamicSettings

TOKENS = 50_000  # of the validation text that settings are tuned on
_FIRST_TOKENS = 20_000  # of these, for the first rate and the groups
STILL = DynamicSettings(rate=0)
_FIRST_RATES = {"sgd": 0.1, "rms": 0.5}
_LIMITS = {"rate": (1e-4, 1e3), "chunk": (16, 128)} | dict.fromkeys(GROUPS, (0.25, 4.0))
_WORTH = 0.995  # a smaller chunk, or a second copy, must lower the perplexity to this, as it costs time


class SettingsSearch:
    """A search of the settings with the lowest perplexity. A rate of 0 is a candidate. Each setting is measured once.

    `evaluate` returns ln P of each token for settings and a number of tokens. The rate of each rule and the factors are
    chosen on the beginning of the text, the rest on all of it: the best steps for a short text are too large for a long
    one.
    """

    def __init__(
        self,
        evaluate: Callable[[DynamicSettings, int], np.ndarray],
        tokens: int,
        rules: Sequence[str] = RULES,
        report: Callable = lambda number: None,
    ):
        self._evaluate, self._rules, self._report = evaluate, rules, report
        self.tokens, self._beginning = tokens, min(tokens, _FIRST_TOKENS)
        self.measured: dict[tuple[DynamicSettings, int], float] = {}

    def find_best(self) -> DynamicSettings:
        """Return the best settings of networks."""
        starts = [DynamicSettings(rate=_FIRST_RATES[rule], rule=rule) for rule in self._rules]
        climbed = [self._climb(start, "rate", 2, self._beginning) for start in starts]
        best = min([STILL, *climbed], key=lambda settings: self.measure(settings, self._beginning))
        if not best.rate:
            return best
        for group in GROUPS:
            best = self._climb(best, group, 2, self._beginning)
        best = self._climb(self._climb(best, "rate", 2**0.5), "chunk", 2)
        two = dataclasses.replace(best, copies=2, rate=_round(best.rate * 2**0.5))  # their rates lie around the best
        return self.choose([STILL, two if self.measure(two) < _WORTH * self.measure(best) else best])

    def choose(self, candidates: Sequence[DynamicSettings]) -> DynamicSettings:
        """Return the best of some settings on the whole text, the first of equals."""
        return min(candidates, key=self.measure)

    def measure(self, settings: DynamicSettings, tokens: int | None = None) -> float:
        """Return the perplexity of the first tokens of the text; infinity where the weights diverge."""
        key = settings, tokens or self.tokens
        if key not in self.measured:
            with np.errstate(over="ignore", invalid="ignore"):
                perplexity = float(np.exp(-np.mean(self._evaluate(*key), dtype=np.float64)))
            self.measured[key] = perplexity if np.isfinite(perplexity) else np.inf
            self._report(1)
        return self.measured[key]

    def _climb(self, best: DynamicSettings, name: str, factor: float, tokens: int | None = None) -> DynamicSettings:
        """Divide, then multiply a setting by a factor as long as the perplexity falls."""
        for step in (1 / factor, factor):
            worth = 1.0
            if name == "chunk":  # a larger chunk saves time
                worth = _WORTH if step < 1 else 1 / _WORTH
            while _LIMITS[name][0] <= (value := getattr(best, name) * step) <= _LIMITS[name][1]:
                changes = {name: _round(value)}
                if name == "chunk":  # a step on a smaller chunk is noisier, so smaller
                    changes = {"chunk": int(value), "rate": _round(best.rate * step**0.5)}
                other = dataclasses.replace(best, **changes)
                if not self.measure(other, tokens) < worth * self.measure(best, tokens):
                    break
                best = other
        return best


def _round(rate: float) -> float:
    return float(f"{rate:.3g}")
