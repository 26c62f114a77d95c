"""Characters, bytes, words and out-of-vocabulary words of a text, for bits per character, bits per
byte and perplexity per word.
"""

import contextlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from keras_nplm.data.ids import UNK_ID
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.text import check_is_file, decode, explain_read_errors

TOTALS = ("characters", "bytes", "words")  # of a text, beside its out-of-vocabulary words
LINES_SIZE = 1 << 16  # characters or tokens of the lines that are counted together
BLOCK_TYPES = 1 << 18  # different out-of-vocabulary words that are held in memory: about 25 MB
_HEAD_BYTES = 128  # of the first line of a file, which is written last


class TextCounter:
    """Count the characters, the bytes, the words and the out-of-vocabulary words of a text while it
    is tokenised and encoded.

    Characters are Unicode code points of clean text, as tokenizers read it, and bytes are those of
    its UTF-8; a run of white space counts as one, at the ends of a line as none. Words are
    separated by white space, whatever the tokenizer. A model that predicts `</s>` adds one of each
    a line.
    """

    def __init__(self) -> None:
        self.totals = dict.fromkeys(TOTALS, 0)
        self.unknown: Counter[str] = Counter()  # while a file is written, only the last of them
        self._file: WordCountsFile | None = None

    def add_lines(self, lines: Iterable[str]) -> None:
        """Count lines, all in one text: that takes a fifth of the time of one by one."""
        with_words = [line for line in lines if line and not line.isspace()]
        text = " ".join(with_words)
        if clean_text(text) != text:
            with_words = [line for line in map(clean_text, with_words) if line.strip()]
            text = " ".join(with_words)
        if not with_words:
            return
        # the only white space of a printable text is the space: nothing must be split
        is_plain = text.isprintable() and "  " not in text and text.strip(" ") == text
        if not is_plain:
            text = " ".join(text.split())
        ends = len(with_words) - 1  # the spaces that join lines
        self.totals["characters"] += len(text) - ends
        self.totals["bytes"] += len(text.encode("utf-8", "surrogatepass")) - ends
        self.totals["words"] += text.count(" ") + 1

    def count_lines(self, lines: Iterable[Any], join: Callable[[Any], str] = str) -> Iterator[Any]:
        """Count lines, or tokens that `join` makes lines of, and yield them."""
        for batch in batch_by_size(lines, LINES_SIZE):
            self.add_lines(map(join, batch))
            yield from batch

    def count_unknown(
        self, encode: Callable[[list[str]], np.ndarray]
    ) -> Callable[[list[str]], np.ndarray]:
        def count(tokens: list[str]) -> np.ndarray:
            ids = encode(tokens)
            self.unknown.update(tokens[place] for place in np.flatnonzero(ids == UNK_ID))
            if self._file is not None and len(self.unknown) >= BLOCK_TYPES:
                self._file.add(self.unknown)
                self.unknown.clear()
            return ids

        return count

    @contextlib.contextmanager
    def open_file(self, path: str | os.PathLike) -> Iterator[None]:
        """Write the out-of-vocabulary words that are counted in the `with` block to a file, and
        the totals at its end.

        Memory holds about `BLOCK_TYPES` words.
        """
        with open_word_counts(path) as self._file:
            yield
            self._file.add(self.unknown)
            self._file.totals = self.totals
        self._file = None


class WordCountsFile:
    """Words with their counts, written in blocks: a line of JSON with totals, then lines
    `word<TAB>count`.

    A word of several blocks has several lines. `open_word_counts` opens the file.
    """

    def __init__(self, file: BinaryIO):
        self.totals: Mapping[str, int] = {}
        self._file = file
        self._write_head()

    def add(self, counts: Mapping[str, int]) -> None:
        """Write a block of words."""
        lines = "".join(f"{word}\t{count}\n" for word, count in counts.items()).encode(
            "utf-8", "surrogatepass"
        )
        if lines.count(b"\t") + lines.count(b"\n") != 2 * len(counts) or b"\0" in lines:
            word = next(word for word in counts if {*word} & {"\t", "\n", "\0"})
            raise InputError(
                f"A token must not contain white space or NUL. Received: {word!r}. Fix: remove "
                "NUL, and split lines at all white space, as `line.split()`."
            )
        self._file.write(lines)

    def finish(self) -> None:
        """Write the totals into the first line."""
        self._file.seek(0)
        self._write_head()

    def _write_head(self) -> None:
        head = json.dumps(dict(self.totals)).encode()
        self._file.write(head.ljust(_HEAD_BYTES - 1) + b"\n")


@contextlib.contextmanager
def open_word_counts(path: str | os.PathLike) -> Iterator[WordCountsFile]:
    """Open a file of words with their counts for writing; see `replace_file`."""
    with replace_file(path) as temporary, open(temporary, "wb") as file:
        writer = WordCountsFile(file)
        yield writer
        writer.finish()


def name_text_counts(shard: str) -> str:
    """Return the name of the file with the text counts of a shard."""
    return f"{shard.removesuffix('.ids')}.unknown.tsv"


def write_word_counts(
    path: str | os.PathLike, counts: Mapping[str, int], totals: Mapping[str, int]
) -> None:
    """Write words with their counts, and totals, as a file of one block."""
    with open_word_counts(path) as file:
        file.add(counts)
        file.totals = totals


def read_word_counts(path: str | os.PathLike) -> Iterator[dict[str, int]]:
    """Read words with their counts, in dicts of at most `BLOCK_TYPES` words. A word may be in
    several.
    """
    check_is_file(path)
    with explain_read_errors(path), open(path, "rb") as file:
        place = len(file.readline())
        while lines := list(itertools.islice(file, BLOCK_TYPES)):
            block = b"".join(lines)
            counts: dict[str, int] = {}
            for line in decode(path, block, place).split("\n")[:-1]:
                word, count = line.split("\t")
                counts[word] = counts.get(word, 0) + int(count)
            yield counts
            place += len(block)


def read_totals(path: str | os.PathLike) -> dict[str, int]:
    """Read the totals of a file of word counts."""
    with open(path, "rb") as file:
        return json.loads(file.readline())
