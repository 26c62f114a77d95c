"""N-best lists of a decoder, and a reader of their files: Moses, Kaldi, and tab-separated columns
(TSV).
"""

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import numpy as np

import keras_nplm.rescoring.line_formats as line_formats
from keras_nplm.data.arguments import check_lines
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.text import SPACES, check_is_file, read_lines, split_fields

FORMATS = ("moses", "kaldi", "tsv")


@dataclasses.dataclass
class NBestList:
    """An N-best list: the hypotheses of a decoder for one input, with their features.

    `name` is the id of the input. A feature has a value for each of the H hypotheses, float64 [H],
    the greater the better. The decoder's total is `"score"`.
    """

    name: str
    texts: list[str]
    features: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    # of the file, if they were read from one
    lines: list[str] = dataclasses.field(default_factory=list)
    new_features: tuple[str, ...] = ()  # those that are not in `lines`
    # weighted sums of features, float64 [H], if the list was ranked
    totals: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.texts = list(check_lines(self.texts, "texts"))

    def __len__(self) -> int:
        return len(self.texts)

    def with_features(self, features: Mapping[str, np.ndarray]) -> "NBestList":
        if duplicates := [name for name in features if name in self.features]:
            raise InputError(
                f"List {self.name} already has a feature {duplicates[0]}. Fix: choose a new "
                "`--name`."
            )
        added = (*self.new_features, *features)
        return dataclasses.replace(self, features=self.features | features, new_features=added)

    def reorder(self, order: np.ndarray) -> "NBestList":
        """Return a copy with the hypotheses in a new order, int [H]."""
        return dataclasses.replace(
            self,
            texts=[self.texts[i] for i in order],
            features={name: values[order] for name, values in self.features.items()},
            lines=[self.lines[i] for i in order] if self.lines else [],
            totals=None if self.totals is None else self.totals[order],
        )


class NBestFile:
    """A file of N-best lists, read list by list, so it may be larger than memory.

    - `moses`: `id ||| hypothesis ||| name= value … name= value … ||| score`. The score and further
      fields are optional. Names may also be written `name:` or `name=value`. A name with several
      values gives the features `name.1`, `name.2`, …; values without a name are `feature.1`, …. A
      missing feature is 0.
    - `kaldi`: `utterance-k words`, as `nbest-to-linear` and `int2sym.pl` write it. Archives of
      costs, `utterance-k cost`, have the same order. A cost is -ln P, and the feature is its
      negative.
    - `tsv`: id, hypothesis and features between tabs. The features are named `score`, `score.2`, …
      or by a header line `id<TAB>hypothesis<TAB>NAME…`. Greater is better.

    The lines of one id must be adjacent. Blank lines are skipped. `format`, one of `FORMATS`, is by
    default detected from the first line and the suffix `.tsv`. `archives`, of Kaldi only, are
    archives of costs by feature.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        format: str | None = None,
        archives: Mapping[str, str | os.PathLike] | None = None,
    ):
        check_format(format)
        self.path = Path(path)
        self.archives = {name: Path(archive) for name, archive in (archives or {}).items()}
        for file in (self.path, *self.archives.values()):
            check_is_file(file)
        with contextlib.closing(read_numbered_lines(self.path)) as lines:
            number, first = next(lines, (1, ""))
        self.format = format or _detect_format(self.path, first)
        self.header: str | None = None
        self._parse = (
            line_formats.parse_moses_line
            if self.format == "moses"
            else line_formats.parse_kaldi_line
        )
        if self.format == "tsv":
            with name_line(self.path, number):
                columns = line_formats.name_tsv_columns(first)
            self._parse = functools.partial(line_formats.parse_tsv_line, columns=columns)
            self.header = first if line_formats.is_tsv_header(first) else None
        is_complete = self.format == "kaldi" or not self.archives
        check_argument(
            "archives", is_complete, "of costs of the format kaldi", self.format, "leave them out."
        )

    def __iter__(self) -> Iterator[NBestList]:
        seen: set[int] = set()
        for name, group in itertools.groupby(self._read_rows(), key=lambda row: row[0]):
            _, numbers, *rows = zip(*group, strict=True)
            if hash(name) in seen:
                raise line_error(
                    self.path, numbers[0], f"the id {name} occurs again, but not in adjacent lines"
                )
            seen.add(hash(name))
            texts, features, lines = rows
            names = dict.fromkeys(itertools.chain.from_iterable(features))  # a missing feature is 0
            columns = {name: np.array([row.get(name, 0.0) for row in features]) for name in names}
            yield NBestList(name, list(texts), columns, list(lines))
        if not seen:
            raise InputError(f"{self.path} holds no hypothesis. Fix: give a file of N-best lists.")

    def _read_rows(self) -> Iterator[tuple[str, int, str, dict[str, float], str]]:
        """Yield id, line number, hypothesis, features and line of each hypothesis."""
        with contextlib.ExitStack() as stack:
            lines, *archives = (
                stack.enter_context(contextlib.closing(read_numbered_lines(path)))
                for path in (self.path, *self.archives.values())
            )
            if self.header:
                next(lines)
            for number, line in lines:
                with name_line(self.path, number):
                    name, text, features = self._parse(line)
                for (feature, path), archive in zip(self.archives.items(), archives, strict=True):
                    key = split_fields(line)[0]
                    archive_number, cost = next(archive, (None, ""))
                    if archive_number is None:
                        raise InputError(
                            f"{path} ends before {key}. Fix: give one line for each hypothesis, "
                            "in order."
                        )
                    with name_line(path, archive_number):
                        features[feature] = -line_formats.parse_kaldi_cost(cost, key)
                yield name, number, text, features, line
            for path, archive in zip(self.archives.values(), archives, strict=True):
                for number, _ in archive:
                    raise line_error(path, number, f"{self.path} has no hypothesis for this line")


def check_format(format: str | None) -> None:
    check_argument(
        "format", format in (None, *FORMATS), f"one of {', '.join(FORMATS)}", repr(format)
    )


def _detect_format(path: Path, line: str) -> str:
    if line_formats.SEPARATOR in line:
        return "moses"
    if ".tsv" in map(str.lower, path.suffixes) or "\t" in line:
        return "tsv"
    try:
        line_formats.parse_kaldi_line(line)
    except ValueError as error:
        raise InputError(
            f"The first line of {path} is not in a known format. Fix: give `--format`."
        ) from error
    return "kaldi"


def read_numbered_lines(
    path: str | os.PathLike, *, with_blank: bool = False
) -> Generator[tuple[int, str], None, None]:
    """Yield the lines of a file with their numbers, from 1, by default without blank lines."""
    for number, line in enumerate(read_lines(path), start=1):
        if with_blank or line.strip(SPACES):
            yield number, line


def line_error(path: str | os.PathLike, number: int, message: str) -> InputError:
    return InputError(f"{path}, line {number}: {message}.")


@contextlib.contextmanager
def name_line(path: Path, number: int) -> Iterator[None]:
    """Turn a ValueError of the block into an InputError that names the line."""
    try:
        yield
    except ValueError as error:
        raise line_error(path, number, str(error)) from error
