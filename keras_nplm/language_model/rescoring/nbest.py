"""N-best lists of decoders, read list by list: Moses, Kaldi, and tab-separated columns."""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import keras_nplm.language_model.rescoring.lines as lines_of
from keras_nplm.data.corpora.compressed import decode_lines, open_text
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_is_file

FORMATS = ("moses", "kaldi", "tsv")


@dataclasses.dataclass
class NBestList:
    """The hypotheses for one input, column by column.

    Args:
        name: which input they are for: Moses's sentence number, Kaldi's utterance, the first column of TSV.
        texts: H hypotheses, in the order of the file.
        features: what is known of each, float64 [H], the greater the better; the decoder's total is `"score"`.
        lines: each as it stands in its file. Default: the hypotheses are from no file.
        added: names of features that the lines lack.
        totals: what the hypotheses were ranked by, float64 [H], if they were.

    Example:

    >>> nbest = NBestList("0", ["the cat", "a cat"], {"score": np.array([-2.0, -1.5])})
    >>> nbest.ordered(np.array([1, 0])).texts
    ['a cat', 'the cat']
    """

    name: str
    texts: list[str]
    features: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    lines: list[str] | None = None
    added: tuple[str, ...] = ()
    totals: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def with_features(self, features: Mapping[str, np.ndarray]) -> "NBestList":
        """The same hypotheses with more known of each.

        Raises:
            InputError: one of the names is taken.
        """
        if taken := [name for name in features if name in self.features]:
            raise InputError(f"List {self.name} has a feature {taken[0]} already: choose another name (`--name`).")
        return dataclasses.replace(self, features=self.features | features, added=(*self.added, *features))

    def ordered(self, order: np.ndarray) -> "NBestList":
        """The same hypotheses in another order, int [H]."""
        return dataclasses.replace(
            self,
            texts=[self.texts[i] for i in order],
            features={name: values[order] for name, values in self.features.items()},
            lines=None if self.lines is None else [self.lines[i] for i in order],
            totals=None if self.totals is None else self.totals[order],
        )


class NBestFile:
    """A file of N-best lists, of any size: iterating reads it list by list.

    `moses`: `id ||| hypothesis ||| name= value … name= value … ||| score`, with more fields or without the score.
    Names may also end in `:`, or stand before the value as in `name=value`. A name with several values stands for the
    features `name.1`, `name.2`, …; values without one are `feature.1`, …. What a hypothesis lacks is 0.

    `kaldi`: `utterance-k words`, as `nbest-to-linear` and `int2sym.pl` write it, with archives of numbers,
    `utterance-k cost`, in the same order. Those are costs, -ln P: features are their negatives.

    `tsv`: id, hypothesis and any number of scores between tabs, called `score`, `score.2`, … or as a first line
    `id<TAB>hypothesis<TAB>NAME…` has it. The greater the better.

    Lines of one id follow one another. `.gz` and `.zst` are decompressed.

    Args:
        path: the file.
        format: one of `FORMATS`. Default: by the first line, and `.tsv` in the name.
        scores: of Kaldi alone: names of features, and the archives that hold them.

    Raises:
        InputError: the file cannot be read, or a line is not of the format (when that line is read).

    Example:

    >>> path = getfixture("tmp_path") / "list.txt"
    >>> _ = path.write_text("0 ||| the cat ||| LM= -3 TM= -1 -2 ||| -1.5\\n0 ||| cat ||| LM= -2 TM= -4 -2 ||| -2\\n")
    >>> file = NBestFile(path)
    >>> file.format, [nbest.texts for nbest in file]
    ('moses', [['the cat', 'cat']])
    >>> {name: values.tolist() for name, values in next(iter(file)).features.items()}
    {'LM': [-3.0, -2.0], 'TM.1': [-1.0, -4.0], 'TM.2': [-2.0, -2.0], 'score': [-1.5, -2.0]}
    """

    def __init__(
        self,
        path: str | os.PathLike,
        format: str | None = None,
        scores: Mapping[str, str | os.PathLike] | None = None,
    ):
        check_format(format)
        self.path = Path(path)
        self.scores = {name: Path(archive) for name, archive in (scores or {}).items()}
        for file in (self.path, *self.scores.values()):
            check_is_file(file)
        with contextlib.closing(numbered_lines(self.path)) as lines:
            _, first = next(lines, (1, ""))
        if not first:
            raise InputError(f"{path} is empty, or its first line is: name a file that holds N-best lists.")
        self.format = format or _format_of(self.path, first)
        self.header: str | None = None
        self._columns: list[str] = []
        if self.format == "tsv":
            with _at(self.path, 1):
                self._columns = lines_of.tsv_columns(first)
            self.header = first if lines_of.is_tsv_header(first) else None
        if self.scores and self.format != "kaldi":
            raise InputError(f"Archives of scores are Kaldi's, and {path} is of the format {self.format}.")

    def __iter__(self) -> Iterator[NBestList]:
        with contextlib.ExitStack() as stack:
            lines, *archives = (
                stack.enter_context(contextlib.closing(numbered_lines(path)))
                for path in (self.path, *self.scores.values())
            )
            if self.header:
                next(lines)
            rows = (self._row(number, line, archives) for number, line in lines)
            seen: set[int] = set()
            for name, group in itertools.groupby(rows, key=lambda row: row[0]):
                numbers, texts, features, kept = zip(*(row[1:] for row in group), strict=True)
                if hash(name) in seen:
                    message = f"the id {name} comes again. Put the hypotheses for one input one after the other"
                    raise wrong_line(self.path, numbers[0], message)
                seen.add(hash(name))
                yield NBestList(name, list(texts), _by_name(features), list(kept))
            if not seen:
                raise InputError(f"{self.path} holds no hypothesis: name a file that holds N-best lists.")
            for path, archive in zip(self.scores.values(), archives, strict=True):
                for number, _ in archive:
                    raise wrong_line(path, number, f"there is no hypothesis for it in {self.path}")

    def _row(self, number: int, line: str, archives: list) -> tuple[str, int, str, dict[str, float], str]:
        """Id, line number, hypothesis, features, and the line."""
        with _at(self.path, number):
            if self.format == "moses":
                name, text, features = lines_of.read_moses(line)
            elif self.format == "tsv":
                name, text, features = lines_of.read_tsv(line, self._columns)
            else:
                name, text, features = lines_of.read_kaldi(line)
        for (feature, path), archive in zip(self.scores.items(), archives, strict=True):
            key = line.split(maxsplit=1)[0]
            place, cost = next(archive, (None, ""))
            if place is None:
                raise InputError(f"{path} ends before {key}: it must have a line for each hypothesis, in their order.")
            with _at(path, place):
                features[feature] = -lines_of.read_cost(cost, key)
        return name, number, text, features, line


def check_format(format: str | None) -> None:
    """Refuse what names no format.

    Raises:
        InputError: it is neither None nor one of `FORMATS`.
    """
    if format not in (None, *FORMATS):
        raise InputError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}.")


def _format_of(path: Path, line: str) -> str:
    if lines_of.BAR in line:
        return "moses"
    if path.name.removesuffix(".gz").removesuffix(".zst").endswith(".tsv") or "\t" in line:
        return "tsv"
    try:
        lines_of.read_kaldi(line)
    except ValueError as error:
        raise InputError(f"The first line of {path} is of no known format: name it with `--format`.") from error
    return "kaldi"


def numbered_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a file, numbered from 1; `.gz` and `.zst` are decompressed."""
    with open_text(path) as file:
        yield from enumerate(decode_lines(file, str(path)), start=1)


def wrong_line(path: str | os.PathLike, number: int, message: str) -> InputError:
    """The error for a line that is not as it should be."""
    return InputError(f"{path}, line {number}: {message}.")


@contextlib.contextmanager
def _at(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise wrong_line(path, number, str(error)) from error


def _by_name(rows: tuple[dict[str, float], ...]) -> dict[str, np.ndarray]:
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    return {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}
