"""ARPA files: the text form of back-off n-gram models that KenLM, SRILM and others read and write."""

import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    UNK_ID,
    Vocabulary,
)
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_is_file, replace_file, utf8_error
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.counts import ContextTrie, find

_LN10 = np.log(10)
_NEVER = -99.0  # log10 of no probability, by custom
_GZIP = b"\x1f\x8b"
_UNK = "<UNK>"  # as some write <unk>
_NO_WORDS = {*SPECIALS, _UNK}
_MOST_EXPANSION = 100  # of a gzipped file; n-grams come to a tenth
_ALWAYS_ALLOWED = 1 << 20  # bytes


def write_arpa(path: str | os.PathLike, model: BackoffModel, vocabulary: Vocabulary) -> None:
    """Write a model as an ARPA file, gzipped if the name ends in `.gz`.

    Probabilities are written as log10, in 7 digits. `<s>` and `</s>` are listed in every file, as readers want them, in
    a model of a stream with no probability, and so is each word of an n-gram that is listed.

    Raises:
        InputError: the vocabulary is not the model's.
        RunError: the file cannot be written.
    """
    if len(vocabulary) != model.vocabulary_size:
        raise InputError(f"The vocabulary has {len(vocabulary)} words and the model {model.vocabulary_size}.")
    words = np.array(vocabulary.words, dtype=object)
    listed = np.isfinite(model.unigrams)
    listed[[BOS_ID, EOS_ID]] = True
    for order, keys in enumerate(model.keys, start=2):
        nodes, last = np.divmod(keys, model.vocabulary_size)
        listed[last] = True
        listed[model.contexts.words(order - 1)[nodes]] = True
    unigrams = np.flatnonzero(listed)
    with replace_file(path) as temporary, _open_to_write(temporary) as file:
        file.write("\\data\\\n")
        for order, number in enumerate([len(unigrams), *map(len, model.keys)], start=1):
            file.write(f"ngram {order}={number}\n")
        for order in range(1, model.order + 1):
            ids, log_probs = unigrams[:, None], model.unigrams[unigrams]
            if order > 1:
                nodes, last = np.divmod(model.keys[order - 2], model.vocabulary_size)
                ids = np.column_stack([model.contexts.words(order - 1)[nodes], last])
                log_probs = model.log_probs[order - 2]
            columns = [_log10(log_probs), map(" ".join, words[ids].tolist())]
            if order < model.order:
                columns.append(_log10(_backoffs(model, ids)))
            file.write(f"\n\\{order}-grams:\n")
            file.writelines(map("{}\n".format, map("\t".join, zip(*columns, strict=True))))
        file.write("\n\\end\\\n")


def _backoffs(model: BackoffModel, ids: np.ndarray) -> np.ndarray:
    """ln γ of n-grams as contexts, 0 of those that are none."""
    order = ids.shape[1]
    backoffs = np.zeros(len(ids))
    for length, (rows, nodes) in enumerate(model.contexts.walk(ids.astype(np.int32)), start=1):
        if length == order:
            backoffs[rows] = model.backoffs[order - 1][nodes]
    return backoffs


def _log10(log_probs: np.ndarray) -> Iterator[str]:
    finite = np.where(np.isfinite(log_probs), log_probs / _LN10, _NEVER)
    return map("{:.7g}".format, np.where(finite == 0, 0.0, finite).tolist())


def _open_to_write(path: Path):
    if path.suffix == ".gz":
        return gzip.open(path, "wt", encoding="utf-8", newline="\n")
    return open(path, "w", encoding="utf-8", newline="\n")


def read_arpa(
    path: str | os.PathLike, vocabulary: Vocabulary | None = None, boundary: str | None = None
) -> tuple[BackoffModel, Vocabulary]:
    """Read an ARPA file, gzipped or not, as KenLM, SRILM or `write_arpa` write it.

    Args:
        path: the file.
        vocabulary: the ids that words are to have. A word of it that the file lacks gets the probability of the file's
            `<unk>`, as KenLM answers: with `lmplz --vocab_pad |V|` that sums to 1. Default: the file's own words, in
            its order.
        boundary: `"sentence"` or `"stream"`, how the training text was cut into n-grams. Default: `"sentence"` if the
            file gives `</s>` a probability, else `"stream"`.

    Returns:
        the model and its vocabulary.

    Raises:
        InputError: the file is absent, not UTF-8, or malformed (with the line and what was expected there), or has a
            word that the vocabulary lacks.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.arpa"
    >>> _ = path.write_text('''\\\\data\\\\
    ... ngram 1=4
    ... ngram 2=1
    ...
    ... \\\\1-grams:
    ... -99 <s> -0.30103
    ... -0.30103 </s>
    ... -0.60206 the -0.30103
    ... -0.60206 cat
    ...
    ... \\\\2-grams:
    ... -0.1249387 the cat
    ...
    ... \\\\end\\\\
    ... ''')
    >>> model, vocabulary = read_arpa(path)
    >>> vocabulary.words[4:], np.exp(model.next_log_probs(np.array([[4]]))).round(3)
    (['the', 'cat'], array([[0.   , 0.   , 0.   , 0.25 , 0.125, 0.75 ]], dtype=float32))

    Reference: the format is that of SRILM's ngram-format(5).
    """
    lines = _Lines(path)
    numbers = _read_header(lines)
    unigrams = _read_section(lines, 1, numbers[0], len(numbers))
    if vocabulary is None:
        vocabulary = Vocabulary([*dict.fromkeys(word for (word,) in unigrams.words() if word not in _NO_WORDS)])
    place = {word: i for i, word in enumerate(vocabulary.words)} | {_UNK: UNK_ID}
    size = len(vocabulary)
    ids = lines.ids(unigrams, place)[:, 0]
    lines.refuse_repeated(unigrams, ids)
    log_prob = np.full(size, -np.inf)
    log_prob[ids] = unigrams.log10_probs * _LN10
    lacking = np.setdiff1d(np.arange(size), [*ids, PAD_ID, BOS_ID, EOS_ID])
    log_prob[lacking] = log_prob[UNK_ID]
    log_prob[[PAD_ID, BOS_ID]] = -np.inf
    backoff = np.zeros(size)
    backoff[ids] = unigrams.log10_backoffs * _LN10
    sections = [_read_section(lines, k, n, len(numbers)) for k, n in enumerate(numbers[1:], start=2)]
    lines.expect("\\end\\")
    tables = [(lines.ids(section, place), section) for section in sections]
    return _build(lines, size, log_prob, backoff, tables, boundary), vocabulary


def _build(
    lines: "_Lines",
    size: int,
    log_prob: np.ndarray,
    backoff: np.ndarray,
    sections: Sequence[tuple],
    boundary: str | None,
) -> BackoffModel:
    """The sorted tables of n-grams of orders 2 on, given as their ids and what stood beside them."""
    contexts, keys, log_probs, backoffs = [], [], [], [backoff.astype(np.float32)]
    # what can be a context, and what has to be one: of either the endings, too
    possible = [ids for ids, _ in sections[:-1]] + [ids[:, :-1] for ids, _ in sections]
    for k in range(2, len(sections) + 1):
        endings = np.concatenate([ids[:, -k:] for ids in possible if ids.shape[1] >= k])
        nodes = _nodes(contexts, endings[:, 1:], size)
        contexts.append(np.unique(nodes * size + endings[:, 0]))
    for k, (ids, section) in enumerate(sections, start=2):
        key = _nodes(contexts, ids[:, :-1], size) * size + ids[:, -1]
        lines.refuse_repeated(section, key)
        by_key = np.argsort(key)
        keys.append(key[by_key])
        log_probs.append(_finite(section.log10_probs)[by_key])
        if k <= len(sections):
            values = np.zeros(len(contexts[k - 2]), np.float32)
            values[_nodes(contexts, ids, size)] = section.log10_backoffs * _LN10
            backoffs.append(values)
    return BackoffModel(ContextTrie(size, contexts), _finite(log_prob / _LN10), keys, log_probs, backoffs, boundary)


def _finite(log10_probs: np.ndarray) -> np.ndarray:
    return np.where(log10_probs <= _NEVER, -np.inf, log10_probs * _LN10).astype(np.float32)


def _nodes(context_keys: list[np.ndarray], ids: np.ndarray, size: int) -> np.ndarray:
    """The numbers of contexts, int64 [N], whose ids [N, k] are all listed."""
    nodes = ids[:, -1].astype(np.int64)
    for length in range(2, ids.shape[1] + 1):
        nodes = find(context_keys[length - 2], nodes * size + ids[:, -length])
    return nodes


class _Section:
    """The n-grams of an order as they stand in the file from `first_line` on, their fields a list a line."""

    def __init__(
        self, order: int, first_line: int, rows: list[list[str]], log10_probs: np.ndarray, backoffs: np.ndarray
    ):
        self.order = order
        self.first_line = first_line
        self.rows = rows
        self.log10_probs = log10_probs
        self.log10_backoffs = backoffs

    def words(self) -> Iterator[list[str]]:
        """The words of each n-gram."""
        return (row[1 : self.order + 1] for row in self.rows)


class _Lines:
    """The lines of a file that are not empty, with their numbers, and the errors that name them."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        check_is_file(path, or_pipe=True)
        try:
            data = self.path.read_bytes()
            text = (self._unzipped(data) if data.startswith(_GZIP) else data).decode("utf-8")
        except UnicodeDecodeError as error:
            raise utf8_error(path, error.start) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path} is not a whole gzip file ({error}): get it again.") from error
        except OSError as error:
            raise InputError(f"Cannot read {path}: {error.strerror}. Check the name and its permissions.") from error
        self.lines = text.split("\n")
        self.number = 0  # of lines read

    def _unzipped(self, data: bytes) -> bytes:
        most = max(_ALWAYS_ALLOWED, _MOST_EXPANSION * len(data))
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unzipped = file.read(most + 1)
        if len(unzipped) > most:
            raise InputError(
                f"{self.path} comes to more than {_MOST_EXPANSION} times its size when unzipped, as no ARPA file does: "
                "if it is one, unzip it first."
            )
        return unzipped

    def skip_to(self, wanted: str) -> None:
        """Read up to a line; what stands before it is a comment."""
        while self.number < len(self.lines):
            self.number += 1
            if self.lines[self.number - 1].strip() == wanted:
                return
        raise InputError(f"{self.path} has no line {wanted}: it is not an ARPA file.")

    def peek(self) -> str:
        """The next line that is not empty, without its white space; "" at the end of the file."""
        while self.number < len(self.lines) and not self.lines[self.number].strip():
            self.number += 1
        return self.lines[self.number].strip() if self.number < len(self.lines) else ""

    def expect(self, wanted: str) -> None:
        """Read the next line, which must be `wanted`."""
        if self.peek() != wanted:
            raise self.error(self.number + 1, f"the line {wanted}")
        self.number += 1

    def error(self, number: int, expected: str) -> InputError:
        """The error for a line that is not what it should be."""
        line = self.lines[number - 1][:80] if number <= len(self.lines) else ""
        got = repr(line) if line or number < len(self.lines) else "the end of the file"
        return InputError(
            f"{self.path}, line {number}: expected {expected}; got {got}. Is the file cut short or edited?"
        )

    def ids(self, section: _Section, place: dict[str, int]) -> np.ndarray:
        """The ids of a section's words, int64 [N, k]."""
        words = itertools.chain.from_iterable(section.words())
        ids = np.fromiter(map(place.get, words, itertools.repeat(-1)), np.int64).reshape(-1, section.order)
        if (ids < 0).any():
            row, column = np.argwhere(ids < 0)[0]
            word = section.rows[row][column + 1]
            raise self.error(section.first_line + int(row), f"words of the vocabulary, which lacks {word!r}")
        return ids

    def refuse_repeated(self, section: _Section, keys: np.ndarray) -> None:
        """Refuse a section that lists an n-gram twice: `keys` tells them apart, int64 [N]."""
        by_key = np.argsort(keys, kind="stable")
        again = by_key[1:][keys[by_key[1:]] == keys[by_key[:-1]]]
        if len(again):
            raise self.error(section.first_line + int(again.min()), "an n-gram that is not listed above")


def _read_header(lines: _Lines) -> list[int]:
    r"""The numbers of n-grams that `\data\` promises, by order."""
    lines.skip_to("\\data\\")
    numbers = []
    while match := re.fullmatch(r"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})", lines.peek()):
        lines.number += 1
        if int(match[1]) != len(numbers) + 1:
            raise lines.error(lines.number, f"ngram {len(numbers) + 1}=NUMBER")
        numbers.append(int(match[2]))
    if len(numbers) < 2:
        raise lines.error(lines.number + 1, "ngram 1=NUMBER and ngram 2=NUMBER at least, since a context has n-1 words")
    return numbers


def _read_section(lines: _Lines, order: int, number: int, highest: int) -> _Section:
    r"""The n-grams under `\ORDER-grams:`."""
    lines.expect(f"\\{order}-grams:")
    lines.peek()
    first = lines.number
    rows = list(map(str.split, lines.lines[first : first + number]))
    lines.number = first + len(rows)
    widths = np.array([len(row) for row in rows])
    allowed = (order + 1,) if order == highest else (order + 1, order + 2)
    what = f"log10 probability, {order} word{'s' * (order > 1)}" + (
        "" if order == highest else " and perhaps log10 back-off"
    )
    if number and not np.isin(widths, allowed).all():
        raise lines.error(first + int(np.argmin(np.isin(widths, allowed))) + 1, what)
    if len(rows) < number:
        raise lines.error(len(lines.lines) + 1, what)
    if lines.peek() and not lines.peek().startswith("\\"):
        raise lines.error(lines.number + 1, f"the end of the {number} {order}-grams that the header promises")
    log10_probs = _floats(lines, first, [row[0] for row in rows])
    log10_backoffs = _floats(lines, first, [row[-1] if len(row) == order + 2 else "0" for row in rows])
    if (log10_probs > 0).any():
        raise lines.error(first + int(np.argmax(log10_probs > 0)) + 1, "a log10 probability of 0 or less")
    return _Section(order, first + 1, rows, log10_probs, log10_backoffs)


def _floats(lines: _Lines, first: int, column: list[str]) -> np.ndarray:
    """The numbers of a column whose first row stands in the line after `first`."""
    try:
        values = np.array(column, np.float64)
    except ValueError:
        values = np.array([_float(text) for text in column])
    strange = np.isnan(values) | np.isposinf(values)
    if strange.any():
        raise lines.error(first + int(np.argmax(strange)) + 1, "a number")
    return values


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
