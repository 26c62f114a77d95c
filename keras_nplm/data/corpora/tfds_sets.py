"""Any text set of TensorFlow Datasets (`tfds:NAME`) as splits of tokenised sentences."""

import contextlib
import functools
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_nplm.data.corpora.download import check_host
from keras_nplm.data.corpora.text_files import LineSplit
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import summarize_error

_VALIDATION_SHARE = 5  # per cent of the training examples, where a TFDS set has no validation split
_CATALOG = "https://www.tensorflow.org/datasets/catalog"
_HUGGING_FACE = "https://huggingface.co"
_BATCH = 1024  # examples that TFDS hands to Python at a time


def open_tfds_splits(name: str, data_dir: str | None, tokenize: Callable[[str], list[str]]) -> dict[str, LineSplit]:
    """Prepare a TFDS set and return a reader of sentences for each of train, validation and test.

    Each line of each example is a sentence. The last 5% of the training split serve as a missing split.

    Args:
        name: name of the set, such as `"lm1b"`.
        data_dir: directory of its archives, or where they are downloaded to. Default: TFDS's own directory.
        tokenize: a function from a line to its tokens.

    Raises:
        InputError: TFDS has no such set, the set has no text feature or no training split, or it cannot be prepared:
            no network, a missing library.
    """
    builder = _prepare_builder(name, data_dir)
    available = builder.info.splits
    if "train" not in available:
        raise InputError(f"The TFDS set {name!r} must have a training split. Received: {', '.join(available)}.")
    end = 100
    names = {}
    for split in ("validation", "test"):
        if split in available:
            names[split] = split
        else:
            names[split] = f"train[{end - _VALIDATION_SHARE}%:{end}%]"
            end -= _VALIDATION_SHARE
    names["train"] = "train" if end == 100 else f"train[:{end}%]"
    feature = _list_text_features(builder)[0]
    return {
        split: LineSplit(functools.partial(_read_lines, builder, names[split], feature), tokenize)
        for split in ("train", "validation", "test")
    }


def _prepare_builder(name: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    if name.startswith("huggingface:"):  # TFDS would ask for the list of its sets for half a minute
        check_host(_HUGGING_FACE, name, fix="save the text to files and name them with --train.")
    with _refuse_errors(f"TFDS cannot open {name!r}", fix=f"choose a text set of {_CATALOG}."):
        builder = tfds.builder(name)
    if not _list_text_features(builder):
        received = ", ".join(builder.info.features or {}) or "no features"
        raise InputError(f"The TFDS set {name!r} must have a text feature. Received: {received}.")
    if builder.is_prepared():
        return builder
    _check_archives(builder, data_dir)
    size = sum(info.size or 0 for info in (builder.url_infos or {}).values())
    download = f"Downloading {tfds.units.Size(size)} and preparing" if size else "Preparing"
    print(f"{download} the TFDS set {name} in {builder.data_dir}", file=sys.stderr)
    with _refuse_errors(f"TFDS cannot prepare {name!r}"), contextlib.redirect_stdout(io.StringIO()):
        builder.download_and_prepare(
            download_dir=data_dir, download_config=tfds.download.DownloadConfig(manual_dir=data_dir)
        )
    return builder


@contextlib.contextmanager
def _refuse_errors(problem: str, fix: str = "") -> Iterator[None]:
    """Turn any error of TFDS, of its sets and of their libraries into an InputError of one line."""
    try:
        yield
    except tfds.download.download_manager.NonMatchingChecksumError as error:
        raise InputError(f"{problem} (an archive is damaged: {error}). Fix: delete it and run again.") from error
    except ModuleNotFoundError as error:
        raise InputError(f"{problem} ({error}). Fix: `pip install {error.name}`.") from error
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # a full disk, a directory that is not ours
            raise
        fix = f" Fix: {fix}" if fix else ""
        raise InputError(f"{problem} ({summarize_error(error).rstrip('.')}).{fix}") from error


def _list_text_features(builder: tfds.core.DatasetBuilder) -> list[str]:
    """List the names of the text features, "text" first."""
    features = builder.info.features.items() if builder.info.features else ()
    return sorted((name for name, kind in features if isinstance(kind, tfds.features.Text)), key=lambda n: n != "text")


def _check_archives(builder: tfds.core.DatasetBuilder, data_dir: str | None) -> None:
    """Refuse a set within seconds if an archive is absent from `data_dir` and its host does not answer."""
    for url, info in (builder.url_infos or {}).items():
        if data_dir and info.filename and (Path(data_dir) / info.filename).is_file():
            continue
        check_host(url, info.filename or url)
        return  # one host that answers is enough: TFDS reports the others


def _read_lines(builder: Any, split: str, feature: str) -> Iterator[str]:
    examples = builder.as_dataset(split=split, shuffle_files=False, read_config=tfds.ReadConfig(try_autocache=False))
    examples = examples.map(lambda example: example[feature])
    for batch in examples.batch(_BATCH).prefetch(2).as_numpy_iterator():
        for text in batch:
            yield from text.decode("utf-8").split("\n")
