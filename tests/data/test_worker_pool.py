import functools
import signal

import pytest

from keras_nplm import InputError, RunError, Vocabulary, encode_corpus, open_corpus
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
