"""Export to LiteRT and ONNX for phones and other runtimes: ids in, log-probabilities out."""

import logging
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import tensorflow as tf

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.forms import FORMS, SUBWORDS, companion_path
from keras_nplm.data.ids import EOS_ID
from keras_nplm.io.errors import InputError, RunError, check_argument, import_extra, summarize_error
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.directory import check_output_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.pointer import CopyScores
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.serving.graphs import NetworkGraph

_TILE = 1 << 12  # words whose logits are computed at a time


class _DeviceGraph(NetworkGraph):
    """A network as a graph whose ln P of a target needs no branch, no loop and no second copy of
    the kernel.
    """

    def output_log_prob(self, context_ids: tf.Tensor, output_ids: tf.Tensor) -> tf.Tensor:
        head = self._network().prob
        if not head.has_word_rows:
            return tf.gather(self.next_log_probs(context_ids), output_ids, batch_dims=1)
        scores = self._network().scores(context_ids)
        copies = None
        if isinstance(scores, CopyScores):
            scores, copies = scores
        log_z = []
        y = tf.zeros_like(scores.features[:, 0])
        for first in range(0, head.num_outputs, _TILE):
            tiles = [kernel.value[first : first + _TILE] for kernel in scores.kernels]
            bias = scores.bias.value[first : first + _TILE]
            logits = tf.matmul(scores.features, tf.concat(tiles, axis=1), transpose_b=True) + bias
            log_z.append(tf.reduce_logsumexp(logits, axis=1, keepdims=True))
            places = tf.clip_by_value(output_ids - first, 0, bias.shape[0] - 1)
            y = tf.where(output_ids == first + places, tf.gather(logits, places, batch_dims=1), y)
        log_z = tf.reduce_logsumexp(tf.concat(log_z, axis=1), axis=1, keepdims=True)[:, 0]
        if copies is None:
            return y - log_z
        return copies.add_to_logit(y, output_ids) - copies.add_to_normaliser(log_z)


class _DeviceModule(tf.Module):
    """A function of a network, `log_probs` or `score`, with operations that LiteRT and ONNX
    have.
    """

    def __init__(self, language_model: LanguageModel, signature: str):
        super().__init__(name="keras_nplm")
        self.model = _DeviceGraph(_copy_for_devices(language_model.model))
        self.first_context = language_model.codec.first_context(self.model.order)
        self.predicts_end = predicts_end(language_model.boundary)
        contexts = [tf.TensorSpec([None, self.model.order - 1], tf.int32, "context_ids")]
        texts = [
            tf.TensorSpec([None, None], tf.int64, "x"),
            tf.TensorSpec([None], tf.int64, "x_lens"),
        ]
        self.signature = {"log_probs": contexts, "score": texts}[signature]
        self.function = tf.function(getattr(self, signature), self.signature, autograph=False)

    def log_probs(self, context_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"log_probs": self.model.next_log_probs(context_ids)}

    def score(self, x: tf.Tensor, x_lens: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.cast(x, tf.int32)
        lengths = tf.cast(x_lens, tf.int32)[:, None]
        number, length = tf.unstack(tf.shape(ids))
        places = tf.range(length + 1)
        order = self.model.order
        # also in place of the padding
        targets = tf.where(places < lengths, tf.pad(ids, [[0, 0], [0, 1]]), EOS_ID)
        paths = tf.concat([tf.tile(self.first_context[None], [number, 1]), targets], axis=1)
        ngrams = tf.reshape(
            tf.gather(paths, places[:, None] + tf.range(order), axis=1), [-1, order]
        )
        log_prob = tf.reshape(
            self.model.log_prob(ngrams[:, :-1], ngrams[:, -1]), [number, length + 1]
        )
        nll = -tf.reduce_sum(
            tf.where(places < lengths + int(self.predicts_end), log_prob, 0.0), axis=1
        )
        in_range = tf.reduce_all((targets >= 0) & (targets < self.model.vocabulary_size), axis=1)
        return {"nll": tf.where(in_range, nll, float("nan"))}


def export_litert(
    language_model: LanguageModel,
    target: str | os.PathLike,
    *,
    quantise: bool = False,
    signature: str = "log_probs",
) -> list[Path]:
    """Export an NPLM as a LiteRT (TensorFlow Lite) file, with one of two signatures.

    `"log_probs"`: `context_ids` int32 [B, n-1] to `log_probs` float32 [B, |V|], in nats.

    `"score"`: whole texts, which do not see each other, to rescore hypotheses. `x` int64 [N, L] and
    `x_lens` int64 [N] to `nll` float32 [N], the sum of -ln P(token | context) over a row's first
    `x_lens` ids and `</s>`. A text of length 0 has `</s>` only. The ids are those of the
    vocabulary, without `<s>` and `</s>`: the function adds them. With the boundary `"stream"` it
    adds `<pad>` in front and no end. Ids behind a text do not count. An id out of range gives NaN.
    sherpa-onnx reads language models of this form. It sends the ids of its recogniser's tokens,
    which must be those of the vocabulary.

    The file holds no tokenizer and no words, since LiteRT has no string lookup.
    `NAME.tflite.vocabulary.txt` beside it lists the words: the id of a word is the number of lines
    before it.

    `quantise` stores matrices in 8 bits (dynamic-range quantisation), a quarter of the size. In two
    trained networks perplexity changed by less than 0.1%. Returns the files written.
    """
    module = _build_module(language_model, Path(target), signature)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [module.function.get_concrete_function()], module
    )
    if quantise:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        converted = converter.convert()
    except Exception as error:
        # the converter documents no error classes, and its messages fill pages
        reason = summarize_error(error)
        raise RunError(
            f"The LiteRT converter failed: {reason}. Fix: export a SavedModel instead."
        ) from error
    return _write_with_vocabulary(language_model, Path(target), converted)


def export_onnx(
    language_model: LanguageModel,
    target: str | os.PathLike,
    *,
    quantise: bool = False,
    signature: str = "log_probs",
) -> list[Path]:
    """Export an NPLM as an ONNX file, as `export_litert` does; the extra `onnx` must be
    installed.
    """
    module = _build_module(language_model, Path(target), signature)
    tf2onnx = import_extra("tf2onnx", "onnx", "The ONNX export")
    quantisation = (
        import_extra("onnxruntime.quantization", "onnx", "8-bit ONNX") if quantise else None
    )
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


def _build_module(language_model: LanguageModel, target: Path, signature: str) -> _DeviceModule:
    check_argument(
        "signature", signature in ("log_probs", "score"), "log_probs or score", repr(signature)
    )
    kind = type(language_model.model).__name__
    if kind == "Mixture" and language_model.network:
        print(
            "The file holds the network alone, without the other models of the mixture.",
            file=sys.stderr,
        )
        language_model = language_model.replace_model(language_model.network)
    if not isinstance(language_model.model, ContextNetwork) or isinstance(
        language_model.model, HybridNetwork
    ):
        fix = "export this model as a SavedModel."
        raise InputError(
            f"LiteRT and ONNX files can hold an NPLM only. Received: {kind}. Fix: {fix}"
        )
    check_output_file(target)
    return _DeviceModule(language_model, signature)


def _copy_for_devices(model: ContextNetwork) -> ContextNetwork:
    """Return a copy of the network that computes in float32 and without loops, which every runtime
    supports.
    """
    copy = type(model).from_config(_replace_dtypes(model.get_config()))
    copy.set_weights(model.get_weights())
    if isinstance(copy.prob, EnergyHead):
        copy.prob.uses_loop = False
    return copy


def _replace_dtypes(config: object) -> object:
    if isinstance(config, dict):
        return {
            key: "float32" if key == "dtype" else _replace_dtypes(value)
            for key, value in config.items()
        }
    return config


def _write_with_vocabulary(
    language_model: LanguageModel, target: Path, converted: bytes
) -> list[Path]:
    vocabulary = target.with_name(f"{target.name}.vocabulary.txt")
    with replace_file(target) as temporary:
        temporary.write_bytes(converted)
        language_model.vocabulary.save(vocabulary)
    beside = [companion_path(vocabulary, kind) for kind in (FORMS, SUBWORDS)]
    return [target, vocabulary, *filter(Path.exists, beside)]
