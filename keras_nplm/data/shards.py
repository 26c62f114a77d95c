"""Shards of token ids on disk: flat little-endian int32, each sentence closed by `</s>`."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_nplm.data.arguments import check_items, check_lines
from keras_nplm.data.boundary import has_documents
from keras_nplm.data.ids import BOS, BOS_ID, EOS, EOS_ID, UNK_ID, check_ids
from keras_nplm.data.text_counts import TextCounter, name_text_counts
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.subwords import SubwordTokenizer
from keras_nplm.data.vocabulary import Vocabulary, check_reserved
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_is_file, replace_file

if TYPE_CHECKING:
    from keras_nplm.data.corpora.chunks import Chunk

_PART = 1 << 22  # ids that are read at a time for counting
BATCH_TOKENS = 1 << 18  # tokens, sentence ends included, that are encoded at a time
DTYPE = np.dtype("<i4")


def encode_batches(
    sentences: Iterable[Sequence[str]], encode: Callable[[list[str]], np.ndarray], boundary: str
) -> Iterator[np.ndarray]:
    """Encode sentences as ids, each closed by `</s>`, in batches of whole sentences and about 2**18
    ids.

    Empty sentences are skipped. With the boundary `"text"` they end documents, and `<s>` stands for
    them. The tokens must be strings, see `check_sentences`.
    """
    if not has_documents(boundary):
        sentences = filter(None, sentences)
    tokens: list[str] = []
    ends = []
    for sentence in sentences:
        if isinstance(sentence, str):  # of a tokenizer of the user: its characters would be tokens
            check_items(sentence, "sentences", wanted="lists of tokens")
        tokens += sentence
        ends.append(len(tokens))
        tokens.append(EOS if sentence else BOS)
        if len(tokens) >= BATCH_TOKENS:
            yield _encode_tokens(tokens, ends, encode)
            tokens = []
            ends = []
    if tokens:
        yield _encode_tokens(tokens, ends, encode)


def _encode_tokens(
    tokens: list[str], ends: list[int], encode: Callable[[list[str]], np.ndarray]
) -> np.ndarray:
    """Encode tokens, of which only those at `ends` may be `<s>` or `</s>`."""
    ids = encode(tokens)
    special = np.count_nonzero((ids != UNK_ID) & (ids <= EOS_ID))
    if special != len(ends):
        for end in reversed(ends):
            del tokens[end]
        check_reserved(tokens)
    return ids


def encode_text(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    tokenizer: str | Tokenizer,
    boundary: str,
    counter: TextCounter | None = None,
) -> Iterator[np.ndarray]:
    """Encode lines of text as ids, each closed by `</s>`, as `encode_batches`.

    Blank lines are empty sentences.
    """
    bound = vocabulary.tokenizer(tokenizer)
    encode: Callable[[list[str]], np.ndarray] = vocabulary.encode
    lines = check_lines(lines)
    if counter is not None:
        lines = counter.count_lines(lines)
        encode = counter.count_unknown(encode)
    if isinstance(bound, SubwordTokenizer):
        lines = map(clean_text, lines)
        lines = lines if has_documents(boundary) else filter(str.strip, lines)
        return _encode_subwords(lines, bound)
    return encode_batches(map(bound.split, lines), encode, boundary)


def encode_lines(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    tokenizer: str | Tokenizer,
    boundary: str,
) -> np.ndarray:
    """Encode lines of text as one array of ids, int32 [T]; see `encode_text`."""
    return np.concatenate(
        [np.zeros(0, np.int32), *encode_text(lines, vocabulary, tokenizer, boundary)]
    )


def _encode_subwords(lines: Iterable[str], tokenizer: SubwordTokenizer) -> Iterator[np.ndarray]:
    """Encode lines as ids of subwords, which are joined as bytes: faster than lists of numbers."""
    start, end = (np.int32(special).tobytes() for special in (BOS_ID, EOS_ID))
    parts: list[bytes] = []
    size = 0
    for line in lines:
        ids = tokenizer.encode_bytes(line)
        parts += (ids, end) if line.strip() else (start,)
        size += len(ids) + len(end)
        if size >= BATCH_TOKENS * len(end):
            yield np.frombuffer(b"".join(parts), np.int32)
            parts = []
            size = 0
    if parts:
        yield np.frombuffer(b"".join(parts), np.int32)


def count_ids(ids: np.ndarray) -> dict[str, int]:
    """Count the `sentences`, `document_ends` (`<s>`), `tokens` (without both) and `unk_tokens` of
    ids.
    """
    unknown, marks, sentences = (
        int(np.count_nonzero(ids == special)) for special in (UNK_ID, BOS_ID, EOS_ID)
    )
    tokens = len(ids) - marks - sentences
    return {"sentences": sentences, "document_ends": marks, "tokens": tokens, "unk_tokens": unknown}


def sum_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up results of `count_ids`."""
    parts = [count_ids(np.zeros(0, np.int32)), *parts]
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def write_shard(
    directory: Path, shard: str, batches: Iterable[np.ndarray], counter: TextCounter
) -> None:
    """Write the ids of a text as a shard, and then its counts."""
    with (
        counter.open_file(directory / name_text_counts(shard)),
        replace_file(directory / shard) as temporary,
        open(temporary, "wb") as file,
    ):
        for ids in batches:
            # NumPy's `tofile` does not notice a full disk
            file.write(ids.astype(DTYPE, copy=False).data)


def encode_chunk(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    directory: Path,
    boundary: str,
    chunk: "Chunk",
    shard: str,
) -> None:
    """Encode a chunk of text as a shard, and count its characters, bytes and words."""
    counter = TextCounter()
    batches = encode_text(chunk.lines(), vocabulary, tokenizer, boundary, counter)
    write_shard(directory, shard, batches, counter)


class ShardedIds:
    """The ids of several shards as one sequence that is read from disk in parts.

    All ids must be below |V|.
    """

    def __init__(self, paths: Sequence[str | os.PathLike], vocabulary_size: int):
        for path in paths:
            check_is_file(path)
        sizes = [os.path.getsize(path) // DTYPE.itemsize for path in paths]
        self.paths, self.ends = list(paths), np.cumsum(sizes, dtype=np.int64)
        self.vocabulary_size = vocabulary_size

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, start: int, stop: int) -> np.ndarray:
        """Read the ids `start` to `stop`, int32 [stop - start]."""
        ids = np.empty(stop - start, np.int32)
        place = start
        while place < stop:
            shard = int(np.searchsorted(self.ends, place, side="right"))
            first = int(self.ends[shard - 1]) if shard else 0
            number = min(stop, int(self.ends[shard])) - place
            part = np.fromfile(
                self.paths[shard], DTYPE, number, offset=(place - first) * DTYPE.itemsize
            )
            if len(part) != number:
                raise InputError(
                    f"{self.paths[shard]} was truncated while it was read. Fix: encode the corpus "
                    "again."
                )
            ids[place - start : place - start + number] = part
            place += number
        check_ids(ids, self.vocabulary_size)
        return ids

    def parts(self, size: int = _PART) -> Iterator[np.ndarray]:
        """Iterate over all ids in parts of `size`, each int32 [size], the last one shorter."""
        return (
            self.read(start, min(start + size, len(self))) for start in range(0, len(self), size)
        )

    def frequencies(self) -> np.ndarray:
        """Count how often each id occurs, int64 [|V|]."""
        sums = np.zeros(self.vocabulary_size, np.int64)
        for part in self.parts():
            sums += np.bincount(part, minlength=self.vocabulary_size)
        return sums
