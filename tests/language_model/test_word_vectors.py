"""Word vectors: neighbours and analogies against plain loops, the map, and the commands."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_nplm import NPLM, LanguageModel, Vocabulary
from keras_nplm.cli.main import main
from keras_nplm.language_model.word_vectors import analogies, nearest, word_map, write_word2vec

_SMALL = st.floats(-2, 2, width=16)
_MATRICES = st.tuples(st.integers(1, 8), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=_SMALL)
)


def _cosine(left, right) -> float:
    length = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / length if length else 0.0


@given(_MATRICES, st.integers(1, 10), st.data())
def test_nearest_finds_the_largest_cosines(vectors, top_k, data):
    row = data.draw(st.integers(0, len(vectors) - 1))
    neighbours, cosines = nearest(vectors, [row], top_k)
    expected = {i: _cosine(vectors[i].tolist(), vectors[row].tolist()) for i in range(len(vectors)) if i != row}
    assert neighbours.shape == cosines.shape == (1, min(top_k, len(vectors) - 1))
    assert len({*neighbours[0], row}) == neighbours.size + 1
    np.testing.assert_allclose(cosines[0], [expected[i] for i in neighbours[0]], atol=1e-6)
    np.testing.assert_allclose(cosines[0], sorted(expected.values(), reverse=True)[:top_k], atol=1e-6)


def test_nearest_orders_ties_by_row():
    vectors = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    assert nearest(vectors, [2, 0], 9)[0].tolist() == [[0, 1, 3], [1, 2, 3]]


@given(_MATRICES, st.integers(1, 10), st.integers(1, 9), st.data())
def test_an_analogy_is_nearest_to_the_sum(vectors, top_k, among, data):
    a, b, c = (data.draw(st.integers(0, len(vectors) - 1)) for _ in range(3))
    neighbours, cosines = analogies(vectors, [[a, b, c]], top_k, among)
    unit = [(row / math.hypot(*row) if math.hypot(*row) else row) for row in vectors.astype(np.float64)]
    wanted = (unit[b] - unit[a] + unit[c]).tolist()
    left = [i for i in range(min(among, len(vectors))) if i not in (a, b, c)]
    expected = sorted((_cosine(vectors[i].tolist(), wanted) for i in left), reverse=True)
    assert {*neighbours[0]} <= {*left} and neighbours.size == max(0, min(top_k, among - 3, len(vectors) - 3))
    np.testing.assert_allclose(cosines[0], expected[: neighbours.size], atol=1e-6)


def test_word_vectors_read_back_as_word2vec(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    write_word2vec(tmp_path / "v.txt", ["the", "naïve", "<unk>"], vectors)
    header, *lines = (tmp_path / "v.txt").read_text(encoding="utf-8").splitlines()
    assert header == "3 5" and [line.split(" ")[0] for line in lines] == ["the", "naïve", "<unk>"]
    np.testing.assert_array_equal(np.array([line.split(" ")[1:] for line in lines], np.float32), vectors)


@pytest.mark.parametrize("sizes", [(6, 30), (10,) * 10])
def test_the_map_keeps_groups_apart(sizes):
    """Groups of directions, not of lengths, and more than two components part: a word's neighbour is of its group."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(len(sizes), 12)[labels] + rng.normal(0, 0.05, (len(labels), 12))
    places = word_map(vectors * rng.uniform(0.1, 10, (len(labels), 1)))
    distances = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(len(labels), np.inf))
    assert (labels[distances.argmin(axis=1)] == labels).all()
    same = labels[:, None] == labels
    assert distances[~same].min() > 0.5 * np.median(distances[same])
    assert np.abs(places.mean(axis=0)).max() < 1e-9


@settings(max_examples=6, deadline=None)
@given(_MATRICES)
def test_the_map_of_any_vectors_is_finite(vectors):
    """One vector, two, zeros, duplicates, one component."""
    places = word_map(vectors)
    assert places.shape == (len(vectors), 2) and np.isfinite(places).all()


def test_nearest_excludes_the_word_and_special_tokens():
    words = ["cat", "dog", "<b>", "sat"]
    model = NPLM(8, order=3, embedding_dim=2, hidden_units=3)
    model.embed.C.assign([[1, 0], [1, 0], [1, 0], [1, 0], [1, 0], [2, 0.2], [0, 1], [-1, 0]])
    language_model = LanguageModel(model, Vocabulary(words), "words", "sentence")
    expected = {"dog": 2 / math.hypot(2, 0.2), "<b>": 0.0, "sat": -1.0}
    found = dict(language_model.nearest("cat"))
    assert [*found] == [*expected] and found == pytest.approx(expected, abs=1e-6)
    assert language_model.nearest("<b>", top_k=1)[0][0] == "dog"


def _json(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_commands_print_neighbours_and_analogies(model_directory, capsys):
    language_model = LanguageModel.load(model_directory)
    found = _json(capsys, "nearest", model_directory, "class", "may", "--top-k", 3, "--among", 20)
    assert found == {word: pytest.approx(dict(language_model.nearest(word, 3, 20))) for word in ("class", "may")}
    assert {*found["class"]} <= {*language_model.vocabulary.words[4:24]}
    (found,) = _json(capsys, "analogy", model_directory, "is", "was", "has", "--top-k", 2).values()
    assert found == pytest.approx(dict(language_model.analogy("is", "was", "has", 2))) and len(found) == 2


def test_the_map_of_words_is_a_picture_or_a_table(model_directory, tmp_path, capsys):
    _json(capsys, "map", model_directory, tmp_path / "map.tsv", "--words", "class", "may", "is")
    rows = [line.split("\t") for line in (tmp_path / "map.tsv").read_text(encoding="utf-8").splitlines()]
    language_model = LanguageModel.load(model_directory)
    places = word_map(language_model.model.embed.C.numpy()[language_model.vocabulary.encode(["class", "may", "is"])])
    assert [row[0] for row in rows] == ["class", "may", "is"]
    np.testing.assert_allclose([list(map(float, row[1:])) for row in rows], places, atol=1e-4)
    assert _json(capsys, "map", model_directory, tmp_path / "map.svg", "--num-words", 40)["words"] == 40
    picture = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert len(re.findall("<text", picture)) == 40 and "<style>" in picture
