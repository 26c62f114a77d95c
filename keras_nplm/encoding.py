"""A corpus and a vocabulary -> shards of int32 ids on disk, once; training and evaluation read only those."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.corpora import SPLITS, Corpus
from keras_nplm.errors import InputError
from keras_nplm.files import read_json, replacing, write_json
from keras_nplm.vocabulary import EOS, EOS_ID, UNK_ID, Vocabulary, check_ids, refuse_reserved

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
        shards, sentences, tokens, unk_tokens = [], 0, 0, 0
        for number, shard in enumerate(_shards(_encoded_chunks(corpus.sentences(split), vocabulary))):
            shards.append(f"{split}.{number:05d}.ids")
            with replacing(directory / shards[-1]) as temporary:
                shard.astype(_DTYPE).tofile(temporary)
            ends = int(np.count_nonzero(shard == EOS_ID))
            sentences, tokens = sentences + ends, tokens + len(shard) - ends
            unk_tokens += int(np.count_nonzero(shard == UNK_ID))
        if not sentences:
            raise InputError(f"The {split} split of {corpus.name} has no sentence: give it text.")
        splits[split] = {"sentences": sentences, "tokens": tokens, "unk_tokens": unk_tokens, "shards": shards}
    description = {"name": corpus.name, "tokenizer": corpus.tokenizer, "vocabulary_size": len(vocabulary)}
    write_json(directory / "corpus.json", {**description, "splits": splits})
    return EncodedCorpus.load(directory)


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
        splits: for each split the counts `sentences`, `tokens`, `unk_tokens`, and the names of its `shards`.
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
        return cls(Path(directory), **description)

    def ids(self, split: str) -> np.ndarray:
        """The ids of a split, int32 [T], each sentence closed by `</s>`.

        Raises:
            InputError: no such split; a shard is absent, cut short, or holds ids outside the vocabulary.
        """
        if split not in self.splits:
            raise InputError(f"`split` must be one of {', '.join(self.splits)}. Received: {split!r}.")
        described = self.splits[split]
        try:
            ids = np.concatenate([np.fromfile(self.directory / shard, _DTYPE) for shard in described["shards"]])
        except OSError as error:
            raise InputError(f"Cannot read {error.filename}: {error.strerror}. Encode the corpus again.") from error
        if len(ids) != described["tokens"] + described["sentences"]:
            raise InputError(
                f"The {split} shards in {self.directory} hold {len(ids)} ids where corpus.json says "
                f"{described['tokens'] + described['sentences']}: encode the corpus again."
            )
        check_ids(ids, self.vocabulary_size)
        return ids.astype(np.int32, copy=False)
