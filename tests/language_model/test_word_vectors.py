"""Word vectors: neighbours and analogies against plain loops, the map, and the commands."""

import json
import math

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary
from keras_nplm.cli.main import main
from keras_nplm.language_model.word_vectors import analogies, nearest, word_map


def _draw_vectors(random: np.random.Generator) -> np.ndarray:
    """Draw a few small vectors, some of them zero or equal."""
    return random.integers(-2, 3, (random.integers(1, 9), random.integers(1, 5))).astype(np.float32)


def _cosine(left, right) -> float:
    length = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / length if length else 0.0


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_and_analogies_have_the_largest_cosines(seed):
    random = np.random.default_rng(seed)
    vectors = _draw_vectors(random)
    top_k = random.integers(1, 11)
    among = random.integers(1, 10)
    unit = [
        (row / math.hypot(*row) if math.hypot(*row) else row) for row in vectors.astype(np.float64)
    ]
    a, b, c = map(int, random.integers(0, len(vectors), 3))
    for excluded, wanted, (neighbours, cosines) in (
        ([a], unit[a], nearest(vectors, [a], top_k, among)),
        ([a, b, c], unit[b] - unit[a] + unit[c], analogies(vectors, [[a, b, c]], top_k, among)),
    ):
        left = {
            i: _cosine(vectors[i], wanted)
            for i in range(min(among, len(vectors)))
            if i not in excluded
        }
        size = min(top_k, len(left))
        assert {*neighbours[0]} <= {*left} and neighbours.shape == cosines.shape == (1, size)
        np.testing.assert_allclose(cosines[0], [left[i] for i in neighbours[0]], atol=1e-6)
        np.testing.assert_allclose(
            cosines[0], sorted(left.values(), reverse=True)[:size], atol=1e-6
        )


@pytest.mark.parametrize("sizes", [(6, 30), (10,) * 10])
def test_the_map_keeps_groups_apart(sizes):
    """Groups of directions, not of lengths, and more than two components part: a word's neighbour
    is of its group.
    """
    assert all(
        np.isfinite(word_map(np.float32(range(number))[:, None])).all() for number in (1, 2, 4)
    )
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(len(sizes), 12)[labels] + rng.normal(0, 0.05, (len(labels), 12))
    places = word_map(vectors * rng.uniform(0.1, 10, (len(labels), 1)))
    distances = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(
        np.full(len(labels), np.inf)
    )
    assert (labels[distances.argmin(axis=1)] == labels).all()
    same = labels[:, None] == labels
    assert distances[~same].min() > 0.5 * np.median(distances[same])


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


def test_the_commands_print_neighbours_analogies_and_a_map(model_directory, tmp_path, capsys):
    language_model = LanguageModel.load(model_directory)
    found = _json(capsys, "nearest", model_directory, "class", "may", "--top-k", 3, "--among", 20)
    assert found == {
        word: pytest.approx(dict(language_model.nearest(word, 3, 20))) for word in ("class", "may")
    }
    assert {*found["class"]} <= {*language_model.vocabulary.words[4:24]}
    (found,) = _json(capsys, "analogy", model_directory, "is", "was", "has", "--top-k", 2).values()
    assert (
        found == pytest.approx(dict(language_model.analogy("is", "was", "has", 2)))
        and len(found) == 2
    )
    _json(capsys, "map", model_directory, tmp_path / "map.tsv", "--words", "class", "may", "is")
    rows = [
        line.split("\t") for line in (tmp_path / "map.tsv").read_text(encoding="utf-8").splitlines()
    ]
    places = word_map(
        language_model.model.embed.C.numpy()[
            language_model.vocabulary.encode(["class", "may", "is"])
        ]
    )
    assert [row[0] for row in rows] == ["class", "may", "is"]
    np.testing.assert_allclose([list(map(float, row[1:])) for row in rows], places, atol=1e-4)
    assert (
        _json(capsys, "map", model_directory, tmp_path / "map.svg", "--num-words", 40)["words"]
        == 40
    )
    assert (tmp_path / "map.svg").read_text(encoding="utf-8").count("<text") == 40
