"""Losses of hypotheses: word errors against the plain edit distance, and files of numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError
from keras_nplm.language_model.rescoring.losses import LossFile, WordErrors, read_references
from keras_nplm.language_model.rescoring.nbest import NBestList


def _plain_distance(hypothesis, reference):
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, start=1):
        before, row = row, [i]
        for j, other in enumerate(hypothesis, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other)))
    return row[-1]


SENTENCES = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=7)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(SENTENCES, max_size=6), SENTENCES)
def test_word_errors_are_the_plain_edit_distance(hypotheses, reference):
    errors = WordErrors({"0": " ".join(reference)})
    (found,) = errors([NBestList("0", [" ".join(hypothesis) for hypothesis in hypotheses])])
    assert found.dtype == np.float64
    assert found.tolist() == [_plain_distance(hypothesis, reference) for hypothesis in hypotheses]
    assert errors.denominator == len(reference)


LISTS = [NBestList("0", ["the cat", "the old cat", ""]), NBestList("2", ["a"])]


def test_references_are_read_in_each_format(tmp_path):
    path = tmp_path / "references"
    path.write_text("it &apos;s\n")
    assert read_references(path, "moses") == {"0": "it 's"}
    path.write_text("the old cat\nnone\nb\n")
    errors = WordErrors(read_references(path, "moses"))
    assert [found.tolist() for found in errors(LISTS)] == [[1, 0, 3], [1]] and errors.denominator == 4
    with pytest.raises(InputError, match="List 7 has no reference"):
        errors([NBestList("7", ["a"])])
    path.write_text("u1 the cat\nu2\n")
    assert read_references(path, "kaldi") == {"u1": "the cat", "u2": ""}
    path.write_text("a b\tthe cat\n")
    assert read_references(path, "tsv") == {"a b": "the cat"}
    empty = WordErrors({"0": ""})
    empty([NBestList("0", ["a"])])
    with pytest.raises(InputError, match="1 word or more"):
        empty.check_end()
    path.write_text("u1 a\nu1 b\n")
    with pytest.raises(InputError, match="references, line 2: u1 has a second reference"):
        read_references(path, "kaldi")


def test_losses_of_a_file_have_one_number_per_hypothesis(tmp_path):
    path = tmp_path / "losses"
    path.write_text("1\n0.5\n2\n-1\n")
    losses = LossFile(path)
    assert [found.tolist() for found in losses(LISTS)] == [[1, 0.5, 2], [-1]] and losses.denominator == 2
    losses.check_end()
    path.write_text("1\n0.5\n")
    with pytest.raises(InputError, match="ends before list 0 does"):
        LossFile(path)(LISTS)
    path.write_text("1\nx\n")
    with pytest.raises(InputError, match="losses, line 2: 'x' is not a finite number"):
        LossFile(path)(LISTS)
    path.write_text("1\n0.5\n2\n-1\n7\n")
    losses = LossFile(path)
    losses(LISTS)
    with pytest.raises(InputError, match="losses, line 5: the lists have fewer hypotheses"):
        losses.check_end()
