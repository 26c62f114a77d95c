"""Benchmark `serving`: next-word requests to a SavedModel, and to LiteRT and ONNX files, with their latency.

The SavedModel takes texts and returns the most probable words: the next words, or the words that begin with the last,
unfinished word. It is compared with the network's two matrix products alone. LiteRT and ONNX Runtime take word ids and
return the log-probabilities of all words.
"""

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.vocabulary import SPECIALS, Vocabulary
from keras_nplm.experiments.benchmark.contenders import Contender, measure_groups, time_requests
from keras_nplm.experiments.benchmark.networks import Shape, build_network, sample_ngrams
from keras_nplm.experiments.benchmark.peers import is_installed, run_litert, run_onnx
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.layers.outputs import FullSoftmax
from keras_nplm.serving import export_litert, export_onnx, export_saved_model

_BATCHES = (1, 32, 256)  # contexts in a request


def measure(corpus: Corpus, rounds: int) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    return measure_groups(build_groups(), rounds)


def build_groups(shape: Shape | None = None, batches: tuple[int, ...] = _BATCHES) -> Iterator[list[Contender]]:
    """Yield the contenders: a SavedModel beside its matrix products, for each batch size; then LiteRT and ONNX.

    Args:
        shape: the sizes of the network. Default: `Shape()`.
        batches: numbers of contexts in a request.
    """
    shape = shape or Shape()
    vocabulary = Vocabulary([f"w{number}" for number in range(shape.vocabulary_size - len(SPECIALS))])
    language_model = LanguageModel(build_network(shape, FullSoftmax), vocabulary, "words", "sentence")
    context_ids = sample_ngrams(shape, max(batches))[:, :-1]
    texts = [" ".join(vocabulary.decode(context)) for context in context_ids]
    x, multiply = _build_products(shape, max(batches))
    with tempfile.TemporaryDirectory() as directory:
        loaded = tf.saved_model.load(export_saved_model(language_model, directory))
        for batch in batches:
            predict = functools.partial(loaded.signatures["predict_next"], contexts=tf.constant(texts[:batch]))
            typed = tf.constant([f"{text} {text.split()[-1][:2]}" for text in texts[:batch]])
            complete = functools.partial(loaded.signatures["complete_prefix"], texts=typed)
            yield [
                time_requests(f"SavedModel, {batch} a request", predict, batch),
                time_requests(f"SavedModel, completion of a prefix, {batch} a request", complete, batch),
                time_requests("matrix products", functools.partial(multiply, x[:batch]), batch, peer=True),
            ]
        yield list(_export_on_device(language_model, Path(directory), context_ids[:1]))


def _build_products(shape: Shape, batch: int) -> tuple[tf.Tensor, Callable]:
    """Return x [B, (n-1) m], and a function that computes the two matrix products of the network from x."""
    x = tf.random.normal([batch, shape.embedding_dim * (shape.order - 1)])
    hidden = tf.random.normal([x.shape[1], shape.hidden_units])
    output = tf.random.normal([shape.vocabulary_size, shape.hidden_units])
    multiply = tf.function(lambda x: tf.matmul(tf.matmul(x, hidden), output, transpose_b=True), reduce_retracing=True)
    return x, multiply


def _export_on_device(language_model: LanguageModel, directory: Path, context_ids: np.ndarray) -> Iterator[Contender]:
    """Yield LiteRT and ONNX Runtime, as far as they are installed: all log-probabilities after one context."""
    if is_installed("ai_edge_litert"):
        for title, quantise in (("LiteRT", False), ("LiteRT in 8 bits", True)):
            path, _ = export_litert(language_model, directory / f"{title}.tflite", quantise=quantise)
            yield run_litert(f"{title}, {_format_size(path)}", path, context_ids)
    if is_installed("tf2onnx") and is_installed("onnxruntime"):
        path, _ = export_onnx(language_model, directory / "model.onnx")
        yield run_onnx(f"ONNX Runtime, {_format_size(path)}", path, context_ids)


def _format_size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"
