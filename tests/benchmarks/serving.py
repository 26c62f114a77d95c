"""Next-word requests to a SavedModel, and to LiteRT and ONNX files, with their latency.

The SavedModel takes texts and returns the most probable next words. It is compared with the
network's two matrix products alone. A short context has the words that the network reads, a
sentence about 100 characters. LiteRT and ONNX Runtime return log-probabilities of all words. The
first request to a loaded version is timed without and with the warm-up requests of the export.
"""

import contextlib
import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_nplm.data.corpora.python_reference import read_split
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.tokenizers.words import split_words
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.serving import export_litert, export_onnx, export_saved_model
from keras_nplm.serving.warm_up import FILE
from keras_nplm.training.build import build_model
from tests.benchmarks import peers
from tests.benchmarks.contenders import (
    Contender,
    Figures,
    Process,
    declare_speed,
    time_requests,
)
from tests.benchmarks.networks import PAPER, VOCABULARY_SIZE, sample_ngrams
from tests.benchmarks.report import SPEED_COLUMNS, Column, Settings

COLUMNS: list[Column] = [
    *(column for column in SPEED_COLUMNS if column[0] != "share of peak"),
    ("latency in ms (p50, p99)", "milliseconds", "list"),
]


def build_groups(
    settings: Settings, size: int = VOCABULARY_SIZE, batches: tuple[int, ...] = (1, 256)
) -> Iterator[list[Contender]]:
    """Yield a SavedModel, with short contexts and with sentences, beside its matrix products, for
    each number of contexts in a request; then LiteRT and ONNX.
    """
    sentences = _list_sentences(max(batches))
    vocabulary = _build_vocabulary(sentences, size)
    language_model = LanguageModel(build_model(PAPER, size), vocabulary, "words", "sentence")
    context_ids = sample_ngrams(PAPER.network.order, max(batches), size)[:, :-1]
    texts = [" ".join(vocabulary.decode(context)) for context in context_ids]
    with tempfile.TemporaryDirectory() as directory:
        version = export_saved_model(language_model, directory)
        loaded = tf.saved_model.load(version)
        predict_next = loaded.signatures["predict_next"]
        for batch in batches:
            predict = functools.partial(predict_next, contexts=tf.constant(texts[:batch]))
            predict_long = functools.partial(predict_next, contexts=tf.constant(sentences[:batch]))
            multiply = _build_matrix_products(batch, size)
            yield [
                time_requests(f"SavedModel, {batch} a request", predict, batch),
                time_requests(f"SavedModel, {batch} sentences a request", predict_long, batch),
                time_requests("matrix products", multiply, batch, peer=True),
            ]
        yield [
            _time_first_request("first request, no warm-up", version, texts[:1], is_warm=False),
            _time_first_request("first request, warmed up", version, texts[:1], is_warm=True),
        ]
        yield _build_device_group(language_model, Path(directory), context_ids[:1])


def _list_sentences(number: int) -> list[str]:
    """Return the sentences of the embedded text whose lengths are nearest to 100 characters."""
    return sorted(read_split("train"), key=lambda line: abs(len(line) - 100))[:number]


def _build_vocabulary(sentences: list[str], size: int) -> Vocabulary:
    """Return a vocabulary of the words of sentences and of invented words."""
    found = dict.fromkeys(word for sentence in sentences for word in split_words(sentence))
    words = [*found, *(f"w{number}" for number in range(size))]
    return Vocabulary(words[: size - len(SPECIALS)])


def _build_matrix_products(batch: int, size: int) -> Callable[[], object]:
    """Return the two matrix products of the network alone, on a random x [batch, (n-1)m]."""
    network = PAPER.network
    x_size = network.embedding_dim * (network.order - 1)
    x = tf.random.normal([batch, x_size])
    hidden_units = PAPER.flatten()["hidden_units"]
    hidden = tf.random.normal([x_size, hidden_units])
    output = tf.random.normal([size, hidden_units])

    @tf.function(autograph=False)
    def multiply(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.matmul(x, hidden), output, transpose_b=True)

    return functools.partial(multiply, x)


def _time_first_request(name: str, version: Path, texts: list[str], *, is_warm: bool) -> Contender:
    """Return the first request to a version, which each round loads as the server does."""

    def work() -> Figures:
        requests = [*_read_warm_up_requests(version)] if is_warm else []
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(version))
            for signature, inputs in requests:
                _send(session, loaded.signature_def[signature], inputs)
            began = time.perf_counter()
            _send(session, loaded.signature_def["predict_next"], {"contexts": texts})
            seconds = time.perf_counter() - began
        return {"ngrams": len(texts), "seconds": seconds, "request_seconds": [seconds]}

    return Contender(name, work, peer=not is_warm)


def _send(session: Any, signature: Any, inputs: dict[str, Any]) -> None:
    """Ask a session for all outputs of a signature, as the server does."""
    outputs = [output.name for output in signature.outputs.values()]
    session.run(outputs, {signature.inputs[name].name: value for name, value in inputs.items()})


def _read_warm_up_requests(version: Path) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield the signature and the inputs of the warm-up requests, as the server reads them."""
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    records = tf.data.TFRecordDataset(str(version / "assets.extra" / FILE))
    for record in records.as_numpy_iterator():
        request = PredictionLog.FromString(record).predict_log.request
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        yield request.model_spec.signature_name, inputs


def _build_device_group(
    language_model: LanguageModel, directory: Path, context_ids: np.ndarray
) -> list[Contender]:
    """Return the runtimes of exported files, which are written."""
    group: list[Contender] = []
    for title, build, export in (
        ("LiteRT", "build_litert", functools.partial(export_litert, quantise=False)),
        ("LiteRT in 8 bits", "build_litert", functools.partial(export_litert, quantise=True)),
        ("ONNX Runtime", "build_onnx", export_onnx),
    ):
        path = directory / f"{title}{'.onnx' if export is export_onnx else '.tflite'}"
        with contextlib.suppress(InputError):  # of an extra that is not installed
            export(language_model, path)
            title = f"{title}, {path.stat().st_size / 1e6:.1f} MB"
        arguments = {"path": str(path), "context_ids": context_ids}
        group.append(Process(title, f"{peers.__name__}:{build}", arguments))
    return group


REPORT = declare_speed(__doc__, build_groups, COLUMNS)
