"""Data files: text that is a field of the records of JSON Lines, CSV, TSV or Parquet files.

A value of one line is a sentence. A value of several lines is a document: each of its lines is a
sentence, and a blank line follows.
"""

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from keras_nplm.io.errors import InputError, shorten_value, summarize_error
from keras_nplm.io.extras import import_extra
from keras_nplm.io.text import MAX_LINE_BYTES, decode_lines

_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_PARQUET = b"PAR1\x15"  # the mark, and the first byte of what follows
_DELIMITERS = ",\t;"
_FIRST_LINES = 3  # by which JSON Lines are known
_MOST_LISTED = 20  # fields in an error
_OTHER_FIELD = "name one of these, or leave out --field for a text file."
_LONG_RECORD = "divide the record into several, or leave it out."


def has_records_in_lines(file: Any, path: str, field: str | None) -> bool:
    """Return whether an open file may be cut at each line end, as text and JSON Lines.

    A value of a CSV file may have line breaks, and Parquet is binary.
    """
    return field is None or _find_format(file, path) == "JSON Lines"


def refuse_data(file: Any, lines: Iterator[str], path: str) -> Iterator[str]:
    """Return the lines of an open text file, and refuse a data file, which is read by a field.

    It is known by its suffix, or by a JSON object in each of the first lines.
    """
    name = path.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    is_named = name.endswith(_SUFFIXES)
    kind = ""
    if is_named or file.peek(len(_PARQUET)).startswith(_PARQUET):
        kind = _find_format(file, path)
    if kind == "Parquet":
        raise _refuse_without_field(path, _open_parquet(file, path).schema_arrow.names)
    first = list(itertools.islice(lines, _FIRST_LINES))
    records = [_parse_object(line) for line in first]
    if is_named or (first and None not in records):
        record = records[0] if records else None
        fields = _split_header("".join(first[:1]))[1] if record is None else record
        raise _refuse_without_field(path, fields)
    return itertools.chain(first, lines)


def read_field(
    file: Any, path: str, field: str, start: int = 0, stop: int | None = None
) -> Iterator[str]:
    """Read the lines of a field of an open data file, between two byte positions.

    Raises:
        InputError: a record lacks the field, or is damaged. The message has its line.
    """
    kind = "JSON Lines" if start else _find_format(file, path)
    if kind == "JSON Lines":
        values = _read_json(file, path, field, start, stop)
    else:
        values = {"Parquet": _read_parquet, "CSV": _read_table}[kind](file, path, field)
    for value in values:
        lines = value.removesuffix("\n").split("\n")
        yield from (line.rstrip("\r") for line in lines)
        if len(lines) > 1:
            yield ""


def _find_format(file: Any, path: str) -> str:
    """Return the format of an open file, by its first bytes."""
    head = file.peek(1 << 9)
    if head.startswith(_PARQUET):
        return "Parquet"
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first == b"[":  # it may be one line of any length
        raise InputError(
            f"{path} must have one JSON object a line. Received: an array. Fix: write the objects "
            "as lines, for example by `jq -c '.[]'`."
        )
    return "JSON Lines" if first == b"{" else "CSV"


def _parse_object(line: str) -> dict | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_without_field(path: str, fields: Iterable[str]) -> InputError:
    names = [*fields]
    name = "text" if "text" in names else "NAME"
    return InputError(
        f"`--field` must be given for a data file. Received: {path} with the fields "
        f"{_list_fields(names)}. Fix: add --field {name}, the field that holds the text. A text "
        "file needs a different ending, such as .txt."
    )


def _list_fields(fields: Iterable[str]) -> str:
    names = [*fields]
    listed = ", ".join(shorten_value(name) for name in names[:_MOST_LISTED])
    return f"{listed}, …" if len(names) > _MOST_LISTED else listed or "none"


def _check_field(fields: Iterable[str], field: str, place: str, fix: str = _OTHER_FIELD) -> None:
    if field not in fields:
        raise InputError(
            f"{place}: a record must have the field {field!r}. Received: {_list_fields(fields)}. "
            f"Fix: {fix}"
        )


def _check_value(value: object, field: str, describe_place: Callable[[], str]) -> str:
    """Return the text of a record. NUL and halves of surrogate pairs can be written in JSON."""
    if isinstance(value, str) and value.isprintable():
        return value
    if not isinstance(value, str) or any("\ud800" <= c <= "\udfff" or c == "\0" for c in value):
        raise InputError(
            f"{describe_place()}: the field {field!r} must be text, without NUL. "
            f"Received: {shorten_value(value)}. Fix: correct the record, or leave it out."
        )
    return value


def _read_json(
    file: BinaryIO, path: str, field: str, start: int, stop: int | None
) -> Iterator[str]:
    number = 0

    def describe_place() -> str:
        return f"{path}, line {_count_lines(path, start) + number:,}"

    for line in decode_lines(file, path, start, stop, _LONG_RECORD):
        number += 1
        if not line or line.isspace():
            continue
        record = _parse_object(line)
        if record is None:
            how = "correct it"
            if line.strip() == "{":
                how = "write each object as one line, for example by `jq -c .`"
            raise InputError(
                f"{describe_place()} must be one JSON object. Received: {shorten_value(line)}. "
                f"Fix: {how}."
            )
        if field not in record:
            fix = "name a field that all records have, or correct this one."
            _check_field(record, field, describe_place(), fix)
        yield _check_value(record[field], field, describe_place)


def _count_lines(path: str, stop: int) -> int:
    """Count the line ends before a byte of a file."""
    if not stop:
        return 0
    with open(path, "rb") as file:
        blocks = (file.read(min(1 << 20, stop - at)) for at in range(0, stop, 1 << 20))
        return sum(block.count(b"\n") for block in blocks)


def _parse_rows(lines: Iterable[str], delimiter: str, strict: bool = False) -> Any:
    csv.field_size_limit(MAX_LINE_BYTES)  # of this process; the default is 128 KiB
    return csv.reader(lines, delimiter=delimiter, strict=strict)


def _split_header(line: str, field: str = "") -> tuple[str, list[str]]:
    """Split the first line of a table by the delimiter that gives the field, or most columns."""
    headers: list[tuple[str, list[str]]]
    headers = [(mark, next(_parse_rows([line], mark), [])) for mark in _DELIMITERS]
    return max(headers, key=lambda pair: (field in pair[1], len(pair[1])))


def _read_table(file: BinaryIO, path: str, field: str) -> Iterator[str]:
    """Read a column of CSV, also with tabs or semicolons. The first line names the columns."""
    lines = (f"{line}\n" for line in decode_lines(file, path, fix=_LONG_RECORD))
    first = next(lines, "")
    delimiter, header = _split_header(first, field)
    _check_field(header, field, f"{path}, line 1")
    column = header.index(field)
    rows = _parse_rows(lines, delimiter, strict=True)

    def describe_place() -> str:
        return f"{path}, line {rows.line_num + 1:,}"

    try:
        for row in rows:
            if row and len(row) != len(header):
                raise InputError(
                    f"{describe_place()}: a record must have {len(header)} fields, as the first "
                    f"line. Received: {len(row)}. Fix: put values with {delimiter!r} into double "
                    "quotes."
                )
            if row:
                yield row[column]
    except csv.Error as error:
        raise InputError(
            f"{describe_place()} must be of a CSV file. Received: {error}. Fix: put values with "
            "quotes into double quotes, and write each quote in them twice."
        ) from error


def _read_parquet(file: BinaryIO, path: str, field: str) -> Iterator[str]:
    table = _open_parquet(file, path)
    _check_field(table.schema_arrow.names, field, path)
    row = 0

    def describe_place() -> str:
        return f"{path}, row {row:,}"

    try:
        for batch in table.iter_batches(columns=[field]):
            for value in batch.column(0).to_pylist():
                row += 1
                yield _check_value(value, field, describe_place)
    except OSError as error:  # of damaged pages
        raise _refuse_parquet(path, error) from error


def _open_parquet(file: BinaryIO, path: str) -> Any:
    parquet = import_extra("pyarrow.parquet", path)
    try:
        return parquet.ParquetFile(file)
    except (OSError, ValueError) as error:  # pyarrow's errors are among these
        raise _refuse_parquet(path, error) from error


def _refuse_parquet(path: str, error: Exception) -> InputError:
    return InputError(
        f"{path} must be a whole Parquet file. Received: {summarize_error(error)}. Fix: copy it "
        "again, without further compression."
    )
