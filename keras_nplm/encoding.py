"""A corpus and a vocabulary -> shards of int32 ids on disk, once; training and evaluation read only those."""

import dataclasses
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.corpora import SPLITS, Corpus
from keras_nplm.errors import InputError
from keras_nplm.files import check_fields, check_is_file, read_json, replacing, write_json
from keras_nplm.vocabulary import BOS_ID, EOS, EOS_ID, PAD_ID, UNK_ID, Vocabulary, check_ids, refuse_reserved

SHARD_TOKENS = 1 << 24  # ids in a shard: 64 MiB
_CHUNK_SENTENCES = 1 << 14  # sentences whose words are looked up at a time
_DTYPE = np.dtype("<i4")


def encode_sentences(sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> np.ndarray:
    """The ids of sentences, each closed by `</s>`: int32 [T].

    Raises:
        InputError: a sentence holds a reserved token.

    Example:

    >>> vocabulary = Vocabulary(["the", "cat"])
    >>> encode_sentences([["the", "cat"], ["a", "cat"]], vocabulary)
    array([4, 5, 3, 1, 5, 3], dtype=int32)
    """
    return np.concatenate([np.zeros(0, np.int32), *_encoded_chunks(sentences, vocabulary)])


def _encoded_chunks(sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> Iterator[np.ndarray]:
    """The same, many sentences at a time."""
    sentences = iter(sentences)
    while chunk := list(itertools.islice(sentences, _CHUNK_SENTENCES)):
        tokens = [token for sentence in chunk for token in (*sentence, EOS)]
        ids = vocabulary.encode(tokens)
        special = np.count_nonzero((ids != UNK_ID) & (ids <= EOS_ID))
        if special != len(chunk):  # more than the one `</s>` that was added to each
            refuse_reserved([token for sentence in chunk for token in sentence])
        yield ids


def encode_corpus(corpus: Corpus, vocabulary: Vocabulary, directory: str | os.PathLike) -> "EncodedCorpus":
    """Write the ids of every split to `directory`: `SPLIT.00000.ids` …, and `corpus.json` when all are whole.

    Args:
        corpus: the text.
        vocabulary: the ids of its words.
        directory: where the shards go: flat little-endian int32, sentences one after the other, each closed by `</s>`.

    Raises:
        InputError: a split has no sentence, or the text holds a reserved token.
        RunError: the files cannot be written.
    """
    directory = Path(directory)
    splits = {}
    for split in SPLITS:
        shards, checksums, sentences, tokens, unk_tokens = [], [], 0, 0, 0
        for number, shard in enumerate(_shards(_encoded_chunks(corpus.sentences(split), vocabulary))):
            shards.append(_shard_name(split, number))
            checksums.append(zlib.crc32(shard.astype(_DTYPE, copy=False)))
            with replacing(directory / shards[-1]) as temporary:
                shard.astype(_DTYPE, copy=False).tofile(temporary)
            ends = int(np.count_nonzero(shard == EOS_ID))
            sentences, tokens = sentences + ends, tokens + len(shard) - ends
            unk_tokens += int(np.count_nonzero(shard == UNK_ID))
        if not sentences:
            raise InputError(f"The {split} split of {corpus.name} has no sentence: give it text.")
        splits[split] = {"sentences": sentences, "tokens": tokens, "unk_tokens": unk_tokens, "shards": shards}
        splits[split]["crc32"] = checksums
    description = {"name": corpus.name, "tokenizer": corpus.tokenizer, "vocabulary_size": len(vocabulary)}
    write_json(directory / "corpus.json", {**description, "splits": splits})
    return EncodedCorpus.load(directory)


def _shard_name(split: str, number: int) -> str:
    return f"{split}.{number:05d}.ids"


def _shards(chunks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Join chunks into shards of at least `SHARD_TOKENS` ids (the last: what is left), each of whole sentences."""
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= SHARD_TOKENS:
            yield np.concatenate(held)
            held, size = [], 0
    if held:
        yield np.concatenate(held)


@dataclasses.dataclass(frozen=True)
class EncodedCorpus:
    """The shards that `encode_corpus` wrote.

    Attributes:
        directory: where they lie.
        name: the corpus.
        tokenizer: how more text of its kind is split.
        vocabulary_size: ids are below it.
        splits: for each split the counts `sentences`, `tokens`, `unk_tokens`, and the names of its `shards` with
            the `crc32` of each.
    """

    directory: Path
    name: str
    tokenizer: str
    vocabulary_size: int
    splits: dict[str, dict]

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "EncodedCorpus":
        """Read `corpus.json`.

        Raises:
            InputError: it is absent or is not such a file.
        """
        path = Path(directory) / "corpus.json"
        fields = {field.name for field in dataclasses.fields(cls)} - {"directory"}
        description = read_json(path)
        splits = description.get("splits")
        if set(description) != fields or not isinstance(splits, dict) or set(splits) != set(SPLITS):
            raise InputError(f"{path} does not describe an encoded corpus: encode the corpus again.")
        check_fields(path, description, {"name": str, "tokenizer": str, "vocabulary_size": int})
        for split, described in splits.items():
            check_fields(path, described, {"sentences": int, "tokens": int, "unk_tokens": int, "shards": list})
            names = [_shard_name(split, number) for number in range(len(described["shards"]))]
            if described["shards"] != names:  # nor can a name lead elsewhere
                raise InputError(f"The {split} shards in {path} must be {_shard_name(split, 0)} …: encode it again.")
        return cls(Path(directory), **description)

    def ids(self, split: str) -> np.ndarray:
        """The ids of a split, int32 [T], each sentence closed by `</s>`.

        Raises:
            InputError: no such split; a shard is absent, cut short, or holds ids outside the vocabulary.
        """
        if split not in self.splits:
            raise InputError(f"`split` must be one of {', '.join(self.splits)}. Received: {split!r}.")
        described, paths = self.splits[split], [self.directory / shard for shard in self.splits[split]["shards"]]
        for path in paths:
            check_is_file(path)
        held, wanted = sum(path.stat().st_size for path in paths), described["tokens"] + described["sentences"]
        if held != wanted * _DTYPE.itemsize:
            raise InputError(
                f"The {split} shards in {self.directory} hold {held / _DTYPE.itemsize:.10g} ids where corpus.json says "
                f"{wanted}: encode the corpus again."
            )
        try:
            shards = [np.fromfile(path, _DTYPE) for path in paths]
        except OSError as error:
            raise InputError(f"Cannot read {error.filename}: {error.strerror}. Encode the corpus again.") from error
        ids = np.concatenate([np.zeros(0, _DTYPE), *shards])
        check_ids(ids, self.vocabulary_size)
        sentences, unk_tokens = np.count_nonzero(ids == EOS_ID), np.count_nonzero(ids == UNK_ID)
        whole = len(ids) and ids[-1] == EOS_ID and not np.isin(ids, (PAD_ID, BOS_ID)).any()
        same = "crc32" not in described or described["crc32"] == list(map(zlib.crc32, shards))  # older corpora lack it
        if not (whole and same) or (sentences, unk_tokens) != (described["sentences"], described["unk_tokens"]):
            raise InputError(f"The {split} shards in {self.directory} are not what corpus.json says: encode it again.")
        return ids.astype(np.int32, copy=False)
