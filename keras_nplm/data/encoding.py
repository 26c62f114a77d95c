"""Count the vocabulary of a corpus, and encode the corpus as shards of int32 ids on disk.

Both run once.
"""

import functools
import hashlib
import itertools
import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.arguments import check_sentences
from keras_nplm.data.boundary import check_boundary_name
from keras_nplm.data.corpora.chunks import CHUNK_RUNNER, map_chunks
from keras_nplm.data.corpora.text_files import LineSplit, TextSplit, find_text_splits
from keras_nplm.data.corpus import SPLITS, Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus, name_shard
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.shards import (
    ShardedIds,
    count_ids,
    encode_batches,
    encode_chunk,
    encode_text,
    write_shard,
)
from keras_nplm.data.text_counts import TOTALS, TextCounter, name_text_counts, read_totals
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.normalisation import lower_text
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.data.word_counts import count_chunk, merge_counts
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import identify_content, remove_temporary_files, write_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.progress import open_progress
from keras_nplm.io.remote import display_url
from keras_nplm.io.stages import Stages

_SHARDS = (
    *(f"{split}.[0-9]*.{ending}" for split in SPLITS for ending in ("ids", "unknown.tsv")),
    "corpus.json",
)


def encode_sentences(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, boundary: str = "sentence"
) -> np.ndarray:
    """Encode sentences as ids, each closed by `</s>`: int32 [T].

    Args:
        sentences: lists of tokens.
        vocabulary: the vocabulary. An out-of-vocabulary token becomes `<unk>`.
        boundary: with `"text"` an empty sentence ends a document, and becomes `<s>`; else it is
            skipped.

    Raises:
        InputError: a sentence holds a reserved token (`<s>` or `</s>`), or the boundary is unknown.

    Example:

    >>> vocabulary = Vocabulary(["the", "cat"])
    >>> encode_sentences([["the", "cat"], ["a", "cat"]], vocabulary)
    array([4, 5, 3, 1, 5, 3], dtype=int32)
    """
    check_boundary_name(boundary)
    return np.concatenate(
        [
            np.zeros(0, np.int32),
            *encode_batches(check_sentences(sentences), vocabulary.encode, boundary),
        ]
    )


def count_vocabulary(
    corpus: Corpus,
    splits: Sequence[str] = ("train",),
    *,
    min_count: int = 1,
    max_size: int | None = None,
) -> Vocabulary:
    """Count the words of some splits, or train subwords, and build the vocabulary.

    Large files are read in parallel. A `vocabulary.txt` has its ids, and no text is read.
    """
    tokenizer = get_tokenizer(corpus.tokenizer)
    if tokenizer.is_trained:
        return _train_subwords(corpus, splits)
    if corpus.vocabulary is not None and corpus.vocabulary.has_ids:
        return _add_forms(corpus.vocabulary.vocabulary, tokenizer)
    words: Sequence[str] = tokenizer.alphabet
    if corpus.vocabulary is not None:
        words = corpus.vocabulary.vocabulary.words[len(SPECIALS) :]
    texts = find_text_splits(corpus, splits)
    if texts is not None:
        chunks = [(chunk,) for split in splits for chunk in texts[split].chunks]
        runner = CHUNK_RUNNER.get()
        with runner.open_scratch() if runner else tempfile.TemporaryDirectory() as directory:
            count = functools.partial(count_chunk, tokenizer, directory)
            runs = map_chunks(count, chunks, "Counting words")
            vocabulary = Vocabulary.from_counts(
                merge_counts(itertools.chain.from_iterable(runs)),
                min_count=min_count,
                max_size=max_size,
                words=words,
            )
    else:
        vocabulary = Vocabulary.build(
            _read_splits(corpus, splits, "Counting words"),
            min_count=min_count,
            max_size=max_size,
            words=words,
        )
    return _add_forms(vocabulary, tokenizer)


def _add_forms(vocabulary: Vocabulary, tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary with the forms of its words, if tokens are lemmas."""
    return vocabulary.with_forms(tokenizer.load_forms()) if tokenizer.uses_lemmas else vocabulary


def _train_subwords(corpus: Corpus, splits: Sequence[str]) -> Vocabulary:
    """Train the subwords of a corpus, or read them from the file that it names."""
    lines = _read_splits(corpus, splits, "Reading text for subwords")
    if get_tokenizer(corpus.tokenizer).lowers:
        lines = map(lower_text, map(clean_text, lines))
    return Vocabulary.from_subwords(corpus.subwords.make(lines))


def _read_splits(corpus: Corpus, splits: Sequence[str], title: str) -> Iterator[Any]:
    return _show_progress(itertools.chain.from_iterable(map(corpus.sentences, splits)), title)


def _show_progress(sentences: Iterable[Any], title: str) -> Iterator[Any]:
    """Iterate over sentences: lists of tokens, or lines if the tokens are subwords."""
    with open_progress(title) as progress:
        for sentence in sentences:
            progress.update(len(sentence))
            yield sentence


def encode_corpus(
    corpus: Corpus, vocabulary: Vocabulary, directory: str | os.PathLike, boundary: str = "sentence"
) -> EncodedCorpus:
    """Encode every split of a corpus: write `SPLIT.00000.ids` … and, when all are whole,
    `corpus.json`.

    Beside each shard, `SPLIT.00000.unknown.tsv` holds the characters, words and out-of-vocabulary
    words of its text. Each chunk of text files or of a TFDS set becomes one shard. Large files are
    encoded in parallel. After an interruption the same call resumes with the missing shards, if
    neither the text nor the vocabulary has changed. Other corpora are encoded in one process and
    without resuming.

    Args:
        corpus, vocabulary: the text and its vocabulary.
        directory: directory of the shards: flat little-endian int32 ids, each sentence closed by
            `</s>`.
        boundary: of the models. With `"text"` the ids have an `<s>` for blank lines, which end
            documents.

    Raises:
        InputError: a split has no sentence, the text holds a reserved token or changed while it was
            read, the boundary is unknown, the directory is an invalid path or has no permission,
            or a different process writes it.
        RunError: the files cannot be written, or a worker process died.
    """
    check_boundary_name(boundary)
    directory = Path(directory)
    key = _describe_encoding(corpus, vocabulary, boundary)
    write = functools.partial(_write_shards, corpus, vocabulary, directory, boundary, key["text"])
    with lock_directory(directory):
        remove_temporary_files(directory)
        Stages(directory).make("shards", key, _SHARDS, write, replace=True)
    return EncodedCorpus.read(directory)


def _write_shards(
    corpus: Corpus, vocabulary: Vocabulary, directory: Path, boundary: str, described: str
) -> None:
    """Write the shards of a text that `described` identifies, and `corpus.json`."""
    texts = find_text_splits(corpus, corpus.splits)
    if texts is not None:
        splits = _encode_chunks(corpus, texts, vocabulary, directory, boundary, described)
    else:
        splits = {
            split: _encode_split(corpus, split, vocabulary, directory, boundary)
            for split in SPLITS
            if split in corpus.splits
        }
    description = {
        "name": corpus.name,
        "tokenizer": corpus.tokenizer,
        "vocabulary_size": len(vocabulary),
    }
    write_json(directory / "corpus.json", {**description, "splits": splits})


def _encode_split(
    corpus: Corpus, split: str, vocabulary: Vocabulary, directory: Path, boundary: str
) -> dict:
    """Encode a split that is not in files, as one shard."""
    shard = name_shard(split, 0)
    counter = TextCounter()
    source = corpus.splits[split]
    tokenizer = get_tokenizer(corpus.tokenizer)
    if tokenizer.is_trained:
        lines = source.lines() if isinstance(source, TextSplit | LineSplit) else source()
        batches = encode_text(
            _show_progress(lines, "Encoding"), vocabulary, tokenizer, boundary, counter
        )
    else:
        sentences: Iterator[Sequence[str]]
        if isinstance(source, TextSplit | LineSplit):
            sentences = map(source.tokenize, counter.count_lines(source.lines()))
        else:
            sentences = counter.count_lines(check_sentences(source()), tokenizer.join)
        encode = counter.count_unknown(vocabulary.encode)
        batches = encode_batches(_show_progress(sentences, "Encoding"), encode, boundary)
    write_shard(directory, shard, batches, counter)
    return _describe_split(corpus, split, [shard], len(vocabulary), directory)


def _describe_split(
    corpus: Corpus, split: str, names: list[str], vocabulary_size: int, directory: Path
) -> dict:
    """Read the shards of a split once more, and return its entry of `corpus.json`."""
    sums = dict.fromkeys(("sentences", "document_ends", "tokens", "unk_tokens", *TOTALS), 0)
    for name in names:
        counted = [read_totals(directory / name_text_counts(name))]
        counted += map(count_ids, ShardedIds([directory / name], vocabulary_size).parts())
        sums = {
            count: number + sum(part.get(count, 0) for part in counted)
            for count, number in sums.items()
        }
    if not sums["sentences"]:
        raise InputError(
            f"The {split} split of {corpus.name} must have a sentence. Received: no text. Fix: add "
            "text; a function of `Corpus.splits` must return a new iterator at each call."
        )
    return {**sums, "shards": names}


def _encode_chunks(
    corpus: Corpus,
    texts: Mapping[str, TextSplit],
    vocabulary: Vocabulary,
    directory: Path,
    boundary: str,
    described: str,
) -> dict[str, dict]:
    """Encode the missing shards of text files or TFDS sets, and return the splits of
    `corpus.json`.
    """
    items = {
        split: [(chunk, name_shard(split, i)) for i, chunk in enumerate(texts[split].chunks)]
        for split in SPLITS
        if split in texts
    }
    todo = [
        (chunk, shard)
        for chunk, shard in itertools.chain.from_iterable(items.values())
        if not all((directory / name).exists() for name in (shard, name_text_counts(shard)))
    ]
    without_forms = Vocabulary(vocabulary.words[len(SPECIALS) :], subwords=vocabulary.subwords)
    tokenizer = get_tokenizer(corpus.tokenizer)
    encode = functools.partial(
        encode_chunk, tokenizer, without_forms, directory.absolute(), boundary
    )
    map_chunks(encode, todo, "Encoding")
    if describe_text(corpus) != described:
        raise InputError(
            f"The files of {corpus.name} changed while they were read. Fix: run the same command "
            "again."
        )
    splits = {}
    for split, listed in items.items():
        splits[split] = _describe_split(
            corpus, split, [shard for _, shard in listed], len(vocabulary), directory
        )
        if texts[split].shares:
            splits[split]["shares"] = list(map(list, texts[split].shares))
    return splits


def _describe_encoding(corpus: Corpus, vocabulary: Vocabulary, boundary: str) -> dict[str, str]:
    """Return what decides about the ids."""
    words = [*vocabulary.words, *itertools.chain.from_iterable((vocabulary.forms or {}).items())]
    model = b"" if vocabulary.subwords is None else vocabulary.subwords.model
    digest = hashlib.sha256("\n".join(words).encode("utf-8") + model).hexdigest()
    return {
        "tokenizer": corpus.tokenizer,
        "vocabulary": digest,
        "boundary": boundary,
        "text": describe_text(corpus),
    }


def describe_text(corpus: Corpus) -> str:
    """Return a digest of text files or a TFDS set: of the chunks of each split and of the content
    of each file.

    Of any other text it is a random number: nobody can say whether it is the same.
    """
    texts = find_text_splits(corpus, corpus.splits)
    if texts is None:
        return uuid.uuid4().hex
    chunks = [(split, chunk) for split, text in texts.items() for chunk in text.chunks]
    paths = dict.fromkeys(path for _, chunk in chunks for path, *_ in chunk.ranges)
    digest = hashlib.sha256()
    for part in itertools.chain(
        ([split, chunk.describe()] for split, chunk in chunks),
        ([display_url(path), identify_content(path)] for path in paths),
    ):
        digest.update(json.dumps(part).encode())
    return digest.hexdigest()
