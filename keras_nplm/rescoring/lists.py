"""N-best lists of a decoder, and a reader of their files."""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.io.errors import InputError, check_choice, shorten_value
from keras_nplm.io.text import SPACES, check_is_file, read_lines
from keras_nplm.rescoring.formats import FORMATS, KALDI_LINE, SEPARATOR, Kaldi, LineFormat, Tsv


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
    # weighted sums of features, float64 [H], if the list was ranked
    totals: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.texts = list(check_lines(self.texts, "texts"))
        self.features = {
            name: self.convert_numbers(name, values) for name, values in self.features.items()
        }

    def __len__(self) -> int:
        return len(self.texts)

    def convert_numbers(self, argument: str, values: Any) -> np.ndarray:
        """Return a number for each hypothesis, float64 [H]: NaN would be ranked in silence."""
        numbers = np.asarray(values, np.float64)
        if numbers.shape != (len(self),) or not np.isfinite(numbers).all():
            raise InputError(
                f"`{argument}` must be a finite number for each of the {len(self)} hypotheses of "
                f"list {self.name}. Received: {shorten_value(numbers.tolist())}. Fix: give one for "
                "each hypothesis, in their order."
            )
        return numbers

    def with_features(self, features: Mapping[str, np.ndarray]) -> "NBestList":
        """Return a copy with more features, of names that it does not have."""
        for name in features:
            if name in self.features:
                raise InputError(
                    f"List {self.name} already has a feature {name}. Fix: choose a new `--name`."
                )
        return dataclasses.replace(self, features={**self.features, **features})

    def reorder(self, order: np.ndarray) -> "NBestList":
        """Return a copy with the hypotheses in a new order, int [H]."""
        return NBestList(
            self.name,
            [self.texts[i] for i in order],
            {name: values[order] for name, values in self.features.items()},
            [self.lines[i] for i in order] if self.lines else [],
            None if self.totals is None else self.totals[order],
        )

    def sort(self, totals: np.ndarray) -> "NBestList":
        """Return a copy with its totals, sorted by them; equals stay in the decoder's order."""
        order = np.argsort(-totals, kind="stable")
        return dataclasses.replace(self, totals=totals).reorder(order)


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
      or by a header line, such as `id<TAB>hypothesis<TAB>NAME…`. Greater is better. A header names
      the columns in any order, the first two as `id` or `utt`, `hypothesis` or `text`, …; see
      `formats.TSV_IDS` and `TSV_HYPOTHESES`.

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
        self.path = Path(path)
        self.archives = {name: Path(archive) for name, archive in (archives or {}).items()}
        for file in (self.path, *self.archives.values()):
            check_is_file(file)
        number, first = next(_read_lines(self.path), (1, ""))
        format = format or _detect_format(self.path, first)
        check_choice("format", format, [*FORMATS])
        with name_line(self.path, number):
            self.format: LineFormat = Tsv(first) if format == Tsv.name else FORMATS[format]()
        if self.archives and format != Kaldi.name:
            raise InputError(
                f"`archives` must be of costs of the format kaldi. Received: {format}. "
                "Fix: leave them out."
            )

    def __iter__(self) -> Iterator[NBestList]:
        # hashes of the ids: a file may have more lists than fit in memory
        seen: set[int] = set()
        for name, group in itertools.groupby(self._read_hypotheses(), key=lambda row: row[1]):
            numbers, _, texts, features, lines = map(list, zip(*group, strict=True))
            with name_line(self.path, numbers[0]):
                if hash(name) in seen:
                    raise ValueError(f"the id {name} occurs again, but not in adjacent lines")
            seen.add(hash(name))
            # a feature that a hypothesis lacks is 0
            columns = {
                feature: np.array([row.get(feature, 0.0) for row in features])
                for feature in dict.fromkeys(itertools.chain.from_iterable(features))
            }
            yield NBestList(name, texts, columns, lines)
        if not seen:
            raise InputError(f"{self.path} holds no hypothesis. Fix: give a file of N-best lists.")

    def _read_hypotheses(self) -> Iterator[tuple[int, str, str, dict[str, float], str]]:
        """Yield the number of each line, the name of its list, its text, its features, and itself.

        The archives are read line by line beside the file.
        """
        paths = [self.path, *self.archives.values()]
        files = [*map(_read_lines, paths)]
        if self.format.header:
            next(files[0])
        for row in itertools.zip_longest(*files):
            if None in row:
                raise InputError(
                    f"{paths[row.index(None)]} has fewer lines than the other files. Fix: give one "
                    "line for each hypothesis, in order."
                )
            (number, line), *costs = row
            with name_line(self.path, number):
                name, text, features = self.format.parse(line)
            for (feature, path), (cost_number, cost) in zip(
                self.archives.items(), costs, strict=True
            ):
                with name_line(path, cost_number):
                    features[feature] = -Kaldi.parse_cost(cost, line)
            yield number, name, text, features, line


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers, from 1."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip(SPACES):
            yield number, line


def _detect_format(path: Path, line: str) -> str:
    """Return the name of the format of a file with this first line."""
    if SEPARATOR in line:
        return "moses"
    if ".tsv" in [suffix.lower() for suffix in path.suffixes] or "\t" in line:
        return "tsv"
    if KALDI_LINE.fullmatch(line):
        return "kaldi"
    raise InputError(
        f"The first line of {path} must be of Moses (`id ||| hypothesis ||| features ||| score`), "
        "of Kaldi (`utterance-k words`) or tab-separated (`id<TAB>hypothesis<TAB>score`). "
        f"Received: {shorten_value(line)}. Fix: convert the lists, for example to tab-separated "
        "columns."
    )


@contextlib.contextmanager
def name_line(path: str | os.PathLike, number: int) -> Iterator[None]:
    """Turn a ValueError of the block into an InputError that names the line."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{path}, line {number}: {error}. Fix: mend this line.") from error
