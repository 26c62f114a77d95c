import json
import subprocess
import sys
from pathlib import Path

import pytest

import keras_nplm.data.worker_pool as worker_pool
from keras_nplm import InputError, RunError, Vocabulary, encode_corpus, open_corpus
from keras_nplm.data.encoding import count_vocabulary
from keras_nplm.data.worker_pool import run_in_processes


def test_errors_in_a_worker_process_are_raised_here(tmp_path, many_processes, write_text):
    paths = [write_text(tmp_path / f"{name}.txt", b"the cat sat on it\n" * 4) for name in "abc"]
    (tmp_path / "b.txt").write_bytes(b"the cat sat on it\n" * 3 + b"the </s>\n")
    corpus = open_corpus(train=paths[1:2], validation=paths[:1], test=paths[2:], tokenizer="whitespace")
    with pytest.raises(InputError, match="reserved token </s>"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")
    with pytest.raises(InputError, match=r"b.txt is not UTF-8 text \(byte 54\)"):
        (tmp_path / "b.txt").write_bytes(b"the cat sat on it\n" * 3 + b"\xe9\n")
        count_vocabulary(open_corpus(train=paths[1:2], validation=paths[:1], test=paths[2:]))


def test_a_worker_process_that_dies_is_a_runtime_failure():
    with pytest.raises(RunError, match="A worker process that read the text died .exit status -?[0-9]+"):
        list(run_in_processes("signal:raise_signal", {"signalnum": 9}, [{}, {}], processes=2))
    options = {"tokenizer": "words"}  # PieceCounter needs a directory, too
    with pytest.raises(RunError, match="worker process .* died"):
        list(run_in_processes("keras_nplm.data.word_counts:PieceCounter", options, [{}, {}], processes=2))


def test_worker_processes_import_neither_keras_nor_tensorflow():
    script = Path(worker_pool.__file__).with_name("worker.py")
    options = {"tokenizer": "words", "words": ["<pad>", "<unk>", "<s>", "</s>", "the"], "directory": ""}
    job = json.dumps({"task": "keras_nplm.data.shards:PieceEncoder", "options": options})
    code = (
        f"import runpy, sys; runpy.run_path({str(script)!r}, run_name='__main__'); "
        "print(sorted({'keras', 'tensorflow', 'tensorflow_datasets'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, input=job + "\n", capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]" and done.stdout == "{}\n"
