"""Formats of N-best lists: what is rendered is read, rescored, and written with its new features;
each damaged line is one error with its place.
"""

import contextlib
import gzip
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_nplm import InputError, NBestFile, rescore_file
from keras_nplm.rescoring.formats import FORMATS
from keras_nplm.rescoring.ranking import default_weights
from keras_nplm.rescoring.tuning import read_references

Row = tuple[str, str, float, float]  # name of the list, text, score, feature LM
Files = dict[str, str]  # text of the file "", and of Kaldi's archives by feature


def render_moses(rows: list[Row]) -> Files:
    def escape(text: str) -> str:
        return text.replace("&", "&amp;").replace("|", "&#124;").replace("<", "&lt;")

    lines = (
        f"{name} ||| {escape(text)} ||| LM= {lm} ||| {score} ||| 0-0\n"
        for name, text, score, lm in rows
    )
    return {"": "".join(lines)}


def render_kaldi(rows: list[Row]) -> Files:
    columns = {"": [row[1] for row in rows]}
    columns |= {"LM": [-row[3] for row in rows], "score": [-row[2] for row in rows]}
    keys = [f"{row[0]}-{rank}" for rank, row in enumerate(rows, start=1)]
    return {
        name: "".join(f"{key} {value}\n" for key, value in zip(keys, values, strict=True))
        for name, values in columns.items()
    }


def render_tsv(rows: list[Row]) -> Files:
    lines = [f"{lm}\t{text}\t{score}\t{name}\n" for name, text, score, lm in rows]
    return {"": "".join(["LM\tHYP\tscore\tutt\n", *lines])}


RENDER = {"moses": render_moses, "kaldi": render_kaldi, "tsv": render_tsv}
# names of the columns of an output in a format, for those of the lists and for the total
WRITTEN = {
    "moses": {"LM": "LM", "score": "nplm_before", "total": "score"},
    "kaldi": {"total": "nplm_total"},
    "tsv": {"LM": "LM", "score": "score", "total": "nplm_total"},
}
# only ASCII white space stands between words
ODD = "ab|&<é=:-1\\\x0b\x1c\x85\xa0\u2028\u3000\ufeff"
WORDS = st.sampled_from(["the", "cat", "mat"]) | st.text(ODD, min_size=1)
TEXTS = st.lists(WORDS, max_size=4).map(" ".join)
QUARTERS = st.integers(-40, 40).map(lambda number: number / 4)
LISTS = st.lists(
    st.lists(st.tuples(TEXTS, QUARTERS, QUARTERS), min_size=1, max_size=4), min_size=1, max_size=3
)
WEIGHTS = st.sampled_from([{}, {"LM": 0.5, "nplm": 2.0, "nplm_words": -0.25, "nplm_unk": 3.0}])
BOUNDARIES = st.sampled_from(["sentence", "stream", "text"])


def open_lists(path: Path, files: Files, format: str | None = None) -> NBestFile:
    """Write a file and its archives, and open it."""
    archives = {name: path.with_name(f"costs.{name}") for name in files if name}
    for name, text in files.items():
        data = text.encode()
        if path.suffix == ".gz":
            data = gzip.compress(data)
        archives.get(name, path).write_bytes(data)
    return NBestFile(path, format, archives)


def read(file: NBestFile) -> list:
    """Return the name, the texts and the features of each list."""
    rows = []
    for nbest in file:
        features = {name: column.tolist() for name, column in nbest.features.items()}
        rows.append((nbest.name, nbest.texts, features))
    return rows


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_lists_are_read_ranked_and_written(build_ngram_model, tmp_path, format, ending):
    output = tmp_path / f"out{ending}"

    @settings(max_examples=25, derandomize=True)
    @given(lists=LISTS, weights=WEIGHTS, boundary=BOUNDARIES)
    def check(lists, weights, boundary):
        model = build_ngram_model(boundary)
        rows = [(f"u-{number}", *row) for number, rows in enumerate(lists) for row in rows]
        file = open_lists(tmp_path / f"list{ending}", RENDER[format](rows), format)
        result = rescore_file(model, file, output, weights=weights)
        scores = list(model.score([row[1] for row in rows], min_log_prob=-228, alone=True))
        ranked = []
        for (name, text, score, lm), found in zip(rows, scores, strict=True):
            values = {"LM": lm, "score": score, "nplm": found.log_prob}
            values |= {"nplm_words": found.tokens, "nplm_unk": found.unk_tokens}
            used = weights or {"score": 1, "nplm": 1}
            values["total"] = sum(weight * values[feature] for feature, weight in used.items())
            ranked.append((name, text, values))
        ranked.sort(key=lambda row: (int(row[0][2:]), -row[2]["total"]))
        names = {"nplm": "nplm"} | WRITTEN[format]
        names |= {name: name for name in ("nplm_words", "nplm_unk") if name in weights}
        costs = {name: tmp_path / f"out.{name}{ending}" for name in names.values()}
        written = NBestFile(output, format, costs if format == "kaldi" else {})
        groups = itertools.groupby(ranked, key=lambda row: row[0])
        for (name, group), (found_name, texts, features) in zip(groups, read(written), strict=True):
            expected = list(group)
            assert (found_name, texts) == (name, [row[1] for row in expected])
            assert {*features} == {*names.values()}
            for key, column in names.items():
                values = [row[2][key] for row in expected]
                assert features[column] == pytest.approx(values, abs=1e-6)
            # a second rescoring starts from the total of this one
            assert default_weights(features, "second") == {names["total"]: 1, "second": 1}
        assert result["hypotheses"] == len(rows)
        assert result["lists"] == len(lists)

    check()


PIECES = ("|||", "|", "\t", " ", "\n", "a", "=", ":", "1", "-2", "u-1", "nan", "1_0", "1e999", "id")


@pytest.mark.parametrize("format", [None, *FORMATS])
@settings(
    max_examples=200,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_hostile_lines_are_read_or_refused(build_ngram_model, tmp_path, format, text):
    with contextlib.suppress(InputError):
        lists = read(file := open_lists(tmp_path / "list", {"": text}, format))
        rescore_file(build_ngram_model("sentence"), file, tmp_path / "out")
        again = read(NBestFile(tmp_path / "out", file.format.name))
        assert [(name, sorted(texts)) for name, texts, _ in again] == [
            (name, sorted(texts)) for name, texts, _ in lists
        ]


@pytest.mark.parametrize(
    "text, lists",
    [
        pytest.param(
            "0 ||| das Haus ||| R0= -1.5 0 -0.25 LM0= -20.5 ||| -3.5 ||| 0-0 1-1\n"
            "0 |||  ||| R0= 0 0 0 LM0= -1 sparse_a=b= 1 ||| -9 ||| \n"
            "\n1 ||| it &apos;s ||| lm: -2 glue=3 ||| -1e-3\n",
            [
                (
                    "0",
                    ["das Haus", ""],
                    {
                        **{"R0.1": [-1.5, 0], "R0.2": [0, 0], "R0.3": [-0.25, 0]},
                        **{"LM0": [-20.5, -1], "score": [-3.5, -9], "sparse_a=b": [0, 1]},
                    },
                ),
                ("1", ["it 's"], {"lm": [-2], "glue": [3], "score": [-1e-3]}),
            ],
            id="moses",
        ),
        pytest.param(
            "3 ||| a ||| -1 -2 ||| 5\n4 ||| a ||| -1\n5 ||| a ||| \n",
            [
                ("3", ["a"], {"feature.1": [-1], "feature.2": [-2], "score": [5]}),
                ("4", ["a"], {"feature.1": [-1]}),
                ("5", ["a"], {}),
            ],
            id="moses without names",
        ),
        pytest.param(
            "utt-a-1 the cat\nutt-a-2\n \nutt_b-1 a\n",
            [("utt-a", ["the cat", ""], {}), ("utt_b", ["a"], {})],
            id="kaldi",
        ),
        pytest.param(
            "7 8\tcat \t-1.5\t4\n \t\n9\t\t-3\t-1\n",
            [
                ("7 8", ["cat"], {"score": [-1.5], "score.2": [4]}),
                ("9", [""], {"score": [-3], "score.2": [-1]}),
            ],
            id="tsv",
        ),
        pytest.param(
            "Utt\tText\tam\n7\ta\t-1\n", [("7", ["a"], {"am": [-1]})], id="tsv, known names"
        ),
        pytest.param("id\ttext\t-1\n", [("id", ["text"], {"score": [-1]})], id="tsv, a number"),
        pytest.param("one\ttwo\n", [("one", ["two"], {})], id="tsv without scores"),
    ],
)
def test_the_fields_of_each_format(tmp_path, text, lists):
    assert read(open_lists(tmp_path / "list", {"": text})) == lists


KALDI = {"": "u-1 a\nu-2 b\n", "am": "u-1 10.5\nu-2 11\n"}
DAMAGED = [
    {"": "0 ||| a ||| ||| -1\n0 ||| a\n"},
    {"": "0 ||| a ||| LM= x ||| -1\n"},
    {"": "0 ||| a ||| LM= 1 LM= 2 ||| -1\n"},
    {"": "0 ||| a ||| score= 2 ||| -1\n"},
    {"": "0 ||| a |||\n1 ||| a |||\n0 ||| a |||\n"},
    {"": "u-1 a\nu b\n"},
    {"": "0\ta\t1\n0\tb\n"},
    {"": "0\ta\t1\n0\tb\t1_0\n"},
    {"": "7\tthe cat\tx\t-2\n"},
    {"": "one\ttwo\tam\n7\ta\t-1\n"},
    {"": "id\ttext\tam\n"},
    {"": "id\ttext\tam\tam\n0\ta\t1\t2\n"},
    {"": "NBestList1.0\n"},
    {"": ""},
    KALDI | {"am": "u-2 11\n"},
    KALDI | {"am": "u-1 10.5\n"},
    KALDI | {"am": "u-1 1\nu-2 1\nu-3 1\n"},
    KALDI | {"": "0\ta\t1\n"},
]


def test_damaged_files_are_refused(tmp_path, messages):
    for files in DAMAGED:
        messages.refuse(lambda files=files: read(open_lists(tmp_path / "list", files)))


@pytest.mark.parametrize(
    "format, text, expected",
    [
        ("moses", "it &apos;s\n\nb\n", {"0": "it 's", "1": "", "2": "b"}),
        ("kaldi", "u1 the cat\nu2\n\n", {"u1": "the cat", "u2": ""}),
        ("tsv", "Utt\tref\na b\tthe cat\nc\n\n", {"a b": "the cat", "c": ""}),
        ("tsv", "utt\tthe text\na\tb\n", {"utt": "the text", "a": "b"}),
    ],
)
def test_references_are_read_in_each_format(tmp_path, format, text, expected):
    assert read_text_of_references(tmp_path, format, text) == expected


def read_text_of_references(directory: Path, format: str, text: str) -> dict[str, str]:
    path = directory / "references"
    path.write_text(text)
    arguments = ["id\ttext\t1"] if format == "tsv" else []
    return read_references(path, FORMATS[format](*arguments))


def test_damaged_references_are_refused(tmp_path, messages):
    for format, text in (
        ("tsv", "u1 the cat\n"),
        ("kaldi", "u1 a\nu1 b\n"),
        ("moses", "the cat\n1\tthe cat\n"),
        ("moses", "0 ||| the cat\n"),
    ):
        messages.refuse(
            lambda format=format, text=text: read_text_of_references(tmp_path, format, text)
        )
