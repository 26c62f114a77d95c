"""Text of unknown origin is harmless in spreadsheets and on terminals."""

import csv
import io

import pytest

from keras_nplm.io.foreign_text import escape_controls, escape_formula
from keras_nplm.io.markdown import markdown_table


@pytest.mark.parametrize("word", ["=1+1", "+1", "-cmd|x", "@SUM(1)", '"=1+1"', "'=1", "＝1", '"""@x'])
def test_cells_are_no_formulas(word):
    ((cell, _),) = csv.reader(io.StringIO(f"{escape_formula(word)}\t3\n"), delimiter="\t")
    assert cell[0] == "'" and cell.endswith(word)


@pytest.mark.parametrize("word", ["cat", "=", "-", '"', "'s", "x=1", "don't", "日本"])
def test_plain_words_stay_unchanged(word):
    assert escape_formula(word) == word and escape_controls(word) == word


def test_escape_sequences_are_shown_as_text():
    assert escape_controls("a\x1b[2J\x9b31m\x7f\r\x00") == r"a\x1b[2J\x9b31m\x7f\r\x00"
    assert escape_controls("one\ttwo\nthree \u200c") == "one\ttwo\nthree \u200c"


def test_a_cell_of_a_table_is_one_line():
    assert markdown_table(["a", "b"], [["x\n# y", "p | q"]]).splitlines()[2:] == ["| x # y | p \\| q |"]
