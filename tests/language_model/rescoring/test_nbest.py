"""N-best lists read and written: every field comes back, and each damaged line is one error with its place."""

import gzip
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError
from keras_nplm.language_model.rescoring.line_formats import parse_moses_line
from keras_nplm.language_model.rescoring.nbest import NBestFile, NBestList
from keras_nplm.language_model.rescoring.writer import open_nbest_writer

MOSES = (
    "0 ||| das haus ist klein ||| LexicalReordering0= -1.5 0 -0.25 LM0= -20.5 WordPenalty0= -4 ||| -3.5 ||| 0-0 1-1\n"
    "0 |||  ||| LexicalReordering0= 0 0 0 LM0= -1 WordPenalty0= 0 sparse_a~b= 1 ||| -9 ||| \n"
    "1 ||| ja ||| lm: -2 glue=3 ||| -1e-3 ||| 0-0\n"
)
KALDI = "utt-a-1 the cat\nutt-a-2 the cats\nutt_b-1\nutt_b-2 a\n"
COSTS = "utt-a-1 10.5\nutt-a-2 11\nutt_b-1 3\nutt_b-2 -2\n"
TSV = "id\thypothesis\tacoustic\tlm\n7\tthe cat\t-1.5\t-2\n7\tcat \t-3\t-1\n9\t\t-3\t-1\n"
FILES = {"moses": MOSES, "kaldi": KALDI, "tsv": TSV}


def test_a_list_of_too_many_hypotheses_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_nplm.language_model.rescoring.nbest._MAX_LIST_SIZE", 2000)
    file = _written(tmp_path / "list.tsv", "tsv", "0\ta\n0\tb\n0\tc\n1\ta\n1\tb\n1\tc\n1\td\n")
    lists = iter(file)
    assert next(lists).texts == ["a", "b", "c"]
    with pytest.raises(
        InputError, match="line 7: list 1 must have at most 2,000 bytes. Received: more hypotheses. Fix"
    ):
        next(lists)


def _written(path, format, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return NBestFile(path)


@pytest.mark.parametrize("format", FILES)
@pytest.mark.parametrize("name", ["list.txt", "list.txt.gz"])
def test_what_is_read_is_written_again(tmp_path, format, name):
    file = _written(tmp_path / name, format, FILES[format])
    assert file.format == format
    output = tmp_path / f"again.{name}"
    with open_nbest_writer(output, format, file.header) as write:
        for nbest in file:
            write(nbest)
    read = gzip.decompress(output.read_bytes()) if name.endswith(".gz") else output.read_bytes()
    assert read.decode() == FILES[format]


def test_the_fields_of_each_format(tmp_path):
    first, second = _written(tmp_path / "moses", "moses", MOSES)
    assert (first.name, first.texts, len(second)) == ("0", ["das haus ist klein", ""], 1)
    assert first.features["LexicalReordering0.3"].tolist() == [-0.25, 0]
    assert first.features["sparse_a~b"].tolist() == [0, 1] and first.features["score"].tolist() == [-3.5, -9]
    assert {name: float(v[0]) for name, v in second.features.items()} == {"lm": -2, "glue": 3, "score": -1e-3}
    assert parse_moses_line("3 ||| a ||| -1 -2 ||| 5")[2] == {"feature.1": -1, "feature.2": -2, "score": 5}
    assert parse_moses_line("3 ||| a ||| ")[2] == {}

    _written(tmp_path / "kaldi", "kaldi", KALDI)
    (tmp_path / "costs.gz").write_bytes(gzip.compress(COSTS.encode()))
    first, second = NBestFile(tmp_path / "kaldi", archives={"am": tmp_path / "costs.gz"})
    assert (first.name, first.texts, second.texts) == ("utt-a", ["the cat", "the cats"], ["", "a"])
    assert first.features["am"].tolist() == [-10.5, -11] and second.features["am"].tolist() == [-3, 2]

    first, second = _written(tmp_path / "tsv", "tsv", TSV)
    assert (first.texts, second.name, second.texts) == (["the cat", "cat"], "9", [""])
    assert first.features["lm"].tolist() == [-2, -1]
    (nbest,) = _written(tmp_path / "bare.tsv", "tsv", "7\tthe cat\t-1.5\t4\n")
    assert {name: values.tolist() for name, values in nbest.features.items()} == {"score": [-1.5], "score.2": [4]}


def test_what_was_added_is_written(tmp_path):
    def rewritten(format, text, **options):
        path = tmp_path / format
        path.write_text(text)
        file = NBestFile(path, format, **options)
        with open_nbest_writer(tmp_path / "out", format, file.header) as write:
            for nbest in file:
                nbest = nbest.with_features({"nplm": -np.arange(2.0), "nplm_words": np.ones(2)})
                nbest.totals = np.array([5.0, 7.0])
                write(nbest.reorder(np.array([1, 0])))
        return (tmp_path / "out").read_text()

    moses = "0 ||| a ||| LM= -1 ||| -3 ||| x\n0 ||| b ||| LM= -2 ||| -4 ||| y\n"
    assert rewritten("moses", moses) == (
        "0 ||| b ||| LM= -2 nplm= -1.000000 nplm_words= 1.000000 nplm_before= -4 ||| 7.000000 ||| y\n"
        "0 ||| a ||| LM= -1 nplm= -0.000000 nplm_words= 1.000000 nplm_before= -3 ||| 5.000000 ||| x\n"
    )
    again = NBestFile(tmp_path / "out")
    assert next(iter(again)).features["score"].tolist() == [7, 5]
    assert (
        rewritten("moses", "0 ||| a ||| \n0 ||| b |||\n").splitlines()[0].endswith("nplm_words= 1.000000 ||| 7.000000")
    )
    tsv = "id\thypothesis\tam\n0\ta\t1\n0\tb\t2\n"
    assert rewritten("tsv", tsv).splitlines()[:2] == [
        "id\thypothesis\tam\tnplm\tnplm_words\tnplm_total",
        "0\tb\t2\t-1.000000\t1.000000\t7.000000",
    ]
    assert rewritten("kaldi", "u-1 a\nu-2 b\n") == "u-2 b\nu-1 a\n"
    assert (tmp_path / "out.nplm").read_text() == "u-2 1.000000\nu-1 0.000000\n"
    assert (tmp_path / "out.nplm_total").read_text() == "u-2 -7.000000\nu-1 -5.000000\n"


@pytest.mark.parametrize("format", FILES)
def test_lists_made_in_python_are_written(tmp_path, format):
    lists = [NBestList("3", ["the cat", "a"], {"LM": np.array([-1.5, -2]), "score": np.array([-4.0, -5])})]
    with open_nbest_writer(tmp_path / "out", format) as write:
        write(lists[0])
    (read,) = NBestFile(tmp_path / "out", format)
    assert (read.name, read.texts) == ("3", ["the cat", "a"])
    values = [column.tolist() for column in read.features.values()]
    assert values == ([] if format == "kaldi" else [[-1.5, -2], [-4, -5]])


@pytest.mark.parametrize(
    "format, text, message",
    [
        ("moses", "0 ||| a ||| LM= -1 ||| -1\n0 ||| a\n", "line 2: expected `id"),
        ("moses", " ||| a ||| LM= -1 ||| -1\n", "line 1: expected `id"),
        ("moses", "0 ||| a ||| LM= x ||| -1\n", "line 1: 'x' is not a finite number"),
        ("moses", "0 ||| a ||| LM= TM= 1 ||| 1\n", "line 1: the feature LM has no value"),
        ("moses", "0 ||| a ||| LM= 1 LM= 1 ||| 1\n", "line 1: the feature LM occurs twice"),
        ("moses", "0 ||| a ||| score= 1 ||| 1\n", "line 1: the feature score occurs twice"),
        ("moses", "0 ||| a ||| ||| 1\n1 ||| a ||| ||| 1\n0 ||| a ||| ||| 1\n", "line 3: the id 0 occurs again"),
        ("kaldi", "u-1 a\nu b\n", "line 2: expected `utterance-k words`"),
        ("tsv", "0\ta\t1\n0\tb\n", "line 2: expected 3 columns"),
        ("tsv", "0\ta\t1\n\tb\t1\n", "line 2: the id is empty"),
        ("tsv", "0\n", "line 1: expected id, hypothesis"),
        ("tsv", "id\thypothesis\tlm\tlm\n0\ta\t1\t1\n", "line 1: a column of the header has no name"),
        ("tsv", "id\thypothesis\tlm\n", "holds no hypothesis"),
        ("moses", "", "is empty"),
        (None, "some words\n", "not in a known format"),
    ],
)
def test_damaged_lines_are_named(tmp_path, format, text, message):
    path = tmp_path / "list"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(str(path)) + ".*" + message):
        list(NBestFile(path, format))


@pytest.mark.parametrize("header", ["", "id\thypothesis\tam\n", "Utt_ID\tText\tam\n", "key\tnbest\tam\n"])
def test_headers_and_blank_lines_are_no_hypotheses(tmp_path, header):
    lists = [*_written(tmp_path / "list.TSV", "tsv", f"\n{header}0\ta b\t-1\n \t\n0\tc\t-2\n\n1\td\t-3\n\n")]
    assert [nbest.texts for nbest in lists] == [["a b", "c"], ["d"]]
    assert [*lists[0].features] == ["am" if header else "score"]
    (tmp_path / "costs").write_text("u-1 1\n\nu-2 2\n")
    (nbest,) = NBestFile(
        _written(tmp_path / "kaldi", "kaldi", "u-1 a\n\nu-2 b\n").path, None, {"am": tmp_path / "costs"}
    )
    assert nbest.features["am"].tolist() == [-1, -2]


@pytest.mark.parametrize(
    "costs, message",
    [
        (COSTS.replace("utt-a-2 11\n", ""), "costs, line 2: expected `utt-a-2 number`"),
        (COSTS.replace("11", "eleven"), "costs, line 2: 'eleven' is not a finite number"),
        (COSTS.replace("utt_b-2 -2\n", ""), "costs ends before utt_b-2"),
        (COSTS + "utt_c-1 2\n", "costs, line 5: .* has no hypothesis for this line"),
    ],
)
def test_archives_that_do_not_fit_are_refused(tmp_path, costs, message):
    (tmp_path / "list").write_text(KALDI)
    (tmp_path / "costs").write_text(costs)
    with pytest.raises(InputError, match=message):
        list(NBestFile(tmp_path / "list", archives={"am": tmp_path / "costs"}))
    with pytest.raises(InputError, match="Archives of costs need the format kaldi"):
        NBestFile(_written(tmp_path / "moses", "moses", MOSES).path, archives={"am": tmp_path / "costs"})


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_any_damage_is_one_error_or_none(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "list"
    content = bytearray(FILES[data.draw(st.sampled_from(sorted(FILES)))].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=4) | st.sampled_from(FIELDS))
    path.write_bytes(content)
    try:
        for nbest in NBestFile(path):
            assert all(np.isfinite(values).all() and len(values) == len(nbest) for values in nbest.features.values())
    except InputError as error:
        assert str(path) in str(error)


FIELDS = [b"|||", b" ||| ", b"\t", b"\n", b"=", b"-", b"1e400", b"nan", b"\xff", b"0", b" "]
