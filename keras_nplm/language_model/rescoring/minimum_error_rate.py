"""Minimum error rate training (MERT): weights of features that minimise the error of the best-ranked hypotheses."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.seeds import fold_seed

_MOST_ROUNDS = 100  # line searches along the best direction, from one start
_MAX_STEP = 1e150
_MARGIN = 1.0  # distance of a step beyond the outermost corner
_TRIED = 64  # intervals at most whose error is computed again by their weights

ErrorOf = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Hypotheses for several inputs, with their features and error counts.

    Args:
        features: float64 [H, K].
        starts: index of the first hypothesis of each input, int64 [S], from 0, ascending.
        counts: error counts of each hypothesis, float64 [H, C], or the counts of which a metric is computed. They are
            summed over the best hypotheses of all inputs.
        error: the error of sums float64 [..., C], float64 [...]. Default: the first sum.

    Raises:
        InputError: a number is not finite, or the shapes do not match.
    """

    features: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    error: ErrorOf = lambda sums: sums[..., 0]

    def __post_init__(self) -> None:
        same_rows = self.features.ndim == self.counts.ndim == 2 and len(self.features) == len(self.counts)
        from_zero = self.starts.ndim == 1 and len(self.starts) and self.starts[0] == 0
        if not (same_rows and from_zero and (np.diff(self.starts) > 0).all() and self.starts[-1] < len(self.features)):
            raise InputError(
                "`features` must be [H, K], `counts` [H, C], and `starts` [S] ascending from 0 to below H. Received: "
                f"{self.features.shape}, {self.counts.shape} and {self.starts.tolist()}."
            )
        if not (np.isfinite(self.features).all() and np.isfinite(self.counts).all()):
            raise InputError("`features` and `counts` must be finite. Received: NaN or infinity.")

    @functools.cached_property
    def owners(self) -> np.ndarray:
        """The index of the input of each hypothesis, int64 [H]."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.features))))

    def find_best(self, weights: np.ndarray) -> np.ndarray:
        """Return for each input the hypothesis with the greatest w · f, the first of equals: int64 [S]."""
        return _find_first_greatest(self.features @ weights, self.starts, self.owners)

    def error_with(self, weights: np.ndarray) -> float:
        """Return the error of the hypotheses that are best with these weights."""
        return float(self.error(self.counts[self.find_best(weights)].sum(axis=0)))


def _find_first_greatest(values: np.ndarray, starts: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Return the index of the first greatest value of each input, int64 [S]."""
    greatest = np.maximum.reduceat(values, starts)[owners]
    return np.minimum.reduceat(np.where(values == greatest, np.arange(len(values)), len(values)), starts)


def line_search(candidates: Candidates, weights: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
    """Return the step along a direction that minimises the error, by exact line search.

    The weighted sum of hypothesis h is a_h + t b_h, a line in t, with a = F w and b = F d. The best hypothesis of an
    input changes only at the corners of the upper envelope of its lines. So the error is constant between corners, and
    its changes are summed from corner to corner over all inputs. The step is the middle of the widest interval with
    the least error that the weights reach.

    Args:
        candidates: the hypotheses.
        weights: w, float64 [K].
        direction: d, float64 [K].

    Returns:
        t, and the error with the weights w + t d, which is the error of these weights as computed by `error_with`.

    Example:

    >>> right = Candidates(np.array([[1.0, 0], [0, 1]]), np.array([0]), np.array([[1.0], [0]]))
    >>> line_search(right, np.array([1.0, 0]), np.array([0, 1.0]))
    (2.0, 0.0)

    Reference: Och (2003), Minimum error rate training in statistical machine translation, section 5.
    """
    first, steps, before, after = _find_envelopes(
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
    widths = np.diff(edges)
    errors = candidates.error(sums)
    best = (0.0, np.inf)
    for chosen in np.lexsort((-widths, np.round(errors, 12)))[:_TRIED]:
        # Rounded corners that coincide leave slivers between them, whose error no weights reach
        reached = (float(middles[chosen]), candidates.error_with(weights + middles[chosen] * direction))
        best = min(best, reached, key=lambda step: step[1])
        if reached[1] <= errors[chosen] + 1e-9:
            break
    return best


def _find_envelopes(
    intercepts: np.ndarray, slopes: np.ndarray, starts: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Find the upper envelope of the lines of each input, for all inputs at once.

    Returns:
        the greatest line of each input at t = -∞, int64 [S]; for the P corners their t, float64 [P], and the lines
        before and after them, int64 [P].
    """
    flattest = slopes == np.minimum.reduceat(slopes, starts)[owners]
    current = first = _find_first_greatest(np.where(flattest, intercepts, -np.inf), starts, owners)
    rows = np.arange(len(slopes))
    steps, before, after = [], [], []
    while True:
        rows = rows[slopes[rows] > slopes[current[owners[rows]]]]  # lines that cross the current line further on
        if not len(rows):
            break
        owner = owners[rows]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1))
        group = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(rows))))
        line = current[owner]
        with np.errstate(over="ignore"):
            crossing = np.clip(
                (intercepts[line] - intercepts[rows]) / (slopes[rows] - slopes[line]), -_MAX_STEP, _MAX_STEP
            )
        nearest = np.minimum.reduceat(crossing, firsts)
        steepest = np.where(crossing == nearest[group], slopes[rows], -np.inf)
        next_line = _find_first_greatest(steepest, firsts, group)
        steps.append(nearest)
        before.append(current[owner[firsts]])
        after.append(rows[next_line])
        current = current.copy()
        current[owner[firsts]] = rows[next_line]
    if not steps:
        return first, np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
    return first, np.concatenate(steps), np.concatenate(before), np.concatenate(after)


def minimise_error(
    candidates: Candidates, starts: Sequence[np.ndarray], *, restarts: int = 8, seed: int = 0
) -> tuple[np.ndarray, float]:
    """Return the weights with the least error found by line searches from several starts; never worse than a start.

    Each round searches along the K axes and K random directions and takes the best step. A search ends when no step
    reduces the error. Features are first scaled to the same standard deviation within inputs, so that random
    directions and random starts suit them.

    Args:
        candidates: the hypotheses.
        starts: initial weights, float64 [K] each; the first of equally good weights wins.
        restarts: number of additional random starts, 0 or more.
        seed: random seed of starts and directions.

    Returns:
        weights float64 [K], whose absolute values sum to 1, and their error.

    Raises:
        InputError: `restarts` is negative.

    Example:

    >>> right = Candidates(np.array([[1.0, 0], [0, 1]]), np.array([0]), np.array([[1.0], [0]]))
    >>> weights, error = minimise_error(right, [np.array([1.0, 0])])
    >>> bool(weights[1] > weights[0]), error
    (True, 0.0)
    """
    if restarts < 0:
        raise InputError(f"`restarts` must be 0 or more. Received: {restarts}.")
    spread = _compute_spread(candidates)
    scaled = dataclasses.replace(candidates, features=candidates.features / spread)
    random = np.random.default_rng(fold_seed(seed))
    number = candidates.features.shape[1]
    initial = [np.asarray(start, np.float64) * spread for start in starts]
    initial += list(random.normal(size=(restarts, number)))
    best, least = initial[0], np.inf
    for weights in initial:
        error = scaled.error_with(weights)
        for _ in range(_MOST_ROUNDS):
            directions = np.concatenate([np.eye(number), random.normal(size=(number, number))])
            steps = [line_search(scaled, weights, direction) for direction in directions]
            chosen = int(np.argmin([step_error for _, step_error in steps]))
            new_weights = weights + steps[chosen][0] * directions[chosen]
            new_error = scaled.error_with(new_weights)
            if not new_error < error - 1e-9 * abs(error):
                break
            weights, error = new_weights / max(np.abs(new_weights).max(), 1e-300), new_error
        if error < least:
            best, least = weights, error
    best = best / spread
    return best / max(np.abs(best).sum(), 1e-300), least


def _compute_spread(candidates: Candidates) -> np.ndarray:
    """Return the standard deviation of each feature within inputs, float64 [K]; 1 for a constant feature."""
    sizes = np.diff(np.append(candidates.starts, len(candidates.features)))
    means = np.add.reduceat(candidates.features, candidates.starts) / sizes[:, None]
    spread = (candidates.features - means[candidates.owners]).std(axis=0)
    return np.where(spread > 0, spread, 1)
