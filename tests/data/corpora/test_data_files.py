"""Data files are read by a field as a text file of its values, and refused without the field."""

import bz2
import csv
import functools
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.corpora.chunks as chunks
from keras_nplm import InputError
from keras_nplm.data.corpora.chunks import cut_files
from keras_nplm.data.corpora.text_files import read_files


def _write_json(values: list[str], ascii: bool = False) -> bytes:
    records = ({"id": i, "text": value} for i, value in enumerate(values))
    return "".join(json.dumps(one, ensure_ascii=ascii) + "\n" for one in records).encode()


def _write_table(values: list[str], delimiter: str = ",", mark: bytes = b"") -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerows([["id", "text"], *enumerate(values)])
    return mark + file.getvalue().encode()


def _write_parquet(values: list[str], name: str = "text") -> bytes:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    table = pyarrow.table({"id": [*range(len(values))], name: values})
    parquet.write_table(table, file, row_group_size=2)
    return file.getvalue()


WRITERS: dict[str, Callable[[list[str]], bytes]] = {
    "a.jsonl": _write_json,
    "a.ndjson": functools.partial(_write_json, ascii=True),
    "a.json": _write_json,
    "lines": _write_json,
    "a.csv": _write_table,
    "b.CSV": functools.partial(_write_table, delimiter=";", mark=b"\xef\xbb\xbf"),
    "a.tsv": functools.partial(_write_table, delimiter="\t"),
    "a.parquet": _write_parquet,
    "column": _write_parquet,
}
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def _list_lines(values: list[str]) -> list[str]:
    """Return the lines of values; a blank one follows a value of several lines."""
    lines = []
    for value in values:
        of_value = value.removesuffix("\n").split("\n")
        lines += [line.rstrip("\r") for line in of_value] + [""] * (len(of_value) > 1)
    return lines


_PARTS = st.lists(
    st.sampled_from(["the", '"', ",", "\n", "\r\n", " ", "猫", "{", "\t"]), max_size=9
)


@settings(max_examples=80)
@given(
    values=st.lists(_PARTS.map("".join), min_size=1, max_size=9),
    name=st.sampled_from([*WRITERS]),
    compression=st.sampled_from([*COMPRESSORS]),
    size=st.integers(1, 90),
)
def test_a_data_file_is_the_text_of_its_field(tmp_path_factory, values, name, compression, size):
    """However it is compressed or cut; Parquet has a compression of its own."""
    compression = "" if WRITERS[name] is _write_parquet else compression
    path = tmp_path_factory.mktemp("data") / f"{name}{compression}"
    path.write_bytes(COMPRESSORS[compression](WRITERS[name](values)))
    assert [*read_files([str(path)], "text")] == _list_lines(values)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(chunks, "CHUNK_BYTES", size)
        cut = cut_files([path], "text")
    if name == "a.jsonl" and not compression:
        assert len(cut) >= min(len(values), path.stat().st_size // (size + 120))
    expected = [line if line.strip(" \t\r") else "" for line in _list_lines(values)]
    assert [line for chunk in cut for line in chunk.lines()] == expected


@pytest.mark.parametrize("name", WRITERS)
def test_a_field_that_is_absent_or_not_named_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(WRITERS[name](["the cat"]))
    with pytest.raises(InputError, match=r"with the fields 'id', 'text'\. Fix: add --field text"):
        [*read_files([str(tmp_path / name)])]
    with pytest.raises(InputError, match=r"must have the field 'txt'\. Received: 'id', 'text'\."):
        [*read_files([str(tmp_path / name)], "txt")]


GOOD = b'{"text": "the cat"}\n'


DAMAGED = [
    ("a.jsonl", GOOD * 20 + b'{"text": "the\n'),
    ("a.jsonl", GOOD * 20 + b'{"a": 1}\n'),
    ("a.jsonl", GOOD + b"\n" + b'{"text": 7}'),
    ("a.jsonl", GOOD + b'{"text": "\\ud83d"}'),
    ("a.jsonl", GOOD + b'{"text": "a\\u0000"}'),
    ("a.jsonl", b"[" * 99999),
    ("a.jsonl", b"{" * 99999),
    ("a.csv", b"id,text\n1,a\n2,the cat, sat\n"),
    ("a.csv", b'id,text\n1,"a\nb\n'),
    ("a.tsv", b'id\ttext\n1\t"no" he said\n'),
]


def _read_in_chunks(path: Path) -> list[str]:
    return [line for chunk in cut_files([path], "text") for line in chunk.lines()]


def test_a_damaged_record_is_named_with_its_line(tmp_path, monkeypatch, messages):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 100)
    for name, data in DAMAGED:
        (tmp_path / name).write_bytes(data)
        messages.refuse(functools.partial(_read_in_chunks, tmp_path / name))


def test_a_damaged_parquet_file_is_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1\x15\x04" + bytes(99) + b"PAR1")
    with pytest.raises(InputError, match="must be a whole Parquet file"):
        _read_in_chunks(tmp_path / "a.parquet")
