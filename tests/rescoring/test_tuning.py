"""Tuned weights against all directions of two features; word errors against the edit distance."""

import numpy as np
import pytest

from keras_nplm import NBestList, WordErrors, tune


def draw_lists(
    seed: int, truth: list[float], noise: float, lists: int = 100
) -> tuple[list[NBestList], dict[str, np.ndarray]]:
    """Return lists of ten hypotheses with features of unlike scales, and their losses by list.

    The features tell the loss by the weights `truth`, but for noise.
    """
    rng = np.random.default_rng(seed)
    pool = []
    losses = {}
    for number in range(lists):
        features = rng.normal(size=(10, len(truth))) / np.where(truth, truth, 1)
        quality = features @ truth + noise * rng.normal(size=10)
        losses[str(number)] = np.argsort(np.argsort(-quality)).astype(np.float64)  # 0 of the best
        names = ["score", "nplm", "am"][: len(truth)]
        columns = dict(zip(names, features.T - 100, strict=True))
        pool.append(NBestList(str(number), [*"abcdefghij"], columns))
    return pool, losses


def sum_losses(pool: list[NBestList], losses: dict[str, np.ndarray], weights: dict) -> float:
    """Return the sum of the losses of the best hypotheses, the first of equals."""
    total = 0.0
    for nbest in pool:
        sums = sum(weight * nbest.features.get(name, 0) for name, weight in weights.items())
        total += losses[nbest.name][np.argmax(sums)]
    return total


def find_losses(losses: dict[str, np.ndarray]):
    return lambda pool: [losses[nbest.name] for nbest in pool]


@pytest.mark.parametrize("seed", range(3))
def test_tuned_weights_are_near_the_best_of_all(seed):
    pool, losses = draw_lists(seed, [1.0, 0.02], noise=0.5, lists=300)
    angles = np.linspace(0, 2 * np.pi, 120)
    least = min(
        sum_losses(pool, losses, {"score": np.cos(angle), "nplm": 0.02 * np.sin(angle)})
        for angle in angles
    )
    tuned = tune(pool, find_losses(losses), {"score": 1, "nplm": 0})
    assert sum_losses(pool, losses, tuned) < 1.05 * least
    assert sum(map(abs, tuned.values())) == pytest.approx(1)
    assert tuned == tune(pool, find_losses(losses), {"score": 1, "nplm": 0})


@pytest.mark.parametrize("seed", range(6))
def test_tuned_weights_are_never_worse_than_their_beginnings(seed):
    """Of noise, the best of many weights is better than those that the expected loss leads to."""
    truth = [1.0, 0.02, 50.0]
    pool, losses = draw_lists(seed, truth, noise=9.0, lists=6)
    drawn = np.random.default_rng(seed).normal(size=(300, 3)) * truth
    drawn[:150, 1] = 0  # the decoder's ranking, without the language model, is a beginning, too
    tried = [dict(zip(("score", "nplm", "am"), weights, strict=True)) for weights in drawn.tolist()]
    best = min(tried, key=lambda weights: sum_losses(pool, losses, weights))
    tuned = tune(pool, find_losses(losses), best | {"nplm": best["nplm"] or 1.0})
    assert sum_losses(pool, losses, tuned) <= sum_losses(pool, losses, best)


@pytest.mark.parametrize(
    "columns", [["score"], ["score", "twice"], ["score", "constant"]], ids=" and ".join
)
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_tuned_weights_rank_hypotheses(columns, start):
    """The right hypothesis is always first, so weights that rank nothing would have no word
    errors.
    """
    rng = np.random.default_rng(1)
    pool = []
    for number in range(80):
        score = rng.normal(size=4)
        values = {"score": score, "twice": 2 * score, "constant": np.full(4, 0.1)}
        features = {name: values[name] for name in columns} | {"nplm": rng.normal(size=4) - 1e3}
        pool.append(NBestList(str(number), [*"abcd"], features))
    right_first = np.array([0.0, 1, 1, 1])
    tuned = tune(pool, lambda pool: [right_first] * 80, dict.fromkeys(columns, start))
    totals = [
        sum(weight * nbest.features[name] for name, weight in tuned.items()) for nbest in pool
    ]
    assert min(map(np.ptp, totals)) > 1e-6
    assert np.argmax(totals, axis=1).any()


def test_weights_by_default_are_those_of_the_total_and_the_model():
    pool, losses = draw_lists(2, [1.0, 1.0, 1.0], noise=0.5)
    tuned = tune(pool, find_losses(losses))
    assert {*tuned} == {"score", "nplm", "nplm_words", "nplm_unk"}
    assert tuned["nplm_words"] == tuned["nplm_unk"] == 0  # the lists lack them
    empty = NBestList("none", [])  # a decoder may find nothing
    assert tune([empty, *pool, empty], find_losses(losses)) == tuned


def test_lists_without_losses_are_refused(messages):
    pool = [NBestList("0", ["a", "b"])]
    messages.refuse(lambda: tune([NBestList("0", [])], lambda pool: []))
    for loss in ([0.0, np.nan], [0.0]):
        messages.refuse(lambda loss=loss: tune(pool, lambda pool: [loss]))


def test_word_errors_are_the_edit_distance(messages):
    errors = WordErrors({"0": "the cat sat", "1": "lost"})
    nbest = NBestList("0", ["the cat sat", "a cat", "", "sat the cat", "the  cat sat on"])
    for _ in range(2):  # a list that is read twice has its words once
        [found] = errors([nbest])
        assert found.tolist() == [0, 2, 3, 2, 1]
        assert errors.denominator == 3
        assert errors.references_without_list == {"1": "lost"}
    messages.refuse(lambda: errors([NBestList("2", ["a"])]))
