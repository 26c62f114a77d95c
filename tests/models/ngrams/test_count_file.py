"""Kneser-Ney from a file of n-gram counts is the model of the text that was counted."""

import functools
import gzip
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import Vocabulary, encode_sentences
from keras_nplm.models.ngrams import CountFile, kneser_ney
from tests.models.ngrams.test_kneser_ney import ROW, assert_same_tables

_sentences = st.lists(
    st.lists(st.sampled_from("the cat cat sat on <unk>".split()), min_size=1, max_size=7),
    min_size=1,
    max_size=12,
)


def _count(sentences: list[list[str]], orders) -> Counter:
    """Count as `ngram-count` of SRILM: one `<s>` and one `</s>` a sentence, no padding."""
    counts: Counter = Counter()
    for sentence in sentences:
        words = ["<s>", *sentence, "</s>"]
        for order in orders:
            counts.update(" ".join(words[i : i + order]) for i in range(len(words) - order + 1))
    return counts


def _write(path, counts: Counter) -> None:
    text = "".join(f"{ngram}\t{count}\n" for ngram, count in counts.items())
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@settings(max_examples=30)
@given(_sentences, st.integers(1, 5), st.integers(1, 9), st.sampled_from([1, 20]))
def test_tables_equal_those_of_the_text(tmp_path_factory, sentences, order, rows, times):
    """Also in several runs, with each sentence `times` times in the text."""
    directory = tmp_path_factory.mktemp("counts")
    order = min(order, max(map(len, sentences)) + 2)  # the highest order of an n-gram
    counted = _count(sentences * times, range(1, order + 1))
    _write(directory / "counts.gz", counted)
    counts = CountFile(directory / "counts.gz", order)
    assert counts.words == Counter(itertools.chain(*sentences * times))
    vocabulary = Vocabulary(["the", "cat", "sat"])
    found = counts.estimate(directory / "model", vocabulary, rows * ROW * order)
    ids = encode_sentences(sentences * times, vocabulary)
    assert_same_tables(found, kneser_ney(ids, len(vocabulary), order))
    unknown = counts.count_unknown(vocabulary)
    assert sum(unknown.values()) == [*itertools.chain(*sentences)].count("on") * times


def test_counts_may_be_of_a_text_that_no_machine_holds(tmp_path):
    _write(tmp_path / "counts", Counter({"the cat": 10**12, "the dog": 10**13, "a dog": 1}))
    counts = CountFile(tmp_path / "counts")
    vocabulary = Vocabulary.from_counts(counts.words.items())
    model = counts.estimate(tmp_path / "model", Vocabulary([*vocabulary.words[4:], "the"]))
    (probabilities,) = np.exp(model.next_log_probs(np.array([[6]])))  # after "the"
    assert vocabulary.words[4:] == ["dog", "cat"]
    assert probabilities[4:6] == pytest.approx([10 / 11, 1 / 11])


@pytest.mark.parametrize("boundary", ["sentence", "text"])
def test_a_file_may_lack_lower_orders(tmp_path, boundary):
    sentences = [f"w{i % 7} w{i % 5} the w{i % 3}".split() for i in range(60)]
    if boundary == "text":  # one document, whose n-grams cross sentence ends
        words = ["<s>", *(word for sentence in sentences for word in (*sentence, "</s>"))]
        counts: Counter = Counter(" ".join(words[i : i + 4]) for i in range(len(words) - 3))
    else:
        counts = _count(sentences, [4])
    _write(tmp_path / "counts", counts)
    file = CountFile(tmp_path / "counts", boundary=boundary)
    vocabulary = Vocabulary.from_counts(file.words.items())
    found = file.estimate(tmp_path / "model", vocabulary)
    ids = encode_sentences(sentences, vocabulary, boundary)
    assert_same_tables(found, kneser_ney(ids, len(vocabulary), 4, boundary))


def test_wrong_lines_are_named(tmp_path, messages):
    for line, boundary in (
        ("the cat sat", "sentence"),
        ("7", "sentence"),
        ("the cat\t1.5", "sentence"),
        ("the cat\t-1", "sentence"),
        ("the <s>\t1", "sentence"),
        ("</s> the\t1", "sentence"),
        ("<s> the\t1", "stream"),
        (f"the cat\t{1 << 62}", "sentence"),
        ("the\t1", "sentence"),  # no n-gram of order 2
    ):
        (tmp_path / "counts").write_text(f"the\t3\n{line}\n", encoding="utf-8")
        messages.refuse(functools.partial(CountFile, tmp_path / "counts", 2, boundary))
