"""N-best lists written list by list, with what was added to them."""

import contextlib
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.rescoring.lines import SCORE, new_line, write_moses
from keras_nplm.language_model.rescoring.nbest import NBestList, check_format


@contextlib.contextmanager
def nbest_writer(
    path: str | os.PathLike | None, format: str, header: str | None = None
) -> Iterator[Callable[[NBestList], None]]:
    """A function that writes N-best lists, in a format, with what was added to them.

    Moses: features are added to the others; a total takes the place of the score, which is kept as a feature
    `NAME_before`. TSV: columns are added, the total last, as `NAME_total`. Kaldi: the words go to the file, and what
    was added, the total too, to `PATH.FEATURE` as costs; keys stay, so that the first of an utterance is the best.

    Args:
        path: the file, gzipped where the name ends in `.gz`; it appears when all is written. None: standard output,
            likewise.
        format: one of `FORMATS`.
        header: the first line of TSV, if it has one.

    Raises:
        InputError: the path is a directory, or Kaldi's format is to go to standard output.
        RunError: the disk is full or the directory cannot be written.
    """
    check_format(format)
    if path is None and format == "kaldi":
        raise InputError("Kaldi's format has archives of scores beside the words: name a file with `--output`.")
    with contextlib.ExitStack() as stack:
        yield _Writer(path, format, header, stack).write


class _Writer:
    def __init__(self, path: str | os.PathLike | None, format: str, header: str | None, stack: contextlib.ExitStack):
        self._path, self._format, self._header, self._stack = path, format, header, stack
        self._text = self._open("")
        self._archives: dict[str, BinaryIO] = {}

    def write(self, nbest: NBestList) -> None:
        """Write a list, after those before it."""
        added = {name: nbest.features[name].tolist() for name in nbest.added}
        if nbest.totals is not None:
            added[f"{next(iter(added), SCORE)}_total"] = nbest.totals.tolist()
        if self._header:
            self._put(self._text, "\t".join([self._header, *added]))
            self._header = None
        for i, line in enumerate(self._lines(nbest)):
            values = {name: column[i] for name, column in added.items()}
            if self._format == "moses":
                total = None if nbest.totals is None else values.popitem()[1]
                line = write_moses(line, values, total)
            elif self._format == "tsv":
                line = "\t".join([line, *map("{:.6f}".format, values.values())])
            else:
                self._archive(line.split(maxsplit=1)[0], values)
            self._put(self._text, line)

    def _archive(self, key: str, values: dict[str, float]) -> None:
        for name, value in values.items():
            if name not in self._archives:
                self._archives[name] = self._open(f".{name}")
            self._put(self._archives[name], f"{key} {-value:.6f}")

    def _lines(self, nbest: NBestList) -> list[str]:
        if nbest.lines is not None:
            return nbest.lines
        known = {name: values for name, values in nbest.features.items() if name not in nbest.added}
        return [
            new_line(self._format, nbest.name, i + 1, text, {name: float(values[i]) for name, values in known.items()})
            for i, text in enumerate(nbest.texts)
        ]

    def _put(self, file: BinaryIO, line: str) -> None:
        file.write(line.encode("utf-8") + b"\n")

    def _open(self, suffix: str) -> BinaryIO:
        if self._path is None:
            return self._stack.enter_context(_to_standard_output())
        path = Path(self._path)
        if not path.name:
            raise InputError(f"{path} is a directory: name a file to write.")
        zipped = path.suffix == ".gz"
        named = path.with_name(path.stem + suffix + ".gz" if zipped else path.name + suffix)
        temporary = self._stack.enter_context(replace_file(named))
        file = self._stack.enter_context(temporary.open("wb"))
        return self._stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)) if zipped else file


@contextlib.contextmanager
def _to_standard_output() -> Iterator[BinaryIO]:
    """A file on disk that is copied to standard output if the block ends well."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        sys.stdout.flush()
        shutil.copyfileobj(file, sys.stdout.buffer)
