"""Next-word requests to a SavedModel, and to LiteRT and ONNX files, with their latency.

The SavedModel takes texts and returns the most probable next words. It is compared with the
network's two matrix products alone. LiteRT and ONNX Runtime take word ids and return the
log-probabilities of all words.
"""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.benchmark import SPEED_COLUMNS, Settings, declare_speed, peers
from keras_nplm.experiments.benchmark.contenders import (
    Contender,
    Process,
    is_installed,
    time_requests,
)
from keras_nplm.experiments.benchmark.networks import PAPER, VOCABULARY_SIZE, sample_ngrams
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.serving import export_litert, export_onnx, export_saved_model
from keras_nplm.training.build import build_model

COLUMNS = [
    *(column for column in SPEED_COLUMNS if column[0] != "share of peak"),
    ("latency in ms (p50, p99)", lambda row: "{:.2f}, {:.2f}".format(*row["milliseconds"]), ""),
]


def build_groups(
    settings: Settings, size: int = VOCABULARY_SIZE, batches: tuple[int, ...] = (1, 32, 256)
) -> Iterator[list[Contender]]:
    """Yield a SavedModel beside its matrix products, for each number of contexts in a request; then
    LiteRT and ONNX.
    """
    vocabulary = Vocabulary([f"w{number}" for number in range(size - len(SPECIALS))])
    language_model = LanguageModel(build_model(PAPER, size), vocabulary, "words", "sentence")
    context_ids = sample_ngrams(PAPER.network.order, max(batches), size)[:, :-1]
    texts = [" ".join(vocabulary.decode(context)) for context in context_ids]
    x = tf.random.normal([max(batches), PAPER.network.embedding_dim * (PAPER.network.order - 1)])
    hidden, output = (
        tf.random.normal([number, PAPER.network.hidden_units]) for number in (x.shape[1], size)
    )
    multiply = tf.function(
        lambda x: tf.matmul(tf.matmul(x, hidden), output, transpose_b=True), reduce_retracing=True
    )
    with tempfile.TemporaryDirectory() as directory:
        loaded = tf.saved_model.load(export_saved_model(language_model, directory))
        for batch in batches:
            predict = functools.partial(
                loaded.signatures["predict_next"], contexts=tf.constant(texts[:batch])
            )
            yield [
                time_requests(f"SavedModel, {batch} a request", predict, batch),
                time_requests(
                    "matrix products", functools.partial(multiply, x[:batch]), batch, peer=True
                ),
            ]
        yield _export_on_device(language_model, Path(directory), context_ids[:1])


def _export_on_device(
    language_model: LanguageModel, directory: Path, context_ids: np.ndarray
) -> list[Contender]:
    contenders = []
    for title, kind, needs, export in (
        ("LiteRT", "litert", ["ai_edge_litert"], functools.partial(export_litert, quantise=False)),
        (
            "LiteRT in 8 bits",
            "litert",
            ["ai_edge_litert"],
            functools.partial(export_litert, quantise=True),
        ),
        ("ONNX Runtime", "onnx", ["tf2onnx", "onnxruntime"], export_onnx),
    ):
        arguments = {"path": "", "context_ids": context_ids}
        if all(map(is_installed, needs)):
            path, _ = export(
                language_model, directory / f"{title}.{'tflite' if kind == 'litert' else 'onnx'}"
            )
            title, arguments["path"] = f"{title}, {path.stat().st_size / 1e6:.1f} MB", str(path)
        contenders.append(Process(title, f"{peers.__name__}:build_{kind}", arguments, needs=needs))
    return contenders


STUDY = declare_speed(__doc__, build_groups, COLUMNS)
