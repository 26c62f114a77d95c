"""Data files: text that is a field of the records of JSON Lines, CSV, TSV or Parquet files.

A value of one line is a sentence. A value of several lines is a document: each of its lines is a
sentence, and a blank line follows.
"""

import csv
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from keras_nplm.io.errors import InputError, shorten_value, summarize_error
from keras_nplm.io.extras import import_extra
from keras_nplm.io.text import MAX_LINE_BYTES, decode_lines

_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_PARQUET = b"PAR1"
_DELIMITERS = ",\t;"
_FIRST = 3  # lines by which JSON Lines are known
_SHOWN = 20  # fields that an error lists
_SURROGATE_ESCAPE = "\\u"


def is_cuttable(file: Any, field: str | None) -> bool:
    """Return whether each line of an open file is a record of its own: text and JSON Lines.

    A value of a CSV file may have line breaks, and Parquet is binary.
    """
    return field is None or _find_format(file) == "JSON Lines"


def refuse_data(lines: Iterator[str], path: str) -> Iterator[str]:
    """Yield the lines of a text file, and refuse a data file, which is read by a field.

    It is known by its suffix, or by a JSON object in each of the first lines.
    """
    name = path.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    first = list(itertools.islice(lines, _FIRST))
    parsed = [_parse_object(line) for line in first]
    if name.endswith(_SUFFIXES) or (first and None not in parsed):
        fields = sorted(parsed[0]) if parsed and parsed[0] else _split_header(first)
        received = f"a file with the fields {_list_fields(fields)}"
        example = "text" if "text" in fields or not fields else fields[0]
        raise InputError(
            f"{path} must be text without --field. Received: {received}. Fix: add "
            f"--field {example}, the field that holds the text, or name a text file .txt."
        )
    return itertools.chain(first, lines)


def read_field(
    file: Any, path: str, field: str, start: int = 0, stop: int | None = None
) -> Iterator[str]:
    """Read the lines of a field, of an open data file between two byte positions.

    Raises:
        InputError: a record lacks the field, or is damaged. The message has its line.
    """
    kind = _find_format(file) if not start else "JSON Lines"
    if kind == "Parquet":
        values = _read_parquet(file, path, field)
    elif kind == "JSON Lines":
        values = _read_json(file, path, field, start, stop)
    else:
        values = _read_table(file, path, field)
    for value in values:
        lines = value.removesuffix("\n").split("\n")
        yield from (line.rstrip("\r") for line in lines)
        if len(lines) > 1:
            yield ""


def _find_format(file: Any) -> str:
    """Return the format of an open file, by its first bytes."""
    head = file.peek(len(_PARQUET) + 3)
    if head.startswith(_PARQUET):
        return "Parquet"
    begins_with_brace = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
    return "JSON Lines" if begins_with_brace else "CSV"


def _parse_object(line: str) -> dict | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _split_header(lines: list[str]) -> list[str]:
    """Return the names of the columns of a table, by the delimiter that gives the most."""
    rows = (next(csv.reader(lines[:1], delimiter=delimiter), []) for delimiter in _DELIMITERS)
    return max(rows, key=len)


def _list_fields(fields: Iterable[str]) -> str:
    names = [*fields]
    listed = ", ".join(shorten_value(name) for name in names[:_SHOWN])
    return f"{listed}, …" if len(names) > _SHOWN else listed or "none"


def _check_value(value: object, fields: Iterable[str], place: str, field: str) -> str:
    """Return the text of a record."""
    names = [*fields]
    if field not in names:
        example = "text" if "text" in names or not names else names[0]
        raise InputError(
            f"{place}: a record must have the field {field!r}. Received: {_list_fields(names)}. "
            f"Fix: give a field that each record has, such as --field {example}, or correct the "
            "record."
        )
    if not isinstance(value, str) or "\0" in value or not _is_unicode(value):
        raise InputError(
            f"{place}: the field {field!r} must be text without NUL. "
            f"Received: {shorten_value(value)}. Fix: correct the record, or leave it out."
        )
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_json(
    file: BinaryIO, path: str, field: str, start: int, stop: int | None
) -> Iterator[str]:
    for number, line in enumerate(decode_lines(file, path, start, stop), start=1):
        if not line or line.isspace():
            continue
        record = _parse_object(line)
        if record is None or not isinstance(record.get(field), str):
            place = f"{path}, line {_count_lines(path, start) + number:,}"
            if record is None:
                fix = "correct it."
                if line.lstrip()[0] == "[":
                    fix = "write one object a line, for example by `jq -c '.[]'`."
                elif line.strip() == "{":
                    fix = "write one object a line, for example by `jq -c .`."
                raise InputError(
                    f"{place} must be one JSON object. Received: {shorten_value(line)}. Fix: {fix}"
                )
            _check_value(record.get(field), record, place, field)
        value = record[field]
        if _SURROGATE_ESCAPE in line:
            place = f"{path}, line {_count_lines(path, start) + number:,}"
            _check_value(value, record, place, field)
        yield value


def _count_lines(path: str, stop: int) -> int:
    """Count the lines before a byte of a file."""
    if not stop:
        return 0
    with open(path, "rb") as file:
        blocks = (file.read(min(1 << 20, stop - at)) for at in range(0, stop, 1 << 20))
        return sum(block.count(b"\n") for block in blocks)


def _read_table(file: BinaryIO, path: str, field: str) -> Iterator[str]:
    """Read a column of CSV, or of TSV or CSV with semicolons, whose first line names the columns."""
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = (f"{line}\n" for line in decode_lines(file, path))
    first = next(lines, "")
    headers = ((mark, next(csv.reader([first], delimiter=mark), [])) for mark in _DELIMITERS)
    delimiter, header = max(headers, key=lambda pair: (field in pair[1], len(pair[1])))
    _check_value("", header, f"{path}, line 1", field)
    column = header.index(field)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in rows:
            if row and len(row) != len(header):
                raise InputError(
                    f"{path}, line {rows.line_num + 1:,}: a record must have {len(header)} fields, "
                    f"as the first line. Received: {len(row)}. Fix: put values with "
                    f"{delimiter!r} into double quotes."
                )
            if row:
                yield row[column]
    except csv.Error as error:
        raise InputError(
            f"{path}, line {rows.line_num + 1:,}: must be CSV. Received: {error}. Fix: put values "
            "with quotes into double quotes, and double the quotes within."
        ) from error


def _read_parquet(file: BinaryIO, path: str, field: str) -> Iterator[str]:
    parquet = import_extra("pyarrow.parquet", path)
    try:
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
        _check_value("", names, path, field)
        row = 0
        for batch in table.iter_batches(columns=[field]):
            for row, value in enumerate(batch.column(0).to_pylist(), start=row + 1):
                yield _check_value(value, names, f"{path}, row {row:,}", field)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's errors are among these
        raise InputError(
            f"{path} must be a whole Parquet file. Received: {summarize_error(error)}. "
            "Fix: copy it again, without further compression."
        ) from error
