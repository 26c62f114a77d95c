"""Minimum error rate training (MERT): tune weights for the least loss of the best-ranked
hypotheses.
"""

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from keras_nplm.data.arguments import fold_seed
from keras_nplm.io.errors import InputError
from keras_nplm.rescoring.features import (
    FEATURE_NAME,
    name_features,
)
from keras_nplm.rescoring.losses import Losses, add_losses
from keras_nplm.rescoring.nbest import NBestList
from keras_nplm.rescoring.ranking import WeightedFeatures, default_weights

RESTARTS = 8
# steps along the best direction, from one start
_MOST_ROUNDS = 100
# a corner further on, of lines that are nearly parallel, counts as this far: sums stay finite
_MAX_STEP = 1e150
# distance of a step beyond the outermost corner
_MARGIN = 1.0
# of an interval, relative to the weights: corners that coincide but for rounding are closer
_NARROWEST = 1e-9
# of weights that rank nothing
_NO_LOSS = float(np.finfo(np.float64).max)


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
    restarts: int,
    seed: int,
) -> dict[str, float]:
    """Tune weights on N-best lists with the losses of their hypotheses; see `tune`."""
    own_features = name_features(name)
    initial = dict(weights or {})
    weighted = WeightedFeatures(weights, name)
    matrices = []
    losses = []
    for nbest, loss in pairs:
        if not len(nbest):  # no hypothesis has a loss
            continue
        if not initial:
            # the features of the first list with hypotheses count
            initial = default_weights(nbest.features, name)
            for feature in own_features:
                initial.setdefault(feature, 0.0)
        weighted.register(nbest)
        matrices.append(_stack_features(nbest, initial))
        losses.append(loss)
    weighted.check()
    if not losses:
        raise InputError(
            "`lists` must be 1 N-best list or more, with hypotheses. Received: 0. "
            "Fix: give the lists of a development set."
        )
    starts = np.cumsum([0, *map(len, losses[:-1])])
    candidates = Candidates(np.concatenate(matrices), starts, np.concatenate(losses))
    all_weights = np.array([*initial.values()])
    # the ranking of the decoder alone is a start, too: the result is not worse than it
    is_own = [feature in own_features for feature in initial]
    decoder_weights = np.where(is_own, 0.0, all_weights)
    tuned, _ = minimise_error(
        candidates, [decoder_weights, all_weights], restarts=restarts, seed=seed
    )
    return dict(zip(initial, tuned.tolist(), strict=True))


def _stack_features(nbest: NBestList, names: Collection[str]) -> np.ndarray:
    """Return the features of these names, float64 [H, K]; those that the list lacks are 0."""
    columns = np.zeros((len(nbest), len(names)))
    for place, name in enumerate(names):
        if name not in nbest.features:
            continue
        columns[:, place] = nbest.convert_numbers(name, nbest.features[name], finite=True)
    return columns


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Hypotheses for several inputs, with their features and losses."""

    features: np.ndarray  # float64 [H, K]
    starts: np.ndarray  # index of the first hypothesis of each input, int64 [S], from 0, ascending
    losses: np.ndarray  # float64 [H]

    @functools.cached_property
    def owners(self) -> np.ndarray:
        """The index of the input of each hypothesis, int64 [H]."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    @property
    def sizes(self) -> np.ndarray:
        """The number of hypotheses of each input, int64 [S]."""
        return np.diff(np.append(self.starts, len(self.features)))

    def loss_with(self, weights: np.ndarray) -> float:
        """Return the sum of the losses of the hypotheses with the greatest w · f, the first of
        equals.
        """
        totals = self.features @ weights
        best = _find_first_greatest(totals, self.starts, self.owners)
        return float(self.losses[best].sum())

    def ranks(self, weights: np.ndarray) -> bool:
        """Return whether w · f differs between hypotheses of an input.

        If not, the order of the file decides.
        """
        totals = self.features @ weights
        greatest = np.maximum.reduceat(totals, self.starts)
        least = np.minimum.reduceat(totals, self.starts)
        # sums of values of this magnitude differ by rounding alone
        magnitude = (np.abs(self.features) @ np.abs(weights)).max()
        return bool((greatest - least).max() > _NARROWEST * magnitude)


def _find_first_greatest(values: np.ndarray, starts: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Return the index of the first greatest value of each input, int64 [S]."""
    greatest = np.maximum.reduceat(values, starts)[owners]
    beyond = len(values)
    indices = np.where(values == greatest, np.arange(len(values)), beyond)
    return np.minimum.reduceat(indices, starts)


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
        # along the direction nothing changes
        return 0.0, _find_loss(candidates, weights)
    order = np.argsort(steps, kind="stable")
    corners = steps[order]
    # the loss of each interval between corners, and of those before and after all corners
    changes = (candidates.losses[after] - candidates.losses[before])[order]
    losses = candidates.losses[first].sum() + np.concatenate([[0.0], changes.cumsum()])
    scale = np.abs(weights).max() / np.abs(direction).max()
    # the outer intervals are as wide as twice the margin: their middle is the margin away
    outer = 2 * np.maximum(_MARGIN, 1e-6 * np.maximum(scale, np.abs(corners[[0, -1]])))
    edges = np.concatenate([[corners[0] - outer[0]], corners, [corners[-1] + outer[1]]])
    widths = np.diff(edges)
    middles = edges[:-1] + widths / 2
    wide = np.flatnonzero(widths > _NARROWEST * np.maximum(scale, np.abs(middles)))
    # rounded, since sums of equal losses may differ in the last digits
    rounded_losses = np.round(losses[wide], 12)
    by_loss_then_width = np.lexsort((-widths[wide], rounded_losses))
    step = float(middles[wide[by_loss_then_width[0]]])
    return step, candidates.loss_with(weights + step * direction)


def _find_loss(candidates: Candidates, weights: np.ndarray) -> float:
    """Return the loss with the weights; `_NO_LOSS` if they rank nothing."""
    if not candidates.ranks(weights):
        return _NO_LOSS
    return candidates.loss_with(weights)


def _find_envelopes(
    intercepts: np.ndarray, slopes: np.ndarray, starts: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Find upper envelopes: the greatest lines at t = -∞, int64 [S]; the corners' t and lines
    before and after, [P].

    All inputs walk along their envelopes together, from corner to corner.
    """
    flattest = slopes == np.minimum.reduceat(slopes, starts)[owners]
    first = _find_first_greatest(np.where(flattest, intercepts, -np.inf), starts, owners)
    # the line of the envelope, of each input
    current = first
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
        # groups of rows of one input: the first row of each, and the group of each row
        firsts = np.flatnonzero(np.diff(owner, prepend=-1))
        group = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(rows))))
        line = current[owner]
        with np.errstate(over="ignore"):
            crossing = (intercepts[line] - intercepts[rows]) / (slopes[rows] - slopes[line])
        crossing = np.clip(crossing, -_MAX_STEP, _MAX_STEP)
        nearest = np.minimum.reduceat(crossing, firsts)
        # of several lines in one corner the steepest is the greatest behind it
        steepest = np.where(crossing == nearest[group], slopes[rows], -np.inf)
        next_line = rows[_find_first_greatest(steepest, firsts, group)]
        walking = owner[firsts]
        steps.append(nearest)
        before.append(current[walking])
        after.append(next_line)
        current = current.copy()
        current[walking] = next_line


def minimise_error(
    candidates: Candidates, starts: Sequence[np.ndarray], *, restarts: int = RESTARTS, seed: int = 0
) -> tuple[np.ndarray, float]:
    """Return the weights with the least loss found by line searches from several starts; never
    worse than a start.

    Each round searches along the K axes and K random directions and takes the best step, while it
    reduces the loss. Features are first scaled to the same standard deviation within inputs. The
    first of equally good weights wins.
    """
    if restarts < 0:
        raise InputError(f"`restarts` must be 0 or more. Received: {restarts}.")
    spread = _compute_spread(candidates)
    scaled = dataclasses.replace(candidates, features=candidates.features / spread)
    random = np.random.default_rng(fold_seed(seed))
    number = candidates.features.shape[1]
    initial = [np.asarray(start, np.float64) * spread for start in starts]
    initial += list(random.normal(size=(restarts, number)))
    best = next((start for start in initial if start.any()), np.ones(number))
    least = _NO_LOSS
    for start in initial:
        weights, loss = _search(scaled, start, random)
        if loss < least:
            best = weights
            least = loss
    best = best / spread
    if least == _NO_LOSS:
        # no weights rank anything: the order of the file decides
        least = candidates.loss_with(best)
    return best / np.abs(best).sum(), least


def _search(
    candidates: Candidates, weights: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Return the weights that steps from the given weights lead to, and their loss."""
    number = len(weights)
    loss = _find_loss(candidates, weights)
    for _ in range(_MOST_ROUNDS):
        directions = np.concatenate([np.eye(number), random.normal(size=(number, number))])
        steps = [line_search(candidates, weights, direction) for direction in directions]
        chosen = int(np.argmin([step_loss for _, step_loss in steps]))
        step, new_loss = steps[chosen]
        least_gain = 1e-9 * abs(loss)
        if not new_loss < loss - least_gain:
            break
        loss = new_loss
        weights = weights + step * directions[chosen]
        # the ranking does not depend on the scale, and steps are relative to it
        weights = weights / np.abs(weights).max()
    return weights, loss


def _compute_spread(candidates: Candidates) -> np.ndarray:
    """Return the standard deviation of each feature within inputs, float64 [K]; 1 for a constant
    feature.
    """
    sums = np.add.reduceat(candidates.features, candidates.starts)
    means = sums / candidates.sizes[:, None]
    spread = (candidates.features - means[candidates.owners]).std(axis=0)
    # a smaller deviation is one of rounding
    rounding = _NARROWEST * np.abs(candidates.features).max(axis=0)
    return np.where(spread > rounding, spread, 1)
