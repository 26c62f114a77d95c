"""Word vectors: neighbours and analogies against plain loops, the map, and the commands."""

import gzip
import math
import struct

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary, read_word_vectors
from keras_nplm.language_model.word_vectors import word_map, write_word2vec


def _cosine(left, right) -> float:
    length = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / length if length else 0.0


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_and_analogies_have_the_largest_cosines(seed):
    random = np.random.default_rng(seed)
    # a few small vectors, some of them zero or equal; those of special tokens are no neighbours
    number, width = random.integers(1, 9), random.integers(1, 5)
    vectors = random.integers(-2, 3, (number, width)).astype(np.float32)
    top_k = int(random.integers(1, 11))
    among = int(random.integers(1, 10))
    model = NPLM(number + 4, order=3, embedding_dim=int(width), hidden_units=3)
    model.embed.C.assign(np.concatenate([np.ones((4, width)), vectors]))
    words = [f"<{i}>" for i in range(number)]
    language_model = LanguageModel(model, Vocabulary(words), "whitespace", "sentence")
    unit = [row / (math.hypot(*row) or 1) for row in vectors.astype(np.float64)]
    a, b, c = map(int, random.integers(0, number, 3))
    found = language_model.nearest(words[a], top_k, among)
    answers = language_model.analogy(words[a], words[b], words[c], top_k, among)
    for excluded, wanted, pairs in (
        ([a], unit[a], found),
        ([a, b, c], unit[b] - unit[a] + unit[c], answers),
    ):
        left = {*range(min(among, number))} - {*excluded}
        expected = {words[i]: _cosine(vectors[i], wanted) for i in left}
        best = sorted(expected.values(), reverse=True)[:top_k]
        assert [cosine for _, cosine in pairs] == pytest.approx(best, abs=1e-6)
        assert [expected[word] for word, _ in pairs] == pytest.approx(best, abs=1e-6)


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
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (labels[distances.argmin(axis=1)] == labels).all()
    same = labels[:, None] == labels
    assert distances[~same].min() > 0.5 * np.median(distances[same])


def test_the_commands_print_neighbours_analogies_and_a_map(model_directory, tmp_path, ask):
    language_model = LanguageModel.load(model_directory)
    found = ask("nearest", model_directory, "class", "--top-k", 3, "--among", 20)
    assert found == {"class": pytest.approx(dict(language_model.nearest("class", 3, 20)))}
    [found] = ask("analogy", model_directory, "is", "was", "has", "--top-k", 2).values()
    assert found == pytest.approx(dict(language_model.analogy("is", "was", "has", 2)))
    words = ["class", "may", "is"]
    ask("map", model_directory, tmp_path / "map.tsv", "--words", *words)
    rows = [line.split("\t") for line in (tmp_path / "map.tsv").read_text().splitlines()]
    places = word_map(language_model.model.embed.C.numpy()[language_model.vocabulary.encode(words)])
    assert [row[0] for row in rows] == words
    np.testing.assert_allclose([list(map(float, row[1:])) for row in rows], places, atol=1e-4)
    ask("map", model_directory, tmp_path / "map.svg", "--num-words", 40)
    assert (tmp_path / "map.svg").read_text(encoding="utf-8").count("<text") == 40


VOCABULARY = Vocabulary(["the", "été", "absent", "New"])
FORMATS = {
    "GloVe": "the 0.5 -1e-1\n. . 1 2\nNew York 5 6\nété 3 4\n<unk> 7 8\n",
    "word2vec": "4 2\n</s> 0 0\nthe 0.5 -0.1 \nété 3 4 \n<unk> 7 8 \n",
    "fastText, Windows": "\ufeff4 2\r\nthe\t0.5 -0.1\r\nété 3 4\r\nété 9 9\r\n<unk> 7 8\r\n",
}


@pytest.mark.parametrize("format", FORMATS)
def test_vectors_of_other_software_are_read(tmp_path, format):
    write = gzip.compress if format == "word2vec" else bytes
    (tmp_path / "file").write_bytes(write(FORMATS[format].encode()))
    vectors = read_word_vectors(tmp_path / "file", VOCABULARY)
    assert vectors.dtype == np.float32 and vectors.shape == (8, 2)
    known = VOCABULARY.encode(["the", "été", "<unk>"])
    np.testing.assert_array_equal(vectors[known], np.float32([[0.5, -0.1], [3, 4], [7, 8]]))
    absent = vectors[VOCABULARY.encode(["absent", "New"])]  # New York is no word of the vocabulary
    assert not vectors[0].any() and len(np.unique(absent, axis=0)) == 2


def test_written_vectors_are_read_and_absent_words_have_their_size(tmp_path):
    words = [f"w{i}" for i in range(500)]
    written = np.random.default_rng(0).normal(3, 1, (250, 9)).astype(np.float32)
    write_word2vec(tmp_path / "some.vec", words[:250], written)
    vectors = read_word_vectors(tmp_path / "some.vec", Vocabulary(words))
    np.testing.assert_array_equal(vectors[4:254], written)
    assert np.square(vectors[254:]).mean() == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"2 3\nthe " + struct.pack("<3f", 1.1, 2.2, 3.3) + b"\n", id="binary"),
        pytest.param(b"the 1 2\nat 1 2\nNew 1\n", id="cut"),
        pytest.param(b"the 1 2\nat 1 2\nNew 1 nan\n", id="not a number"),
        pytest.param(b"cat 1 2\n", id="no word"),
        pytest.param(b"", id="empty"),
    ],
)
def test_files_without_vectors_are_refused(tmp_path, content, messages):
    (tmp_path / "file").write_bytes(content)
    messages.refuse(lambda: read_word_vectors(tmp_path / "file", VOCABULARY))
