"""N-best lists of a decoder, and a reader of their files: Moses, Kaldi, and tab-separated columns
(TSV).
"""

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.io.errors import InputError, check_argument, shorten_value
from keras_nplm.io.text import SPACES, check_is_file, read_lines, split_fields
from keras_nplm.rescoring import line_formats

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
    # those that are not in `lines`
    new_features: tuple[str, ...] = ()
    # weighted sums of features, float64 [H], if the list was ranked
    totals: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.texts = list(check_lines(self.texts, "texts"))
        self.features = {
            name: self.convert_numbers(name, values) for name, values in self.features.items()
        }

    def __len__(self) -> int:
        return len(self.texts)

    def convert_numbers(self, argument: str, values: Any, *, finite: bool = False) -> np.ndarray:
        """Return a number for each hypothesis, float64 [H]; refuse anything else."""
        try:
            numbers = np.asarray(values, np.float64)
        except (TypeError, ValueError):  # no numbers, or lists of several lengths
            numbers = np.zeros(0)
        kind = "a finite number" if finite else "a number"
        check_argument(
            argument,
            numbers.shape == (len(self),) and (not finite or bool(np.isfinite(numbers).all())),
            f"{kind} for each of the {len(self)} hypotheses of list {self.name}",
            shorten_value(values.tolist() if isinstance(values, np.ndarray) else values),
            "give one for each hypothesis, in their order.",
        )
        return numbers

    def with_features(self, features: Mapping[str, np.ndarray]) -> "NBestList":
        """Return a copy with more features, of names that it does not have."""
        duplicates = [name for name in features if name in self.features]
        if duplicates:
            raise InputError(
                f"List {self.name} already has a feature {duplicates[0]}. Fix: choose a new "
                "`--name`."
            )
        return dataclasses.replace(
            self,
            features={**self.features, **features},
            new_features=(*self.new_features, *features),
        )

    def reorder(self, order: np.ndarray) -> "NBestList":
        """Return a copy with the hypotheses in a new order, int [H]."""
        return dataclasses.replace(
            self,
            texts=[self.texts[i] for i in order],
            features={name: values[order] for name, values in self.features.items()},
            lines=[self.lines[i] for i in order] if self.lines else [],
            totals=None if self.totals is None else self.totals[order],
        )


class _Hypothesis(NamedTuple):
    """A hypothesis as it is read from a file, with its line and the number of the line."""

    name: str  # of its list
    number: int
    text: str
    features: dict[str, float]
    line: str


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
      or by a header line, such as `id<TAB>hypothesis<TAB>NAME…`: a first line without a number in
      the columns of features. Greater is better. A header may name the columns in any order, as
      `id` or `utt`, `hypothesis` or `text`, …; see `line_formats.TSV_IDS` and `TSV_HYPOTHESES`.

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
        if not first:
            raise InputError(f"{self.path} has no lines. Fix: give N-best lists.")
        self.format = format or _detect_format(self.path, first)
        self.header: str | None = None
        self.tsv_columns: line_formats.TsvColumns | None = None
        self._parse: Callable[[str], line_formats.ParsedLine]
        if self.format == "moses":
            self._parse = line_formats.parse_moses_line
        elif self.format == "kaldi":
            self._parse = line_formats.parse_kaldi_line
        else:
            with name_line(self.path, number):
                columns = line_formats.read_tsv_columns(first)
            self._parse = functools.partial(line_formats.parse_tsv_line, columns=columns)
            self.tsv_columns = columns
            if columns.is_header:
                self.header = first
        if self.archives and self.format != "kaldi":
            raise InputError(
                f"`archives` must be of costs of the format kaldi. Received: {self.format}. "
                "Fix: leave them out."
            )

    def __iter__(self) -> Iterator[NBestList]:
        # hashes of the ids: a file may have more lists than fit in memory
        seen: set[int] = set()
        for name, group in itertools.groupby(self._read_hypotheses(), key=lambda row: row.name):
            rows = list(group)
            if hash(name) in seen:
                message = f"the id {name} occurs again, but not in adjacent lines"
                raise line_error(self.path, rows[0].number, message)
            seen.add(hash(name))
            yield NBestList(
                name,
                [row.text for row in rows],
                _arrange_features([row.features for row in rows]),
                [row.line for row in rows],
            )
        if not seen:
            raise InputError(f"{self.path} holds no hypothesis. Fix: give a file of N-best lists.")

    def _read_hypotheses(self) -> Iterator[_Hypothesis]:
        with contextlib.ExitStack() as stack:
            lines = stack.enter_context(contextlib.closing(read_numbered_lines(self.path)))
            archives = [
                stack.enter_context(contextlib.closing(_CostArchive(feature, path)))
                for feature, path in self.archives.items()
            ]
            if self.header:
                next(lines)
            for number, line in lines:
                with name_line(self.path, number):
                    name, text, features = self._parse(line)
                for archive in archives:
                    # the first field is the key of the line in Kaldi's format, `utterance-k`
                    features[archive.feature] = -archive.read_cost(split_fields(line)[0])
                yield _Hypothesis(name, number, text, features, line)
            for archive in archives:
                archive.check_end(self.path)


class _CostArchive:
    """An archive of Kaldi's costs, -ln P, read line by line beside a file of hypotheses."""

    def __init__(self, feature: str, path: Path):
        self.feature = feature
        self._path = path
        self._lines = read_numbered_lines(path)

    def read_cost(self, key: str) -> float:
        """Read the next cost, which must belong to a hypothesis."""
        numbered_line = next(self._lines, None)
        if numbered_line is None:
            raise InputError(
                f"{self._path} ends before {key}. Fix: give one line for each hypothesis, in order."
            )
        number, line = numbered_line
        with name_line(self._path, number):
            return line_formats.parse_kaldi_cost(line, key)

    def check_end(self, hypotheses: Path) -> None:
        """Refuse a cost after the last hypothesis."""
        numbered_line = next(self._lines, None)
        if numbered_line is not None:
            number, _ = numbered_line
            raise line_error(self._path, number, f"{hypotheses} has no hypothesis for this line")

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def _arrange_features(rows: Sequence[Mapping[str, float]]) -> dict[str, np.ndarray]:
    """Return the features of all hypotheses of a list, in the order in which they occur; a missing
    one is 0.
    """
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    return {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}


def check_format(format: str | None) -> None:
    """Refuse a format other than `FORMATS`; None is detected later."""
    if format is not None and format not in FORMATS:
        raise InputError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}.")


def _detect_format(path: Path, line: str) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if line_formats.SEPARATOR in line:
        return "moses"
    if ".tsv" in suffixes or "\t" in line:
        return "tsv"
    try:
        line_formats.parse_kaldi_line(line)
    except ValueError as error:
        raise InputError(
            f"The first line of {path} must be of Moses (`id ||| hypothesis ||| features ||| "
            "score`), of Kaldi (`utterance-k words`) or tab-separated (`id<TAB>hypothesis<TAB>"
            f"score`). Received: {shorten_value(line)}. Fix: convert the lists, for example to "
            "tab-separated columns."
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
    """Return the error of a line of a file."""
    return InputError(f"{path}, line {number}: {message}. Fix: mend this line.")


@contextlib.contextmanager
def name_line(path: Path, number: int) -> Iterator[None]:
    """Turn a ValueError of the block into an InputError that names the line."""
    try:
        yield
    except ValueError as error:
        raise line_error(path, number, str(error)) from error
