"""Write N-best lists with their new features, list by list: Moses, Kaldi or TSV."""

import contextlib
import functools
import gzip
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.text import split_fields
from keras_nplm.rescoring.line_formats import DECODER_SCORE, extend_moses_line
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
        self._open = functools.cache(self._open_file)
        self._open("")

    def write(self, nbest: NBestList) -> None:
        columns = {name: nbest.features[name].tolist() for name in nbest.new_features}
        if nbest.totals is not None:
            columns[f"{next(iter(columns), DECODER_SCORE)}_total"] = nbest.totals.tolist()
        if self._header:
            self._write_line("", "\t".join([self._header, *columns]))
            self._header = None
        for i, line in enumerate(nbest.lines):
            values = {name: column[i] for name, column in columns.items()}
            if self._format == "moses":
                total = None if nbest.totals is None else values.popitem()[1]
                line = extend_moses_line(line, values, total)
            elif self._format == "tsv":
                line = "\t".join([line, *map("{:.6f}".format, values.values())])
            else:
                for name, value in values.items():
                    self._write_line(f".{name}", f"{split_fields(line)[0]} {-value:.6f}")
            self._write_line("", line)

    def _write_line(self, suffix: str, line: str) -> None:
        self._open(suffix).write(line.encode("utf-8") + b"\n")

    def _open_file(self, suffix: str) -> BinaryIO:
        if self._path is None:
            return sys.stdout.buffer
        path = Path(self._path)
        is_gzip = path.suffix.lower() == ".gz"
        target = path.with_name(path.stem + suffix + ".gz" if is_gzip else path.name + suffix)
        file = self._stack.enter_context(self._stack.enter_context(replace_file(target)).open("wb"))
        return (
            self._stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
            if is_gzip
            else file
        )
