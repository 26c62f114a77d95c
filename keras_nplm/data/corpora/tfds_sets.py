"""Any text set of TensorFlow Datasets (`tfds:NAME`) as splits of tokenised sentences."""

import contextlib
import dataclasses
import io
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow_datasets as tfds

import keras_nplm.data.corpora.chunks as chunks
import keras_nplm.data.corpora.tfds_builders  # noqa: F401  TFDS finds our builders after it
from keras_nplm.data.corpora.chunks import Chunk
from keras_nplm.data.corpora.download import check_host
from keras_nplm.data.corpora.text_files import TextSplit
from keras_nplm.data.corpus import HELD_OUT, SPLITS
from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.text import SPACES, decode_lines

_VALIDATION_SHARE = 5  # per cent of the training examples, where a TFDS set has no validation split
_CATALOG = "https://www.tensorflow.org/datasets/catalog"
_BATCH = 1024  # examples that TFDS hands to Python at a time
_BUILDERS: dict[str, tfds.core.DatasetBuilder] = {}  # by directory of the prepared set


@dataclasses.dataclass(frozen=True)
class TfdsChunk(Chunk):
    """A range of examples of a prepared TFDS set, in the order in which its files store them."""

    directory: str  # of the prepared set
    split: str
    feature: str
    start: int
    stop: int
    size: int  # bytes, estimated

    def estimate_size(self) -> int:
        return self.size

    def lines(self) -> Iterator[str]:
        """Read the lines of the examples that are not blank, each example as `decode_lines` reads a
        file.
        """
        for number, text in enumerate(self._read_examples(), self.start):
            source = f"Example {number} of the {self.split} split in {self.directory}"
            yield from (
                line for line in decode_lines(io.BytesIO(text), source) if line.strip(SPACES)
            )

    def _read_examples(self) -> Iterator[bytes]:
        with _refuse_errors(
            f"TFDS cannot read {self.directory}", "prepare it again where all workers see it."
        ):
            if self.directory not in _BUILDERS:
                _BUILDERS[self.directory] = tfds.builder_from_directory(self.directory)
            # files one after the other: the order does not depend on where the examples are cut
            config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1)
            read = tfds.core.ReadInstruction(self.split, from_=self.start, to=self.stop, unit="abs")
            texts = _BUILDERS[self.directory].as_dataset(
                split=read, shuffle_files=False, read_config=config
            )
            texts = texts.map(lambda example: example[self.feature])
            batches = texts.batch(_BATCH).prefetch(2).as_numpy_iterator()
            yield from itertools.chain.from_iterable(batches)

    def describe(self) -> list:
        return [[], list(dataclasses.astuple(self))]

    def with_paths(self, change: Callable[[str], str]) -> "TfdsChunk":
        return dataclasses.replace(self, directory=change(self.directory))


def open_tfds_splits(name: str, data_dir: str | None, tokenizer: str) -> dict[str, TextSplit]:
    """Prepare a TFDS set, such as `"wiki40b/en:1.3.0"`, and return train, validation and test.

    Each line of each example is a sentence. The last 5% of the training split serve as a missing
    split.
    """
    builder = _prepare_builder(name, data_dir)
    available = builder.info.splits
    if "train" not in available:
        raise InputError(
            f"The TFDS set {name!r} must have a training split. Received: {', '.join(available)}."
        )
    end = 100
    ranges = {}
    for split in HELD_OUT:
        ranges[split] = (
            (split, 0, 100) if split in available else ("train", end - _VALIDATION_SHARE, end)
        )
        end -= 0 if split in available else _VALIDATION_SHARE
    ranges["train"] = "train", 0, end
    feature, _BUILDERS[str(builder.data_dir)] = _list_text_features(builder)[0], builder
    return {
        split: TextSplit(_cut_examples(builder, feature, *ranges[split]), tokenizer)
        for split in SPLITS
    }


def _cut_examples(
    builder: tfds.core.DatasetBuilder, feature: str, split: str, low: int, high: int
) -> list[Chunk]:
    """Cut the examples between two percentages of a stored split into chunks of about
    `CHUNK_BYTES`.
    """
    info = builder.info.splits[split]
    start, stop = (round(percent * info.num_examples / 100) for percent in (low, high))
    size = max(1, info.num_bytes // max(1, info.num_examples))  # of an example, on average
    step = max(1, chunks.CHUNK_BYTES // size)
    ends = [(first, min(first + step, stop)) for first in range(start, stop, step)]
    return [TfdsChunk(str(builder.data_dir), split, feature, a, b, (b - a) * size) for a, b in ends]


def _prepare_builder(name: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    with _refuse_errors(f"TFDS cannot open {name!r}", fix=f"choose a text set of {_CATALOG}."):
        builder = _find_builder(name, data_dir)
    if not _list_text_features(builder):
        received = ", ".join(builder.info.features or {}) or "no features"
        raise InputError(f"The TFDS set {name!r} must have a text feature. Received: {received}.")
    if builder.is_prepared():
        return builder
    _check_archives(builder, data_dir)
    print(f"Preparing the TFDS set {name} in {builder.data_dir}", file=sys.stderr)
    with _refuse_errors(f"TFDS cannot prepare {name!r}"), contextlib.redirect_stdout(io.StringIO()):
        manual = tfds.download.DownloadConfig(manual_dir=data_dir)
        builder.download_and_prepare(download_dir=data_dir, download_config=manual)
    return builder


def _find_builder(name: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Find a set that is prepared in `data_dir`, as TFDS itself does, or else a set of TFDS's own
    directories.
    """
    if data_dir:
        with contextlib.suppress(Exception):  # not there; a namespace has a directory of its own
            builder = tfds.builder(name, data_dir=data_dir)
            if builder.is_prepared():
                return builder
    return tfds.builder(name)


@contextlib.contextmanager
def _refuse_errors(problem: str, fix: str = "") -> Iterator[None]:
    """Turn any error of TFDS, of its sets and of their libraries into an InputError of one line."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"{problem} ({error}). Fix: `pip install {error.name}`.") from error
    except Exception as error:
        # a full disk, a directory that is not ours
        if isinstance(error, OSError) and error.filename is not None:
            raise
        fix = f" Fix: {fix}" if fix else ""
        raise InputError(f"{problem} ({summarize_error(error).rstrip('.')}).{fix}") from error


def _list_text_features(builder: tfds.core.DatasetBuilder) -> list[str]:
    """List the names of the text features, "text" first."""
    features = builder.info.features.items() if builder.info.features else ()
    return sorted(
        (name for name, kind in features if isinstance(kind, tfds.features.Text)),
        key=lambda n: n != "text",
    )


def _check_archives(builder: tfds.core.DatasetBuilder, data_dir: str | None) -> None:
    """Refuse a set within seconds if an archive is absent from `data_dir` and its host does not
    answer.
    """
    for url, info in (builder.url_infos or {}).items():
        if not (data_dir and info.filename and (Path(data_dir) / info.filename).is_file()):
            check_host(url, info.filename or url)
            return  # one host that answers is enough: TFDS reports the others
