"""Commands read corpora and models from an object store, and write to one: `s3://` paths of every
kind. moto's S3.
"""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_nplm import LanguageModel
from keras_nplm.cli.main import main
from keras_nplm.io.remote import open_filesystem

TEXT = b"the cat sat on the mat\nthe dog sat on the cat\na dog and a cat\n" * 60


@pytest.fixture
def store(bucket):
    """The file system of the bucket, which holds a text."""
    store = open_filesystem(bucket)
    store.pipe_file(f"{bucket}/text/a.txt", TEXT)
    return store


def _list(store, url) -> set[str]:
    return {path.removeprefix(url.removeprefix("s3://") + "/") for path in store.find(url)}


@pytest.mark.packages
def test_ngram_commands_take_remote_paths(bucket, store, tmp_path, capsys):
    store.pipe_file(
        f"{bucket}/nbest.txt",
        b"0 ||| the cat sat ||| lm=-3 ||| -3\n0 ||| cat the ||| lm=-2 ||| -2\n",
    )
    text = f"{bucket}/text/*.txt"
    model = f"{bucket}/kn"
    commands = f"""
    ngram --train {text} --min-count 1 --order 3 --output {model}
    ngram --train {text} --min-count 1 --order 3 --output {model}
    prepare --train {text} --min-count 1 --output {bucket}/prepared
    ngram --corpus {bucket}/prepared --order 3 --output {bucket}/of-prepared
    evaluate {model} --text {text}
    score {model} {bucket}/text/a.txt
    mix {model} --unigram-cache --output {bucket}/mixed
    rescore {bucket}/mixed {bucket}/nbest.txt --output {bucket}/out/rescored.txt
    export {model} {bucket}/out/m.arpa.gz
    ngram --arpa {bucket}/out/m.arpa.gz --output {bucket}/imported
    complete {bucket}/imported the --top-k 1"""
    for command in commands.strip().splitlines():
        assert main(command.split()) == 0, command
    shown = capsys.readouterr()
    assert f"The run in {model} is finished" in shown.err  # the second command has read it
    assert (
        shown.out.count(f"the model is in {model};") == 2
        and f"to {bucket}/out/m.arpa.gz" in shown.out
    )
    assert _list(store, f"{bucket}/out") == {"m.arpa.gz", "rescored.txt"}
    config = json.loads(store.cat_file(f"{model}/config.json"))
    assert config["corpus"].startswith(f"text {bucket}/text/a.txt (") and str(tmp_path) not in str(
        config
    )
    for name in ("ngrams.npz", "config.json", "corpus/train.00000.ids"):
        assert store.cat_file(f"{bucket}/of-prepared/{name}") == store.cat_file(f"{model}/{name}")
    assert not any("/." in name for name in _list(store, bucket))
    for command, message in [
        (
            f"mix {model} --uniform --output {model}",
            f"{model} already holds a model. Fix: choose a new",
        ),
        (
            f"ngram --train {text} --order 4 --output {model}",
            f"{model} holds a run with other options: min_count: 1 there, ",
        ),
        (
            f"ngram --train {text} --output {bucket}/text",
            f"{bucket}/text exists and is not a model directory.",
        ),
    ]:
        assert main(command.split()) == 2
        assert message in capsys.readouterr().err


@pytest.mark.long
def test_training_resumes_from_a_remote_checkpoint(
    bucket, store, tmp_path, monkeypatch, leave_out_report
):
    options = (
        "--min-count 1 --embedding-dim 8 --hidden-units 8 --set batch_size=16 --epochs 2".split()
    )
    (tmp_path / "a.txt").write_bytes(TEXT)
    whole = ["--train", str(tmp_path / "a.txt"), "--output", str(tmp_path / "whole")]
    with leave_out_report():
        assert main(["train", *options, *whole]) == 0

    remote = ["train", *options, "--train", f"{bucket}/text/a.txt", "--output", f"{bucket}/run"]
    run = subprocess.Popen([sys.executable, "-m", "keras_nplm", *remote], stderr=subprocess.DEVNULL)
    while "last.npz" not in _list(store, f"{bucket}/run"):
        assert run.poll() is None
        time.sleep(0.05)
    run.kill()
    run.wait()
    assert "metrics.json" not in _list(store, f"{bucket}/run")

    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "other machine"))
    assert main(remote) == 0
    left = _list(store, f"{bucket}/run")
    assert {
        "metrics.json",
        "report.html",
        "mixture.npz",
        "components/0/model.keras",
    } < left and "last.npz" not in left
    whole, resumed = (
        LanguageModel.load(path).network.get_weights()
        for path in (tmp_path / "whole", f"{bucket}/run")
    )
    assert all(np.array_equal(a, b) for a, b in zip(whole, resumed, strict=True))
