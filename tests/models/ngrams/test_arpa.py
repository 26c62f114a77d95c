"""ARPA files: written files in KenLM, files of SRILM, and malformed files, refused with the line."""

import gzip
import tracemalloc

import numpy as np
import pytest

from keras_nplm import InputError, Vocabulary
from keras_nplm.models.ngrams import BackoffModel, arpa, arpa_lines, kneser_ney, prune, read_arpa, write_arpa
from keras_nplm.models.ngrams.tables import ContextTrie

WORDS = ["the", "cat", "sat", "on", "mat"]
LN10 = np.log(10)

# As SRILM writes it: a comment first, tabs, -99 for no probability, back-offs left out; "sat on" was pruned away.
SRILM = """some comment

\\data\\
ngram 1=7
ngram 2=4
ngram 3=1

\\1-grams:
-0.7\t</s>
-99\t<s>\t-0.4
-1.1\t<unk>
-0.5\tcat\t-0.2
-0.6\ton\t-0.1
-0.9\tsat
-0.8\tthe\t-0.3

\\2-grams:
-0.2\t<s> the\t-0.05
-0.25\tthe cat
-0.3\tcat sat\t-0.15
-0.35\ton the

\\3-grams:
-0.1\tsat on the

\\end\\
"""


def _text(boundary: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    ids = rng.choice([1, 4, 5, 6, 7], 600).astype(np.int32)  # "mat" never occurs
    ids[::8] = 3
    return np.append(ids, 3).astype(np.int32)


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
@pytest.mark.parametrize("threshold", [0, 1e-3])
def test_written_models_are_read_back(tmp_path, boundary, threshold):
    vocabulary, name = Vocabulary(WORDS), "model.arpa.gz" if threshold else "model.arpa"
    model = prune(kneser_ney(_text(boundary), len(vocabulary), 4, boundary), threshold)
    write_arpa(tmp_path / name, model, vocabulary)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    contexts = np.random.default_rng(0).choice([0, 1, 2, 4, 5, 6, 7, 8], (60, 3))
    same, _ = read_arpa(tmp_path / name, vocabulary)
    np.testing.assert_allclose(np.exp(same.next_log_probs(contexts)), np.exp(model.next_log_probs(contexts)), atol=1e-6)
    own, words = read_arpa(tmp_path / name)
    assert sorted(words.words) == sorted(vocabulary.words)
    there = np.array([words.words.index(word) for word in vocabulary.words])
    found = own.next_log_probs(there[contexts])[:, there]
    np.testing.assert_allclose(np.exp(found), np.exp(model.next_log_probs(contexts)), atol=1e-6)


# What KenLM 0.3.0 answers from our file, log10, for each word of SENTENCES and, between sentences, </s>.
SENTENCES = ["the cat sat on the cat", "mat", "on on <unk> cat dog the mat", "sat the"]
KENLM = {
    "stream": [
        [-0.72125, -0.70553, -0.72801, -0.49706, -0.60898, -0.88509],
        [-1.30103],
        [-0.72125, -0.70553, -0.7862, -0.59884, -0.88905, -0.98733, -2.15815],
        [-0.72125, -0.78637],
    ],
    "sentence": [
        [-0.84796, -0.55024, -0.90661, -0.37787, -0.93135, -0.92333, -0.90746],
        [-2.42488, -0.79395],
        [-0.68255, -0.65844, -0.97404, -1.02682, -0.88939, -0.93256, -2.28535, -0.79395],
        [-0.68255, -0.8339, -0.85162],
    ],
}


@pytest.mark.parametrize("block", [1, 20, 333])
@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
def test_models_do_not_depend_on_the_blocks_of_the_file(tmp_path, monkeypatch, name, block):
    vocabulary = Vocabulary(WORDS)
    model = kneser_ney(_text("sentence"), len(vocabulary), 4)
    write_arpa(tmp_path / name, model, vocabulary)
    whole, words = read_arpa(tmp_path / name)
    monkeypatch.setattr(arpa_lines, "_BLOCK", block)
    monkeypatch.setattr(arpa, "_BLOCK", block)
    write_arpa(tmp_path / f"blocks.{name}", model, vocabulary)
    read, words_of_blocks = read_arpa(tmp_path / f"blocks.{name}")
    assert words_of_blocks.words == words.words
    for found, expected in zip(read.log_probs + read.keys, whole.log_probs + whole.keys, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_memory_of_reading_follows_the_tables_not_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(arpa_lines, "_BLOCK", 1 << 16)
    vocabulary, path = Vocabulary([f"{'long' * 40}{i}" for i in range(500)]), tmp_path / "model.arpa"
    text = np.random.default_rng(0).integers(4, len(vocabulary), 8_000)
    write_arpa(path, kneser_ney(text, len(vocabulary), 3, "stream"), vocabulary)
    tracemalloc.start()
    model, _ = read_arpa(path, vocabulary)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 500 * sum(model.num_ngrams) // 2
    assert peak < path.stat().st_size / 2 and peak < 200 * sum(model.num_ngrams)


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_model_gives_the_recorded_numbers_of_kenlm(boundary):
    vocabulary, whole = Vocabulary(WORDS), boundary == "sentence"
    model = kneser_ney(_text(boundary), len(vocabulary), 4, boundary)
    for sentence, expected in zip(SENTENCES, KENLM[boundary], strict=True):
        ids = [*vocabulary.encode(sentence.split()).tolist(), *([3] if whole else [])]
        history, ours = [2 if whole else 0] * 3, []
        for word in ids:
            ours.append(float(model.log_prob(np.array([history[-3:]]), np.array([word]))[0]) / LN10)
            history.append(word)
        np.testing.assert_allclose(ours, expected, atol=2e-5)


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_kenlm_gives_its_recorded_numbers(tmp_path, boundary):
    kenlm = pytest.importorskip("kenlm", reason="KenLM's Python module is not installed (extra [benchmark])")
    vocabulary, whole = Vocabulary(WORDS), boundary == "sentence"
    write_arpa(tmp_path / "model.arpa", kneser_ney(_text(boundary), len(vocabulary), 4, boundary), vocabulary)
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    for sentence, expected in zip(SENTENCES, KENLM[boundary], strict=True):
        scores = [log10 for log10, *_ in theirs.full_scores(sentence, bos=whole, eos=whole)]
        np.testing.assert_allclose(scores, expected, atol=2e-5)


def test_files_of_srilm_are_read(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_bytes(gzip.compress(SRILM.encode()))
    model, vocabulary = read_arpa(path)
    assert vocabulary.words[4:] == ["cat", "on", "sat", "the"]

    def log10(context, word):
        ids = vocabulary.encode(f"{context} {word}".split())
        ids = np.array(
            [{"<s>": 2, "</s>": 3}.get(token, i) for token, i in zip(f"{context} {word}".split(), ids, strict=True)]
        )
        padded = np.concatenate([[0, 0], ids])[-3:]
        return float(model.log_prob(padded[None, :2], padded[2:])[0]) / LN10

    assert log10("<s>", "the") == pytest.approx(-0.2)
    assert log10("<s> the", "cat") == pytest.approx(-0.05 - 0.25)  # backed off from <s> the
    assert log10("sat on", "the") == pytest.approx(-0.1)  # though sat on is no bigram of the file
    assert log10("cat on", "the") == pytest.approx(-0.35)
    assert log10("the cat", "sat") == pytest.approx(-0.3)  # the cat has no back-off: 0
    assert log10("cat sat", "cat") == pytest.approx(-0.15 - 0.5)
    assert log10("on", "dog") == pytest.approx(-0.1 - 1.1)
    assert log10("the", "</s>") == pytest.approx(-0.3 - 0.7)
    assert np.isneginf(model.next_log_probs(np.array([[0, 4]]))[0, [0, 2]]).all()
    wider, _ = read_arpa(path, Vocabulary(["the", "cat", "sat", "on", "dog"]))
    assert wider.log_prob(np.array([[0, 7]]), np.array([8]))[0] / LN10 == pytest.approx(-0.1 - 1.1)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text[text.index("\\data") :],
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n-0.5\tcat", "\n\n \t\n-0.5\tcat").replace("\t-0.05\n", "\t-0.05 \n\n"),
        lambda text: text.replace("sat on the", "sat on the\t0"),
    ],
)
def test_forms_that_other_tools_read_are_read(tmp_path, change):
    (tmp_path / "one").write_text(SRILM, encoding="utf-8")
    (tmp_path / "two").write_bytes(change(SRILM).encode())
    (one, words), (two, same) = read_arpa(tmp_path / "one"), read_arpa(tmp_path / "two")
    assert words == same and one.num_ngrams == two.num_ngrams
    for found, expected in zip(two.log_probs + two.backoffs, one.log_probs + one.backoffs, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_positive_back_off_of_a_distribution_is_read(tmp_path):
    path = tmp_path / "model.arpa"  # P(a | a) = 0.1 and P(b | a) = 1.8 · 0.5
    path.write_text(
        "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-99 <s>\n-99 </s>\n-0.30103 a 0.2552725\n-0.30103 b\n\n"
        "\\2-grams:\n-1 a a\n\n\\end\\\n"
    )
    model, _ = read_arpa(path)
    np.testing.assert_allclose(np.exp(model.next_log_probs([[4]]))[0, 4:], [0.1, 0.9], atol=1e-6)


def test_unigram_models_are_read(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-0.5\ta\t0\n\n\\end\\\n")
    model, _ = read_arpa(path)
    np.testing.assert_allclose(model.next_log_probs([[4]])[0, 3:] / LN10, [-1, -0.5], rtol=1e-6)


def test_context_with_a_pruned_ending_keeps_its_back_off(tmp_path):
    path = tmp_path / "model.arpa"
    text = SRILM.replace("ngram 3=1", "ngram 3=1\nngram 4=1").replace("sat on the", "sat on the\t-0.5")
    path.write_text(text.replace("\\end\\", "\\4-grams:\n-0.2\t<s> sat on the\n\n\\end\\"), encoding="utf-8")
    model, vocabulary = read_arpa(path)
    sat, on, the, cat = vocabulary.encode(["sat", "on", "the", "cat"]).tolist()
    assert model.log_prob([[sat, on, the]], [cat])[0] / LN10 == pytest.approx(-0.5 - 0.25)  # on the has no back-off
    assert model.log_prob([[2, sat, on]], [the])[0] / LN10 == pytest.approx(-0.2)


def test_a_listed_ngram_of_probability_0_does_not_back_off(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_text(SRILM.replace("-0.25\tthe cat", "-99\tthe cat"), encoding="utf-8")
    model, vocabulary = read_arpa(path)
    the, cat = vocabulary.encode(["the", "cat"]).tolist()
    assert np.isneginf([model.log_prob([[0, the]], [cat])[0], model.next_log_probs([[0, the]])[0, cat]]).all()


def test_unk_in_capitals_is_the_unknown_word(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_text(SRILM.replace("<unk>", "<UNK>"), encoding="utf-8")
    model, vocabulary = read_arpa(path)
    assert vocabulary.words[4:] == ["cat", "on", "sat", "the"]
    assert model.unigrams[1] / LN10 == pytest.approx(-1.1)


MALFORMED = [
    (lambda text: "", "An ARPA file must have the line .*data"),
    (lambda text: text.replace("ngram 2=4", "ngram 3=4"), "line 5: expected ngram 2=NUMBER"),
    (
        lambda text: text.replace("ngram 2=4\nngram 3=1\n", ""),
        "line 8: expected no back-off, since 1 is",
    ),
    (lambda text: text.replace("ngram 2=4", "ngram 2=3"), "line 21: expected the end of the 3 2-grams"),
    (lambda text: text.replace("ngram 2=4", "ngram 2=5"), "expected log10 probability, 2 words and perhaps log10 back"),
    (lambda text: text[: text.index("-0.3\tcat sat")], "line 20: expected log10 probability, 2 words.*end of the file"),
    (lambda text: text.replace("-0.25\tthe cat", "-0.25\tthe"), "line 19: expected log10 probability, 2 words"),
    (lambda text: text.replace("-0.25\tthe cat", "x\tthe cat"), "line 19: expected a number. Received"),
    (lambda text: text.replace("cat sat\t-0.15", "cat sat\tnone"), "line 20: expected a number"),
    (lambda text: text.replace("cat sat\t-0.15", "cat sat\t1e400"), "line 20: expected a number"),
    (
        lambda text: text.replace("-0.25\tthe cat", "0.25\tthe cat"),
        "line 19: expected a log10 probability of 0 or less",
    ),
    (
        lambda text: text.replace("the cat", "the dog"),
        "line 19: expected words .*, and 'dog' is not one",
    ),
    (lambda text: text.replace("on the\n\n", "the cat\n\n"), "line 21: expected an n-gram that is not listed above"),
    (lambda text: text.replace("-0.9\tsat", "-0.9\tcat"), "line 14: expected an n-gram that is not listed above"),
    (lambda text: text.replace("\\end\\\n", ""), r"expected the line \\end\\. Received: the end of the file"),
    (lambda text: text.replace("\\2-grams:", "\\4-grams:"), "line 17: expected the line .2-grams:"),
    (
        lambda text: text.replace("sat on the", "sat on the\t-1"),
        "line 24: expected no back-off, since 3 is",
    ),
    (lambda text: text.replace("-0.2\n-0.6", "5\n-0.6"), "line 12: expected a back-off with .* after 'cat' sum to 1"),
    (lambda text: text.replace("cat sat\t-0.15", "cat sat\t3"), "line 20: expected a back-off with .* after 'cat sat'"),
]


@pytest.mark.parametrize("block", [1, 1 << 20])  # bytes of the file in memory
@pytest.mark.parametrize("damage, message", MALFORMED)
def test_malformed_files_are_refused_with_the_line(tmp_path, monkeypatch, block, damage, message):
    monkeypatch.setattr(arpa_lines, "_BLOCK", block)
    text = damage(SRILM)
    assert text != SRILM
    path = tmp_path / "model.arpa"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_arpa(path)


def test_words_outside_a_given_vocabulary_are_refused(tmp_path):
    path = tmp_path / "model.arpa"
    path.write_text(SRILM, encoding="utf-8")
    with pytest.raises(InputError, match="'sat' is not one"):
        read_arpa(path, Vocabulary(["the", "cat", "on"]))


def test_words_of_ngrams_are_listed_without_a_probability(tmp_path):
    vocabulary = Vocabulary(["a", "b", "c"])
    unigrams = np.log(np.array([0, 0, 0, 0.3, 0.4, 0.3, 0], np.float32) + np.float32(1e-45)).astype(np.float32)
    unigrams[[0, 1, 2, 6]] = -np.inf
    keys = np.array([4 * 7 + 5, 5 * 7 + 6, 6 * 7 + 4])  # a b, b c, c a
    log_probs = np.log(np.array([0.5, 0.2, 0.9], np.float32))
    model = BackoffModel(ContextTrie(7, []), unigrams, [keys], [log_probs], [np.zeros(7, np.float32)])
    write_arpa(tmp_path / "model.arpa", model, vocabulary)
    read, _ = read_arpa(tmp_path / "model.arpa", vocabulary)
    contexts = np.array([[4], [5], [6]])
    np.testing.assert_allclose(read.log_prob(contexts, [5, 6, 4]), log_probs, atol=1e-5)


def test_a_small_archive_claims_little_memory(tmp_path):
    path = tmp_path / "model.arpa.gz"
    path.write_bytes(gzip.compress(b"\\data\\\n" + b"a" * (1 << 26)))
    tracemalloc.start()
    with pytest.raises(InputError, match="line 2: expected a line of at most 16,777,216 bytes"):
        read_arpa(path)
    assert tracemalloc.get_traced_memory()[1] < 60 * 2**20
    tracemalloc.stop()
