"""The requests of the README and the model card have answers, with the transport replaced by the SavedModel itself."""

import contextlib
import json
import re
import types
from pathlib import Path

import pytest
import tensorflow as tf

ROOT = Path(__file__).parents[2]
SERVED = ROOT / "saved_models" / "reference"
TEXT = "".join((directory / "README.md").read_text(encoding="utf-8") for directory in (ROOT, SERVED))
CLIENTS = [block for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.M) if "grpc" in block]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def answer():
    """A function of a signature and its inputs that returns the outputs."""
    signatures = tf.saved_model.load(SERVED / "1").signatures

    def answer(name, inputs):
        outputs = signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        return {key: value.numpy() for key, value in outputs.items()}

    return answer


def test_the_rest_requests_have_answers(answer):
    requests = re.findall(r"^curl -d '(.*)' http://localhost:8501/v1/models/reference:predict$", TEXT, re.M)
    assert len(requests) == 2
    for request in map(json.loads, requests):
        assert answer("serving_default", request["inputs"])["words"].shape == (1, 10)


@pytest.mark.parametrize("program", CLIENTS)
def test_the_grpc_client_prints_a_log_probability(program, answer, monkeypatch, capsys):
    grpc = pytest.importorskip("grpc", reason="tensorflow-serving-api is not installed")
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    from tensorflow_serving.apis import predict_pb2

    def predict(request, timeout):
        request = predict_pb2.PredictRequest.FromString(request.SerializeToString())
        assert request.model_spec.name == "reference"
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        response = predict_pb2.PredictResponse()
        for name, value in answer(request.model_spec.signature_name, inputs).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response

    monkeypatch.setattr(grpc, "insecure_channel", contextlib.nullcontext)
    monkeypatch.setattr(apis, "PredictionServiceStub", lambda address: types.SimpleNamespace(Predict=predict))
    exec(program, {})
    expected = answer("score", {"sentences": ["The value is a string."]})["log_prob"][0]
    assert float(capsys.readouterr().out.strip("[]\n")) == pytest.approx(float(expected), rel=1e-5)
