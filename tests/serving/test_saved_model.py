"""SavedModel versions for TF Serving: loaders, warm-up requests, server files, versions, misuse."""

import functools
import os
import re
import shutil
import subprocess
import sys
from concurrent import futures
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from keras_nplm import NPLM, InputError, LanguageModel, Uniform, Vocabulary, export_saved_model
from keras_nplm.cli.main import main
from keras_nplm.serving.graphs import build_graph
from keras_nplm.serving.signatures import DOCUMENTATION, MAX_TEXT_LENGTH, ServingModule

WORDS = ["the", "cat", "sat", "on", "mat", ".", "a", "dog"]


_save = tf.saved_model.save


@functools.cache
def _trace_once(*options) -> ServingModule:
    served = ServingModule(*options)
    functions = served.signatures()
    served.signatures = lambda: functions
    return served


@functools.cache
def _build_uniform() -> LanguageModel:
    return LanguageModel(Uniform(len(WORDS) + 4, "sentence"), Vocabulary(WORDS), "words", "sentence")


@pytest.fixture
def uniform(monkeypatch, build_once) -> LanguageModel:
    """A language model that is exported fast: its functions are traced and saved once for all exports."""
    monkeypatch.setattr("keras_nplm.serving.saved_model.ServingModule", _trace_once)

    def save(served: ServingModule, directory: Path, signatures: dict) -> None:
        saved = build_once("uniform", lambda path: _save(served, path, signatures=signatures))
        mode = directory.stat().st_mode
        shutil.copytree(saved, directory, dirs_exist_ok=True)
        directory.chmod(mode)  # which copytree changes

    monkeypatch.setattr(tf.saved_model, "save", save)
    _trace_once(_build_uniform(), 10, MAX_TEXT_LENGTH)
    return _build_uniform()


@pytest.mark.long
def test_it_loads_without_keras_and_keras_nplm(exported, language_model):
    program = """
import sys
sys.modules["keras"] = sys.modules["keras_nplm"] = None
import tensorflow as tf
predict = tf.saved_model.load(sys.argv[1]).signatures["predict_next"]
print(predict(contexts=tf.constant(["The value of"]))["words"].numpy()[0, 0].decode())
"""
    run = subprocess.run([sys.executable, "-c", program, exported], capture_output=True, text=True)
    assert run.stdout.strip() == language_model.next_words("The value of", 1)[0][0], run.stderr


def test_variables_of_training_are_not_saved(tmp_path):
    model = NPLM(len(WORDS) + 4, order=3, embedding_dim=2, hidden_units=5, dropout=0.1, output="nce", boundary="stream")
    path = tf.train.Checkpoint(graph=build_graph(model)).write(str(tmp_path / "variables"))
    weights = sorted(shape for name, shape in tf.train.list_variables(path) if shape)
    assert weights == sorted([[12, 2], [4, 5], [5], [12, 5], [12]])  # C, H, d, U, b; no noise distribution, no seeds


def _read_message(data: bytes) -> dict[int, list[bytes]]:
    """The length-delimited fields of a protocol buffer by their numbers."""
    fields, place = {}, 0
    while place < len(data):
        numbers = []
        for _ in ("tag", "length"):
            number = shift = 0
            while data[place] > 127:
                number, shift, place = number | (data[place] & 127) << shift, shift + 7, place + 1
            numbers.append(number | data[place] << shift)
            place += 1
        fields.setdefault(numbers[0] >> 3, []).append(data[place : place + numbers[1]])
        place += numbers[1]
    return fields


def test_warm_up_requests_run_every_signature(exported, loaded):
    """The field numbers are those of TF Serving's prediction_log.proto, predict.proto and model.proto."""
    requests, path = set(), exported / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        request = _read_message(_read_message(_read_message(record)[6][0])[1][0])
        model_spec, entries = _read_message(request[1][0]), map(_read_message, request[2])
        assert model_spec[1] == [b"small"]
        tensors = {entry[1][0].decode(): tensor_pb2.TensorProto.FromString(entry[2][0]) for entry in entries}
        inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in tensors.items()}
        signature, rows = model_spec[3][0].decode(), len(next(iter(inputs.values())))
        assert all(value.shape[0] == rows for value in loaded.signatures[signature](**inputs).values())
        requests.add((signature, rows))
    assert requests == {(name, rows) for name in DOCUMENTATION for rows in (1, 32)}


def test_the_server_files_name_the_model(exported):
    directory = exported.parent
    for file in ("models.config", "compose.yaml"):
        text = (directory / file).read_text()
        assert "small" in text and not re.search(r"[{][a-z]+[}]", text)
    assert "/models/small" in (directory / "models.config").read_text()
    for option in ("models.config", "batching.config", "monitoring.config"):
        assert f"/models/small/{option}" in (directory / "compose.yaml").read_text()
        assert (directory / option).read_text().count("{") == (directory / option).read_text().count("}")


def test_versions_are_numbered_and_edited_server_files_kept(uniform, tmp_path):
    target = tmp_path / "served"
    for name in (".new.1", ".new.old"):  # of a running and of a killed export
        (target / name).mkdir(parents=True)
    os.utime(target / ".new.old", (0, 0))
    assert export_saved_model(uniform, target).name == "1"
    (target / "compose.yaml").write_text("ports: 9000\n")
    (target / "1").rename(target / "7")
    (target / "007").mkdir()
    (target / "9999999999999999999999").mkdir()
    version = export_saved_model(uniform, target)
    assert version.name == "8" and (version / "saved_model.pb").is_file()
    assert [path.name for path in target.iterdir() if path.name.startswith(".")] == [".new.1"]
    assert version.stat().st_mode & 0o055 == 0o055  # readable by the user of the server
    assert (target / "compose.yaml").read_text() == "ports: 9000\n"


def test_concurrent_exports_make_a_version_each(uniform, tmp_path):
    with futures.ThreadPoolExecutor(3) as pool:
        versions = list(pool.map(lambda _: export_saved_model(uniform, tmp_path / "served"), range(3)))
    assert sorted(version.name for version in versions) == ["1", "2", "3"]
    assert all((version / "saved_model.pb").is_file() for version in versions)


@pytest.mark.long
def test_a_full_disk_leaves_the_earlier_versions(directory, tmp_path):
    program = """
import resource, sys
from keras_nplm.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.exit(main(["export", sys.argv[1], sys.argv[2]]))
"""
    target = tmp_path / "served"
    assert main(["export", str(directory), str(target)]) == 0
    card = (target / "README.md").read_bytes()
    run = subprocess.run([sys.executable, "-c", program, directory, target], capture_output=True, text=True)
    assert run.returncode == 1
    assert "Cannot write" in run.stderr.splitlines()[-1] and "Traceback" not in run.stderr
    assert sorted(path.name for path in target.iterdir() if path.is_dir()) == ["1"]
    assert (target / "README.md").read_bytes() == card


def test_misuse_is_refused(uniform, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="`target` must be a directory.*file, which is a file"):
        export_saved_model(uniform, tmp_path / "file")
    with pytest.raises(InputError, match="must not lie below a file.*file is a file"):
        export_saved_model(uniform, tmp_path / "file" / "served")
    for name in ('q"uote', "sp ace", "a:b", "über", "5", "a$b"):
        with pytest.raises(InputError, match="becomes the model name"):
            export_saved_model(uniform, tmp_path / name)
    with pytest.raises(InputError, match="which holds other files"):  # perhaps a README.md
        export_saved_model(uniform, tmp_path)
    with pytest.raises(InputError, match="`top_k` must be 1 or more"):
        export_saved_model(uniform, tmp_path / "served", top_k=0)
    assert not (tmp_path / "served").exists()
