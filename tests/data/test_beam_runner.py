"""Apache Beam writes the bytes of the local path. What needs Beam itself is skipped where it is not installed."""

import types
from pathlib import Path

import pytest

import keras_nplm.data.beam_runner as beam_runner
import keras_nplm.data.corpora.chunks as chunks
from keras_nplm import InputError, open_corpus
from keras_nplm.cli.main import main
from keras_nplm.data.beam_runner import BeamRunner
from keras_nplm.data.corpora.chunks import run_chunks_by
from keras_nplm.data.encoding import count_vocabulary
from keras_nplm.training.prepare import prepare_corpus

WORKERS = "--pipeline-options direct_running_mode=multi_processing direct_num_workers=2"


@pytest.fixture
def text(tmp_path, monkeypatch, write_odd_texts) -> str:
    """A glob of small files that are cut into chunks of a few lines."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    return write_odd_texts(tmp_path)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:label\\(\\) is deprecated:DeprecationWarning")  # of protobuf 6, in TFDS
def test_beam_writes_the_bytes_of_the_local_path(tmp_path, text, read_files):
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install '.[beam]'")
    prepare = f"prepare --train {text} --tokenizer sentencepiece --pieces 330 --normalise lower --output".split()
    assert main([*prepare, str(tmp_path / "local")]) == 0
    assert main([*prepare, str(tmp_path / "beam"), "--runner", "DirectRunner", *WORKERS.split()]) == 0
    assert read_files(tmp_path / "beam") == read_files(tmp_path / "local")


class _Steps(list):
    """Stands for a pipeline of Beam and its collections: each step is done at once."""

    def __or__(self, step):
        return _Steps(step(self))

    def run(self):
        return types.SimpleNamespace(wait_until_finish=lambda: "DONE")


@pytest.fixture
def one_process(tmp_path, monkeypatch) -> BeamRunner:
    """A runner that does in turn what the steps of its pipeline do, without Beam."""
    write = lambda path: lambda lines: [Path(f"{path}-0").write_text("\n".join(lines) + "\n")]  # noqa: E731
    beam = types.SimpleNamespace(
        Pipeline=lambda options: _Steps(),
        Create=lambda items: lambda _: items,
        Reshuffle=lambda: reversed,
        Map=lambda function, *arguments: lambda items: [function(item, *arguments) for item in items],
        io=types.SimpleNamespace(WriteToText=write),
    )
    monkeypatch.setattr(BeamRunner, "__init__", lambda *_: None)
    runner = BeamRunner()
    runner.__dict__ |= {"_beam": beam, "_name": "OneProcess", "_options": None, "directory": str(tmp_path / "other")}
    return runner


def test_the_workers_function_gives_the_bytes_of_the_local_path(tmp_path, text, read_files, one_process):
    prepare_corpus(open_corpus(train=[text]), tmp_path / "local")
    with run_chunks_by(one_process):
        prepare_corpus(open_corpus(train=[text]), tmp_path / "other")
    assert read_files(tmp_path / "local") == read_files(tmp_path / "other")


def test_an_error_of_a_worker_ends_the_run(text, tmp_path, monkeypatch, one_process):
    monkeypatch.setattr(beam_runner, "_make_absolute", lambda path: "/absent")
    with run_chunks_by(one_process), pytest.raises(InputError, match="/absent"):
        count_vocabulary(open_corpus(train=[text]))
    assert not list((tmp_path / "other").iterdir())
