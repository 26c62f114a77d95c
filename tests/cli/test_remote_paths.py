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
LISTS = b"0 ||| the cat sat ||| lm=-3 ||| -3\n0 ||| cat the ||| lm=-2 ||| -2\n"
COMMANDS = """\
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
REFUSED = {
    "mix {model} --uniform --output {model}": "already holds a model. Fix: choose a new",
    "ngram --train {text} --order 4 --output {model}": "holds a run with other options: min_count",
    "ngram --train {text} --output {bucket}/text": "exists and is not a model directory.",
}


@pytest.fixture
def store(bucket):
    """The file system of the bucket, which holds a text."""
    store = open_filesystem(bucket)
    store.pipe_file(f"{bucket}/text/a.txt", TEXT)
    return store


def _list(store, url) -> set[str]:
    return {path.removeprefix(url.removeprefix("s3://") + "/") for path in store.find(url)}


@pytest.mark.packages
def test_ngram_commands_take_remote_paths(bucket, store, tmp_path, run):
    store.pipe_file(f"{bucket}/nbest.txt", LISTS)
    model = f"{bucket}/kn"
    names = dict(text=f"{bucket}/text/*.txt", model=model, bucket=bucket)
    shown = [run(line) for line in COMMANDS.format(**names).splitlines()]
    assert f"The run in {model} is finished" in shown[1].err
    assert f"the model is in {model};" in shown[1].out
    assert f"to {bucket}/out/m.arpa.gz" in shown[8].out
    assert _list(store, f"{bucket}/out") == {"m.arpa.gz", "rescored.txt"}
    config = json.loads(store.cat_file(f"{model}/config.json"))
    assert config["corpus"].startswith(f"text {bucket}/text/a.txt (")
    assert str(tmp_path) not in str(config)
    for name in ("ngrams.npz", "config.json", "corpus/train.00000.ids"):
        assert store.cat_file(f"{bucket}/of-prepared/{name}") == store.cat_file(f"{model}/{name}")
    assert not any("/." in name for name in _list(store, bucket))
    for line, message in REFUSED.items():
        error = run(line.format(**names), status=2).err
        assert f"{line.format(**names).split()[-1]} {message}" in error


@pytest.mark.long
def test_training_resumes_from_a_remote_checkpoint(
    bucket, store, tmp_path, monkeypatch, leave_out_report
):
    options = "--min-count 1 --embedding-dim 8 --hidden-units 8 --set batch_size=16 --epochs 2"
    (tmp_path / "a.txt").write_bytes(TEXT)
    line = f"train {options} --train {tmp_path}/a.txt --output {tmp_path}/whole"
    with leave_out_report():
        assert main(line.split()) == 0
    remote = f"train {options} --train {bucket}/text/a.txt --output {bucket}/run".split()
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
    written = {"metrics.json", "report.html", "mixture.npz", "components/0/model.keras"}
    assert written < left and "last.npz" not in left
    paths = (tmp_path / "whole", f"{bucket}/run")
    whole, resumed = (LanguageModel.load(path).network.get_weights() for path in paths)
    assert all(np.array_equal(a, b) for a, b in zip(whole, resumed, strict=True))
