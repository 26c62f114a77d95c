"""Open a corpus by name or from text files: train, validation and test splits of tokenised
sentences.
"""

import dataclasses
import functools
import itertools
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from keras_nplm.data.corpora import brown, python_reference
from keras_nplm.data.corpora.chunks import cut_files
from keras_nplm.data.corpora.text_files import (
    LineSplit,
    TextSplit,
    expand_patterns,
    split_at_random,
    split_by_lines,
)
from keras_nplm.data.corpus import FRACTIONS, SPLITS, Corpus
from keras_nplm.data.fixed_vocabulary import FixedVocabulary
from keras_nplm.data.prepared_corpus import open_prepared_corpus
from keras_nplm.data.resampling import check_share
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import add_steps, get_tokenizer
from keras_nplm.data.tokenizers.words import WhitespaceTokenizer, WordTokenizer
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import identify_content
from keras_nplm.io.paths import is_remote
from keras_nplm.io.remote import display_url, fetch
from keras_nplm.io.stages import MANIFEST
from keras_nplm.io.text import check_is_file

_NAMES = ("python_reference", "brown", "brown/plain", "brown/marks")
_MAX_LISTED = 1 << 16  # characters of the files that the name of a corpus lists


def open_corpus(
    name: str = "python_reference",
    *,
    train: Sequence[str] = (),
    resample: Sequence[tuple[float, Sequence[str]]] = (),
    validation: Sequence[str] = (),
    test: Sequence[str] = (),
    fractions: tuple[float, float, float] | None = None,
    shuffle: bool = False,
    all_lines: bool = False,
    field: str | None = None,
    tokenizer: str | Tokenizer | None = None,
    normalise: Sequence[str] = (),
    subwords: SubwordOptions | None = None,
    vocabulary: str | os.PathLike | None = None,
    data_dir: str | None = None,
) -> Corpus:
    """Open a corpus by its name, or from text files if `train` or `resample` is given.

    Args:
        name: `"python_reference"` (embedded, no download), `"brown"`, `"brown/marks"` (with tokens
            between texts and paragraphs), or `"tfds:NAME"`: any TensorFlow Datasets set with a text
            feature. If such a set has no validation or test split, the last 5% of its training
            split serve. Or a directory of `keras-nplm prepare`.
        train: one or more text files or globs, local or `gs://` and `s3://`, one sentence a line,
            at most 16 MiB long. A blank line ends a document. Archives of gzip, zstd, xz and bzip2
            are decompressed. Without `validation` and `test` the lines are split by `fractions`.
        resample: (c, text files or globs) of each out-of-domain training text, which is not split
            by lines. An epoch has the share c in (0, 1] of its n-grams; see `keras_nplm.Resampled`.
        validation, test: text files or globs, of which one may be left out. Then the corpus has no
            such split.
        fractions: shares of the lines for train, validation and test, if `train` alone is given.
            Default: (0.8, 0.1, 0.1).
        shuffle: split the lines at random, not in three runs. Equal lines fall into one split.
        field: the field that holds the text, of JSON Lines, CSV, TSV or Parquet files in place of
            text files, plain or compressed. Parquet needs the extra `parquet`. A value of one line
            is a sentence; a value of several lines is a document. Default: text files.
        all_lines: use the whole text for training. The corpus has no validation and no test split.
        tokenizer: `"words"` or `"whitespace"`, for text files and TFDS sets; or `"characters"`,
            `"sentencepiece"` or `"bytes"`, for any corpus. Or a registered `Tokenizer`. Default:
            the tokenizer of a prepared directory, else `"words"`.
        normalise: normalisation steps for the tokens of any corpus: `"lower"`, `"numbers"`,
            `"lemmas"`; see `keras_nplm.data.tokenizers.normalisation`.
        subwords: for the tokenizer `sentencepiece`: how its subwords are made. Default: 8,000
            unigram pieces, trained on the text.
        vocabulary: a file with the words that count, one a line; other words are `<unk>`. Words
            that the text lacks stay in the vocabulary. A `vocabulary.txt` keeps its ids, so that
            the models can be mixed. Default: the words are counted in the text.
        data_dir: directory of prepared TFDS sets, and of the archives of Brown and of TFDS sets.
            Absent archives are downloaded to it. A `gs://` or `s3://` directory is only read.
            Default: the environment variable `TFDS_DATA_DIR`, else `~/tensorflow_datasets`.

    Raises:
        InputError: the name is unknown, a file is missing, or an archive or a package is not at
            hand.
        RunError: an object store cannot be reached.

    Example:

    >>> next(open_corpus("python_reference", normalise=["lower"]).sentences("train"))
    ['assert', 'statements', 'are', 'a', 'convenient', 'way', 'to', 'insert', 'debugging', \
'assertions', 'into', 'a', 'program', ':']
    """
    name = os.fspath(name)
    chosen = add_steps("words" if tokenizer is None else tokenizer, normalise)
    check_argument(
        "subwords",
        subwords is None or chosen.is_trained,
        "left out without the tokenizer `sentencepiece`",
        repr(chosen.name),
        "add `--tokenizer sentencepiece`.",
    )
    fixed = None if vocabulary is None else FixedVocabulary.read(vocabulary)
    check_argument(
        "vocabulary",
        fixed is None or chosen.has_unknown,
        "left out with a tokenizer that has its own tokens",
        repr(chosen.name),
        "leave it out; give the subwords of a model by `--pieces-file`.",
    )
    named = train or resample or validation or test
    if shuffle and (validation or test or not train):
        fix = "name --train alone, or leave it out."
        raise InputError(f"`--shuffle` splits the lines of --train. Fix: {fix}")
    check_argument(
        "fractions",
        fractions is None or bool(train and not (validation or test or all_lines)),
        "left out unless the lines of `train` are split",
        fractions,
        "leave it out, or name `train` alone.",
    )
    check_argument(
        "field",
        field is None or bool(named),
        "left out without data files",
        field,
        "leave it out, or name data files by `train`.",
    )
    if all_lines and (validation or test or shuffle):
        raise InputError(
            "`--all` leaves no line for validation and test. Fix: leave it out. With --validation "
            "or --test every line of --train is for training."
        )
    is_known = _is_known(name)
    check_argument(
        "corpus",
        bool(named) or not is_known or not os.path.exists(os.path.join(name, MANIFEST)),
        "the name of one text",
        f"{name!r}, a known text and a prepared directory",
        f"name the directory {name_directory(name)}, or rename it.",
    )
    if not named and not is_known and (is_remote(name) or os.path.isdir(name)):
        if all_lines:
            fix = "leave it out, or prepare the text again by `keras-nplm prepare --all`."
            raise InputError(f"`--all` cannot change the splits of the prepared {name}. Fix: {fix}")
        is_chosen = tokenizer is not None or chosen.steps
        return open_prepared_corpus(
            fetch(name), chosen.name if is_chosen else None, subwords, fixed
        )
    if train or resample:
        how = "in runs"
        if shuffle:
            how = "at random"
        if all_lines:
            how = "all"
        shares = FRACTIONS if fractions is None else fractions
        corpus = _open_text(train, resample, validation, test, shares, how, chosen.name, field)
    elif named:
        raise InputError(
            "--validation and --test need --train. Fix: name the text files to train on."
        )
    else:
        corpus = _open_named(name, chosen, data_dir)
        if all_lines:
            corpus = _join_splits(corpus)
    corpus = dataclasses.replace(corpus, vocabulary=fixed)
    return corpus if subwords is None else dataclasses.replace(corpus, subwords=subwords)


def _is_known(name: str) -> bool:
    """Return whether a name is that of a text, and not of a directory."""
    return name in _NAMES or name.startswith("tfds:")


def name_directory(directory: str) -> str:
    """Return the name by which `open_corpus` opens a prepared directory."""
    return os.path.join(os.curdir, directory) if _is_known(directory) else directory


def _open_named(name: str, tokenizer: Tokenizer, data_dir: str | None) -> Corpus:
    if name.startswith("tfds:"):
        from keras_nplm.data.corpora.tfds_sets import open_tfds_splits  # imports TensorFlow

        archives = str(fetch(data_dir)) if data_dir else None
        splits = open_tfds_splits(name.removeprefix("tfds:"), archives, tokenizer.name)
        return Corpus(name, tokenizer.name, splits)
    if name == "python_reference":
        stored = "words"
        read = python_reference.read_split
    elif name in _NAMES:
        archive = brown.find_archive(data_dir)
        marks = name == "brown/marks"
        stored = "whitespace"
        read = functools.partial(brown.read_lines, archive, marks=marks)
    else:
        raise InputError(
            "`corpus` must be python_reference, brown, brown/marks, tfds:NAME or a directory "
            "written by `prepare`. "
            f"Received: {name!r}. Fix: choose one of these, or name text files with --train."
        )
    if type(tokenizer) in (WordTokenizer, WhitespaceTokenizer):  # each text has one of the two
        tokenizer = get_tokenizer(stored).with_steps(tokenizer.steps)
    # subwords are made of lines
    split_line = _drop_blank_line if tokenizer.is_trained else tokenizer.split
    lines = {split: functools.partial(read, split) for split in SPLITS}
    return Corpus(
        name, tokenizer.name, {split: LineSplit(lines[split], split_line) for split in SPLITS}
    )


def _join_splits(corpus: Corpus) -> Corpus:
    """Return a corpus whose training split is the whole text, in the order of `SPLITS`."""
    parts = [corpus.splits[split] for split in SPLITS]
    texts = [part for part in parts if isinstance(part, TextSplit)]
    joined: LineSplit | TextSplit
    if len(texts) == len(parts):
        chunks = [chunk for text in texts for chunk in text.chunks]
        joined = TextSplit(chunks, corpus.tokenizer)
    else:
        lines = [cast(LineSplit, part) for part in parts]

        def read_all() -> Iterator[str]:
            return itertools.chain.from_iterable(part.lines() for part in lines)

        joined = LineSplit(read_all, lines[0].tokenize)
    return Corpus(f"{corpus.name} all", corpus.tokenizer, {"train": joined})


def _drop_blank_line(line: str) -> str:
    return line if line.strip() else ""


def _open_text(
    train: Sequence[str],
    resample: Sequence[tuple[float, Sequence[str]]],
    validation: Sequence[str],
    test: Sequence[str],
    fractions: tuple[float, float, float],
    how: str,
    tokenizer: str,
    field: str | None,
) -> Corpus:
    """Open text files, `"in runs"` of lines, `"at random"` or `"all"` for training.

    The name holds their paths, contents and split, so that a resumed run recognises its text.
    """
    paths = _list_files(train)
    resampled = [(check_share(share), _list_files(files)) for share, files in resample]
    names = [f"resample {share}: {_describe_files(files)}" for share, files in resampled]
    if validation or test:
        files = {"train": paths}
        if validation:
            files["validation"] = _list_files(validation)
        if test:
            files["test"] = _list_files(test)
        _warn_of_training_files(files, [path for _, listed in resampled for path in listed])
        splits = {
            split: TextSplit(cut_files(listed, field), tokenizer) for split, listed in files.items()
        }
        named = [f"{split}: {_describe_files(listed)}" for split, listed in files.items()]
        names = [*(named[:1] if paths else []), *names, *named[1:]]
    elif how == "all":
        splits = {"train": TextSplit(cut_files(paths, field), tokenizer)}
        names = [*([_describe_files(paths)] if paths else []), *names, "all"]
    elif paths:
        split = split_at_random if how == "at random" else split_by_lines
        splits = split(paths, fractions, tokenizer, field)
        title = "split at random" if how == "at random" else "split"
        names = [_describe_files(paths), *names, title, *map(str, fractions)]
    else:
        raise InputError(
            "Text of --resample is not split by lines. Fix: name --train, or --validation and "
            "--test, or add --all."
        )
    if resampled:
        texts = [
            (1.0, splits["train"].chunks),
            *((share, cut_files(files, field)) for share, files in resampled),
        ]
        shares = tuple((len(text), share) for share, text in texts if text)
        splits["train"] = TextSplit(
            [chunk for _, text in texts for chunk in text], tokenizer, shares
        )
    if field is not None:
        names.append(f"field {field}")
    return Corpus(" ".join(["text", *names]), tokenizer, splits)


def _warn_of_training_files(files: Mapping[str, list[Path]], resampled: list[Path]) -> None:
    """Print which files of validation and test are for training, too."""
    trained = {path.resolve() for path in [*files["train"], *resampled]}
    for split, listed in files.items():
        for path in listed:
            if split != "train" and path.resolve() in trained:
                print(
                    f"Warning: the {split} file {display_url(path)} is a training file, too: its "
                    "perplexity is of training text. Fix: name held-out text, or --train alone, "
                    "whose lines are split.",
                    file=sys.stderr,
                )


def _list_files(patterns: Sequence[str]) -> list[Path]:
    """List text files, without pipes: the text is read several times."""
    paths = expand_patterns(patterns)
    for path in paths:
        check_is_file(path)
    return paths


def _describe_files(paths: Sequence[Path]) -> str:
    """Return the path or URL, size and checksum of each file: a text edited to the same size is a
    different text.

    Of many files, the first one is listed, with the size and a checksum of all.
    """
    listed = " ".join(f"{display_url(path)} ({identify_content(path)})" for path in paths)
    if len(listed) <= _MAX_LISTED:
        return listed
    size = sum(map(os.path.getsize, paths))
    checksum = zlib.crc32(listed.encode("utf-8", "surrogatepass"))
    more = f"{display_url(paths[0])} and {len(paths) - 1:,} more files"
    return f"{more} ({size} bytes, crc32 {checksum:08x})"
