"""Characters, words and out-of-vocabulary words of a text, for bits per character and perplexity
per word.
"""

import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_nplm.data.ids import UNK_ID
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_fields, parse_json, read_text, replace_file

LINES_SIZE = 1 << 16  # characters or tokens of the lines that are counted together


class TextCounter:
    """Count the characters, the words and the out-of-vocabulary words of a text while it is
    tokenised and encoded.

    Characters are Unicode code points; a run of white space counts as one, at the ends of a line as
    none. Words are separated by white space, whatever the tokenizer. A model that predicts `</s>`
    adds one of each a line.
    """

    def __init__(self) -> None:
        self.characters = self.words = 0
        self.unknown: Counter[str] = Counter()

    def add_lines(self, lines: Iterable[str]) -> None:
        """Count lines, all in one text: that takes a fifth of the time of one by one."""
        with_words = [line for line in lines if line and not line.isspace()]
        if not with_words:
            return
        text = " ".join(with_words)
        # the only white space of a printable text is the space: nothing must be split
        is_plain = text.isprintable() and "  " not in text and text.strip(" ") == text
        if not is_plain:
            text = " ".join(text.split())
        self.words += text.count(" ") + 1
        self.characters += len(text) - (len(with_words) - 1)

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
            return ids

        return count

    def write(self, path: str | os.PathLike) -> None:
        """Write all counts to a file."""
        write_word_counts(path, self.unknown, {"characters": self.characters, "words": self.words})


def name_text_counts(shard: str) -> str:
    """Return the name of the file with the text counts of a shard."""
    return f"{shard.removesuffix('.ids')}.unknown.tsv"


def write_word_counts(
    path: str | os.PathLike, counts: Mapping[str, int], totals: Mapping[str, int]
) -> None:
    """Write words with their counts: a line of JSON with totals and a checksum, then lines
    `word<TAB>count`.
    """
    lines = "".join(f"{word}\t{count}\n" for word, count in counts.items()).encode(
        "utf-8", "surrogatepass"
    )
    if lines.count(b"\t") + lines.count(b"\n") != 2 * len(counts) or b"\0" in lines:
        word = next(word for word in counts if {*word} & {"\t", "\n", "\0"})
        raise InputError(
            f"A token must not contain white space or NUL. Received: {word!r}. Fix: remove NUL, "
            "and split lines at all white space, as `line.split()`."
        )
    head = json.dumps({**totals, "types": len(counts), "crc32": zlib.crc32(lines)})
    with replace_file(path) as temporary:
        temporary.write_bytes(head.encode() + b"\n" + lines)


def read_word_counts(
    path: str | os.PathLike, totals: Sequence[str] = ()
) -> tuple[dict[str, int], dict[str, int]]:
    """Read words with their counts, and the totals, as `write_word_counts` wrote them."""
    head, _, lines = read_text(path).partition("\n")
    described = parse_json(path, head)
    check_fields(path, described, dict.fromkeys((*totals, "crc32"), int))
    if described["crc32"] != zlib.crc32(lines.encode()):
        raise InputError(
            f"{path} is damaged (checksum mismatch). Fix: restore the file, or encode the corpus "
            "again."
        )
    counts = dict(line.split("\t") for line in lines.split("\n")[:-1])
    return {word: int(count) for word, count in counts.items()}, {
        name: described[name] for name in totals
    }
