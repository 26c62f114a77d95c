"""Apache Beam writes the bytes of the local path. What needs Beam itself is skipped where it is not installed."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import keras_nplm.data.beam_runner as beam_runner
import keras_nplm.data.corpora.pieces as pieces
from keras_nplm import InputError, RunError, open_corpus
from keras_nplm.cli.main import main
from keras_nplm.data.beam_runner import BeamRunner, count_item, run_item, write_part
from keras_nplm.data.corpora.pieces import run_pieces_by

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None, reason="Apache Beam is not installed: pip install '.[beam]'"
)
TEXTS = {
    "a.txt": "\ufeffThe cat sat.\r\n\r\nthe end".encode(),
    "b.txt": "\n\n猫猫猫猫 猫猫猫\n\n été été\n".encode(),
    "c.txt.gz": b"the compressed cat\nsat\n" * 9,
    "d.txt": b"huge " * 100 + b"\nsmall\n",
    "e.txt": b"y <unk>\nx\n" * 9,
}
DIRECT = ["--runner", "DirectRunner"]
SEVERAL = [*DIRECT, "--pipeline-options", "direct_running_mode=multi_processing", "direct_num_workers=2"]


@pytest.fixture
def text(tmp_path, monkeypatch, write_text) -> str:
    """A glob of small files that are cut into pieces of a few lines."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 16)
    for name, content in TEXTS.items():
        write_text(tmp_path / name, content)
    return str(tmp_path / "*.txt*")


def _read_files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _prepare_both(tmp_path, source: list[str], runner: list[str]) -> dict[str, bytes]:
    """Prepare a text locally and by Beam, and compare all files."""
    assert main(["prepare", *source, "--output", str(tmp_path / "local")]) == 0
    assert main(["prepare", *source, "--output", str(tmp_path / "beam"), *runner]) == 0
    files = _read_files(tmp_path / "beam")
    assert files == _read_files(tmp_path / "local")
    assert sorted(path.name for path in (tmp_path / "beam").iterdir()) == sorted(
        path.name for path in (tmp_path / "local").iterdir()
    )
    return files


@needs_beam
@pytest.mark.parametrize("flags", ["--max-size 9", "--tokenizer sentencepiece --pieces 330 --normalise lower"])
def test_beam_writes_the_bytes_of_the_local_path(tmp_path, text, flags):
    files = _prepare_both(tmp_path, ["--train", text, *flags.split()], DIRECT)
    assert sum(name.endswith(".ids") for name in files) > 9


@needs_beam
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:label\\(\\) is deprecated:DeprecationWarning")  # of protobuf 6, in TFDS
@pytest.mark.parametrize("flags", ["--train {text}", "--corpus tfds:python_reference --tokenizer whitespace"])
def test_workers_of_beam_write_the_bytes_of_the_local_path(tmp_path, monkeypatch, text, flags):
    if "tfds" in flags:
        monkeypatch.setattr(pieces, "PIECE_BYTES", 50_000)
    _prepare_both(tmp_path, flags.format(text=text).split(), SEVERAL)


@contextlib.contextmanager
def _start_service(log: Path, module: str, *arguments: str) -> Iterator[str]:
    """Start a server of Beam in a process of its own, and yield its address."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # the pool starts `python`
    command = [sys.executable, "-m", f"apache_beam.runners.{module}", *arguments]
    with log.open("w") as file, subprocess.Popen(command, stderr=file, env=os.environ | {"PATH": path}) as service:
        try:
            while not (listening := re.search(r"(?:Listening for|Started worker pool).*?(\d+)", log.read_text())):
                assert service.poll() is None, log.read_text()
                time.sleep(0.05)
            yield f"localhost:{listening[1]}"
        finally:
            service.terminate()


@needs_beam
@pytest.mark.long
def test_a_job_server_and_its_workers_write_the_bytes_of_the_local_path(tmp_path, text):
    """Flink and Spark take jobs in the same way: from a job server, with workers of their own for Python."""
    server = _start_service(tmp_path / "server.log", "portability.local_job_service_main", "--port=0")
    pool = _start_service(tmp_path / "pool.log", "worker.worker_pool_main", "--service_port=0")
    with server as server_address, pool as pool_address:
        options = [f"job_endpoint={server_address}", "environment_type=EXTERNAL", f"environment_config={pool_address}"]
        _prepare_both(tmp_path, ["--train", text], ["--runner", "PortableRunner", "--pipeline-options", *options])
        assert "state DONE" in (tmp_path / "server.log").read_text()


@needs_beam
@pytest.mark.parametrize("content", [b"the cat\ncaf\xe9\n", b"the </s>\n"])
def test_an_error_of_a_worker_is_that_of_the_local_path(tmp_path, capfd, text, content):
    (tmp_path / "d.txt").write_bytes(content)
    lines = []
    for runner in ("local", "DirectRunner"):
        output = ["--tokenizer", "whitespace", "--output", str(tmp_path / "new"), "--runner", runner]
        named = ["--train", text, "--validation", str(tmp_path / "e.txt"), "--test", str(tmp_path / "e.txt")]
        assert main(["prepare", *named, *output]) == 2
        lines.append(capfd.readouterr().err.splitlines()[-1])
        assert not (tmp_path / "new").exists()
    assert lines[0] == lines[1]
    assert "d.txt is not UTF-8 text (byte 11)" in lines[0] or "reserved token </s>" in lines[0]


@needs_beam
def test_invalid_runners_and_options_are_refused(tmp_path, capsys, text):
    for arguments, message in {
        "--runner NoRunner": "`--runner` must be local or a runner of Apache Beam. Received: 'NoRunner'",
        "--runner DirectRunner --pipeline-options direct_num_workers=x": "invalid int value: 'x'",
        "--runner DirectRunner --pipeline-options =x": "`--pipeline-options` must be NAME=VALUE or NAME.",
        "--runner DirectRunner --corpus python_reference": "`runner` must be local for the corpus python_reference.",
    }.items():
        source = [] if "--corpus" in arguments else ["--train", text]
        assert main(["prepare", *source, "--output", str(tmp_path / "new"), *arguments.split()]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line and not (tmp_path / "new").exists()


@needs_beam
def test_a_pipeline_that_fails_is_one_line(tmp_path, monkeypatch, capsys, text):
    def fail(*_):
        raise RuntimeError("Traceback:\nOSError: no such host [while running 'Run']")

    monkeypatch.setattr("apache_beam.Pipeline.run", fail)
    command = ["prepare", "--train", text, "--output", str(tmp_path / "new"), "--runner", "DirectRunner"]
    assert main(command) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert "pipeline failed on DirectRunner (OSError: no such host [while running 'Run'])" in line
    assert not (tmp_path / "new").exists()


KILLED = """
import sys, time
import keras_nplm.data.corpora.pieces as pieces
import keras_nplm.data.shards as shards
from keras_nplm.cli.main import main
pieces.PIECE_BYTES = 16
encode = shards.PieceEncoder.__call__

def encode_some(self, piece, shard):
    return encode(self, piece, shard) if shard < "train.00003" else time.sleep(99)

shards.PieceEncoder.__call__ = encode_some
main(sys.argv[1:])
"""


@needs_beam
def test_a_killed_driver_resumes_with_missing_shards(tmp_path, text):
    command = ["prepare", "--train", text, "--output", str(tmp_path / "beam"), "--runner", "DirectRunner"]
    with subprocess.Popen([sys.executable, "-c", KILLED, *command], start_new_session=True) as run:
        while run.poll() is None and not (tmp_path / "beam" / "corpus" / "train.00002.unknown.tsv").exists():
            time.sleep(0.02)
        os.killpg(run.pid, signal.SIGKILL)
    shard = tmp_path / "beam" / "corpus" / "train.00000.ids"
    before = shard.stat()
    assert list((tmp_path / "beam").glob(".beam.*")) and not (tmp_path / "beam" / "prepared.json").exists()
    _prepare_both(tmp_path, ["--train", text], DIRECT)
    assert (shard.stat().st_mtime_ns, shard.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


# What the workers do, without Beam


class OneProcess(BeamRunner):
    """Does in turn what the pipelines of `BeamRunner` do."""

    def __init__(self, directory: Path):
        self._directory, self._name, self.lost = directory, "OneProcess", ""

    def _run_pipeline(self, items, build):
        numbered = [(number, [json.dumps(beam_runner._make_piece_absolute(item))]) for number, item in enumerate(items)]
        (job,) = self._directory.glob(".beam.*")
        if "task" in json.loads((job / "job.json").read_text()):
            for item in numbered:
                run_item(item, str(job))
        else:
            parts: dict[int, list] = {}
            for counted in (pair for item in reversed(numbered) for pair in count_item(item, str(job))):
                part, counted = beam_runner._assign_part(counted)
                parts.setdefault(part, []).append(counted)
            for part, counts in parts.items():
                sums: dict[str, int] = {}
                for word, count in counts:
                    sums[word] = sums.get(word, 0) + count
                write_part((part, sums.items()), str(job))
        for path in job.glob(self.lost) if self.lost else ():
            path.unlink()


def test_the_workers_functions_give_the_bytes_of_the_local_path(tmp_path, monkeypatch, text):
    from keras_nplm.training.prepare import prepare_corpus

    monkeypatch.chdir(tmp_path)
    prepare_corpus(open_corpus(train=["*.txt*"]), tmp_path / "local")
    with run_pieces_by(OneProcess(tmp_path / "other")):
        prepare_corpus(open_corpus(train=["*.txt*"]), tmp_path / "other")
    assert _read_files(tmp_path / "local") == _read_files(tmp_path / "other")


def test_a_worker_downloads_remote_text_itself(tmp_path, monkeypatch):
    """The driver's copy of remote text is in its own cache, which workers do not see."""
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "driver"))
    copy = str(tmp_path / "driver" / "files" / "s3" / "bucket" / "a.txt")
    piece = {"ranges": [(copy, 0, 9)], "sentences": None, "examples": None}
    sent = beam_runner._make_piece_absolute({"piece": piece})
    assert sent["piece"]["ranges"] == [("s3://bucket/a.txt", 0, 9)]
    monkeypatch.setattr(beam_runner, "fetch", lambda url: tmp_path / "worker" / url.removeprefix("s3://"))
    (fetched,) = beam_runner._fetch_piece(json.dumps(sent))["piece"]["ranges"]
    assert fetched == (str(tmp_path / "worker" / "bucket" / "a.txt"), 0, 9)


@pytest.mark.parametrize("lost", ["0.json", "*.counts.json"])
def test_results_that_are_not_shared_are_noticed(tmp_path, text, lost):
    from keras_nplm.data.encoding import count_vocabulary

    corpus, runner = open_corpus(train=[text]), OneProcess(tmp_path / "other")
    runner.lost = lost
    with run_pieces_by(runner), pytest.raises(RunError, match="choose an `--output` on a file system that this"):
        count_vocabulary(corpus)


def test_workers_of_a_different_version_are_refused(tmp_path, text, monkeypatch):
    from keras_nplm.data.encoding import count_vocabulary

    corpus = open_corpus(train=[text])
    run = OneProcess._run_pipeline

    def change_version(*arguments):
        with monkeypatch.context() as context:
            context.setattr("keras_nplm.__version__", "0.0.1")
            run(*arguments)

    monkeypatch.setattr(OneProcess, "_run_pipeline", change_version)
    with run_pieces_by(OneProcess(tmp_path / "other")), pytest.raises(InputError, match=r"Received: 0\.0\.1"):
        count_vocabulary(corpus)
