"""Warm-up requests, which TF Serving sends to itself when it loads a version of a model.

The first request of a signature builds its graph, for seconds. A server that has sent one itself
answers its first client in milliseconds.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

FILE = "tf_serving_warmup_requests"  # in `assets.extra/`


def write_warm_up_requests(
    directory: Path,
    name: str,
    signatures: Mapping[str, tf.types.experimental.PolymorphicFunction],
    examples: Mapping[str, list[Any]],
) -> None:
    """Write a warm-up request for each signature: TFRecords of the message `PredictionLog`.

    Args:
        directory: the directory of the SavedModel.
        name: the name of the served model.
        signatures: the served functions by name.
        examples: an example of each input, by its name; see `build_examples`.

    Reference: https://www.tensorflow.org/tfx/serving/saved_model_warmup
    """
    path = directory / "assets.extra" / FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, function in signatures.items():
            tensors = {
                spec.name: tf.constant(examples[spec.name], spec.dtype)
                for spec in function.input_signature
            }
            writer.write(_encode_request(name, signature, tensors))


def _encode_request(name: str, signature: str, tensors: Mapping[str, tf.Tensor]) -> bytes:
    """Return a `PredictionLog` of a request: the numbers are those of its fields."""
    spec = _encode_field(1, name.encode()) + _encode_field(3, signature.encode())  # ModelSpec
    request = _encode_field(1, spec)
    for key, tensor in tensors.items():
        value = tf.make_tensor_proto(tensor).SerializeToString()
        request += _encode_field(2, _encode_field(1, key.encode()) + _encode_field(2, value))
    return _encode_field(6, _encode_field(1, request))  # PredictLog with a PredictRequest


def _encode_field(number: int, value: bytes) -> bytes:
    """Return a field with a length, as protocol buffers write it."""
    size = len(value)
    length = bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + value
