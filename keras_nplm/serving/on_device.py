"""LiteRT and ONNX: ids in, log-probabilities out, the vocabulary beside it, for a phone or a runtime of one's own."""

import importlib
import os
from pathlib import Path

import tensorflow as tf

from keras_nplm.data.vocabulary import forms_beside
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import replacing
from keras_nplm.language_model.directory import refuse_within
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.nplm import NPLM
from keras_nplm.serving.graphs import graph_of


class _NextWord(tf.Module):
    """ln P of every word after contexts, in a graph of the plainest operations."""

    def __init__(self, model: NPLM):
        super().__init__(name="keras_nplm")
        self.model = graph_of(_in_float32(model))
        self.signature = [tf.TensorSpec([None, self.model.order - 1], tf.int32, "context_ids")]
        self.function = tf.function(self.log_probs, self.signature, autograph=False)

    def log_probs(self, context_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"log_probs": self.model.next_log_probs(context_ids)}


def export_litert(language_model: LanguageModel, target: str | os.PathLike, *, quantise: bool = False) -> list[Path]:
    """Write a network as a LiteRT file: int32 [B, n-1] `context_ids` to float32 [B, |V|] `log_probs`, in nats.

    The runtime on a device has no string operations that such a model would need: whoever asks looks words up in
    `NAME.tflite.vocabulary.txt` beside it, a word a line, its id the number of lines before it.

    Args:
        language_model: of a network.
        target: the `.tflite` file.
        quantise: store matrices in 8 bits (dynamic-range quantisation): a quarter of the size, log-probabilities off
            by some hundredths.

    Returns:
        the files written.

    Raises:
        InputError: the model is no network, or `target` is a directory or lies in that of a model.
        RunError: the files cannot be written, or the converter fails.
    """
    module = _next_word(language_model, Path(target))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.function.get_concrete_function()], module)
    if quantise:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        converted = converter.convert()
    except Exception as error:  # of many kinds, and pages long
        raise RunError(f"LiteRT's converter cannot take this model: {str(error).splitlines()[0][:200]}") from error
    return _write(language_model, Path(target), converted)


def export_onnx(language_model: LanguageModel, target: str | os.PathLike) -> list[Path]:
    """Write a network as an ONNX file, with the same input, output and vocabulary file as `export_litert`.

    Raises:
        InputError: as there, or tf2onnx is not installed.
        RunError: the files cannot be written.
    """
    module = _next_word(language_model, Path(target))
    try:
        tf2onnx = importlib.import_module("tf2onnx")
    except ImportError as error:
        raise InputError("ONNX files are made by tf2onnx: pip install 'keras-nplm[onnx]'.") from error
    converted, _ = tf2onnx.convert.from_function(module.function, module.signature, opset=18)
    return _write(language_model, Path(target), converted.SerializeToString())


def _next_word(language_model: LanguageModel, target: Path) -> _NextWord:
    if not isinstance(language_model.model, NPLM):
        raise InputError("Only a network can be written so: all others go as `--format saved-model`.")
    refuse_within(target)
    return _NextWord(language_model.model)


def _in_float32(model: NPLM) -> NPLM:
    """The network with float32 products, which every runtime has."""
    twin = NPLM.from_config(_with_float32(model.get_config()))
    twin.set_weights(model.get_weights())
    return twin


def _with_float32(config: object) -> object:
    """A configuration in which every layer's dtype is float32."""
    if isinstance(config, dict):
        return {key: "float32" if key == "dtype" else _with_float32(value) for key, value in config.items()}
    return config


def _write(language_model: LanguageModel, target: Path, converted: bytes) -> list[Path]:
    vocabulary = target.with_name(f"{target.name}.vocabulary.txt")
    with replacing(target) as temporary:
        temporary.write_bytes(converted)
        language_model.vocabulary.save(vocabulary)
    return [target, vocabulary, *([] if language_model.vocabulary.forms is None else [forms_beside(vocabulary)])]
