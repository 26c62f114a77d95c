"""Minimum error rate training: the line search against trying every interval, and the tuned weights."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError
from keras_nplm.language_model.rescoring.minimum_error_rate import Candidates, line_search, minimise_error

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


@st.composite
def _candidates(draw, features=2):
    """Few hypotheses with small whole features, so that lines often coincide and cross in one point."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    total = sum(sizes)
    small = st.integers(-3, 3)
    values = draw(st.lists(small, min_size=total * features, max_size=total * features))
    lost = draw(st.lists(st.integers(0, 4), min_size=total, max_size=total))
    matrix = np.array(values, np.float64).reshape(total, features)
    return Candidates(matrix, np.cumsum([0, *sizes[:-1]]), np.array(lost, np.float64)[:, None])


def _crossings(candidates, weights, direction):
    """Where any two lines of one input cross."""
    a, b = candidates.features @ weights, candidates.features @ direction
    for i, j in itertools.combinations(range(len(a)), 2):
        if candidates.owners[i] == candidates.owners[j] and b[i] != b[j]:
            yield (a[i] - a[j]) / (b[j] - b[i])


@QUICK
@given(_candidates(), st.tuples(*[st.integers(-2, 2)] * 4))
def test_the_line_search_finds_what_trying_every_interval_finds(candidates, numbers):
    weights, direction = np.array(numbers[:2], np.float64), np.array(numbers[2:], np.float64)
    step, error = line_search(candidates, weights, direction)
    corners = sorted(set(_crossings(candidates, weights, direction)))
    tried = [-1e3, *((x + y) / 2 for x, y in itertools.pairwise(corners)), 1e3] if corners else [0.0]
    least = min(candidates.error_with(weights + t * direction) for t in tried)
    assert error == least == candidates.error_with(weights + step * direction)


@pytest.mark.parametrize("case", range(150))
def test_line_search_reports_an_error_that_its_weights_reach(case):
    """Integer and collinear features have corners that coincide but for rounding."""
    rng = np.random.default_rng(case)
    sizes = rng.integers(1, 8, rng.integers(1, 8))
    number, features = sizes.sum(), rng.integers(1, 4)
    values = rng.integers(-3, 4, (number, features)).astype(float) if case % 2 else rng.normal(size=(number, features))
    counts = rng.integers(0, 5, (number, 1)).astype(float)
    candidates = Candidates(values, np.cumsum([0, *sizes[:-1]]), counts)
    weights, direction = rng.normal(size=features), rng.normal(size=features)
    if case % 5 == 0:
        direction, weights = np.eye(features)[0], rng.integers(-2, 3, features).astype(float)
    step, error = line_search(candidates, weights, direction)
    assert candidates.error_with(weights + step * direction) == error


@pytest.mark.parametrize(
    "corners, middle",
    [([0, 1, 2, 12], 7.0), ([0, 10, 11, 12], 5.0), ([0, 1, 2, 3], 0.5)],
    ids=["the second is wider", "the first is wider", "the first of equals"],
)
def test_line_search_takes_the_widest_interval(corners, middle):
    """Lines of the slopes 0 to 4 that meet at the corners. Between corners 1 and 2, and 3 and 4, the error is 0."""
    lines = np.column_stack([-np.cumsum([0, *corners]), np.arange(5)]).astype(np.float64)
    candidates = Candidates(lines, np.array([0]), np.array([[1.0], [0], [1], [0], [1]]))
    assert line_search(candidates, np.array([1.0, 0]), np.array([0, 1.0])) == (middle, 0.0)


def test_line_search_checks_one_interval_if_its_weights_reach_the_error(monkeypatch):
    computed, error_with = [], Candidates.error_with
    monkeypatch.setattr(Candidates, "error_with", lambda *given: computed.append(given) or error_with(*given))
    rng = np.random.default_rng(2)
    candidates = Candidates(rng.normal(size=(40, 2)), np.arange(0, 40, 5), rng.integers(0, 5, (40, 1)).astype(float))
    line_search(candidates, np.array([1.0, 0]), np.array([0.3, 1.0]))
    assert len(computed) == 1


def test_first_of_equal_hypotheses_is_best():
    candidates = Candidates(np.ones((5, 1)), np.array([0, 3]), np.arange(5.0)[:, None])
    assert candidates.find_best(np.ones(1)).tolist() == [0, 3]
    assert line_search(candidates, np.ones(1), np.ones(1)) == (0.0, 3.0)


def test_search_ends_where_no_step_reduces_the_error(monkeypatch):
    """One round along 2 axes and 2 random directions from each start; the first of equally good weights is kept."""
    searched = []
    module = "keras_nplm.language_model.rescoring.minimum_error_rate"
    monkeypatch.setattr(f"{module}.line_search", lambda *given: searched.append(given) or line_search(*given))
    candidates = Candidates(np.array([[3.0, 1], [1, 3], [0, 0]]), np.array([0]), np.array([[1.0], [1], [2]]))
    weights, error = minimise_error(candidates, [np.array([3.0, 1]), np.array([1.0, 3])], restarts=0)
    assert (weights.tolist(), error, len(searched)) == ([0.75, 0.25], 1.0, 2 * 4)


def test_the_line_search_takes_any_metric_of_sums():
    """Precision times recall, which is no sum over inputs."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 5, (40, 2)).astype(np.float64)

    def error(sums):
        return 1 - sums[..., 0] / (1 + sums[..., 1])

    candidates = Candidates(rng.normal(size=(40, 2)), np.arange(0, 40, 5), counts, error)
    weights, direction = np.array([1.0, 0]), np.array([0.3, 1.0])
    corners = sorted(set(_crossings(candidates, weights, direction)))
    tried = [corners[0] - 1, *((x + y) / 2 for x, y in itertools.pairwise(corners)), corners[-1] + 1]
    step, found = line_search(candidates, weights, direction)
    assert found == pytest.approx(min(candidates.error_with(weights + t * direction) for t in tried))
    assert found == pytest.approx(candidates.error_with(weights + step * direction))


@settings(QUICK, max_examples=15)
@given(_candidates(features=3))
def test_tuned_weights_are_never_worse_than_their_beginnings(candidates):
    starts = [np.array([1.0, 0, 0]), np.array([1.0, 1, 0])]
    weights, error = minimise_error(candidates, starts, restarts=2)
    assert error <= min(map(candidates.error_with, starts))
    assert error == candidates.error_with(weights)
    again, _ = minimise_error(candidates, starts, restarts=2)
    assert (again == weights).all()


def test_tuning_finds_hidden_weights():
    """Of three features, of unlike scales, two tell the right hypothesis together; none does alone."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, 10, 3)) * [1.0, 50.0, 0.01]
    quality = features @ np.array([1.0, 0.02, 0.0])
    lost = np.argsort(np.argsort(-quality, axis=1), axis=1).astype(np.float64)  # 0 of the best
    candidates = Candidates(features.reshape(-1, 3), np.arange(0, 2000, 10), lost.reshape(-1, 1))
    alone = [candidates.error_with(weights) for weights in np.eye(3)]
    weights, error = minimise_error(candidates, [np.array([1.0, 0, 0])], restarts=3)
    assert error < 0.05 * min(alone)
    assert np.abs(weights).sum() == pytest.approx(1) and weights[0] > 0 and weights[1] > 0


def test_candidates_that_do_not_fit_are_refused():
    one = np.ones((2, 1))
    for features, starts, counts in [
        (one, [0, 2], one),
        (one, [1], one),
        (one, [0, 0], one),
        (one, [], one),
        (one, [0], np.ones((3, 1))),
        (one * np.inf, [0], one),
    ]:
        with pytest.raises(InputError):
            Candidates(features, np.array(starts, np.int64), counts)
    with pytest.raises(InputError, match="`restarts` must be 0 or more"):
        minimise_error(Candidates(one, np.array([0]), one), [np.ones(1)], restarts=-1)
