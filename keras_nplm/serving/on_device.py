"""Export to LiteRT and ONNX for phones and other runtimes: ids in, log-probabilities out."""

import logging
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from keras_nplm.data.forms import check_companions, list_companions
from keras_nplm.data.ids import EOS_ID
from keras_nplm.io.errors import (
    InputError,
    RunError,
    check_argument,
    check_choice,
    drop_fix,
    summarize_error,
)
from keras_nplm.io.extras import import_extra
from keras_nplm.io.files import check_regular_file, replace_file, write_json
from keras_nplm.io.stages import check_output_file
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.description import describe
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import Network, NextWordModel, find_network, find_networks
from keras_nplm.models.mixture import Mixture
from keras_nplm.serving.file_facts import add_to_litert, add_to_onnx, name_facts_file
from keras_nplm.serving.graph_model import GraphModel, build_graph
from keras_nplm.serving.ngram_graphs import NGRAM_SCOPE

MAX_BYTES = (1 << 31) - (1 << 20)  # of arrays: a file has at most 2 GiB


def choose_model(model: NextWordModel, network_alone: bool) -> tuple[NextWordModel, GraphModel]:
    """Return the model that a file for devices holds, and its graph: the whole model if it can.

    Of a mixture with parts that such a file cannot hold it is the network. `network_alone`: of any
    mixture.

    Raises:
        InputError: such files can hold neither the model nor a network of it.
    """
    network = find_network(model) if isinstance(model, Network | Mixture) else None
    refused = ""
    if not network_alone:
        try:
            return model, build_graph(model, for_devices=True)
        except InputError as error:
            if network is None:
                raise
            refused = drop_fix(error)
    if network is None:
        raise InputError(
            "The model must be a mixture with one network to be exported with `--network-alone` "
            f"(`network_alone=True`). Received: {type(model).__name__}. Fix: leave it out."
        )
    graph = build_graph(network, for_devices=True)
    if refused:
        print(f"{refused} The file holds the network alone.", file=sys.stderr)
    return network, graph


class DeviceFunction(tf.Module):
    """A function of a language model with operations that LiteRT and ONNX have.

    Attributes:
        signature_name: the value of `signature` that chooses it.
        documentation: the meaning of each input and output.
        sizes: the names of the dimensions that may have any size, by place.
        function: the TensorFlow function.
        inputs: the shape, dtype and name of each input.
        compute: function from the inputs to the outputs by name.
    """

    signature_name: ClassVar[str]
    documentation: ClassVar[Mapping[str, str]]
    sizes: ClassVar[Mapping[int, str]]
    compute: Callable[..., dict[str, tf.Tensor]]

    def __init__(self, model: GraphModel, codec: TextCodec):
        super().__init__(name="keras_nplm")
        self.model = model
        self.first_context = codec.first_context(self.model.order)
        self.predicts_end = codec.predicts_end
        self.inputs = self.specify_inputs()
        self.function = tf.function(self.compute, self.inputs, autograph=False)

    def specify_inputs(self) -> list[tf.TensorSpec]:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Return the signature's name, and its inputs and outputs."""
        outputs = self.function.get_concrete_function().structured_outputs
        return {
            "signature": self.signature_name,
            "inputs": [self._describe_tensor(spec.name, spec) for spec in self.inputs],
            "outputs": [self._describe_tensor(*output) for output in outputs.items()],
        }

    def _describe_tensor(self, name: str, spec: tf.TensorSpec) -> dict[str, Any]:
        """Return the name, dtype, shape and meaning of an input or output."""
        shape = [self.sizes.get(place, size) for place, size in enumerate(spec.shape)]
        text = self.documentation[name]
        return {"name": name, "dtype": spec.dtype.name, "shape": shape, "description": text}


class ContextLogProbs(DeviceFunction):
    """`log_probs`: the log-probabilities of all words after contexts."""

    signature_name = "log_probs"
    documentation = {
        "context_ids": "ids of the context's tokens, oldest first; a shorter context is filled at "
        "the front with padding_id",
        "log_probs": "ln P(token | context) of each id, in nats",
    }
    sizes = {0: "B"}

    def specify_inputs(self) -> list[tf.TensorSpec]:
        return [tf.TensorSpec([None, self.model.order - 1], tf.int32, "context_ids")]

    def compute(self, context_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"log_probs": self.model.next_log_probs(context_ids)}


class TextScores(DeviceFunction):
    """`score`: -ln P of whole texts, rows of `x` whose first `x_lens` ids count."""

    signature_name = "score"
    documentation = {
        "x": "ids of whole texts, one in each row, without <s> and </s>",
        "x_lens": "number of ids that count in each row",
        "nll": "-ln P of each text, in nats, with </s> if end_of_sentence_id is not null; NaN if "
        "an id or x_lens is out of range",
    }
    sizes = {0: "N", 1: "L"}

    def specify_inputs(self) -> list[tf.TensorSpec]:
        x = tf.TensorSpec([None, None], tf.int64, "x")
        x_lens = tf.TensorSpec([None], tf.int64, "x_lens")
        return [x, x_lens]

    def compute(self, x: tf.Tensor, x_lens: tf.Tensor) -> dict[str, tf.Tensor]:
        order = self.model.order
        number, length = tf.unstack(tf.shape(x))
        places = tf.range(length + 1)
        places_64 = tf.cast(places, tf.int64)
        # also in place of the padding
        end = tf.constant(EOS_ID, tf.int64)
        targets = tf.where(places_64 < x_lens[:, None], tf.pad(x, [[0, 0], [0, 1]]), end)
        # of all 64 bits
        is_valid = (targets >= 0) & (targets < self.model.vocabulary_size)
        is_length = (x_lens >= 0) & (x_lens <= places_64[-1])
        targets = tf.clip_by_value(targets, 0, self.model.vocabulary_size - 1)
        first_contexts = tf.tile(self.first_context[None], [number, 1])
        paths = tf.concat([first_contexts, tf.cast(targets, tf.int32)], axis=1)
        ngrams = tf.gather(paths, places[:, None] + tf.range(order), axis=1)
        ngrams = tf.reshape(ngrams, [-1, order])
        log_prob = self.model.log_prob(ngrams[:, :-1], ngrams[:, -1])
        log_prob = tf.reshape(log_prob, [number, length + 1])
        num_predicted = x_lens[:, None] + int(self.predicts_end)
        nll = -tf.reduce_sum(tf.where(places_64 < num_predicted, log_prob, 0.0), axis=1)
        return {"nll": tf.where(tf.reduce_all(is_valid, axis=1) & is_length, nll, float("nan"))}


DEVICE_FUNCTIONS: dict[str, type[DeviceFunction]] = {
    function.signature_name: function for function in (ContextLogProbs, TextScores)
}


def export_litert(
    language_model: LanguageModel,
    target: str | os.PathLike,
    *,
    quantise: bool = False,
    signature: str = "log_probs",
    network_alone: bool = False,
    config: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Export a language model as a LiteRT (TensorFlow Lite) file, with one of two signatures.

    The file holds a model whose parts are of classes with a graph; see
    `keras_nplm.serving.build_graph`. Of a mixture with other parts, such as a cache, it holds the
    network. With `network_alone` it holds the network of any mixture, which is smaller and answers
    sooner.

    `"log_probs"`: `context_ids` int32 [B, n-1] to `log_probs` float32 [B, |V|], in nats.

    `"score"`: whole texts, which do not see each other, to rescore hypotheses. `x` int64 [N, L] and
    `x_lens` int64 [N] to `nll` float32 [N], the sum of -ln P(token | context) over a row's first
    `x_lens` ids and `</s>`. A text of length 0 has `</s>` only. The ids are those of the
    vocabulary, without `<s>` and `</s>`: the function adds them. With the boundary `"stream"` it
    adds `<pad>` in front and no end. Ids behind a text do not count. An id or `x_lens` out of range
    gives NaN. sherpa-onnx reads language models of this form. It sends the ids of its recogniser's
    tokens, which must be those of the vocabulary.

    The file holds no tokenizer and no words, since LiteRT has no string lookup.
    `NAME.tflite.vocabulary.txt` beside it lists the words: the id of a word is the number of lines
    before it. `NAME.tflite.json` says what the file holds: the kind of model, its perplexity,
    context length, special ids, tokenizer, inputs and outputs. The file has the same JSON as the
    entry `keras_nplm` of its metadata.

    `quantise` stores the network's matrices in 8 bits (dynamic-range quantisation), a quarter of
    their size. In two trained networks perplexity changed by less than 0.1%. LiteRT rounds the
    log-probabilities of n-grams, too: probabilities sum to 1 within 2%, and perplexity changes by
    0.2%. ONNX keeps them.

    `config` and `metrics` are the contents of `config.json` and `metrics.json`, for the name of the
    text and the perplexity of the model. That of a mixture's network is measured on the held-out
    splits of `language_model.corpus`. Returns the files written.
    """
    target = Path(target)
    written, module = _build_module(language_model, target, ".tflite", signature, network_alone)
    known = {"config": config, "metrics": metrics}
    facts = _describe_file(
        language_model, written, module, target, known, format="litert", quantised=quantise
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [module.function.get_concrete_function()], module
    )
    if quantise:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converted = _convert("LiteRT", converter.convert)
    return _write_files(language_model, target, add_to_litert(converted, facts), facts)


def export_onnx(
    language_model: LanguageModel,
    target: str | os.PathLike,
    *,
    quantise: bool = False,
    signature: str = "log_probs",
    network_alone: bool = False,
    config: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Export a language model as an ONNX file, as `export_litert` does.

    The extra `onnx` must be installed.

    The facts of `NAME.onnx.json` are in the file's `metadata_props`, too: text as it is, other
    values as JSON.
    """
    target = Path(target)
    written, module = _build_module(language_model, target, ".onnx", signature, network_alone)
    tf2onnx = import_extra("tf2onnx", "The ONNX export")
    if quantise and not find_networks(written):
        print(
            "The model has no network, whose matrices 8 bits are for: it is written as it is.",
            file=sys.stderr,
        )
        quantise = False
    if quantise:
        # before the conversion, which takes seconds
        import_extra("onnxruntime.quantization", "8-bit ONNX")
    known = {"config": config, "metrics": metrics}
    facts = _describe_file(
        language_model, written, module, target, known, format="onnx", quantised=quantise
    )
    converted, _ = _convert(
        "ONNX", lambda: tf2onnx.convert.from_function(module.function, module.inputs, opset=18)
    )
    add_to_onnx(converted, facts)
    data = _quantise_onnx(converted) if quantise else converted.SerializeToString()
    return _write_files(language_model, target, data, facts)


def _convert(name: str, convert: Callable[[], Any]) -> Any:
    """Return what a converter makes of a function."""
    try:
        return convert()
    except Exception as error:
        # the converters document no error classes, and their messages fill pages
        reason = summarize_error(error)
        raise RunError(
            f"The {name} converter failed: {reason}. Fix: export a SavedModel instead."
        ) from error


def _quantise_onnx(converted: Any) -> bytes:
    """Return an ONNX model with 8-bit matrices as the content of a file."""
    quantisation = import_extra("onnxruntime.quantization", "8-bit ONNX")
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it asks for a preparation that our files do not need
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "8-bit.onnx")
            # the table of ln P would be rounded to 256 values
            excluded = [node.name for node in converted.graph.node if NGRAM_SCOPE in node.name]
            # sums of signed weights would overflow 16 bits on processors without VNNI
            unsigned = quantisation.QuantType.QUInt8
            quantisation.quantize_dynamic(
                converted, path, weight_type=unsigned, nodes_to_exclude=excluded
            )
            return path.read_bytes()
    finally:
        logging.disable(disabled)


def _build_module(
    language_model: LanguageModel, target: Path, ending: str, signature: str, network_alone: bool
) -> tuple[NextWordModel, DeviceFunction]:
    """Return the model that a file holds, and its function."""
    check_choice("signature", signature, [*DEVICE_FUNCTIONS])
    check_output_file(target)
    # before the conversion, which takes seconds
    check_regular_file(target)
    wanted, fix = f"a path that ends in {ending}", f"name a file such as {target}{ending}."
    is_fitting = target.suffix.lower() == ending  # no other file is written over
    check_argument("target", is_fitting, wanted, repr(str(target)), fix)
    check_companions(_name_vocabulary_file(target))
    written, graph = choose_model(language_model.model, network_alone)
    _check_size(graph)
    return written, DEVICE_FUNCTIONS[signature](graph, language_model.codec)


def _check_size(graph: GraphModel) -> None:
    """Refuse a graph beyond the limit of both formats."""
    num_bytes = sum(math.prod(array.shape) * array.dtype.size for array in graph.variables)
    if num_bytes > MAX_BYTES:
        raise InputError(
            f"The arrays of a LiteRT or ONNX file must have at most {MAX_BYTES:,} bytes. Received: "
            f"{num_bytes:,}. Fix: leave out n-grams by `--network-alone` (`network_alone=True`), "
            "or export a SavedModel."
        )


def _describe_file(
    language_model: LanguageModel,
    written: NextWordModel,
    module: DeviceFunction,
    target: Path,
    known: Mapping[str, Any],
    **facts: Any,
) -> dict[str, Any]:
    """Return what a file says of itself; `known` has `config` and `metrics`."""
    facts |= describe(language_model, written, **known)
    vocabulary = _name_vocabulary_file(target).name
    # a file name may hold a lone surrogate
    facts["vocabulary_file"] = vocabulary.encode("utf-8", "backslashreplace").decode()
    if facts["quantised"]:
        facts["perplexity_before_rounding"] = facts.pop("perplexity")
    return facts | module.describe()


def _name_vocabulary_file(target: Path) -> Path:
    return target.with_name(f"{target.name}.vocabulary.txt")


def _write_files(
    language_model: LanguageModel, target: Path, converted: bytes, facts: Mapping[str, Any]
) -> list[Path]:
    """Write a file with what belongs beside it, and return the paths."""
    vocabulary = _name_vocabulary_file(target)
    description = name_facts_file(target)
    with replace_file(target) as temporary:
        temporary.write_bytes(converted)
        language_model.vocabulary.save(vocabulary)
        write_json(description, facts)
    companions = filter(Path.exists, list_companions(vocabulary))
    return [target, description, vocabulary, *companions]
