"""Write N-best lists with their new features, list by list: Moses, Kaldi or TSV."""

import contextlib
import gzip
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.text import split_fields
from keras_nplm.rescoring.line_formats import DECODER_SCORE, extend_moses_line, name_total
from keras_nplm.rescoring.nbest import NBestList, check_format


@contextlib.contextmanager
def open_nbest_writer(
    path: str | os.PathLike | None, format: str, header: str | None = None
) -> Iterator[Callable[[NBestList], None]]:
    """Open a file of N-best lists and return a function that writes a list of an `NBestFile` with
    its new features.

    - Moses: the total replaces the score, which is kept as a feature `NAME_before`.
    - TSV: new features are new columns. The total is the last column, `NAME_total`. `header` is the
    header line.
    - Kaldi: the file receives the words. Each new feature, and the total, goes to an archive of
    costs `PATH.FEATURE`.

    The file, gzipped if its name ends in `.gz`, appears when the block ends without an error. None:
    standard output.
    """
    check_format(format)
    if path is None and format == "kaldi":
        raise InputError(
            "Kaldi's format needs files for the costs. Fix: name a file with `--output`."
        )
    with contextlib.ExitStack() as stack:
        yield _Writer(path, format, header, stack).write


class _Writer:
    """Writes lists to a file, and Kaldi's costs to files beside it, which `stack` closes."""

    def __init__(
        self,
        path: str | os.PathLike | None,
        format: str,
        header: str | None,
        stack: contextlib.ExitStack,
    ):
        self._path = path
        self._format = format
        self._header = header
        self._stack = stack
        # files by the suffix of their name: "" the file itself, ".FEATURE" an archive of costs
        self._files: dict[str, _Output] = {}
        self._open("")

    def write(self, nbest: NBestList) -> None:
        """Write a list of an `NBestFile`: its lines with the new features and the totals."""
        new_features = {name: nbest.features[name].tolist() for name in nbest.new_features}
        totals = None if nbest.totals is None else nbest.totals.tolist()
        if self._format == "moses":
            self._write_moses(nbest.lines, new_features, totals)
            return
        columns = dict(new_features)
        if totals is not None:
            name = next(iter(new_features), DECODER_SCORE)
            columns[name_total(name)] = totals
        if self._format == "tsv":
            self._write_tsv(nbest.lines, columns)
        else:
            self._write_kaldi(nbest.lines, columns)

    def _write_moses(
        self, lines: list[str], new_features: dict[str, list[float]], totals: list[float] | None
    ) -> None:
        for row, line in enumerate(lines):
            values = {name: column[row] for name, column in new_features.items()}
            total = None if totals is None else totals[row]
            self._write_line("", extend_moses_line(line, values, total))

    def _write_tsv(self, lines: list[str], columns: dict[str, list[float]]) -> None:
        if self._header:
            self._write_line("", "\t".join([self._header, *columns]))
            self._header = None
        for row, line in enumerate(lines):
            values = [f"{column[row]:.6f}" for column in columns.values()]
            self._write_line("", "\t".join([line, *values]))

    def _write_kaldi(self, lines: list[str], columns: dict[str, list[float]]) -> None:
        for row, line in enumerate(lines):
            key = split_fields(line)[0]
            for name, column in columns.items():
                cost = -column[row]
                self._write_line(f".{name}", f"{key} {cost:.6f}")
            self._write_line("", line)

    def _write_line(self, suffix: str, line: str) -> None:
        self._open(suffix).write(line.encode("utf-8") + b"\n")

    def _open(self, suffix: str) -> "_Output":
        if suffix not in self._files:
            self._files[suffix] = self._open_file(suffix)
        return self._files[suffix]

    def _open_file(self, suffix: str) -> "_Output":
        if self._path is None:
            sys.stdout.flush()  # text that was printed before comes first
            return getattr(sys.stdout, "buffer", _TextOutput())
        path = Path(self._path)
        is_gzip = path.suffix.lower() == ".gz"
        name = f"{path.stem}{suffix}.gz" if is_gzip else f"{path.name}{suffix}"
        temporary = self._stack.enter_context(replace_file(path.with_name(name)))
        file = self._stack.enter_context(temporary.open("wb"))
        if not is_gzip:
            return file
        # neither a name nor a time: equal lists give equal bytes
        zipped = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        return self._stack.enter_context(zipped)


class _Output(Protocol):
    def write(self, data: bytes, /) -> object: ...


class _TextOutput:
    """Standard output without a buffer of bytes, as in a notebook."""

    def write(self, data: bytes, /) -> None:
        sys.stdout.write(data.decode("utf-8"))
