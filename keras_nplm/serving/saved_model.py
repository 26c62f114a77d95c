"""`keras-nplm export`: a version of a SavedModel for TF Serving, with warm-up requests and the server's own files."""

import contextlib
import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.vocabulary import SPECIALS, UNK_ID
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import replacing
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.serving.model_card import model_card
from keras_nplm.serving.signatures import DEFAULT, Served

WARMUP = Path("assets.extra", "tf_serving_warmup_requests")
_MARK = "models.config"  # what tells that a directory was written here; the first of the server's files
_WARMUP_BATCHES = (1, 32)
_BATCH = 128  # the most rows that the server runs together
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")  # of a model: in a URL, in YAML and in the server's own files alike
_LAST_VERSION = (1 << 63) - 1
_STALE_SECONDS = 3600  # after which what a killed export left is removed

# Started as `docker compose up` in the exported directory, or by the same options of a `tensorflow_model_server`.
_SERVER_FILES = {
    "models.config": """\
model_config_list {{
  config {{ name: "{name}" base_path: "/models/{name}" model_platform: "tensorflow" }}
}}
""",
    "batching.config": """\
max_batch_size {{ value: 100000 }}  # rows of a request; what is more than the next number is split
max_execution_batch_size {{ value: {batch} }}
enable_large_batch_splitting {{ value: true }}
batch_timeout_micros {{ value: 0 }}
max_enqueued_batches {{ value: 1000 }}
num_batch_threads {{ value: {cores} }}  # as many as the server has cores
""",
    "monitoring.config": """\
prometheus_config {{ enable: true path: "/monitoring/prometheus/metrics" }}
""",
    "compose.yaml": """\
services:
  "{name}":
    image: tensorflow/serving
    volumes: [".:/models/{name}:ro"]
    ports: ["8500:8500", "8501:8501"]  # gRPC, REST
    command:
      - --model_config_file=/models/{name}/models.config
      - --enable_batching
      - --batching_parameters_file=/models/{name}/batching.config
      - --monitoring_config_file=/models/{name}/monitoring.config
""",
}


def export_saved_model(
    language_model: LanguageModel,
    target: str | os.PathLike,
    *,
    top_k: int = 10,
    config: dict | None = None,
    metrics: dict | None = None,
) -> Path:
    """Write the next version of a SavedModel, and beside it what TF Serving needs to serve it.

    `TARGET/<version>/` is written whole under another name and renamed at the very end, so that a server that watches
    TARGET never sees half a model; its name is the next integer, and it has the vocabulary and warm-up requests for
    every signature in `assets.extra/`. `TARGET/` also holds `README.md`, the model card, and for the server
    `models.config`, `batching.config`, `monitoring.config` and `compose.yaml`, where the model has TARGET's own name:
    they may be edited, since only those that are not there are written.

    Args:
        language_model: of any kind.
        target: the directory of the served model; absent, or with versions that were exported before.
        top_k: how many words `predict_next` gives; see `Served`.
        config: what `config.json` of a model directory holds, for the model card.
        metrics: what `metrics.json` holds, for the model card.

    Returns:
        the directory of the new version.

    Raises:
        InputError: `target` is a file, holds other files or has a name that a model cannot have, or `top_k` is out of
            range.
        RunError: the files cannot be written.
    """
    target = Path(target)
    name = target.resolve().name
    if not _NAME.fullmatch(name):
        raise InputError(f"The model is served by the name of its directory, {name!r}: take letters, digits, _ and -.")
    if any(path.exists() and not path.is_dir() for path in (target, *target.parents)):
        raise InputError(f"{target} is a file, or below one: name a directory for the versions of the served model.")
    if target.is_dir() and not (target / _MARK).exists() and any(path.name[0] != "." for path in target.iterdir()):
        raise InputError(f"{target} holds other files, not versions of a served model: name a directory of its own.")
    served = Served(language_model, top_k)
    signatures = served.signatures()
    filled = dict(name=name, batch=_BATCH, cores=os.cpu_count() or 1)
    files = {file: template.format(**filled) for file, template in _SERVER_FILES.items()}
    files = {file: text for file, text in files.items() if not (target / file).exists()}
    files["README.md"] = model_card(name, language_model, signatures, config or {}, metrics or {})
    try:
        with _temporary_directory(target) as temporary:
            tf.saved_model.save(served, temporary, signatures=signatures | {"serving_default": signatures[DEFAULT]})
            language_model.vocabulary.save(temporary / WARMUP.parent / "vocabulary.txt")
            _write_warmup(temporary / WARMUP, name, served, signatures)
            for file, text in files.items():
                with replacing(target / file) as path:
                    path.write_text(text, encoding="utf-8")
            return _as_next_version(temporary)
    except (OSError, tf.errors.OpError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.message.rpartition("}} ")[2]
        raise RunError(
            f"Cannot write a SavedModel to {target}: {reason or error}. Free some space there or name another "
            "directory; versions exported before are untouched."
        ) from error


@contextlib.contextmanager
def _temporary_directory(parent: Path) -> Iterator[Path]:
    """A directory whose name is no version; removed at the end, if it is still called so, like those of killed runs."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(".new.*"):
        if time.time() - left.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=".new.", dir=parent))
    temporary.chmod(0o755)  # the server may be another user
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _as_next_version(directory: Path) -> Path:
    """Rename a directory to the next integer beside it."""
    names = [path.name for path in directory.parent.iterdir() if path.name.isascii() and path.name.isdigit()]
    versions = [int(name) for name in names if str(int(name)) == name and int(name) < _LAST_VERSION]
    for version in itertools.count(max(versions, default=0) + 1):
        try:
            return directory.rename(directory.with_name(str(version)))
        except OSError:  # another export was first
            if not directory.with_name(str(version)).exists():
                raise


def _write_warmup(path: Path, name: str, served: Served, signatures: dict) -> None:
    """The requests that the server plays through a model before it takes others: each signature, one row and many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, function in signatures.items():
            for batch in _WARMUP_BATCHES:
                inputs = {spec.name: _example(spec, served, batch) for spec in function.input_signature}
                writer.write(_prediction_log(name, signature, inputs))


def _example(spec: tf.TensorSpec, served: Served, batch: int) -> np.ndarray:
    """Words of the vocabulary, the most frequent first, or their ids, in the shape of an input."""
    places = np.arange(batch * (spec.shape[1] or 1) if spec.shape.rank == 2 else batch)
    ids = (places % (served.model.vocabulary_size - len(SPECIALS)) + len(SPECIALS)).astype(np.int32)
    if spec.dtype == tf.string:
        words = served.text.words.numpy()[np.append(ids, UNK_ID)]
        return np.array([b" ".join(words[: 1 + i % 20]) if spec.name != "words" else words[i] for i in range(batch)])
    return ids.reshape([batch, *spec.shape[1:]])


def _prediction_log(model: str, signature: str, inputs: dict[str, np.ndarray]) -> bytes:
    """A `PredictionLog` that holds a `PredictRequest`, in protocol buffers' own form.

    The field numbers are those of TF Serving's `prediction_log.proto`, `predict.proto` and `model.proto`; its Python
    package is not asked for, since it will have no TensorFlow but the one with the GPU's libraries.
    """
    request = _field(1, _field(1, model.encode()) + _field(3, signature.encode()))  # model_spec: name, signature_name
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))  # inputs: map<string, TensorProto>
    return _field(6, _field(1, request))  # predict_log: request


def _field(number: int, value: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])
