"""The jackknife: no n-gram is predicted by a model that has seen its sentence, or its part of a
text on few lines.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from keras_nplm import Jackknife, Resampled, hybrid_dataset, kneser_ney
from keras_nplm.data.boundary import BOUNDARIES, find_targets
from keras_nplm.data.ngram_arrays import extract_ngrams

V = 9
EOS = 3
BOS = 2
FEW = settings(max_examples=3, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SENTENCES = st.lists(st.integers(1, 12), min_size=1, max_size=14)


def _write_sentences(lengths: list[int], seed: int = 0) -> list[np.ndarray]:
    """Sentences of random words with the given numbers of words."""
    rng = np.random.default_rng(seed)
    return [np.append(rng.integers(4, V, length), EOS).astype(np.int32) for length in lengths]


def _count(ids: np.ndarray, boundary: str) -> int:
    return int(np.count_nonzero(find_targets(ids, boundary)))


def _number_by_first_ngram(sentences: list[np.ndarray], boundary: str, folds: int) -> list[int]:
    """The part of each sentence: the fold, of equal numbers of n-grams, in which its first n-gram
    is.
    """
    sizes = [_count(sentence, boundary) for sentence in sentences]
    return [sum(sizes[:i]) * folds // sum(sizes) for i in range(len(sizes))]


def _read_in_order(
    ids, jackknife: Jackknife, order: int, boundary: str
) -> tuple[np.ndarray, np.ndarray]:
    """The n-grams of a text in its order, and ln Q of all words after each context."""
    dataset = hybrid_dataset(ids, jackknife, order, 7, boundary=boundary, shuffle=False)
    batches = list(dataset.as_numpy_iterator())
    ngrams = np.concatenate([np.c_[inputs["contexts"], targets] for inputs, targets in batches])
    return ngrams, np.concatenate([inputs["log_q"] for inputs, _ in batches])


def _check_log_probs(
    pieces: list[np.ndarray], parts: list[int], boundary: str, folds: int, order: int = 3
) -> None:
    """ln Q of each n-gram is that of a Kneser-Ney model of the text without the pieces of the same
    part.
    """
    ids = np.concatenate(pieces)
    jackknife = Jackknife(ids, V, order - 1, boundary, folds)
    ngrams, log_q = _read_in_order(ids, jackknife, order, boundary)
    np.testing.assert_array_equal(ngrams, extract_ngrams(ids, order, boundary))
    own = np.repeat(parts, [_count(piece, boundary) for piece in pieces])
    for part in range(folds):
        others = [piece for piece, other in zip(pieces, parts, strict=True) if other != part]
        model = kneser_ney(np.concatenate(others), V, order - 1, boundary)
        rows = own == part
        np.testing.assert_array_equal(log_q[rows], model.next_log_probs(ngrams[rows][:, 1:-1]))


@FEW
@given(lengths=SENTENCES, boundary=st.sampled_from(BOUNDARIES), folds=st.integers(2, 5))
@example(lengths=[5, 3], boundary="sentence", folds=2)  # a sentence for each part
def test_a_sentence_is_in_the_part_in_which_it_begins(lengths, boundary, folds):
    sentences = _write_sentences(lengths)
    parts = _number_by_first_ngram(sentences, boundary, folds)
    assume(set(parts) == set(range(folds)))
    if boundary == "text":  # documents
        sentences[::3] = [np.append(np.int32(BOS), sentence) for sentence in sentences[::3]]
    _check_log_probs(sentences, parts, boundary, folds)


@FEW
@given(length=st.integers(6, 40), lines=st.integers(1, 4), boundary=st.sampled_from(BOUNDARIES))
@example(length=6, lines=4, boundary="sentence")
def test_fewer_sentences_than_parts_are_cut_between_ngrams(length, lines, boundary):
    ids = np.concatenate(_write_sentences([length] * lines))
    places = np.flatnonzero(find_targets(ids, boundary))
    folds = 5
    # part k has the n-grams i with floor(i K / N) = k
    parts = np.arange(len(places)) * folds // len(places)
    ends = [int(places[parts == part][-1]) + 1 for part in range(folds - 1)]
    _check_log_probs(np.split(ids, ends), list(range(folds)), boundary, folds)


@pytest.mark.parametrize("lengths, cuts", [([20, 1, 1, 1], [21, 23]), ([1, 1, 1, 20], [4, 6])])
def test_each_part_has_a_sentence_beside_a_long_one(lengths, cuts):
    ids = np.concatenate(_write_sentences(lengths))
    assert Jackknife(ids, V, 2, folds=3).fold_starts.tolist() == cuts


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_blank_lines_are_no_sentences(boundary):
    line = _write_sentences([60])[0]
    blank = np.full(9, EOS, np.int32)
    for text in (
        [blank, line],
        [line, blank],
        [blank, line, blank, line],
        [blank, *[line] * 4],  # a sentence less than parts
        [*[line] * 4, blank],
    ):
        ids = np.concatenate(text)
        parts = np.split(ids, Jackknife(ids, V, 2, boundary).fold_starts)
        sizes = [_count(part, boundary) for part in parts]
        assert max(sizes) - min(sizes) <= 1


# Each word occurs once. So a model which has not seen the target gives it the probability of any
# unseen word.

WORDS = 60


def _write_distinct_words(boundary: str, lines: int) -> np.ndarray:
    words = np.random.default_rng(2).permutation(np.arange(4, 4 + WORDS))
    parts = [np.append(part, EOS) for part in np.array_split(words, lines)]
    if boundary == "text":
        parts[lines // 2] = np.append(BOS, parts[lines // 2])
    return np.concatenate(parts).astype(np.int32)


def _check_targets_are_unseen(dataset) -> list[int]:
    """Return the targets of a dataset that are words, after a check that the model has not seen
    them.
    """
    seen = []
    for inputs, targets in dataset.as_numpy_iterator():
        log_q = inputs["log_q"]
        words = np.flatnonzero(targets != EOS)
        unseen = log_q[words][:, 4:].min(axis=1)
        np.testing.assert_array_equal(log_q[words, targets[words]], unseen)
        assert (log_q[words][:, 4:].max(axis=1) > unseen).all()
        seen += targets[words].tolist()
    return seen


@pytest.mark.parametrize(
    "boundary, lines",
    [(boundary, 20) for boundary in BOUNDARIES]
    + [pytest.param(boundary, 1, marks=pytest.mark.long) for boundary in BOUNDARIES],
)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="shuffled"),
        pytest.param({"shuffle": False}, id="in-order"),
        pytest.param({"targets_below": 40}, id="targets-below"),
        pytest.param({"part": (1, 4), "drop_remainder": True, "seed": 3}, id="second-of-four"),
        pytest.param({"first_epoch": 1, "first_batch": 3}, id="resumed"),
    ],
)
def test_no_target_has_been_seen(boundary, lines, options):
    ids = _write_distinct_words(boundary, lines)
    jackknife = Jackknife(ids, 4 + WORDS, 3, boundary)
    dataset = hybrid_dataset(ids, jackknife, 4, 16, boundary=boundary, **options)
    assert _check_targets_are_unseen(dataset.take(9))


@pytest.mark.parametrize(
    "boundary, part, below",
    [
        ("sentence", (0, 1), None),
        pytest.param("stream", (1, 2), None, marks=pytest.mark.long),
        pytest.param("text", (0, 1), 40, marks=pytest.mark.long),
    ],
)
def test_no_target_of_resampled_texts_has_been_seen(monkeypatch, boundary, part, below):
    monkeypatch.setattr("keras_nplm.data.pools.ARRAY_BLOCK", 7)
    monkeypatch.setattr("keras_nplm.data.pools.POOL", 11)
    ids = _write_distinct_words(boundary, 20)
    ends = np.flatnonzero(ids == EOS) + 1
    texts = Resampled([(ids[: ends[4]], 1.0), (ids[ends[4] : ends[9]], 0.3), (ids[ends[9] :], 0.6)])
    jackknife = Jackknife(texts, 4 + WORDS, 3, boundary)
    options = dict(
        boundary=boundary, part=part, targets_below=below, first_epoch=0, drop_remainder=True
    )
    seen = _check_targets_are_unseen(hybrid_dataset(texts, jackknife, 4, 16, **options).take(20))
    # several epochs: not only of the text that is whole in each epoch
    assert len(set(seen)) > 20
