"""What the tests share: where TFDS prepares its sets, the Brown archive where it is at hand, a
small trained model.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import logging
import os
import re
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# before anything imports TFDS
os.environ.setdefault("TFDS_DATA_DIR", tempfile.mkdtemp(prefix="tfds"))
# each core has a worker of pytest: more threads would wait for each other
os.environ.update(
    dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"), "1")
)

import fsspec
import hypothesis
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import keras_nplm
from keras_nplm.cli.imports import leave_out_optional_libraries
from keras_nplm.cli.main import main
from keras_nplm.data.tokenizers.registry import TOKENIZERS
from keras_nplm.io import remote
from tests.golden_messages import ROOT, GoldenMessages

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

_ADDED = "long or packages"  # the tests that .ci/run adds to the README's test command
_MARK = re.compile(r"\bmark\.(long|packages)\b")
_ALL_LONG = re.compile(r"^pytestmark = \[?pytest\.mark\.long\b", re.MULTILINE)
CORPORA = Path(__file__).parents[2] / "shared" / "corpora"
# the long tests of each take minutes: begun at the end, one file would run alone
_LONGEST = (
    "training/test_distribution.py",
    "test_notebooks.py",
    "cli/test_readme.py",
    "training/test_checkpoint.py",
    "experiments/test_paper.py",
    "serving/test_on_device.py",
    "dynamic/test_mixture.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Import TensorFlow before warnings are errors, which its own are not meant to be.

    The process of pytest-xdist that only hands out tests to workers needs no TensorFlow: the
    workers would start five seconds later. A shell lets its jobs in the background ignore Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hands_out_tests = bool(config.getoption("numprocesses", None))
    if not hands_out_tests:
        with leave_out_optional_libraries():
            importlib.import_module("keras_nplm.training.train")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores, as some tests wait for others; four are enough."""
    return min(4, (os.cpu_count() or 1) + 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import files of which all tests are long, where long tests are left out, and
    files without a marked test, where `.ci/run` runs those alone.
    """
    if collection_path.suffix != ".py":
        return None
    if config.option.markexpr == _ADDED:
        return not _MARK.search(collection_path.read_text(encoding="utf-8")) or None
    if config.option.markexpr != "not long" or not collection_path.name.startswith("test_"):
        return None
    return bool(_ALL_LONG.search(collection_path.read_text(encoding="utf-8"))) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin `.ci/run` with the longest files; see `--no-loadscope-reorder`."""
    if config.option.markexpr == _ADDED:
        items.sort(key=lambda item: not item.path.as_posix().endswith(_LONGEST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave the modules of TensorFlow out of garbage collections: these take a seventh of the time
    of the tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(scope="session")
def brown_directory() -> Path:
    """The directory that holds brown.zip: `KERAS_NPLM_CORPORA`, or the one beside the project."""
    directory = Path(os.environ.get("KERAS_NPLM_CORPORA", CORPORA))
    if not (directory / "brown.zip").is_file():
        pytest.skip("brown.zip is not at hand: name its directory with KERAS_NPLM_CORPORA")
    return directory


@pytest.fixture(scope="session")
def _object_store() -> Iterator[str]:
    """An S3 server in this process; tests that need one are skipped without moto or s3fs."""
    moto = pytest.importorskip(
        "moto.server", reason="moto[s3], flask and flask-cors are not installed"
    )
    pytest.importorskip("s3fs", reason="the extra [remote] is not installed")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def bucket(_object_store, tmp_path, monkeypatch) -> str:
    """The URL of a new, empty bucket of an S3 server, which this process and its children use."""
    for name, value in {
        "ENDPOINT_URL": _object_store,
        "ACCESS_KEY_ID": "a",
        "SECRET_ACCESS_KEY": "b",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "cache"))
    url = f"s3://{tmp_path.name.replace('_', '-')}-{os.getpid()}".lower()[:60].rstrip("-")
    remote.open_filesystem(url).mkdir(url)
    return url


class _Memory(MemoryFileSystem):
    """Google's store, in memory."""

    protocol = ("gs",)
    store = {}
    pseudo_dirs = [""]


@pytest.fixture
def memory_store(tmp_path, monkeypatch) -> MemoryFileSystem:
    """A store in memory, which needs no extra, with the bucket gs://bucket."""
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "gcsfs", fsspec)
    fsspec.register_implementation("gs", _Memory, clobber=True)
    store = remote.open_filesystem("gs://bucket")
    store.store.clear()
    store.makedirs("gs://bucket", exist_ok=True)
    return store


@pytest.fixture(scope="session")
def small_options() -> keras_nplm.Options:
    """A small network of the paper's kind: concatenated context, one tanh layer."""
    small = dict(order=4, embedding_dim=8, hidden_units=12, epochs=2, batch_size=128, min_count=3)
    text = dict(boundary="sentence", vocabulary_scope="train")
    return keras_nplm.CONFIGURATIONS["brown"].options.replace(held_out_mass=0.0, **small, **text)


@pytest.fixture(scope="session")
def build_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A function that builds a directory once for all workers of pytest-xdist; tests write nothing
    there.
    """
    temporary = tmp_path_factory.getbasetemp()
    common = temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary

    def build(name: str, write: Callable[[Path], object]) -> Path:
        with open(common / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
            if not (common / name).exists():
                new = tmp_path_factory.mktemp(name)
                write(new / "small")
                new.rename(common / name)
        return common / name / "small"

    return build


@pytest.fixture(scope="session")
def model_directory(build_once, small_options) -> Path:
    """A model trained on the embedded default by `train`; tests read it and write nothing there."""

    def write(path: Path) -> None:
        keras_nplm.train(keras_nplm.open_corpus(), path, small_options)

    return build_once("trained", write)


def _leave_out_logs(context: pytest.MonkeyPatch) -> None:
    def make_idle_callback(*arguments, **options):
        return importlib.import_module("keras").callbacks.Callback()

    context.setattr("keras_nplm.training.fit.LanguageModelBoard", make_idle_callback)


@pytest.fixture
def no_logs(monkeypatch):
    """No logs of TensorBoard; report.html is written."""
    _leave_out_logs(monkeypatch)


@pytest.fixture(scope="session")
def leave_out_report():
    """A context manager: runs in its block write no report.html and no logs of TensorBoard, most
    of a short run.
    """

    def write_nothing(*arguments):
        pass

    @contextlib.contextmanager
    def leave_out() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as context:
            context.setattr("keras_nplm.training.train.write_run_report", write_nothing)
            _leave_out_logs(context)
            yield

    return leave_out


@pytest.fixture
def no_report(leave_out_report):
    with leave_out_report():
        yield


@pytest.fixture(scope="session")
def build_ngram_model() -> Callable[[str], keras_nplm.LanguageModel]:
    """A function of the boundary that returns a trigram model of five words, which needs neither
    Keras nor TensorFlow.
    """

    def build(boundary: str) -> keras_nplm.LanguageModel:
        vocabulary = keras_nplm.Vocabulary(["the", "cat", "sat", "on", "mat"])
        ids = np.random.default_rng(0).choice([1, 3, 4, 4, 5, 6, 7, 8], 300).astype(np.int32)
        text = np.append(ids, 3).astype(np.int32)
        model = keras_nplm.kneser_ney(text, len(vocabulary), 3, boundary)
        return keras_nplm.LanguageModel(model, vocabulary, "words")

    return build


@pytest.fixture
def forget_tokenizers() -> Iterator[None]:
    """A tokenizer that the test registers is forgotten."""
    before = {*TOKENIZERS}
    yield
    for kind in TOKENIZERS.keys() - before:
        del TOKENIZERS[kind]


@pytest.fixture
def run(capsys) -> Callable:
    """Run a command, given as one line or as words: what it prints, `out` and `err`."""

    def run(*words: Any, status: int = 0):
        capsys.readouterr()
        line = shlex.split(words[0]) if len(words) == 1 else [*map(str, words)]
        assert main(line) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def ask(run) -> Callable:
    """Run a command with `--json`, and return the object that it prints."""

    def ask(*words: Any) -> dict:
        line = shlex.split(words[0]) if len(words) == 1 else words
        return json.loads(run(*line, "--json").out)

    return ask


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working directory, in which commands name their files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def messages(request, tmp_path) -> Iterator[GoldenMessages]:
    """The messages of the errors of a test, which must be those of `tests/messages.json`."""
    golden = GoldenMessages(request.node.nodeid, {"tmp": tmp_path, "root": ROOT})
    yield golden
    golden.check()
