"""Minimum error rate training: the line search against trying every interval, and the tuned
weights.
"""

import itertools

import numpy as np
import pytest

from keras_nplm.rescoring.minimum_error_rate import (
    Candidates,
    line_search,
    minimise_error,
    tune,
)
from keras_nplm.rescoring.nbest import NBestList


def _draw_candidates(random: np.random.Generator, features: int) -> Candidates:
    """Draw few hypotheses with small whole features, so that lines often coincide and cross in one
    point.
    """
    sizes = random.integers(1, 6, random.integers(1, 5))
    matrix = random.integers(-3, 4, (sizes.sum(), features)).astype(np.float64)
    return Candidates(
        matrix, np.cumsum([0, *sizes[:-1]]), random.integers(0, 5, sizes.sum()).astype(np.float64)
    )


def test_the_line_search_finds_what_trying_every_interval_finds():
    random = np.random.default_rng(0)
    for _ in range(100):
        candidates = _draw_candidates(random, 2)
        weights, direction = random.integers(-2, 3, (2, 2)).astype(np.float64)
        step, loss = line_search(candidates, weights, direction)
        a = candidates.features @ weights
        b = candidates.features @ direction
        owners = candidates.owners
        pairs = itertools.combinations(range(len(a)), 2)  # their lines may cross
        crossings = {
            (a[i] - a[j]) / (b[j] - b[i])
            for i, j in pairs
            if owners[i] == owners[j] and b[i] != b[j]
        }
        corners = sorted(crossings)
        tried = (
            [-1e3, *((x + y) / 2 for x, y in itertools.pairwise(corners)), 1e3]
            if corners
            else [0.0]
        )
        least = min(candidates.loss_with(weights + t * direction) for t in tried)
        if candidates.ranks(weights + step * direction):
            assert loss == least == candidates.loss_with(weights + step * direction)
        else:
            assert not corners and loss > 1e300
        weights, direction = random.normal(size=(2, 2))  # corners that coincide but for rounding
        step, loss = line_search(candidates, weights, direction)
        assert loss in (candidates.loss_with(weights + step * direction), np.finfo(float).max)


@pytest.mark.parametrize(
    "corners, middle",
    [
        pytest.param([0, 1, 2, 12], 7.0, id="the last is the widest"),
        pytest.param([0, 10, 11, 12], 5.0, id="the first is the widest"),
        pytest.param([0, 1, 2, 3], 0.5, id="the first of equals"),
    ],
)
def test_line_search_takes_the_widest_interval(corners, middle):
    """Lines of the slopes 0 to 4 that meet at the corners.

    Between corners 1 and 2, and 3 and 4, the loss is 0.
    """
    lines = np.column_stack([-np.cumsum([0, *corners]), np.arange(5)]).astype(np.float64)
    candidates = Candidates(lines, np.array([0]), np.array([1.0, 0, 1, 0, 1]))
    assert line_search(candidates, np.array([1.0, 0]), np.array([0, 1.0])) == (middle, 0.0)


def test_first_of_equal_hypotheses_is_best():
    assert Candidates(np.ones((5, 1)), np.array([0, 3]), np.arange(5.0)).loss_with(np.ones(1)) == 3


def test_search_ends_where_no_step_reduces_the_loss(monkeypatch):
    """One round along 2 axes and 2 random directions from each start; the first of equally good
    weights is kept.
    """
    searched = []

    def search(candidates, weights, direction):
        searched.append(direction)
        return line_search(candidates, weights, direction)

    monkeypatch.setattr("keras_nplm.rescoring.minimum_error_rate.line_search", search)
    candidates = Candidates(
        np.array([[3.0, 1], [1, 3], [0, 0]]), np.array([0]), np.array([1.0, 1, 2])
    )
    weights, loss = minimise_error(candidates, [np.array([3.0, 1]), np.array([1.0, 3])], restarts=0)
    assert (weights.tolist(), loss, len(searched)) == ([0.75, 0.25], 1.0, 2 * 4)


@pytest.mark.parametrize("seed", range(10))
def test_tuned_weights_are_never_worse_than_their_beginnings(seed):
    candidates = _draw_candidates(np.random.default_rng(seed), 3)
    starts = [np.array([1.0, 0, 0]), np.array([1.0, 1, 0]), *[np.zeros(3)] * (seed % 2)]
    weights, loss = minimise_error(candidates, starts, restarts=2)
    ranking = list(filter(candidates.ranks, starts))
    assert loss == candidates.loss_with(weights) and loss <= min(
        map(candidates.loss_with, ranking), default=loss
    )
    assert np.abs(weights).sum() == pytest.approx(1)
    assert (minimise_error(candidates, starts, restarts=2)[0] == weights).all()


@pytest.mark.parametrize(
    "columns", [["score"], ["score", "twice"], ["score", "constant"]], ids=" and ".join
)
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_tuned_weights_rank_hypotheses(columns, start):
    """The right hypothesis is always first, so weights that rank nothing would have no word
    errors.
    """
    rng = np.random.default_rng(1)
    lists = []
    for number in range(80):
        values = {
            "score": rng.normal(size=4),
            "nplm": rng.normal(size=4) - 1e3,
            "constant": np.full(4, 0.1),
        }
        values["twice"] = 2 * values["score"]
        lists.append(
            NBestList(
                str(number), [*"abcd"], {name: values[name] for name in ({*columns} | {"nplm"})}
            )
        )

    def find_losses(lists):
        return [np.array([0.0, 1, 1, 1]) for _ in lists]

    tuned = tune(lists, find_losses, dict.fromkeys(columns, start), restarts=1)
    totals = [
        sum(weight * one.features.get(name, 0) for name, weight in tuned.items()) for one in lists
    ]
    assert min(map(np.ptp, totals)) > 1e-6 and np.argmax(totals, axis=1).any()


def test_tuning_finds_hidden_weights():
    """Of three features, of unlike scales, two tell the right hypothesis together; none does
    alone.
    """
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, 10, 3)) * [1.0, 50.0, 0.01]
    quality = features @ np.array([1.0, 0.02, 0.0])
    lost = np.argsort(np.argsort(-quality, axis=1), axis=1).astype(np.float64)  # 0 of the best
    candidates = Candidates(features.reshape(-1, 3), np.arange(0, 2000, 10), lost.ravel())
    weights, loss = minimise_error(candidates, [np.array([1.0, 0, 0])], restarts=3)
    assert (
        loss < 0.05 * min(map(candidates.loss_with, np.eye(3)))
        and weights[0] > 0
        and weights[1] > 0
    )
    weights, loss = minimise_error(candidates, [np.array([1.0, 0.02, 0])], restarts=0)
    assert loss == 0 and weights == pytest.approx(np.array([1.0, 0.02, 0]) / 1.02)
