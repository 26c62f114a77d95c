"""Search the settings of dynamic evaluation, one after the other, on held-out text."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from keras_nplm.models.dynamic.settings import GROUPS, RULES, DynamicSettings

TOKENS = 50_000  # of the validation text that settings are tuned on
FIRST_TOKENS = 20_000  # of these, for the first choice: the best steps for a short text are too large for a long one
STILL = DynamicSettings(rate=0)
_FIRST_RATES = {"sgd": 0.1, "rms": 0.5}
_FIRST_CHUNK = 32
_SMALLEST_CHUNK, LARGEST_CHUNK = 16, 128
_FARTHEST = 20  # steps of √2 from the first rate
_WORTH = 0.995  # a smaller chunk, or a second copy, must lower the perplexity to this, as it costs time
_FARTHEST_FACTOR = 4.0  # of the rate for a group of weights


class SettingsSearch:
    """A search of the settings with the lowest perplexity. A rate of 0 is a candidate. Each setting is measured once.

    The first choice is made on the beginning of the text: the rate of each rule, and the factors of the rate for groups
    of weights. Rates, the chunk and a second copy are then chosen on the whole text.
    """

    def __init__(
        self,
        evaluate: Callable[[DynamicSettings, int], np.ndarray],
        tokens: int,
        rules: Sequence[str] = RULES,
        report: Callable = lambda number: None,
        largest_chunk: int = LARGEST_CHUNK,
    ):
        self._evaluate, self._rules, self._report, self._largest_chunk = evaluate, rules, report, largest_chunk
        self.tokens, self._first_tokens = tokens, min(tokens, FIRST_TOKENS)
        self._measured: dict[tuple[DynamicSettings, int], float] = {}

    @property
    def tried(self) -> int:
        """Number of settings that were measured, on the beginning or on the whole text."""
        return len(self._measured)

    def find_best(self) -> DynamicSettings:
        """Return the best settings of networks."""
        candidates = [self._climb(start, stride=1, tokens=self.tokens) for start in self._find_first()]
        best = self.choose([STILL, *candidates])
        return self._tune_copies(self._tune_chunk(best)) if best.rate else best

    def choose(self, candidates: Sequence[DynamicSettings]) -> DynamicSettings:
        """Return the best of some settings on the whole text, the first of equals."""
        return min(candidates, key=self.measure)

    def measure(self, settings: DynamicSettings, tokens: int | None = None) -> float:
        """Return the perplexity of the first tokens of the text; infinity where the weights diverge."""
        key = settings, tokens or self.tokens
        if key not in self._measured:
            with np.errstate(over="ignore", invalid="ignore"):
                self.record(np.exp(-np.mean(self._evaluate(*key), dtype=np.float64)), *key)
            self._report(1)
        return self._measured[key]

    def record(self, perplexity: float, settings: DynamicSettings, tokens: int | None = None) -> None:
        """Take a perplexity that was measured elsewhere."""
        self._measured[settings, tokens or self.tokens] = float(perplexity) if np.isfinite(perplexity) else np.inf

    def _find_first(self) -> list[DynamicSettings]:
        """Return the best settings of each rule on the beginning of the text. [] where nothing is gained.

        Factors of groups of weights are searched for the better rule.
        """
        chunk, found = min(_FIRST_CHUNK, self._largest_chunk), []
        for rule in self._rules:
            start = DynamicSettings(chunk, _FIRST_RATES[rule], rule)
            best = self._climb(start, stride=2, tokens=self._first_tokens)
            if self._is_lower(best, STILL, self._first_tokens):
                found.append(best)
        if found:
            found.sort(key=lambda settings: self.measure(settings, self._first_tokens))
            found[0] = self._tune_factors(found[0])
        return found

    def _is_lower(self, first: DynamicSettings, second: DynamicSettings, tokens: int) -> bool:
        return self.measure(first, tokens) < self.measure(second, tokens)

    def _climb(self, start: DynamicSettings, stride: int, tokens: int) -> DynamicSettings:
        """Return the best rate on a grid around `start`, in steps of 2 ** (stride / 2)."""
        best, place = start, 0

        def at(place: int) -> DynamicSettings:
            return dataclasses.replace(start, rate=float(f"{start.rate * 2 ** (place / 2):.3g}"))

        for direction in (-stride, stride):
            while abs(place) < _FARTHEST and self._is_lower(at(place + direction), best, tokens):
                place += direction
                best = at(place)
        return best

    def _tune_factors(self, best: DynamicSettings) -> DynamicSettings:
        """Return the settings with the best factor of the rate for each group of weights, on the beginning."""
        for group in GROUPS:
            for direction in (2.0, 0.5):
                while 1 / _FARTHEST_FACTOR < getattr(best, group) < _FARTHEST_FACTOR:
                    other = dataclasses.replace(best, **{group: getattr(best, group) * direction})
                    if not self._is_lower(other, best, self._first_tokens):
                        break
                    best = other
        return best

    def _tune_chunk(self, best: DynamicSettings) -> DynamicSettings:
        """Return the settings with the best chunk. A step on a smaller chunk is noisier, so smaller."""
        for factor in (0.5, 2):
            while True:
                rate = float(f"{best.rate * factor**0.5:.3g}")
                other = dataclasses.replace(best, chunk=int(best.chunk * factor), rate=rate)
                is_allowed = _SMALLEST_CHUNK <= other.chunk <= self._largest_chunk
                worth = _WORTH if factor < 1 else 1 / _WORTH
                if not (is_allowed and self.measure(other) < worth * self.measure(best)):
                    break
                best = other
        return best

    def _tune_copies(self, best: DynamicSettings) -> DynamicSettings:
        """Return the settings with two copies, whose rates lie around the best rate, if they are worth the time."""
        two = dataclasses.replace(best, copies=2, rate=float(f"{best.rate * 2**0.5:.3g}"))
        return two if self.measure(two) < _WORTH * self.measure(best) else best
