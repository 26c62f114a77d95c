"""The clients of the README and the model card run against a stand-in with the interfaces of TensorFlow's server."""

import contextlib
import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.request
from concurrent import futures
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

ROOT = Path(__file__).parents[2]
SERVED = ROOT / "saved_models" / "reference"
README, CARD = ((directory / "README.md").read_text(encoding="utf-8") for directory in (ROOT, SERVED))
CLIENTS = [
    block for block in re.findall(r"^```python\n(.*?)^```", README + CARD, re.DOTALL | re.M) if "localhost" in block
]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def loaded():
    return tf.saved_model.load(SERVED / "1")


@contextlib.contextmanager
def _stand_in(loaded):
    """Start a stand-in that calls the SavedModel; yield the ports of REST and gRPC (None if gRPC is not installed)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/models/reference:predict"
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            function = loaded.signatures[request.get("signature_name", "serving_default")]
            inputs = {name: tf.constant(value) for name, value in request["inputs"].items()}
            outputs = {name: _decode_values(value.numpy().tolist()) for name, value in function(**inputs).items()}
            body = json.dumps({"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    rest = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    with _grpc_stand_in(loaded) as grpc:
        yield rest.server_port, grpc
    rest.shutdown()
    rest.server_close()


@contextlib.contextmanager
def _grpc_stand_in(loaded):
    try:
        import grpc
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
    except ImportError:
        yield None
        return

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            assert request.model_spec.name == "reference"
            inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            for name, value in loaded.signatures[request.model_spec.signature_name](**inputs).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield port
    server.stop(None).wait()


def _decode_values(value):
    if isinstance(value, list):
        return [_decode_values(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture(scope="module")
def ports(loaded):
    with _stand_in(loaded) as ports:
        yield ports


@pytest.mark.parametrize("program", CLIENTS, ids=lambda program: "gRPC" if "grpc" in program else "REST")
def test_the_client_of_the_readme_gets_results(program, ports, loaded, tmp_path):
    rest, grpc = ports
    if "grpc" in program and grpc is None:
        pytest.skip("tensorflow-serving-api is not installed")
    assert ("8500" in program) != ("8501" in program)
    program = program.replace("8501", str(rest)).replace("8500", str(grpc))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    if "grpc" in program:
        expected = loaded.signatures["score"](sentences=tf.constant(["The value is a string."]))["log_prob"][0]
        assert float(run.stdout.strip("[]\n")) == pytest.approx(float(expected), rel=1e-5)
    else:
        expected = loaded.signatures["predict_next"](contexts=tf.constant(["The value of the", "If the object"]))
        assert [line.split() for line in run.stdout.splitlines()] == _decode_values(expected["words"].numpy().tolist())


def test_every_signature_has_a_rest_interface(ports):
    requests = {
        "score": {"sentences": ["The value is a string.", ""]},
        "predict_next_ids": {"context_ids": [[2] * 19 + [9]]},
        "log_prob_ids": {"context_ids": [[2] * 19 + [9]], "target_ids": [7]},
        "embed": {"words": ["the", "zyzzyva"]},
    }
    for signature, inputs in requests.items():
        body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
        with urllib.request.urlopen(f"http://localhost:{ports[0]}/v1/models/reference:predict", body) as response:
            outputs = json.load(response)["outputs"]
        for value in outputs.values() if isinstance(outputs, dict) else [outputs]:
            assert len(value) == len(next(iter(inputs.values()))) and np.isfinite(np.array(value, float)).all()
