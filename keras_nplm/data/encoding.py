"""A corpus and a vocabulary -> shards of int32 ids on disk, once; training and evaluation read only those."""

import dataclasses
import hashlib
import itertools
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.corpora.pieces import describe_pieces, run_task
from keras_nplm.data.corpora.text_files import TextSplit, is_share
from keras_nplm.data.shards import (
    DTYPE,
    ShardedIds,
    count_ids,
    encode_chunks,
    sum_counts,
)
from keras_nplm.data.shuffling import Resampled
from keras_nplm.data.tokenizers import load_forms, uses_lemmas
from keras_nplm.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary
from keras_nplm.data.word_counts import merge_counts
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import (
    check_fields,
    check_is_file,
    read_json,
    replace_file,
    write_json,
)
from keras_nplm.io.progress import Progress

SHARD_TOKENS = 1 << 24  # ids in a shard, where text does not come in pieces: 64 MiB
IN_MEMORY = 1 << 27  # ids of a split that are held in memory for training: 512 MiB
_PLAN = "plan.json"  # beside the shards until all are whole: what they are being made from


def encode_sentences(sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> np.ndarray:
    """The ids of sentences, each closed by `</s>`: int32 [T].

    Raises:
        InputError: a sentence holds a reserved token.

    Example:

    >>> vocabulary = Vocabulary(["the", "cat"])
    >>> encode_sentences([["the", "cat"], ["a", "cat"]], vocabulary)
    array([4, 5, 3, 1, 5, 3], dtype=int32)
    """
    return np.concatenate([np.zeros(0, np.int32), *encode_chunks(sentences, vocabulary.encode)])


def count_vocabulary(
    corpus: Corpus, splits: Sequence[str] = ("train",), *, min_count: int = 1, max_size: int | None = None
) -> Vocabulary:
    """The vocabulary of some splits, as `Vocabulary.build` makes it; large text files are counted in parallel.

    Where the corpus is normalised to lemmas, it has all forms that are known of its words, those of no split included.

    Args:
        corpus: the text.
        splits: where words are counted.
        min_count: words seen less often become `<unk>`.
        max_size: keep this many words at most, special tokens not counted. Default: all.

    Raises:
        InputError: an option is out of range, the text cannot be read or holds a reserved token, or no word is left.
        RunError: the disk for temporary files is full, or a process was lost.

    Example:

    >>> corpus = Corpus("two", "whitespace", {"train": lambda: iter([["the", "cat"], ["the", "dog"]])})
    >>> count_vocabulary(corpus, min_count=2).words[4:]
    ['the']
    """
    vocabulary = _counted_words(corpus, splits, dict(min_count=min_count, max_size=max_size))
    return vocabulary.with_forms(load_forms(corpus.tokenizer)) if uses_lemmas(corpus.tokenizer) else vocabulary


def _counted_words(corpus: Corpus, splits: Sequence[str], options: dict) -> Vocabulary:
    if not all(isinstance(corpus.splits[split], TextSplit) for split in splits):
        return Vocabulary.build(_shown(corpus, splits, "Counting words"), **options)
    items = [{"piece": piece} for split in splits for piece in corpus.splits[split].pieces]
    with tempfile.TemporaryDirectory() as directory:
        task = {"tokenizer": corpus.tokenizer, "directory": directory}
        _, finished = run_task("keras_nplm.data.word_counts:PieceCounter", task, items, "Counting words")
        return Vocabulary.from_counts(merge_counts([run for value in finished for run in value["runs"]]), **options)


def _shown(corpus: Corpus, splits: Sequence[str], title: str) -> Iterator[list[str]]:
    """The sentences of some splits; how many tokens have gone by is shown."""
    progress = Progress(title)
    for split in splits:
        for sentence in corpus.sentences(split):
            progress.add(len(sentence))
            yield sentence
    progress.close()


def encode_corpus(corpus: Corpus, vocabulary: Vocabulary, directory: str | os.PathLike) -> "EncodedCorpus":
    """Write the ids of every split to `directory`: `SPLIT.00000.ids` …, and `corpus.json` when all are whole.

    Text files are encoded piece by piece, a shard a piece, in parallel where they are large. If that is interrupted,
    the same call goes on where it was, so long as neither the files nor the vocabulary have changed. Other corpora are
    encoded in one process.

    Args:
        corpus: the text.
        vocabulary: the ids of its words.
        directory: where the shards go: flat little-endian int32, sentences one after the other, each closed by `</s>`.

    Raises:
        InputError: a split has no sentence, or the text holds a reserved token or changed while it was read.
        RunError: the files cannot be written, or a process was lost.
    """
    directory = Path(directory)
    in_files = [isinstance(split, TextSplit) for split in corpus.splits.values()]
    if not all(in_files) and any(getattr(split, "shares", ()) for split in corpus.splits.values()):
        raise InputError(f"Epochs can show shares of text files alone: give {corpus.name} all its splits in files.")
    if all(in_files):
        splits = _encode_pieces(corpus, vocabulary, directory)
    else:
        splits = {split: _encode_split(corpus, split, vocabulary, directory) for split in SPLITS}
    description = {"name": corpus.name, "tokenizer": corpus.tokenizer, "vocabulary_size": len(vocabulary)}
    write_json(directory / "corpus.json", {**description, "splits": splits})
    (directory / _PLAN).unlink(missing_ok=True)
    return EncodedCorpus.load(directory)


def _encode_split(corpus: Corpus, split: str, vocabulary: Vocabulary, directory: Path) -> dict:
    """Encode one split sentence by sentence; what `corpus.json` says of it."""
    names, parts, checksums = [], [], []
    for number, ids in enumerate(_shards(encode_chunks(_shown(corpus, [split], "Encoding"), vocabulary.encode))):
        names.append(_shard_name(split, number))
        with replace_file(directory / names[-1]) as temporary:
            ids.astype(DTYPE, copy=False).tofile(temporary)
        parts.append(count_ids(ids))
        checksums.append(zlib.crc32(ids.astype(DTYPE, copy=False)))
    return _described(corpus, split, parts, names, checksums)


def _described(corpus: Corpus, split: str, parts: list[dict], names: list[str], checksums: list[int]) -> dict:
    sums = sum_counts(parts)
    if not sums["sentences"]:
        raise InputError(f"The {split} split of {corpus.name} has no sentence: give it text.")
    return {**sums, "shards": names, "crc32": checksums}


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


def _encode_pieces(corpus: Corpus, vocabulary: Vocabulary, directory: Path) -> dict[str, dict]:
    """Encode text files, but for the shards that are whole; what `corpus.json` says of the splits."""
    items = {split: _items(split, corpus.splits[split].pieces) for split in SPLITS}
    plan = _plan(corpus, vocabulary)
    if not (directory / _PLAN).exists() or read_json(directory / _PLAN) != plan:
        stale = (directory.glob(f"{split}.[0-9]*.ids") for split in SPLITS)  # of another text or vocabulary
        for path in [directory / "corpus.json", *itertools.chain.from_iterable(stale)]:
            path.unlink(missing_ok=True)
        write_json(directory / _PLAN, plan)
    for path in directory.glob(".*.ids"):  # what was being written by a process that was killed
        path.unlink()
    todo = [item for listed in items.values() for item in listed if not (directory / item["shard"]).exists()]
    task = {"tokenizer": corpus.tokenizer, "words": vocabulary.words, "directory": str(directory)}
    run_task("keras_nplm.data.shards:PieceEncoder", task, todo, "Encoding")
    if _plan(corpus, vocabulary) != plan:
        raise InputError(f"The files of {corpus.name} changed while they were read: encode them again.")
    splits = {}
    for split, listed in items.items():
        names = [item["shard"] for item in listed]
        parts, checksums = [], []
        for name in names:
            checksum = 0
            for ids in ShardedIds([directory / name], len(vocabulary)).parts():
                parts.append(count_ids(ids))
                checksum = zlib.crc32(ids.astype(DTYPE, copy=False), checksum)
            checksums.append(checksum)
        splits[split] = _described(corpus, split, parts, names, checksums)
        if corpus.splits[split].shares:
            splits[split]["shares"] = list(map(list, corpus.splits[split].shares))
    return splits


def _items(split: str, pieces: Sequence) -> list[dict]:
    return [{"piece": piece, "shard": _shard_name(split, number)} for number, piece in enumerate(pieces)]


def _plan(corpus: Corpus, vocabulary: Vocabulary) -> dict:
    """What decides the ids of a corpus of text files."""
    words = [*vocabulary.words, *itertools.chain.from_iterable((vocabulary.forms or {}).items())]
    digest = hashlib.sha256("\n".join(words).encode("utf-8")).hexdigest()
    return {"tokenizer": corpus.tokenizer, "vocabulary": digest} | describe_text(corpus)


def describe_text(corpus: Corpus) -> dict:
    """What tells, of a corpus of text files, whether its text has changed; `{}` of another."""
    if not all(isinstance(split, TextSplit) for split in corpus.splits.values()):
        return {}
    return {"text": {split: describe_pieces(text.pieces) for split, text in corpus.splits.items()}}


@dataclasses.dataclass(frozen=True)
class EncodedCorpus:
    """The shards that `encode_corpus` wrote.

    Attributes:
        directory: where they lie.
        name: the corpus.
        tokenizer: how more text of its kind is split.
        vocabulary_size: ids are below it.
        splits: for each split the counts `sentences`, `tokens`, `unk_tokens`, and the names of its `shards` with
            the `crc32` of each; where epochs show a share of each of several training texts, its `shares`: pairs of a
            number of shards and their share.
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
            if "shares" in described:
                _check_shares(path, described["shares"], len(names))
        return cls(Path(directory), **description)

    def ids(self, split: str) -> np.ndarray:
        """The ids of a split, int32 [T], each sentence closed by `</s>`.

        Raises:
            InputError: no such split; a shard is absent, cut short, or not the one that was written.
        """
        shards, described = self.shards(split), self.splits[split]
        ids = shards.read(0, len(shards))
        sums = count_ids(ids)
        whole = len(ids) and ids[-1] == EOS_ID and not np.isin(ids, (PAD_ID, BOS_ID)).any()
        checksums = [zlib.crc32(part.astype(DTYPE, copy=False)) for part in np.split(ids, shards.ends[:-1])]
        same = "crc32" not in described or described["crc32"] == checksums  # older corpora lack it
        if not (whole and same) or any(described[name] != number for name, number in sums.items()):
            raise InputError(f"The {split} shards in {self.directory} are not what corpus.json says: encode it again.")
        return ids

    def shards(self, split: str) -> ShardedIds:
        """The same, read only where it is asked for.

        Raises:
            InputError: no such split; a shard is absent or cut short.
        """
        if split not in self.splits:
            raise InputError(f"`split` must be one of {', '.join(self.splits)}. Received: {split!r}.")
        described, paths = self.splits[split], [self.directory / shard for shard in self.splits[split]["shards"]]
        for path in paths:
            check_is_file(path)
        held, wanted = sum(path.stat().st_size for path in paths), described["tokens"] + described["sentences"]
        if held != wanted * DTYPE.itemsize:
            raise InputError(
                f"The {split} shards in {self.directory} hold {held / DTYPE.itemsize:.10g} ids where corpus.json says "
                f"{wanted}: encode the corpus again."
            )
        return ShardedIds(paths, self.vocabulary_size)

    def for_training(self) -> np.ndarray | ShardedIds | Resampled:
        """What `ngram_dataset` reads: the ids of the training split, or its shards where it has more than 2**27 ids.

        Where `corpus.json` gives the split's texts `shares`, they are `Resampled`.

        Raises:
            InputError: as `ids`.
        """
        parts = texts = self._training_texts()
        if sum(map(len, parts)) <= IN_MEMORY:
            texts = np.split(self.ids("train"), np.cumsum(list(map(len, parts)))[:-1])
        if "shares" not in self.splits["train"]:
            return texts[0]
        return Resampled(list(zip(texts, self._shares, strict=True)))

    @property
    def _shares(self) -> list[float]:
        """The share of each training text that an epoch shows."""
        return [share for _, share in self.splits["train"].get("shares", [(0, 1.0)])]

    def _training_texts(self) -> list[ShardedIds]:
        """The texts of the training split: one, or those that have a share each."""
        paths = self.shards("train").paths
        ends = np.cumsum([number for number, _ in self.splits["train"].get("shares", [(len(paths), 1.0)])])
        return [ShardedIds(paths[a:b], self.vocabulary_size) for a, b in itertools.pairwise([0, *ends])]

    def frequencies_by_share(self) -> tuple[np.ndarray, np.ndarray]:
        """How often each id occurs in each text of the training split, and the share of it that an epoch shows.

        Returns:
            int64 [K, |V|] and float64 [K]; K is 1 and the share 1 where `corpus.json` gives no `shares`.

        Raises:
            InputError: as `ids`.
        """
        return np.stack([text.frequencies() for text in self._training_texts()]), np.array(self._shares)

    def frequencies(self) -> np.ndarray:
        """How often each id occurs in the training split, int64 [|V|].

        Raises:
            InputError: as `ids`.
        """
        return self.shards("train").frequencies()


def _check_shares(path: Path, shares: object, shards: int) -> None:
    """Refuse `shares` of `corpus.json` that do not tell of each shard how much of it an epoch shows."""
    whole = isinstance(shares, list) and all(isinstance(run, list) and len(run) == 2 for run in shares)
    whole = whole and all(type(number) is int and number > 0 and is_share(share) for number, share in shares)
    if not whole or sum(number for number, _ in shares) != shards:
        raise InputError(
            f"`shares` in {path} must be pairs of a number of shards, {shards} in all, and a share in (0, 1]: encode "
            "the corpus again."
        )
