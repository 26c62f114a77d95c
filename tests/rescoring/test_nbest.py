"""N-best lists read and written: every field comes back, and each damaged line is one error with
its place.
"""

import gzip
import io

import numpy as np
import pytest

from keras_nplm import InputError
from keras_nplm.rescoring.nbest import NBestFile, NBestList
from keras_nplm.rescoring.ranking import rank_lists
from keras_nplm.rescoring.writer import open_nbest_writer

MOSES = (
    "0 ||| das haus ist klein ||| LexicalReordering0= -1.5 0 -0.25 LM0= -20.5 WordPenalty0= -4 "
    "||| -3.5 ||| 0-0 1-1\n"
    "0 |||  ||| LexicalReordering0= 0 0 0 LM0= -1 WordPenalty0= 0 sparse_a~b= 1 ||| -9 ||| \n"
    "1 ||| ja ||| lm: -2 glue=3 ||| -1e-3 ||| 0-0\n"
)
KALDI = "utt-a-1 the cat\nutt-a-2 the cats\nutt_b-1\nutt_b-2 a\n"
COSTS = "utt-a-1 10.5\nutt-a-2 11\nutt_b-1 3\nutt_b-2 -2\n"
TSV = "id\thypothesis\tacoustic\tlm\n7\tthe cat\t-1.5\t-2\n7\tcat \t-3\t-1\n9\t\t-3\t-1\n"
FILES = {"moses": MOSES, "kaldi": KALDI, "tsv": TSV}


def _open(path, text, format=None, costs=None):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    path.with_name("costs").write_text(costs or "")
    return NBestFile(path, format, costs and {"am": path.with_name("costs")})


def _read(path, text, **options) -> list[tuple[str, list[str], dict[str, list[float]]]]:
    lists = _open(path, text, **options)
    return [
        (n.name, n.texts, {key: value.tolist() for key, value in n.features.items()}) for n in lists
    ]


@pytest.mark.parametrize("format", FILES)
def test_what_is_read_is_written_again(tmp_path, format):
    file = _open(tmp_path / "list.txt.gz", FILES[format])
    output = tmp_path / "again.gz"
    assert file.format == format
    with open_nbest_writer(output, format, file.header) as write:
        for nbest in file:
            write(nbest)
    assert gzip.decompress(output.read_bytes()).decode() == FILES[format]


def test_the_fields_of_each_format(tmp_path):
    (name, texts, features), second = _read(tmp_path / "moses", MOSES)
    assert (name, texts, second[1]) == ("0", ["das haus ist klein", ""], ["ja"])
    assert features["LexicalReordering0.3"] == [-0.25, 0] and features["sparse_a~b"] == [0, 1]
    assert features["score"] == [-3.5, -9] and second[2] == {
        "lm": [-2],
        "glue": [3],
        "score": [-1e-3],
    }
    unnamed = _read(tmp_path / "moses", "3 ||| a ||| -1 -2 ||| 5\n4 ||| a ||| \n")
    assert [row[2] for row in unnamed] == [{"feature.1": [-1], "feature.2": [-2], "score": [5]}, {}]
    kaldi = [
        ("utt-a", ["the cat", "the cats"], {"am": [-10.5, -11]}),
        ("utt_b", ["", "a"], {"am": [-3, 2]}),
    ]
    assert _read(tmp_path / "kaldi", KALDI, costs=COSTS) == kaldi
    first = ("7", ["the cat", "cat"], {"acoustic": [-1.5, -3], "lm": [-2, -1]})
    assert _read(tmp_path / "tsv", TSV) == [first, ("9", [""], {"acoustic": [-3], "lm": [-1]})]
    assert _read(tmp_path / "bare.tsv", "7\ta\t-1.5\t4\n") == [
        ("7", ["a"], {"score": [-1.5], "score.2": [4]})
    ]


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="no header"),
        pytest.param("ID\tHypothesis\tam\n", id="a header"),
    ],
)
def test_headers_and_blank_lines_are_no_hypotheses(tmp_path, header):
    first, second = _read(
        tmp_path / "list.TSV", f"\n{header}0\ta b\t-1\n \t\n0\tc\t-2\n\n1\td\t-3\n\n"
    )
    assert (first[1], second[1], [*first[2]]) == (
        ["a b", "c"],
        ["d"],
        ["am" if header else "score"],
    )


ONE_LIST = [("7", ["the cat"], {"am": [-1.5], "lm": [-2]})]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("utt\ttext\tam\tlm\n7\tthe cat\t-1.5\t-2\n", id="names of other tools"),
        pytest.param("one\ttwo\tam\tlm\n7\tthe cat\t-1.5\t-2\n", id="no number in scores"),
        pytest.param("am\tHYP\tlm\tkey\n-1.5\tthe cat\t-2\t7\n", id="columns in any order"),
    ],
)
def test_a_header_is_recognised_by_its_scores_and_read_by_names(tmp_path, text):
    assert _read(tmp_path / "list", text) == ONE_LIST
    file = _open(tmp_path / "list", text)
    with open_nbest_writer(tmp_path / "again", "tsv", file.header) as write:
        for nbest in file:
            write(nbest)
    assert (tmp_path / "again").read_text() == text


@pytest.mark.parametrize(
    "text, features",
    [
        pytest.param("id\tthe text\t-1\n", ["score"], id="an id of a header, and a score"),
        pytest.param("7\tthe cat\tx\t-2\n", None, id="one of two scores"),
        pytest.param("one\ttwo\n", [], id="no scores"),
    ],
)
def test_a_line_of_a_hypothesis_is_no_header(tmp_path, text, features):
    file = _open(tmp_path / "list", text)
    assert file.header is None
    if features is None:
        with pytest.raises(InputError, match="line 1: 'x' is not a finite number"):
            list(file)
    else:
        assert [[*nbest.features] for nbest in file] == [features]


@pytest.mark.parametrize(
    "text, written",
    [
        pytest.param(
            "0 ||| a ||| LM= -1 ||| -3 ||| x\n0 ||| b ||| LM= -2 ||| -4 ||| y\n",
            "0 ||| b ||| LM= -2 nplm= -1.000000 nplm_words= 1.000000 nplm_before= -4 ||| 7.000000 "
            "||| y\n"
            "0 ||| a ||| LM= -1 nplm= -0.000000 nplm_words= 1.000000 nplm_before= -3 ||| 5.000000 "
            "||| x\n",
            id="moses with scores",
        ),
        pytest.param(
            "0 ||| a ||| \n0 ||| b |||\n",
            "0 ||| b ||| nplm= -1.000000 nplm_words= 1.000000 ||| 7.000000\n"
            "0 ||| a ||| nplm= -0.000000 nplm_words= 1.000000 ||| 5.000000\n",
            id="moses without scores",
        ),
        pytest.param(
            "id\thypothesis\tam\n0\ta\t1\n0\tb\t2\n",
            "id\thypothesis\tam\tnplm\tnplm_words\tnplm_total\n"
            "0\tb\t2\t-1.000000\t1.000000\t7.000000\n"
            "0\ta\t1\t-0.000000\t1.000000\t5.000000\n",
            id="tsv",
        ),
        pytest.param("u-1 a\nu-2 b\n", "u-2 b\nu-1 a\n", id="kaldi"),
    ],
)
def test_new_features_and_totals_are_written(tmp_path, text, written):
    file = _open(tmp_path / "list", text)
    with open_nbest_writer(tmp_path / "out", file.format, file.header) as write:
        for nbest in file:
            nbest = nbest.with_features({"nplm": -np.arange(2.0), "nplm_words": np.ones(2)})
            nbest.totals = np.array([5.0, 7.0])
            write(nbest.reorder(np.array([1, 0])))
    assert (tmp_path / "out").read_text() == written
    if file.format == "kaldi":
        assert (tmp_path / "out.nplm").read_text() == "u-2 1.000000\nu-1 0.000000\n"
        assert (tmp_path / "out.nplm_total").read_text() == "u-2 -7.000000\nu-1 -5.000000\n"


@pytest.mark.parametrize(
    "text, costs, message",
    [
        pytest.param(
            "0 ||| a ||| LM= -1 ||| -1\n0 ||| a\n",
            None,
            "list, line 2: expected `id",
            id="moses, a line without features",
        ),
        pytest.param(
            "0 ||| a ||| LM= x ||| -1\n",
            None,
            "list, line 1: 'x' is not a finite number",
            id="moses, a feature that is no number",
        ),
        pytest.param(
            "0 ||| a ||| ||| 1\n1 ||| a ||| ||| 1\n0 ||| a ||| ||| 1\n",
            None,
            "list, line 3: the id 0 occurs again",
            id="moses, a list in two places",
        ),
        pytest.param(
            "u-1 a\nu b\n",
            None,
            "list, line 2: expected `utterance-k words`",
            id="kaldi, an utterance without a rank",
        ),
        pytest.param(
            "0\ta\t1\n0\tb\n", None, "list, line 2: expected 3 columns", id="tsv, a short line"
        ),
        pytest.param(
            "NBestList1.0\n(-100) a b\n",
            None,
            "list must be of Moses .* of Kaldi .* or tab-separated .* Received: 'NBestList1.0'. "
            "Fix: convert the lists",
            id="no format",
        ),
        pytest.param("", None, "list has no lines", id="no lines"),
        pytest.param(
            KALDI,
            COSTS.replace("utt-a-2 11\n", ""),
            "costs, line 2: expected `utt-a-2 number`",
            id="kaldi, a missing cost",
        ),
        pytest.param(
            KALDI,
            COSTS.replace("utt_b-2 -2\n", ""),
            "costs ends before utt_b-2",
            id="kaldi, a missing last cost",
        ),
        pytest.param(
            KALDI,
            f"{COSTS}utt_c-1 2\n",
            "costs, line 5: .* has no hypothesis for this line",
            id="kaldi, a cost too many",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, text, costs, message):
    with pytest.raises(InputError, match=message):
        list(_open(tmp_path / "list", text, costs=costs))


def test_a_file_without_lines_is_refused(tmp_path):
    path = tmp_path / "empty.tsv"
    path.write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="empty.tsv has no lines. Fix: give N-best lists"):
        NBestFile(path)


def test_features_may_be_lists_of_numbers():
    nbest = NBestList("1", ["the cat", "cat"], {"score": [-1, -2.5]})
    assert nbest.features["score"].dtype == np.float64
    (ranked,) = rank_lists([nbest], {"score": -1})
    assert ranked.texts == ["cat", "the cat"]


@pytest.mark.parametrize("values", [[-1.0], [[-1.0], [-2.0]], -1.0, ["a", "b"], [[1], [1, 2]]])
def test_features_other_than_a_number_for_each_hypothesis_are_refused(values):
    message = "`score` must be a number for each of the 2 hypotheses of list 1"
    with pytest.raises(InputError, match=message):
        NBestList("1", ["the cat", "cat"], {"score": values})


def test_lists_go_to_a_standard_output_of_text(tmp_path, monkeypatch):
    file = _open(tmp_path / "list.tsv", TSV)
    output = io.StringIO()
    monkeypatch.setattr("sys.stdout", output)
    with open_nbest_writer(None, "tsv", file.header) as write:
        for nbest in file:
            write(nbest)
    assert output.getvalue() == TSV


def test_lists_follow_the_text_that_was_printed_before(tmp_path, monkeypatch):
    file = _open(tmp_path / "list.tsv", TSV)
    with open(tmp_path / "output", "w", encoding="utf-8") as output:
        monkeypatch.setattr("sys.stdout", output)
        print("before")
        with open_nbest_writer(None, "tsv", file.header) as write:
            for nbest in file:
                write(nbest)
    assert (tmp_path / "output").read_text() == f"before\n{TSV}"
