"""Word errors, minimum error rate training and ranking, each against plain Python."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError, LanguageModel, Vocabulary
from keras_nplm.language_model.rescoring.edit_distance import edit_distances
from keras_nplm.language_model.rescoring.losses import LossFile, WordErrors, read_references
from keras_nplm.language_model.rescoring.minimum_error_rate import Candidates, line_search, minimise_error
from keras_nplm.language_model.rescoring.nbest import NBestList
from keras_nplm.language_model.rescoring.reranking import Asked, ranked, tune, with_scores
from keras_nplm.models.mixture import Uniform

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def _plain_distance(hypothesis, reference):
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, start=1):
        before, row = row, [i]
        for j, other in enumerate(hypothesis, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other)))
    return row[-1]


@QUICK
@given(st.lists(st.tuples(st.text("abc", max_size=7), st.text("abc", max_size=7)), max_size=12))
def test_edit_distances_are_those_of_the_plain_recursion(pairs):
    hypotheses, references = [list(h) for h, _ in pairs], [list(r) for _, r in pairs]
    assert edit_distances(hypotheses, references).tolist() == [_plain_distance(h, r) for h, r in pairs]


def test_edit_distances_of_more_pairs_than_go_together():
    rng = np.random.default_rng(0)
    pairs = [["".join(rng.choice([*"ab"], rng.integers(0, 5))) for _ in range(2)] for _ in range(5000)]
    found = edit_distances(*zip(*pairs, strict=True))
    assert found.tolist() == [_plain_distance(*pair) for pair in pairs]


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


def test_references_and_losses(tmp_path):
    lists = [NBestList("0", ["the cat", "the old cat", ""]), NBestList("2", ["a"])]
    path = tmp_path / "references"
    path.write_text("the old cat\nnone\nb\n")
    errors = WordErrors(read_references(path, "moses"))
    assert [found.tolist() for found in errors(lists)] == [[1, 0, 3], [1]] and errors.unit == 4
    with pytest.raises(InputError, match="no reference for the list 7"):
        errors([NBestList("7", ["a"])])
    path.write_text("u1 the cat\nu2\n")
    assert read_references(path, "kaldi") == {"u1": "the cat", "u2": ""}
    path.write_text("a b\tthe cat\n")
    assert read_references(path, "tsv") == {"a b": "the cat"}
    empty = WordErrors({"0": ""})
    empty([NBestList("0", ["a"])])
    with pytest.raises(InputError, match="no word"):
        empty.end()
    path.write_text("u1 a\nu1 b\n")
    with pytest.raises(InputError, match="references, line 2: u1 comes again"):
        read_references(path, "kaldi")

    path.write_text("1\n0.5\n2\n-1\n")
    losses = LossFile(path)
    assert [found.tolist() for found in losses(lists)] == [[1, 0.5, 2], [-1]] and losses.unit == 2
    losses.end()
    path.write_text("1\n0.5\n")
    with pytest.raises(InputError, match="ends before list 0 does"):
        LossFile(path)(lists)
    path.write_text("1\nx\n")
    with pytest.raises(InputError, match="references, line 2: 'x' is no finite number"):
        LossFile(path)(lists)
    path.write_text("1\n0.5\n2\n-1\n7\n")
    losses = LossFile(path)
    losses(lists)
    with pytest.raises(InputError, match="references, line 5: there is no hypothesis"):
        losses.end()


def test_lists_are_ranked_by_weighted_features():
    features = {"score": np.array([-1.0, -2, -2]), "nplm": np.array([-9.0, -4, -4])}
    (nbest,) = ranked([NBestList("0", ["a", "b", "c"], features, added=("nplm",))], {"score": 2, "nplm": 1})
    assert (nbest.texts, nbest.totals.tolist()) == (["b", "c", "a"], [-8, -8, -11])  # equals as they were
    (nbest,) = ranked([NBestList("0", ["a", "b", "c"], features)])
    assert nbest.totals.tolist() == [-6, -6, -10]
    with pytest.raises(InputError, match="no feature lm to give a weight: there are score, nplm"):
        list(ranked([NBestList("0", ["a", "b", "c"], features)], {"lm": 1, "score": 1}))
    with pytest.raises(InputError, match="The weight of nplm must be a finite number"):
        list(ranked([], {"nplm": np.nan}))
    with pytest.raises(InputError, match="There is no list"):
        tune([], WordErrors({}))
    with pytest.raises(InputError, match="List 0 has a feature score already"):
        NBestList("0", ["a"], {"score": np.zeros(1)}).with_features({"score": np.zeros(1)})


def test_a_hypothesis_with_a_reserved_token_is_named():
    model = LanguageModel(Uniform(8, "stream"), Vocabulary([*"abcd"]), "whitespace", "stream")
    with pytest.raises(InputError, match="List 1: The text holds the reserved token </s>"):
        list(with_scores([NBestList("0", ["a"]), NBestList("1", ["b </s>"])], model.scores))


def test_what_is_asked_is_counted():
    model = LanguageModel(Uniform(8, "sentence"), Vocabulary([*"abcd"]), "whitespace", "sentence")
    asked = Asked()
    lists = [NBestList("0", ["a b c", "a b d", "a b c"]), NBestList("1", ["a b"])]
    assert len(list(with_scores(lists, model.scores, asked=asked))) == 2
    # bigrams: <s>a ab bc bd c</s> d</s> b</s>
    assert asked == Asked(lists=2, hypotheses=4, ngrams=15, distinct_ngrams=7, contexts=5)
