"""A corpus: named splits of sentences, each sentence a list of tokens, whatever they are read from."""

import contextlib
import dataclasses
import functools
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tensorflow_datasets as tfds

from keras_nplm.data.corpora.pieces import cut
from keras_nplm.data.corpora.text_files import (
    TextSplit,
    check_share,
    expand,
    split_by_lines,
    with_resampled,
)
from keras_nplm.data.tokenizers import CHARACTERS, name_parts, with_steps
from keras_nplm.data.tokenizers import tokenizer as tokenizer_named
from keras_nplm.io.errors import InputError

SPLITS = ("train", "validation", "test")
FRACTIONS = (0.8, 0.1, 0.1)  # of the lines, where only one text is given
_VALIDATION_SHARE = 5  # per cent of the training examples, where a TFDS set has no validation split
_SECONDS_TO_CONNECT = 5
_BATCH = 1024  # examples that are handed from TFDS to Python at a time


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A name, the tokenizer that more text of its kind needs, and its splits.

    Args:
        name: what the corpus is called in `config.json`.
        tokenizer: the name of one, as `keras_nplm.data.tokenizers.tokenizer` takes it.
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
        data_dir: where a corpus's archive lies, or is downloaded to. Default: TFDS's own directory (`TFDS_DATA_DIR` or
            `~/tensorflow_datasets`), which is also where TFDS keeps what it has prepared.

    Raises:
        InputError: an unknown name, a missing file, a download that cannot be had; lemmas without simplemma.

    Example:

    >>> corpus = open_corpus("python_reference")
    >>> next(corpus.sentences("train"))
    ['The', '"', 'assert', '"', 'statement']
    >>> next(open_corpus("python_reference", normalise=["lower"]).sentences("train"))
    ['the', '"', 'assert', '"', 'statement']
    """
    tokenizer = with_steps(tokenizer, normalise)
    if train or resample:
        return _text_corpus(train, resample, validation, test, fractions, tokenizer)
    if validation or test:
        raise InputError("--validation and --test need --train: name the text files to train on.")
    if name.startswith("tfds:"):
        builder = _builder(name.removeprefix("tfds:"), data_dir)
        return Corpus(name, tokenizer, _tfds_splits(builder, tokenizer_named(tokenizer)))
    if name.partition("/")[0] not in ("python_reference", "brown"):
        raise InputError(
            f"Unknown corpus {name!r}: choose python_reference, brown, brown/marks or tfds:NAME, or name text files "
            "with --train."
        )
    stored = "words" if name.partition("/")[0] == "python_reference" else "whitespace"
    base, steps = name_parts(tokenizer)
    stored = with_steps(base if base == CHARACTERS else stored, steps)
    return Corpus(name, stored, _tfds_splits(_builder(name, data_dir), tokenizer_named(stored, apart=True)))


def _text_corpus(train, resample, validation, test, fractions, tokenizer: str) -> Corpus:
    """The corpus of text files; its name tells the files, their sizes and the split, so that a run knows its text."""
    paths, resampled = expand(train), [(check_share(share), expand(files)) for share, files in resample]
    _refuse_twice([paths, *(files for _, files in resampled)])
    if not validation and not test:
        if not paths:
            raise InputError("Name --train, or both --validation and --test: what is resampled is not split by lines.")
        name = " ".join(["text", _sizes(paths), *_resampled_sizes(resampled), "split", *map(str, fractions)])
        splits = split_by_lines(paths, fractions, tokenizer)
        return Corpus(name, tokenizer, splits | {"train": with_resampled(splits["train"], resampled)})
    if not (validation and test):
        raise InputError("Name both --validation and --test, or neither to have --train split by lines.")
    named = {"validation": expand(validation), "test": expand(test)}
    names = [f"train: {_sizes(paths)}"] if paths else []
    names += [*_resampled_sizes(resampled), *(f"{split}: {_sizes(files)}" for split, files in named.items())]
    splits = {split: TextSplit(cut(files), tokenizer) for split, files in ({"train": paths} | named).items()}
    splits["train"] = with_resampled(splits["train"], resampled)
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


def _builder(name: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    """The prepared builder of that name."""
    try:
        builder = tfds.builder(name)
    except (tfds.core.registered.DatasetNotFoundError, ValueError) as error:
        raise InputError(f"TFDS has no set {name!r} ({str(error).splitlines()[0]})") from error
    if not _text_features(builder):
        raise InputError(f"The TFDS set {name!r} has no text feature: choose one that has.")
    if builder.is_prepared():
        return builder
    _require_archives(builder, data_dir)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what TFDS says on the way
            builder.download_and_prepare(
                download_dir=data_dir, download_config=tfds.download.DownloadConfig(manual_dir=data_dir)
            )
    except tfds.download.download_manager.NonMatchingChecksumError as error:
        raise InputError(f"An archive of {name!r} is not the expected one (damaged?): {error} Get it again.") from error
    except (ImportError, AssertionError, tfds.download.DownloadError) as error:
        raise InputError(f"TFDS cannot prepare {name!r}: {error}") from error
    return builder


def _text_features(builder: tfds.core.DatasetBuilder) -> list[str]:
    """The names of the features that are text, the one called "text" first."""
    features = builder.info.features.items() if builder.info.features else ()
    return sorted((name for name, kind in features if isinstance(kind, tfds.features.Text)), key=lambda n: n != "text")


def _require_archives(builder: tfds.core.DatasetBuilder, data_dir: str | None) -> None:
    """Fail within seconds where an archive is neither at hand nor within reach: TFDS itself would try for minutes."""
    for url, info in (builder.url_infos or {}).items():
        if data_dir and info.filename and (Path(data_dir) / info.filename).is_file():
            continue
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_SECONDS_TO_CONNECT).close()
        except urllib.error.HTTPError:
            pass  # the host answers: what it has against a mere look is for TFDS to find out
        except OSError as error:
            raise InputError(
                f"{info.filename or url} is needed and cannot be downloaded ({error}): fetch it from {url} and name "
                "the directory that holds it with --data-dir."
            ) from error
        return  # one that answers is enough: the rest fails or not as TFDS has it


def _tfds_splits(builder, tokenize) -> dict[str, Callable[[], Iterator[list[str]]]]:
    """The splits of a prepared builder, with what is missing cut from its training split."""
    feature = _text_features(builder)[0]
    has = builder.info.splits
    if "train" not in has:
        raise InputError(f"The TFDS set {builder.name!r} has no training split: choose one that has.")
    cut = 100
    names = {}
    for split in ("validation", "test"):
        if split in has:
            names[split] = split
        else:
            names[split] = f"train[{cut - _VALIDATION_SHARE}%:{cut}%]"
            cut -= _VALIDATION_SHARE
    names["train"] = "train" if cut == 100 else f"train[:{cut}%]"
    return {split: functools.partial(_tfds_sentences, builder, names[split], feature, tokenize) for split in SPLITS}


def _tfds_sentences(builder, split: str, feature: str, tokenize) -> Iterator[list[str]]:
    """The sentences of a TFDS split: each line of each example."""
    examples = builder.as_dataset(split=split, shuffle_files=False, read_config=tfds.ReadConfig(try_autocache=False))
    examples = examples.map(lambda example: example[feature])
    for batch in examples.batch(_BATCH).prefetch(2).as_numpy_iterator():
        for text in batch:
            yield from filter(None, map(tokenize, text.decode("utf-8").split("\n")))
