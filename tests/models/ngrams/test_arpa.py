"""ARPA files: written and read back, files of SRILM, and malformed files, refused with the line."""

import functools

import numpy as np
import pytest

from keras_nplm import Vocabulary
from keras_nplm.models.ngrams import (
    BackoffModel,
    arpa,
    kneser_ney,
    prune,
    read_arpa,
    write_arpa,
)
from tests.language_models import VOCABULARY, V, build, make_text

LN10 = np.log(10)

# As SRILM writes it: a comment first, tabs, -99 for no probability, back-offs left out; "sat on"
# was pruned away.
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


@pytest.fixture
def read(tmp_path):
    """Function that reads a model from the text of an ARPA file, with a given vocabulary or its
    own.
    """

    def read(text: str, vocabulary: Vocabulary | None = None) -> tuple[BackoffModel, Vocabulary]:
        (tmp_path / "read.arpa").write_text(text, encoding="utf-8")
        return read_arpa(tmp_path / "read.arpa", vocabulary)

    return read


def _log10(model: BackoffModel, vocabulary: Vocabulary, words: str) -> float:
    """Return log10 P of the last word after the words before it."""
    ids = [
        vocabulary.words.index(word) if word in vocabulary.words else 1 for word in words.split()
    ]
    padded = np.array([[0] * (model.order - 1) + ids])[:, -model.order :]
    return float(model.log_prob(padded[:, :-1], padded[:, -1])[0]) / LN10


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
@pytest.mark.parametrize(
    "name, threshold", [("in blocks.arpa", 0), ("pruned and compressed.arpa.gz", 1e-3)]
)
def test_written_models_are_read_back(tmp_path, monkeypatch, boundary, name, threshold):
    monkeypatch.setattr(arpa, "_BLOCK_NGRAMS", 7)
    model = prune(build("kneser-ney", boundary), threshold)
    write_arpa(tmp_path / name, model, VOCABULARY)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    contexts = np.random.default_rng(1).choice([0, 1, 2, 4, 5, 6, 7, 8], (60, 3))
    expected = np.exp(model.next_log_probs(contexts))
    same, _ = read_arpa(tmp_path / name, VOCABULARY)
    np.testing.assert_allclose(np.exp(same.next_log_probs(contexts)), expected, atol=1e-6)
    own, words = read_arpa(tmp_path / name)
    assert sorted(words.words) == sorted(VOCABULARY.words)
    there = np.array([words.words.index(word) for word in VOCABULARY.words])
    found = own.next_log_probs(there[contexts])[:, there]
    np.testing.assert_allclose(np.exp(found), expected, atol=1e-6)


UNIGRAMS = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-0.5\ta\t0\n\n\\end\\\n"
POSITIVE = (
    "\\data\\\nngram 1=4\nngram 2=1\n\n"
    "\\1-grams:\n-99 <s>\n-99 </s>\n-0.30103 a 0.2552725\n-0.30103 b\n\n"
    "\\2-grams:\n-1 a a\n\n\\end\\\n"
)


@pytest.mark.parametrize(
    "text, words, expected",
    [
        pytest.param(SRILM, "<s> the cat", -0.05 - 0.25, id="backed off from <s> the"),
        pytest.param(SRILM, "sat on the", -0.1, id="sat on is no bigram of the file"),
        pytest.param(SRILM, "the cat sat", -0.3, id="the cat has no back-off"),
        pytest.param(SRILM, "cat sat cat", -0.15 - 0.5, id="backed off to a unigram"),
        pytest.param(SRILM, "the <s>", -np.inf, id="the beginning is never predicted"),
        pytest.param(
            SRILM.replace("-0.25\tthe cat", "-99\tthe cat"),
            "the cat",
            -np.inf,
            id="a listed n-gram of probability 0 does not back off",
        ),
        pytest.param(SRILM.replace("<unk>", "<UNK>"), "on dog", -0.1 - 1.1, id="<UNK> in capitals"),
        pytest.param(UNIGRAMS, "a a", -0.5, id="unigrams alone"),
        pytest.param(POSITIVE, "a b", np.log10(1.8 * 0.5), id="a back-off weight above 1"),
    ],
)
def test_files_of_other_tools_are_read(read, text, words, expected):
    model, vocabulary = read(text)
    assert _log10(model, vocabulary, words) == pytest.approx(expected, abs=1e-6)


DOG = Vocabulary(["the", "cat", "sat", "on", "dog"])
PADDED = "\\data\\\nngram 1=4\n\n\\1-grams:\n-99 <s>\n-1 </s>\n-1 <unk>\n-.301 the\n\n\\end\\\n"


def test_words_that_only_the_vocabulary_has_share_the_probability_of_unk(read):
    assert read(SRILM)[1].words[4:] == ["cat", "on", "sat", "the"]
    model, vocabulary = read(SRILM, DOG)
    half = np.log10(10**-1.1 / 2)
    assert _log10(model, vocabulary, "on dog") == pytest.approx(-0.1 + half)
    assert _log10(model, vocabulary, "on <unk>") == pytest.approx(-0.1 + half)
    # a padded file has room for one of them
    model, _ = read(PADDED, Vocabulary(["the", "cat", "dog"]))
    assert np.exp(model.unigrams[[1, 5, 6]]) == pytest.approx(0.1, rel=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "kept, new, threshold",
    [
        pytest.param(5, 0, 0, id="fewer words"),
        pytest.param(5, 0, 1e-3, id="fewer words, pruned"),
        pytest.param(8, 3, 0, id="more words"),
        pytest.param(5, 3, 0, id="other words"),
    ],
)
def test_unk_and_new_words_have_the_sum_of_unk_and_lost_words(
    tmp_path, order, kept, new, threshold
):
    model = prune(kneser_ney(make_text(1, "sentence"), V, order), threshold)
    write_arpa(tmp_path / "model.arpa", model, VOCABULARY)
    words = VOCABULARY.words[4 : 4 + kept]
    other = Vocabulary([*words, *(f"new{i}" for i in range(new))])
    found, vocabulary = read_arpa(tmp_path / "model.arpa", other)
    assert vocabulary is other
    empty = order - found.order  # orders that are pruned away
    rng = np.random.default_rng(3)
    contexts = rng.choice([2, *range(4, 4 + kept)], (80, order - 1))
    p = np.exp(found.next_log_probs(contexts[:, empty:]), dtype=np.float64)
    whole = np.exp(model.next_log_probs(contexts), dtype=np.float64)
    known = slice(3, 4 + kept)
    np.testing.assert_allclose(p[:, known], whole[:, known], atol=1e-5)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    contexts[:, -1:] = 1
    after_unk = np.exp(found.next_log_probs(contexts[:, empty:]), dtype=np.float64)
    np.testing.assert_allclose(after_unk.sum(axis=1), 1, atol=1e-5)


# not interpolated: P(<unk> | a) is below what backs off
KATZ = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-0.69897 </s>
-99 <s>
-0.30103 <unk>
-0.69897 a -0.124939
-1 b

\\2-grams:
-0.522879 a a
-1.30103 a <unk>

\\end\\
"""


def test_a_context_whose_unk_is_rare_sums_to_1(read):
    model, _ = read(KATZ, Vocabulary(["a", "b", "c", "d", "e"]))
    assert np.exp(model.next_log_probs(np.array([[4]]))).sum() == pytest.approx(1, abs=1e-5)
    assert np.exp(model.log_prob(np.array([[4]]), np.array([1])))[0] == pytest.approx(0.05 / 4)


WITH_BLANKS = SRILM.replace("\n-0.5\tcat", "\n\n \t\n-0.5\tcat").replace(
    "\t-0.05\n", "\t-0.05 \n\n"
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeff" + SRILM[SRILM.index("\\data") :], id="a byte order mark"),
        pytest.param(SRILM.replace("\n", "\r\n"), id="line ends of Windows"),
        pytest.param(WITH_BLANKS, id="blank lines and blanks at the end"),
        pytest.param(
            SRILM.replace("sat on the", "sat on the\t0"), id="a back-off of 0 of the highest order"
        ),
    ],
)
def test_forms_that_other_tools_read_are_the_same_model(read, text):
    one, words = read(SRILM)
    two, same = read(text)
    assert words == same and one.num_ngrams == two.num_ngrams
    for found, expected in zip(
        two.log_probs + two.backoffs, one.log_probs + one.backoffs, strict=True
    ):
        np.testing.assert_array_equal(found, expected)


MALFORMED = [  # texts of the file, and what replaces them
    (SRILM, ""),
    ("ngram 2=4", "ngram 3=4"),
    ("ngram 2=4", "ngram 2=3"),
    ("ngram 2=4", "ngram 2=5"),
    (SRILM[SRILM.index("-0.3\tcat sat") :], ""),  # cut short
    ("-0.25\tthe cat", "-0.25\tthe"),
    ("-0.25\tthe cat", "x\tthe cat"),
    ("cat sat\t-0.15", "cat sat\t1e400"),
    ("-0.25\tthe cat", "0.25\tthe cat"),
    ("the cat", "the dog"),  # has no unigram
    ("on the\n\n", "the cat\n\n"),  # listed twice
    ("\\end\\\n", ""),
    ("sat on the", "sat on the\t-1"),  # a back-off of the highest order
    ("-0.2\n-0.6", "5\n-0.6"),  # back-offs so large that no probability sums to 1
    ("cat sat\t-0.15", "cat sat\t3"),
]


def test_malformed_files_are_refused_with_the_line(read, messages):
    for old, new in MALFORMED:
        assert old in SRILM
        messages.refuse(functools.partial(read, SRILM.replace(old, new)))
    messages.refuse(lambda: read(SRILM, Vocabulary(["a", "b"])))  # of the file no word
