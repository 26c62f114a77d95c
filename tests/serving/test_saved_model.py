"""SavedModel versions for TF Serving: loaders, server files, versions, a full disk."""

import errno
import os
import re
import subprocess
import sys
from concurrent import futures

import pytest
import tensorflow as tf

from keras_nplm import NoiseContrastive, RunError, TanhHidden, export_saved_model
from keras_nplm.serving import build_graph, signatures
from tests.networks import compose


@pytest.fixture
def no_graphs(monkeypatch) -> None:
    """One function is traced, and graphs are not written."""

    def write_empty_file(module, path, signatures):
        (path / "saved_model.pb").touch()

    monkeypatch.setattr(signatures, "FUNCTIONS", (signatures.PredictNext,))
    monkeypatch.setattr(tf.saved_model, "save", write_empty_file)


@pytest.mark.long
def test_it_loads_without_keras_and_keras_nplm(exported, language_model):
    program = """
import sys
sys.modules["keras"] = sys.modules["keras_nplm"] = None
import tensorflow as tf
predict = tf.saved_model.load(sys.argv[1]).signatures["predict_next"]
print(predict(contexts=tf.constant(["The value of"]))["words"].numpy()[0, 0].decode())
"""
    command = [sys.executable, "-c", program, exported]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout.strip() == language_model.next_words("The value of", 1)[0][0], run.stderr


@pytest.mark.packages
def test_the_server_finds_a_warm_up_request_of_each_signature(exported, loaded):
    """Read by the messages of TensorFlow Serving."""
    messages = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2",
        reason="tensorflow-serving-api is not installed",
    )
    file = exported / "assets.extra" / "tf_serving_warmup_requests"
    answered = set()
    for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
        request = messages.PredictionLog.FromString(record).predict_log.request
        name = request.model_spec.signature_name
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        answer = loaded.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
        assert all(len(value) == 1 for value in answer.values())
        assert request.model_spec.name == exported.parent.name
        answered.add(name)
    assert answered == {*loaded.signatures}


def test_variables_of_training_are_not_saved(tmp_path):
    hidden = TanhHidden(5, dropout=0.1, name="hidden")
    model = compose(12, 3, 2, hidden=hidden, objective=NoiseContrastive(), boundary="stream")
    path = tf.train.Checkpoint(graph=build_graph(model)).write(str(tmp_path / "variables"))
    weights = sorted(shape for name, shape in tf.train.list_variables(path) if shape)
    # C, H, d, and U and b in one matrix of 32 columns; no noise distribution, no seeds
    assert weights == sorted([[12, 2], [4, 5], [5], [6, 32]])


def test_the_server_files_name_the_model(exported):
    directory = exported.parent
    compose = (directory / "compose.yaml").read_text()
    assert 'base_path: "/models/small"' in (directory / "models.config").read_text()
    for option in ("models.config", "batching.config", "monitoring.config"):
        assert f"/models/small/{option}" in compose
        assert not re.search(r"[{][a-z]+[}]", (directory / option).read_text())


def test_versions_are_numbered_and_edited_server_files_kept(no_graphs, language_model, tmp_path):
    target = tmp_path / "served"
    for name in (".new.1", ".new.old"):  # of a running and of a killed export
        (target / name).mkdir(parents=True)
    os.utime(target / ".new.old", (0, 0))
    assert export_saved_model(language_model, target).name == "1"
    (target / "compose.yaml").write_text("ports: 9000\n")
    (target / "1").rename(target / "7")
    for name in ("007", "9999999999999999999999"):
        (target / name).mkdir()
    with futures.ThreadPoolExecutor(3) as pool:
        exports = [pool.submit(export_saved_model, language_model, target) for _ in range(3)]
    versions = [export.result() for export in exports]
    assert sorted(version.name for version in versions) == ["10", "8", "9"]
    assert all((version / "saved_model.pb").is_file() for version in versions)
    assert [path.name for path in target.iterdir() if path.name.startswith(".")] == [".new.1"]
    assert versions[0].stat().st_mode & 0o055 == 0o055  # readable by the user of the server
    assert (target / "compose.yaml").read_text() == "ports: 9000\n"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left"),
        tf.errors.ResourceExhaustedError(None, None, "No space left"),
    ],
    ids=type,
)
def test_a_full_disk_leaves_the_earlier_versions(
    no_graphs, language_model, tmp_path, monkeypatch, messages, error
):
    target = tmp_path / "served"
    export_saved_model(language_model, target)

    def fail(module, path, signatures):
        raise error

    monkeypatch.setattr(tf.saved_model, "save", fail)
    messages.refuse(lambda: export_saved_model(language_model, target), RunError)
    assert [path.name for path in target.iterdir() if path.is_dir()] == ["1"]
