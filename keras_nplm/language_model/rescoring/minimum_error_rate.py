"""Weights of features that make the best-ranked hypotheses err least: minimum error rate training."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from keras_nplm.io.errors import InputError

_MOST_ROUNDS = 100  # line searches along the best direction, from one start
_FAR = 1e150  # no step goes further
_MARGIN = 1.0  # how far beyond the outermost change of ranks a step goes

ErrorOf = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Hypotheses for several inputs, their features and what is counted in them.

    Args:
        features: float64 [H, K].
        starts: where the hypotheses of each input begin, int64 [S], from 0, rising.
        counts: what is summed over the best of each input, float64 [H, C]: errors, or the counts that a metric is made
            of.
        error: of sums float64 [..., C] what is to be minimised, float64 [...]. Default: the first of them.

    Raises:
        InputError: a number is not finite, or the shapes do not fit.
    """

    features: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    error: ErrorOf = lambda sums: sums[..., 0]

    def __post_init__(self):
        fits = self.features.ndim == self.counts.ndim == 2 and len(self.features) == len(self.counts)
        begins = self.starts.ndim == 1 and len(self.starts) and self.starts[0] == 0
        if not (fits and begins and (np.diff(self.starts) > 0).all() and self.starts[-1] < len(self.features)):
            raise InputError("`features` must be [H, K], `counts` [H, C], and `starts` rise from 0 to below H.")
        if not (np.isfinite(self.features).all() and np.isfinite(self.counts).all()):
            raise InputError("Features and errors must be finite numbers.")

    @functools.cached_property
    def owners(self) -> np.ndarray:
        """The input that each hypothesis is for, int64 [H]."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.features))))

    def best(self, weights: np.ndarray) -> np.ndarray:
        """For each input the hypothesis of the greatest w · f, the first of equals: int64 [S]."""
        return _first_greatest(self.features @ weights, self.starts, self.owners)

    def error_with(self, weights: np.ndarray) -> float:
        """The error of the best ones."""
        return float(self.error(self.counts[self.best(weights)].sum(axis=0)))


def _first_greatest(values: np.ndarray, starts: np.ndarray, owners: np.ndarray) -> np.ndarray:
    greatest = np.maximum.reduceat(values, starts)[owners]
    return np.minimum.reduceat(np.where(values == greatest, np.arange(len(values)), len(values)), starts)


def line_search(candidates: Candidates, weights: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
    """The step along a direction that makes the error least, exactly.

    Hypothesis h scores a_h + t b_h, a line in t, with a = F w and b = F d. Which one is the best of its input changes
    at the corners of the upper envelope of its lines, and the error only there: it is summed from corner to corner
    over all inputs. Of the intervals of least error the widest is taken, in its middle.

    Args:
        candidates: the hypotheses.
        weights: w, float64 [K].
        direction: d, float64 [K].

    Returns:
        t, and the error of w + t d.

    Example:

    >>> right = Candidates(np.array([[1.0, 0], [0, 1]]), np.array([0]), np.array([[1.0], [0]]))
    >>> line_search(right, np.array([1.0, 0]), np.array([0, 1.0]))
    (2.0, 0.0)

    Reference: Och (2003), Minimum error rate training in statistical machine translation, section 5.
    """
    first, steps, before, after = _envelopes(
        candidates.features @ weights, candidates.features @ direction, candidates.starts, candidates.owners
    )
    order = np.argsort(steps, kind="stable")
    corners = steps[order]
    changes = (candidates.counts[after] - candidates.counts[before])[order]  # [P, C]
    sums = candidates.counts[first].sum(axis=0) + np.concatenate([np.zeros_like(changes[:1]), changes.cumsum(axis=0)])
    if not len(corners):
        return 0.0, float(candidates.error(candidates.counts[first].sum(axis=0)))
    edges = np.concatenate([[corners[0] - 2 * _MARGIN], corners, [corners[-1] + 2 * _MARGIN]])
    middles = edges[:-1] + np.diff(edges) / 2  # [P + 1]
    is_open = (edges[:-1] < middles) & (middles < edges[1:])  # not where corners fall together
    errors = np.where(is_open, candidates.error(sums), np.inf)
    least = np.flatnonzero(errors <= errors.min() + 1e-9 * abs(errors.min()))
    chosen = least[np.argmax(np.diff(edges)[least])]
    return float(middles[chosen]), float(errors[chosen])


def _envelopes(
    intercepts: np.ndarray, slopes: np.ndarray, starts: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The upper envelope of the lines of each input, of all inputs at once.

    Returns:
        the line of each input on the far left, int64 [S]; for all corners their places float64 [P], and the lines
        before and after them, int64 [P].
    """
    flattest = slopes == np.minimum.reduceat(slopes, starts)[owners]
    current = first = _first_greatest(np.where(flattest, intercepts, -np.inf), starts, owners)
    rows = np.arange(len(slopes))
    steps, before, after = [], [], []
    while True:
        rows = rows[slopes[rows] > slopes[current[owners[rows]]]]  # the lines that rise above the current one some day
        if not len(rows):
            break
        owner = owners[rows]
        begins = np.flatnonzero(np.diff(owner, prepend=-1))
        group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(rows))))
        of = current[owner]
        with np.errstate(over="ignore"):
            crossing = np.clip((intercepts[of] - intercepts[rows]) / (slopes[rows] - slopes[of]), -_FAR, _FAR)
        nearest = np.minimum.reduceat(crossing, begins)
        steepest = np.where(crossing == nearest[group], slopes[rows], -np.inf)
        place = _first_greatest(steepest, begins, group)
        steps.append(nearest)
        before.append(current[owner[begins]])
        after.append(rows[place])
        current = current.copy()
        current[owner[begins]] = rows[place]
    if not steps:
        return first, np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
    return first, np.concatenate(steps), np.concatenate(before), np.concatenate(after)


def minimise_error(
    candidates: Candidates, starts: Sequence[np.ndarray], *, restarts: int = 8, seed: int = 0
) -> tuple[np.ndarray, float]:
    """The weights of least error that searches from several starts find: never worse than the starts themselves.

    From each start the best of K + R lines is gone along, those of the features and R drawn ones, until none makes the
    error less. Features are scaled to a like spread within inputs first, as drawn directions and starts want.

    Args:
        candidates: the hypotheses.
        starts: weights to begin from, float64 [K] each; among equals the first is kept.
        restarts: how many more are drawn.
        seed: of what is drawn.

    Returns:
        weights float64 [K], their absolute values summing to 1; their error.

    Example:

    >>> right = Candidates(np.array([[1.0, 0], [0, 1]]), np.array([0]), np.array([[1.0], [0]]))
    >>> weights, error = minimise_error(right, [np.array([1.0, 0])])
    >>> bool(weights[1] > weights[0]), error
    (True, 0.0)
    """
    if restarts < 0:
        raise InputError(f"`restarts` must be 0 or more. Received: {restarts}.")
    spread = _spread(candidates)
    scaled = dataclasses.replace(candidates, features=candidates.features / spread)
    random = np.random.default_rng(seed)
    number = candidates.features.shape[1]
    begins = [np.asarray(start, np.float64) * spread for start in starts]
    begins += list(random.normal(size=(restarts, number)))
    best, least = begins[0], np.inf
    for weights in begins:
        error = scaled.error_with(weights)
        for _ in range(_MOST_ROUNDS):
            directions = np.concatenate([np.eye(number), random.normal(size=(number, number))])
            found = [line_search(scaled, weights, direction) for direction in directions]
            step, _ = found[place := int(np.argmin([error for _, error in found]))]
            moved = weights + step * directions[place]
            now = scaled.error_with(moved)
            if not now < error - 1e-9 * abs(error):
                break
            weights, error = moved / max(np.abs(moved).max(), 1e-300), now
        if error < least:
            best, least = weights, error
    best = best / spread
    return best / max(np.abs(best).sum(), 1e-300), least


def _spread(candidates: Candidates) -> np.ndarray:
    """The standard deviation of each feature around its mean over the input's hypotheses, float64 [K]; 1 for none."""
    sizes = np.diff(np.append(candidates.starts, len(candidates.features)))
    means = np.add.reduceat(candidates.features, candidates.starts) / sizes[:, None]
    spread = (candidates.features - means[candidates.owners]).std(axis=0)
    return np.where(spread > 0, spread, 1)
