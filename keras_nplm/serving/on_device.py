"""Export to LiteRT and ONNX for phones and other runtimes: context ids in, log-probabilities out."""

import logging
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import tensorflow as tf

from keras_nplm.data.forms import FORMS, SUBWORDS, companion_path
from keras_nplm.io.errors import InputError, RunError, import_extra, summarize_error
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.directory import check_output_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.nplm import NPLM
from keras_nplm.serving.graphs import build_graph


class _NextWordModule(tf.Module):
    """ln P(w | context) of every word w, with operations that LiteRT and ONNX have."""

    def __init__(self, model: NPLM):
        super().__init__(name="keras_nplm")
        self.model = build_graph(_copy_for_devices(model))
        self.signature = [tf.TensorSpec([None, self.model.order - 1], tf.int32, "context_ids")]
        self.function = tf.function(self.log_probs, self.signature, autograph=False)

    def log_probs(self, context_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"log_probs": self.model.next_log_probs(context_ids)}


def export_litert(language_model: LanguageModel, target: str | os.PathLike, *, quantise: bool = False) -> list[Path]:
    """Export an NPLM as a LiteRT (TensorFlow Lite) file: `context_ids` int32 [B, n-1] to `log_probs` float32 [B, |V|].

    The file holds no tokenizer and no words, since LiteRT has no string lookup. `NAME.tflite.vocabulary.txt` beside it
    lists the words: the id of a word is the number of lines before it. Log-probabilities are in nats.

    `quantise` stores matrices in 8 bits (dynamic-range quantisation), a quarter of the size. In two trained networks
    perplexity changed by less than 0.1%. Returns the files written.
    """
    module = _build_module(language_model, Path(target))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.function.get_concrete_function()], module)
    if quantise:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        converted = converter.convert()
    except Exception as error:  # the converter documents no error classes, and its messages fill pages
        reason = summarize_error(error)
        raise RunError(f"The LiteRT converter failed: {reason}. Fix: export a SavedModel instead.") from error
    return _write_with_vocabulary(language_model, Path(target), converted)


def export_onnx(language_model: LanguageModel, target: str | os.PathLike, *, quantise: bool = False) -> list[Path]:
    """Export an NPLM as an ONNX file, as `export_litert` does; the extra `onnx` must be installed."""
    module = _build_module(language_model, Path(target))
    tf2onnx = import_extra("tf2onnx", "onnx", "The ONNX export")
    quantisation = import_extra("onnxruntime.quantization", "onnx", "8-bit ONNX") if quantise else None
    converted, _ = tf2onnx.convert.from_function(module.function, module.signature, opset=18)
    data = _quantise_onnx(quantisation, converted) if quantise else converted.SerializeToString()
    return _write_with_vocabulary(language_model, Path(target), data)


def _quantise_onnx(quantisation: ModuleType, converted: object) -> bytes:
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it asks for a preparation that our files do not need
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "8-bit.onnx")
            quantisation.quantize_dynamic(converted, path)
            return path.read_bytes()
    finally:
        logging.disable(disabled)


def _build_module(language_model: LanguageModel, target: Path) -> _NextWordModule:
    model, kind = language_model.model, type(language_model.model).__name__
    if kind == "Mixture" and language_model.network:
        print("The file holds the network alone, without the other models of the mixture.", file=sys.stderr)
        model = language_model.network
    if not isinstance(model, NPLM):
        fix = "export this model as a SavedModel."
        raise InputError(f"LiteRT and ONNX files can hold an NPLM only. Received: {kind}. Fix: {fix}")
    check_output_file(target)
    return _NextWordModule(model)


def _copy_for_devices(model: NPLM) -> NPLM:
    """Return a copy of the network that computes in float32 and without loops, which every runtime supports."""
    copy = NPLM.from_config(_replace_dtypes(model.get_config()))
    copy.set_weights(model.get_weights())
    copy.prob.uses_loop = False
    return copy


def _replace_dtypes(config: object) -> object:
    if isinstance(config, dict):
        return {key: "float32" if key == "dtype" else _replace_dtypes(value) for key, value in config.items()}
    return config


def _write_with_vocabulary(language_model: LanguageModel, target: Path, converted: bytes) -> list[Path]:
    vocabulary = target.with_name(f"{target.name}.vocabulary.txt")
    with replace_file(target) as temporary:
        temporary.write_bytes(converted)
        language_model.vocabulary.save(vocabulary)
    beside = [companion_path(vocabulary, kind) for kind in (FORMS, SUBWORDS)]
    return [target, vocabulary, *filter(Path.exists, beside)]
