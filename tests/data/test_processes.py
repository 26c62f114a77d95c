"""Worker processes: tokenizers of one's own, and the end of each process, however it comes."""

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from keras_nplm import InputError, encode_corpus, open_corpus, register_tokenizer
from keras_nplm.data.encoding import count_vocabulary
from tests.tokenizers import CommaTokenizer


def _run(directory: Path, script: str) -> subprocess.Popen:
    """Run a script, without `if __name__ == "__main__"`, in a group of processes of its own."""
    (directory / "script.py").write_text(script)
    (directory / "current").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "../script.py"],
        cwd=directory / "current",
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


SCRIPT = """
import os, sys
import keras_nplm.data.corpora.chunks as chunks
from keras_nplm import encode_corpus, open_corpus, register_tokenizer
from keras_nplm.data.encoding import count_vocabulary
from my_tokens import CommaTokenizer

class OwnTokenizer(CommaTokenizer):
    def split(self, line):
        with open("calls", "a") as file:
            print(os.getpid(), "tensorflow" in sys.modules, file=file)
        return CommaTokenizer.split(self, line)

chunks.CHUNK_BYTES, chunks.PARALLEL_BYTES, chunks.count_processes = 16, 0, lambda: 2
register_tokenizer(OwnTokenizer)
with open("text.txt", "w") as file:
    file.write("the,cat\\n" * 30)
corpus = open_corpus(train=["text.txt"], tokenizer="commas", all_lines=True)
vocabulary = count_vocabulary(corpus)
ids = encode_corpus(corpus, vocabulary, "ids").ids("train")
print(vocabulary.words[4:], len(ids), os.getpid())
"""


def test_a_script_without_guard_has_a_tokenizer_of_its_own(tmp_path):
    source = inspect.getsource(CommaTokenizer)
    (tmp_path / "my_tokens.py").write_text(f"from keras_nplm import Tokenizer\n\n{source}")
    (tmp_path / "current").mkdir()
    (tmp_path / "current" / "queue.py").write_text("raise ValueError('not the module of Python')")
    output, _ = _run(tmp_path, SCRIPT).communicate()
    figures, _, parent = output.strip().rpartition(" ")
    assert figures == "['cat', 'the'] 90"
    calls = [line.split() for line in (tmp_path / "current" / "calls").read_text().splitlines()]
    assert len(calls) == 60
    assert all(process != parent and loaded == "False" for process, loaded in calls)


def _encode_with(tokenizer: type, directory: Path) -> tuple:
    """Encode a text of commas with a class, and return the words and the number of the ids."""
    register_tokenizer(tokenizer)
    (directory / "text.txt").write_text("the,cat\n" * 30)
    corpus = open_corpus(train=[str(directory / "text.txt")], tokenizer="commas", all_lines=True)
    vocabulary = count_vocabulary(corpus)
    encoded = encode_corpus(corpus, vocabulary, directory / "ids")
    return vocabulary.words[4:], len(encoded.ids("train"))


def test_a_tokenizer_that_cannot_be_pickled_needs_no_workers(
    tmp_path, many_processes, forget_tokenizers
):
    lock = threading.Lock()

    class Locked(CommaTokenizer):
        def split(self, line):
            with lock:
                return super().split(line)

    assert _encode_with(Locked, tmp_path) == (["cat", "the"], 90)


def test_a_module_that_no_worker_finds_is_named(
    tmp_path, monkeypatch, many_processes, forget_tokenizers
):
    module = types.ModuleType("my_hidden_tokens")
    module.Commas = type("Commas", (CommaTokenizer,), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(InputError, match="worker process can import.*'my_hidden_tokens'"):
        _encode_with(module.Commas, tmp_path)


WAITING = """
import os, time
from keras_nplm.data.processes import map_in_processes

def wait(number):
    open(str(os.getpid()), "w").close()
    time.sleep(60)

try:
    print(list(map_in_processes(wait, [(number,) for number in range(9)], 2)))
except BaseException as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    "event, printed",
    [
        pytest.param("interrupt", "KeyboardInterrupt", id="Ctrl-C"),
        pytest.param("kill", "", id="the command is killed"),
        pytest.param("worker", "RunError A worker process that read the text died", id="worker"),
    ],
)
def test_no_worker_outlives_its_command(tmp_path, event, printed):
    command = _run(tmp_path, WAITING)
    while len(workers := [*(tmp_path / "current").glob("[0-9]*")]) < 2:
        assert command.poll() is None
        time.sleep(0.1)
    if event == "interrupt":
        os.killpg(command.pid, signal.SIGINT)
    else:
        victim = command.pid if event == "kill" else int(workers[0].name)
        os.kill(victim, signal.SIGKILL)
    # the workers have the same output: it ends when the last of them has ended
    output, messages = command.communicate(timeout=30)
    assert output.startswith(printed) and bool(output) == bool(printed)
    assert "Traceback" not in messages
