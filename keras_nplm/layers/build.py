"""The layers that names stand for: context, hidden and output layers."""

from typing import Any

import keras

from keras_nplm.io.errors import check_argument
from keras_nplm.layers.averaged_context import AveragedContext  # noqa: F401, `keras.models.load_model` finds it
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.deep_hidden import ACTIVATIONS, DeepHidden
from keras_nplm.layers.hidden import TanhHidden
from keras_nplm.layers.outputs import OUTPUTS, Output


def build_context(
    context: str | keras.layers.Layer,
    vocabulary_size: int,
    embedding_dim: int,
    word_dropout: float = 0.0,
    dropout: float = 0.0,
    **options: Any,
) -> ContextEmbedding:
    """Return `ContextEmbedding` for "concatenated", or the given context layer, which has options of its own."""
    if context == "concatenated":
        options |= dict(word_dropout=word_dropout, dropout=dropout)
        return ContextEmbedding(vocabulary_size, embedding_dim, name="embed", **options)
    wanted = "'concatenated' or a context layer such as AveragedContext(...)"
    check_argument("context", isinstance(context, ContextEmbedding), wanted, context, "pass the name or a layer.")
    _check_vocabulary("context", context, vocabulary_size)
    for option, value in (("word_dropout", word_dropout), ("embedding_dropout", dropout)):
        check_argument(option, not value, "0 if `context` is a layer", value, "give it to the layer.")
    return context


def build_hidden(
    hidden: str | keras.layers.Layer | None, hidden_units: int, dropout: float = 0.0, **options: Any
) -> keras.layers.Layer | None:
    """Return the hidden layer of an activation, the given Keras layer [B, w] -> [B, h], or None for no hidden layer."""
    if hidden is None or (isinstance(hidden, str) and hidden_units == 0):
        return None
    if hidden == "tanh":
        return TanhHidden(hidden_units, dropout=dropout, name="hidden", **options)
    if isinstance(hidden, str):
        wanted = f"one of {', '.join(ACTIVATIONS)}, a Keras layer, or None"
        check_argument("hidden", hidden in ACTIVATIONS, wanted, repr(hidden), "choose one of these.")
        return DeepHidden(hidden_units, activation=hidden, dropout=dropout, name="hidden", **options)
    is_layer, wanted = isinstance(hidden, keras.layers.Layer), "a name, a Keras layer, or None"
    check_argument("hidden", is_layer, wanted, hidden, "pass a layer such as DeepHidden(100).")
    check_argument("dropout", not dropout, "0 if `hidden` is a layer", dropout, "give it to the layer.")
    return hidden


def build_output(
    output: str | keras.layers.Layer,
    vocabulary_size: int,
    hidden_units: int = 100,
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    **options: Any,
) -> Output:
    """Return the output layer of a name, or the given one. Units and dropout are those of a hidden layer of its own."""
    if isinstance(output, str):
        names = ", ".join(OUTPUTS)
        check_argument("output", output in OUTPUTS, f"one of {names}, or a layer", repr(output), "choose one of these.")
        options |= dict(hidden_units=hidden_units, dropout=dropout) if OUTPUTS[output].includes_hidden_layer else {}
        options |= dict(weight_decay=weight_decay) if weight_decay else {}
        return OUTPUTS[output](vocabulary_size, name="prob", **options)
    wanted = f"one of {', '.join(OUTPUTS)}, or an output layer such as NoiseContrastive(...)"
    check_argument("output", isinstance(output, Output), wanted, output, "pass a name or a layer.")
    _check_vocabulary("output", output, vocabulary_size)
    shared = dropout and output.includes_hidden_layer
    check_argument("dropout", not shared, f"0 if `output` is {type(output).__name__}", dropout, "give it to the layer.")
    return output


def _check_vocabulary(argument: str, layer: ContextEmbedding | Output, vocabulary_size: int) -> None:
    fits, received = layer.vocabulary_size == vocabulary_size, f"{layer.name} of {layer.vocabulary_size} words"
    fix = "give both the same `vocabulary_size`."
    check_argument(argument, fits, f"a layer of {vocabulary_size} words", received, fix)
