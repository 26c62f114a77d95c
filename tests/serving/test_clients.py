"""The clients of the README and the model card run against a stand-in with the interfaces of TensorFlow's server."""

import contextlib
import http.server
import json
import re
import subprocess
import sys
import threading
from concurrent import futures
from pathlib import Path

import pytest
import tensorflow as tf

ROOT = Path(__file__).parents[2]
SERVED = ROOT / "saved_models" / "reference"
TEXT = "".join((directory / "README.md").read_text(encoding="utf-8") for directory in (ROOT, SERVED))
CLIENTS = [block for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.M) if "localhost" in block]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def loaded():
    return tf.saved_model.load(SERVED / "1")


@contextlib.contextmanager
def _serve_rest(loaded):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/models/reference:predict"
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            function = loaded.signatures[request.get("signature_name", "serving_default")]
            outputs = function(**{name: tf.constant(value) for name, value in request["inputs"].items()})
            body = json.dumps({"outputs": {name: _decode(value.numpy().tolist()) for name, value in outputs.items()}})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def _serve_grpc(loaded):
    grpc = pytest.importorskip("grpc", reason="tensorflow-serving-api is not installed")
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    from tensorflow_serving.apis import predict_pb2

    class Service(apis.PredictionServiceServicer):
        def Predict(self, request, context):
            assert request.model_spec.name == "reference"
            inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            for name, value in loaded.signatures[request.model_spec.signature_name](**inputs).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(1))
    apis.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield port
    server.stop(None).wait()


def _decode(value):
    return value.decode() if isinstance(value, bytes) else [*map(_decode, value)] if isinstance(value, list) else value


@pytest.mark.parametrize("program", CLIENTS, ids=lambda program: "gRPC" if "grpc" in program else "REST")
def test_the_client_of_the_readme_gets_results(program, loaded, tmp_path):
    is_grpc = "grpc" in program
    with (_serve_grpc if is_grpc else _serve_rest)(loaded) as port:
        program = program.replace("8500" if is_grpc else "8501", str(port))
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    if is_grpc:
        expected = loaded.signatures["score"](sentences=tf.constant(["The value is a string."]))["log_prob"][0]
        assert float(run.stdout.strip("[]\n")) == pytest.approx(float(expected), rel=1e-5)
    else:
        expected = loaded.signatures["predict_next"](contexts=tf.constant(["The value of the", "If the object"]))
        assert [line.split() for line in run.stdout.splitlines()] == _decode(expected["words"].numpy().tolist())
