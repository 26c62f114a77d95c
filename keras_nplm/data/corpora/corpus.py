"""A corpus: named splits of sentences, each sentence a list of tokens, whatever they are read from."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from keras_nplm.data.corpora import brown, python_reference
from keras_nplm.data.corpora.pieces import cut_files
from keras_nplm.data.corpora.text_files import (
    TextSplit,
    add_resampled,
    check_share,
    expand_patterns,
    split_by_lines,
)
from keras_nplm.data.tokenizers import CHARACTERS, add_steps, get_tokenizer, parse_tokenizer
from keras_nplm.io.errors import InputError

SPLITS = ("train", "validation", "test")
FRACTIONS = (0.8, 0.1, 0.1)  # of the lines, where only one text is given


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A name, the tokenizer that more text of its kind needs, and its splits.

    Args:
        name: what the corpus is called in `config.json`.
        tokenizer: the name of one, as `keras_nplm.data.tokenizers.get_tokenizer` takes it.
        splits: for each of "train", "validation" and "test" a function that iterates over its sentences anew.

    Example:

    >>> corpus = Corpus("two", "whitespace", {"train": lambda: iter([["the", "cat"], ["a", "dog"]])})
    >>> list(corpus.sentences("train"))
    [['the', 'cat'], ['a', 'dog']]
    """

    name: str
    tokenizer: str
    splits: dict[str, Callable[[], Iterator[list[str]]]]

    def sentences(self, split: str) -> Iterator[list[str]]:
        """Iterate over the sentences of a split, from the first."""
        return self.splits[split]()


def open_corpus(
    name: str = "python_reference",
    *,
    train: Sequence[str] = (),
    resample: Sequence[tuple[float, Sequence[str]]] = (),
    validation: Sequence[str] = (),
    test: Sequence[str] = (),
    fractions: tuple[float, float, float] = FRACTIONS,
    tokenizer: str = "words",
    normalise: Sequence[str] = (),
    data_dir: str | None = None,
) -> Corpus:
    """Open a corpus by its name, or from text files if `train` or `resample` names any.

    Args:
        name: `"python_reference"` (the embedded default), `"brown"`, `"brown/marks"`, or `"tfds:NAME"` for any set of
            TFDS that has a text feature. A set without a validation split lends the last 5% of its training split.
        train: text files or globs, one sentence a line; `.gz` and `.zst` are decompressed. Without `validation` and
            `test` their lines are split by `fractions`.
        resample: (c, text files or globs) …: more training text, of which an epoch shows the share c in (0, 1], another
            one each epoch; see `keras_nplm.Resampled`. It is not split by lines, and its words are all counted.
        validation: text files or globs.
        test: text files or globs.
        fractions: shares of the lines for train, validation and test.
        tokenizer: how lines of text files and of TFDS sets are split: `"words"` or `"whitespace"`; or `"characters"`,
            those of any corpus.
        normalise: what is done to the tokens of any corpus, of `keras_nplm.data.tokenizers.STEPS`: `"lower"`,
            `"numbers"`, `"lemmas"`.
        data_dir: directory of the archives of Brown and of TFDS sets; absent archives are downloaded to it. Default:
            the environment variable `TFDS_DATA_DIR`, else `~/tensorflow_datasets`.

    Raises:
        InputError: an unknown name, a missing file, a download that cannot be had; lemmas without simplemma.

    Example:

    >>> corpus = open_corpus("python_reference")
    >>> next(corpus.sentences("train"))
    ['The', '"', 'assert', '"', 'statement']
    >>> next(open_corpus("python_reference", normalise=["lower"]).sentences("train"))
    ['the', '"', 'assert', '"', 'statement']
    """
    tokenizer = add_steps(tokenizer, normalise)
    if train or resample:
        return _text_corpus(train, resample, validation, test, fractions, tokenizer)
    if validation or test:
        raise InputError("--validation and --test need --train: name the text files to train on.")
    if name.startswith("tfds:"):
        from keras_nplm.data.corpora.tfds_sets import open_tfds_splits  # imports TensorFlow

        splits = open_tfds_splits(name.removeprefix("tfds:"), data_dir, get_tokenizer(tokenizer))
        return Corpus(name, tokenizer, splits)
    if name == "python_reference":
        stored, read = "words", python_reference.read_split
    elif name in ("brown", "brown/plain", "brown/marks"):
        archive, marks = brown.find_archive(data_dir), name == "brown/marks"
        stored, read = "whitespace", functools.partial(brown.read_split, archive, marks=marks)
    else:
        raise InputError(
            f"Unknown corpus {name!r}: choose python_reference, brown, brown/marks or tfds:NAME, or name text files "
            "with --train."
        )
    base, steps = parse_tokenizer(tokenizer)
    stored = add_steps(base if base == CHARACTERS else stored, steps)
    tokenize = get_tokenizer(stored, apart=True)
    return Corpus(name, stored, {split: functools.partial(_tokenize_split, read, split, tokenize) for split in SPLITS})


def _tokenize_split(read: Callable, split: str, tokenize: Callable[[str], list[str]]) -> Iterator[list[str]]:
    """Tokenise and normalise the sentences of a built-in corpus, whose tokens are already apart."""
    return filter(None, map(tokenize, map(" ".join, read(split))))


def _text_corpus(train, resample, validation, test, fractions, tokenizer: str) -> Corpus:
    """The corpus of text files; its name tells the files, their sizes and the split, so that a run knows its text."""
    paths, resampled = (
        expand_patterns(train),
        [(check_share(share), expand_patterns(files)) for share, files in resample],
    )
    _refuse_twice([paths, *(files for _, files in resampled)])
    if not validation and not test:
        if not paths:
            raise InputError("Name --train, or both --validation and --test: what is resampled is not split by lines.")
        name = " ".join(["text", _sizes(paths), *_resampled_sizes(resampled), "split", *map(str, fractions)])
        splits = split_by_lines(paths, fractions, tokenizer)
        return Corpus(name, tokenizer, splits | {"train": add_resampled(splits["train"], resampled)})
    if not (validation and test):
        raise InputError("Name both --validation and --test, or neither to have --train split by lines.")
    named = {"validation": expand_patterns(validation), "test": expand_patterns(test)}
    names = [f"train: {_sizes(paths)}"] if paths else []
    names += [*_resampled_sizes(resampled), *(f"{split}: {_sizes(files)}" for split, files in named.items())]
    splits = {split: TextSplit(cut_files(files), tokenizer) for split, files in ({"train": paths} | named).items()}
    splits["train"] = add_resampled(splits["train"], resampled)
    return Corpus(" ".join(["text", *names]), tokenizer, splits)


def _refuse_twice(listed: Sequence[Sequence[Path]]) -> None:
    """Refuse a file that is in two lists."""
    seen = set()
    for paths in listed:
        files = {path.resolve(): path for path in paths}
        for file in files.keys() & seen:
            raise InputError(f"{files[file]} is named twice by --train and --resample: it is one or the other.")
        seen |= files.keys()


def _resampled_sizes(resampled: Sequence[tuple[float, Sequence[Path]]]) -> list[str]:
    return [f"resample {share}: {_sizes(paths)}" for share, paths in resampled]


def _sizes(paths: Sequence[Path]) -> str:
    return " ".join(f"{path} ({path.stat().st_size} bytes)" for path in paths)
