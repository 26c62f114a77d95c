"""Minimum error rate training (MERT): tune weights for the least loss of the best-ranked
hypotheses.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_nplm.data.arguments import fold_seed
from keras_nplm.io.errors import check_argument
from keras_nplm.rescoring.features import (
    FEATURE_NAME,
    name_features,
)
from keras_nplm.rescoring.losses import Losses, add_losses
from keras_nplm.rescoring.nbest import NBestList
from keras_nplm.rescoring.ranking import WeightedFeatures, default_weights

RESTARTS = 8
_MOST_ROUNDS = 100  # line searches along the best direction, from one start
_MAX_STEP = 1e150
_MARGIN = 1.0  # distance of a step beyond the outermost corner
# of an interval, relative to the weights: corners that coincide but for rounding are closer
_NARROWEST = 1e-9
_NO_LOSS = np.finfo(np.float64).max  # of weights that rank nothing


def tune(
    lists: Iterable[NBestList],
    losses: Losses,
    weights: Mapping[str, float] | None = None,
    *,
    name: str = FEATURE_NAME,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> dict[str, float]:
    """Tune weights: minimise the loss of the first-ranked hypotheses, at most that of the initial
    weights.

    Args:
        lists: development set of N-best lists, with the language model's features.
        losses: returns the loss of each hypothesis, float [H] per list: `WordErrors`, or any such
            function.
        weights: initial weight of each feature that is tuned. Default: `default_weights`, and 0 for
            the numbers of tokens and of unknown words.
        name: name of the language model's feature.
        restarts: number of additional random starts, 0 or more, from `seed`.

    Returns:
        weight of each feature; the absolute values sum to 1.
    """
    return tune_pairs(add_losses(lists, losses), weights, name=name, restarts=restarts, seed=seed)


def tune_pairs(
    pairs: Iterable[tuple[NBestList, np.ndarray]],
    weights: Mapping[str, float] | None,
    *,
    name: str,
    **options: int,
) -> dict[str, float]:
    """Tune weights on N-best lists with the losses of their hypotheses; see `tune`."""
    initial = dict(weights or {})
    weighted = WeightedFeatures(weights, name)
    own = name_features(name)
    features = []
    losses = []
    for nbest, loss in pairs:
        initial = initial or default_weights(nbest.features, name) | dict.fromkeys(own[1:], 0.0)
        weighted.register(nbest)
        zeros = np.zeros(len(nbest))
        features.append(
            np.stack([nbest.features.get(feature, zeros) for feature in initial], axis=1)
        )
        losses.append(np.asarray(loss, np.float64))
    weighted.check()
    check_argument("lists", bool(losses), "1 N-best list or more", 0)
    starts = np.cumsum([0, *map(len, losses[:-1])])
    candidates = Candidates(np.concatenate(features), starts, np.concatenate(losses))
    weights_of_all = np.array([*initial.values()])
    without = np.where([feature in own for feature in initial], 0.0, weights_of_all)
    tuned, _ = minimise_error(candidates, [without, weights_of_all], **options)
    return dict(zip(initial, tuned.tolist(), strict=True))


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Hypotheses for several inputs, with their features and losses."""

    features: np.ndarray  # float64 [H, K]
    starts: np.ndarray  # index of the first hypothesis of each input, int64 [S], from 0, ascending
    losses: np.ndarray  # float64 [H]

    @functools.cached_property
    def owners(self) -> np.ndarray:
        """The index of the input of each hypothesis, int64 [H]."""
        return np.repeat(
            np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.features)))
        )

    def loss_with(self, weights: np.ndarray) -> float:
        """Return the sum of the losses of the hypotheses with the greatest w · f, the first of
        equals.
        """
        return float(
            self.losses[
                _find_first_greatest(self.features @ weights, self.starts, self.owners)
            ].sum()
        )

    def ranks(self, weights: np.ndarray) -> bool:
        """Return whether w · f differs between hypotheses of an input.

        If not, the order of the file decides.
        """
        totals = self.features @ weights
        differences = np.maximum.reduceat(totals, self.starts) - np.minimum.reduceat(
            totals, self.starts
        )
        return bool(
            differences.max() > _NARROWEST * (np.abs(self.features) @ np.abs(weights)).max()
        )


def _find_first_greatest(values: np.ndarray, starts: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Return the index of the first greatest value of each input, int64 [S]."""
    greatest = np.maximum.reduceat(values, starts)[owners]
    return np.minimum.reduceat(
        np.where(values == greatest, np.arange(len(values)), len(values)), starts
    )


def line_search(
    candidates: Candidates, weights: np.ndarray, direction: np.ndarray
) -> tuple[float, float]:
    """Return the step t along a direction that minimises the loss with the weights w + t d, and
    this loss: exact.

    The weighted sum of hypothesis h is a_h + t b_h, a line in t, with a = F w and b = F d. The best
    hypothesis of an input changes only at the corners of the upper envelope of its lines, so the
    loss is constant between corners. The step is the middle of the widest interval with the least
    loss.

    Reference: Och (2003), Minimum error rate training in statistical machine translation, section
    5.
    """
    first, steps, before, after = _find_envelopes(
        candidates.features @ weights,
        candidates.features @ direction,
        candidates.starts,
        candidates.owners,
    )
    if not len(steps):
        return 0.0, candidates.loss_with(weights) if candidates.ranks(weights) else _NO_LOSS
    order = np.argsort(steps, kind="stable")
    changes = (candidates.losses[after] - candidates.losses[before])[order]
    losses = candidates.losses[first].sum() + np.concatenate([[0.0], changes.cumsum()])
    corners = steps[order]
    scale = np.abs(weights).max() / np.abs(direction).max()
    outer = 2 * np.maximum(_MARGIN, 1e-6 * np.maximum(scale, np.abs(corners[[0, -1]])))
    edges = np.concatenate([[corners[0] - outer[0]], corners, [corners[-1] + outer[1]]])
    widths = np.diff(edges)
    middles = edges[:-1] + widths / 2
    wide = np.flatnonzero(widths > _NARROWEST * np.maximum(scale, np.abs(middles)))
    chosen = wide[np.lexsort((-widths[wide], np.round(losses[wide], 12)))[0]]
    return float(middles[chosen]), candidates.loss_with(weights + middles[chosen] * direction)


def _find_envelopes(
    intercepts: np.ndarray, slopes: np.ndarray, starts: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Find upper envelopes: the greatest lines at t = -∞, int64 [S]; the corners' t and lines
    before and after, [P].
    """
    flattest = slopes == np.minimum.reduceat(slopes, starts)[owners]
    current = first = _find_first_greatest(np.where(flattest, intercepts, -np.inf), starts, owners)
    rows = np.arange(len(slopes))
    steps = [np.zeros(0)]
    before = [np.zeros(0, np.int64)]
    after = [np.zeros(0, np.int64)]
    while True:
        # lines that cross the current line further on
        rows = rows[slopes[rows] > slopes[current[owners[rows]]]]
        if not len(rows):
            return first, np.concatenate(steps), np.concatenate(before), np.concatenate(after)
        owner = owners[rows]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1))
        group = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(rows))))
        line = current[owner]
        with np.errstate(over="ignore"):
            crossing = (intercepts[line] - intercepts[rows]) / (slopes[rows] - slopes[line])
        crossing = np.clip(crossing, -_MAX_STEP, _MAX_STEP)
        nearest = np.minimum.reduceat(crossing, firsts)
        steepest = np.where(crossing == nearest[group], slopes[rows], -np.inf)
        next_line = rows[_find_first_greatest(steepest, firsts, group)]
        steps.append(nearest)
        before.append(current[owner[firsts]])
        after.append(next_line)
        current = current.copy()
        current[owner[firsts]] = next_line


def minimise_error(
    candidates: Candidates, starts: Sequence[np.ndarray], *, restarts: int = RESTARTS, seed: int = 0
) -> tuple[np.ndarray, float]:
    """Return the weights with the least loss found by line searches from several starts; never
    worse than a start.

    Each round searches along the K axes and K random directions and takes the best step, while it
    reduces the loss. Features are first scaled to the same standard deviation within inputs. The
    first of equally good weights wins.
    """
    check_argument("restarts", restarts >= 0, "0 or more", restarts)
    spread = _compute_spread(candidates)
    scaled = dataclasses.replace(candidates, features=candidates.features / spread)
    random = np.random.default_rng(fold_seed(seed))
    number = candidates.features.shape[1]
    initial = [np.asarray(start, np.float64) * spread for start in starts]
    initial += list(random.normal(size=(restarts, number)))
    best = next((start for start in initial if start.any()), np.ones(number))
    least = _NO_LOSS
    for weights in initial:
        loss = scaled.loss_with(weights) if scaled.ranks(weights) else _NO_LOSS
        for _ in range(_MOST_ROUNDS):
            directions = np.concatenate([np.eye(number), random.normal(size=(number, number))])
            steps = [line_search(scaled, weights, direction) for direction in directions]
            chosen = int(np.argmin([step_loss for _, step_loss in steps]))
            step, new_loss = steps[chosen]
            if not new_loss < loss - 1e-9 * abs(loss):
                break
            weights = weights + step * directions[chosen]
            loss = new_loss
            weights = weights / np.abs(weights).max()
        if loss < least:
            best = weights
            least = loss
    best = best / spread
    return best / np.abs(best).sum(), least if least < _NO_LOSS else candidates.loss_with(best)


def _compute_spread(candidates: Candidates) -> np.ndarray:
    """Return the standard deviation of each feature within inputs, float64 [K]; 1 for a constant
    feature.
    """
    sizes = np.diff(np.append(candidates.starts, len(candidates.features)))
    means = np.add.reduceat(candidates.features, candidates.starts) / sizes[:, None]
    spread = (candidates.features - means[candidates.owners]).std(axis=0)
    return np.where(spread > _NARROWEST * np.abs(candidates.features).max(axis=0), spread, 1)
