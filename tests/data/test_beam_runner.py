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
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import keras_nplm.data.beam_runner as beam_runner
import keras_nplm.data.corpora.chunks as chunks
from keras_nplm import InputError, RunError, open_corpus
from keras_nplm.cli.main import main
from keras_nplm.data.beam_runner import BeamRunner
from keras_nplm.data.corpora.chunks import run_chunks_by
from keras_nplm.data.encoding import count_vocabulary
from keras_nplm.training.prepare import prepare_corpus

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None, reason="Apache Beam is not installed: pip install '.[beam]'"
)
DIRECT = ["--runner", "DirectRunner"]
SEVERAL = [*DIRECT, "--pipeline-options", "direct_running_mode=multi_processing", "direct_num_workers=2"]


@pytest.fixture
def text(tmp_path, monkeypatch, write_odd_texts) -> str:
    """A glob of small files that are cut into chunks of a few lines."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    return write_odd_texts(tmp_path)


def _read_files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _prepare_both(tmp_path, source: list[str], runner: list[str]) -> dict[str, bytes]:
    """Prepare a text locally and by Beam, and compare all files."""
    assert main(["prepare", *source, "--output", str(tmp_path / "local")]) == 0
    assert main(["prepare", *source, "--output", str(tmp_path / "beam"), *runner]) == 0
    files = _read_files(tmp_path / "beam")
    assert files == _read_files(tmp_path / "local")
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
        monkeypatch.setattr(chunks, "CHUNK_BYTES", 50_000)
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
        "--runner NoRunner": "`--runner` must be local or a runner of Apache Beam, such as",
        "--runner DirectRunner --pipeline-options direct_num_workers=x": "invalid int value: 'x'",
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
import keras_nplm.data.corpora.chunks as chunks
import keras_nplm.data.shards as shards
from keras_nplm.cli.main import main
chunks.CHUNK_BYTES = 16
encode = shards.ChunkEncoder.__call__

def encode_some(self, chunk, shard):
    return encode(self, chunk, shard) if shard < "train.00003" else time.sleep(99)

shards.ChunkEncoder.__call__ = encode_some
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


# Without Beam


class _Steps(list):
    """Stands for a pipeline of Beam and its collections: each step is done at once."""

    def __or__(self, step):
        return _Steps(step(self))

    def run(self):
        return types.SimpleNamespace(wait_until_finish=lambda: "DONE")


@pytest.fixture
def one_process(tmp_path, monkeypatch) -> BeamRunner:
    """A runner that does in turn what the steps of its pipeline do."""
    beam = types.SimpleNamespace(
        Pipeline=lambda options: _Steps(),
        Create=lambda items: lambda _: items,
        Reshuffle=lambda: reversed,
        Map=lambda function, *arguments: lambda items: [function(item, *arguments) for item in items],
        io=types.SimpleNamespace(
            WriteToText=lambda path: lambda lines: [Path(f"{path}-0").write_text("\n".join(lines) + "\n")]
        ),
    )
    monkeypatch.setattr(BeamRunner, "__init__", lambda *_: None)
    runner = BeamRunner()
    runner.__dict__ |= {"_beam": beam, "_name": "OneProcess", "_options": None, "directory": str(tmp_path / "other")}
    return runner


def test_the_workers_function_gives_the_bytes_of_the_local_path(tmp_path, monkeypatch, text, one_process):
    monkeypatch.chdir(tmp_path)
    prepare_corpus(open_corpus(train=["*.txt*"]), Path("local"))
    with run_chunks_by(one_process):
        prepare_corpus(open_corpus(train=["*.txt*"]), Path("other"))
    assert _read_files(tmp_path / "local") == _read_files(tmp_path / "other")


def test_a_worker_downloads_remote_text_itself(tmp_path, monkeypatch, text, one_process):
    """The driver's copy of remote text is in its own cache, which workers do not see."""
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "driver"))
    copy, fetched = str(tmp_path / "driver" / "files" / "s3" / "bucket" / "a.txt"), []
    monkeypatch.setattr(beam_runner, "fetch", lambda url: fetched.append(url) or tmp_path / "a.txt")
    counted, _ = one_process.run(chunks.SentenceCounter, [(chunks.TextChunk([(copy, 0, None)]),)])
    assert fetched == ["s3://bucket/a.txt"] and counted == [2]


@pytest.mark.parametrize(
    "name, value, error, message",
    [
        ("run_item", lambda *_: "{}\n{}", RunError, "choose an `--output` on a file system that this machine"),
        ("_make_absolute", lambda path: "/absent", InputError, "/absent"),
    ],
)
def test_lost_results_and_errors_of_a_worker_end_the_run(
    text, tmp_path, monkeypatch, one_process, name, value, error, message
):
    monkeypatch.setattr(beam_runner, name, value)
    with run_chunks_by(one_process), pytest.raises(error, match=message):
        count_vocabulary(open_corpus(train=[text]))
    assert not list((tmp_path / "other").iterdir())


def test_workers_of_a_different_version_are_refused(tmp_path):
    (tmp_path / "version").write_text("0.0.1")
    assert "must have keras-nplm 0.0.1." in json.loads(beam_runner.run_item((0, b""), str(tmp_path)))["message"]
