import functools
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import keras_nplm.data.worker_pool as worker_pool
from keras_nplm import InputError, RunError, Vocabulary, encode_corpus, open_corpus
from keras_nplm.data.shards import ChunkEncoder
from keras_nplm.data.worker_pool import run_in_processes


def test_errors_in_a_worker_process_are_raised_here(tmp_path, many_processes, write_text):
    paths = [write_text(tmp_path / f"{name}.txt", b"the cat sat on it\n" * 4) for name in "abc"]
    (tmp_path / "b.txt").write_bytes(b"the cat sat on it\n" * 3 + b"the </s>\n")
    corpus = open_corpus(train=paths[1:2], validation=paths[:1], test=paths[2:], tokenizer="whitespace")
    with pytest.raises(InputError, match="reserved token </s>"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")


def test_a_worker_process_that_dies_is_a_runtime_failure():
    for make_task in (functools.partial(signal.raise_signal, 9), len):  # killed, or a mistake of ours
        with pytest.raises(RunError, match="A worker process that read the text died .exit status -?[0-9]+"):
            list(run_in_processes(make_task, [(), ()], processes=2))


def test_worker_processes_import_neither_keras_nor_tensorflow():
    script = Path(worker_pool.__file__).with_name("worker.py")
    job = pickle.dumps(functools.partial(ChunkEncoder, "words", Vocabulary(["the"]), "")) + pickle.dumps(None)
    code = (
        f"import runpy, sys; runpy.run_path({str(script)!r}, run_name='__main__'); "
        "print(sorted({'keras', 'tensorflow', 'tensorflow_datasets'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], input=job, capture_output=True, check=True)
    assert done.stderr.splitlines()[-1] == b"[]" and pickle.loads(done.stdout) is None
