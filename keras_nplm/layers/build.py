"""The layers that names stand for: context, hidden and output layers."""

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
    weight_decay: float = 0.0,
    word_dropout: float = 0.0,
    dropout: float = 0.0,
    dtype: str | keras.DTypePolicy | None = None,
) -> ContextEmbedding:
    """Return `ContextEmbedding` for "concatenated", or the given context layer, which has options of its own."""
    if context == "concatenated":
        options = dict(weight_decay=weight_decay, word_dropout=word_dropout, dropout=dropout, dtype=dtype)
        return ContextEmbedding(vocabulary_size, embedding_dim, name="embed", **options)
    wanted = "'concatenated' or a context layer such as AveragedContext(...)"
    check_argument("context", isinstance(context, ContextEmbedding), wanted, context, "pass the name or a layer.")
    _check_vocabulary("context", context, vocabulary_size)
    given = dict(word_dropout=word_dropout, embedding_dropout=dropout)
    for option, value in given.items():
        check_argument(option, not value, "0 if `context` is a layer", value, "give it to the layer.")
    return context


def build_hidden(
    hidden: str | keras.layers.Layer | None,
    hidden_units: int,
    weight_decay: float = 0.0,
    dropout: float = 0.0,
    dtype: str | keras.DTypePolicy | None = None,
) -> keras.layers.Layer | None:
    """Return the hidden layer of an activation, the given Keras layer [B, w] -> [B, h], or None for no hidden layer."""
    if hidden is None or (isinstance(hidden, str) and hidden_units == 0):
        return None
    if hidden == "tanh":
        return TanhHidden(hidden_units, weight_decay, dropout, name="hidden", dtype=dtype)
    if isinstance(hidden, str):
        wanted = f"one of {', '.join(ACTIVATIONS)}, a Keras layer, or None"
        check_argument("hidden", hidden in ACTIVATIONS, wanted, repr(hidden), "choose one of these.")
        return DeepHidden(hidden_units, weight_decay, hidden, dropout=dropout, name="hidden", dtype=dtype)
    is_layer, wanted = isinstance(hidden, keras.layers.Layer), "a name, a Keras layer, or None"
    check_argument("hidden", is_layer, wanted, hidden, "pass a layer such as DeepHidden(100).")
    check_argument("dropout", not dropout, "0 if `hidden` is a layer", dropout, "give it to the layer.")
    return hidden


def build_output(
    output: str | keras.layers.Layer,
    vocabulary_size: int,
    hidden_units: int = 100,
    weight_decay: float = 0.0,
    dropout: float = 0.0,
    dtype: str | keras.DTypePolicy | None = None,
) -> Output:
    """Return the output layer of a name, with its default options, or the given output layer.

    `hidden_units` and `dropout` are for a layer that has a hidden layer of its own (energy).
    """
    if isinstance(output, str):
        names = ", ".join(OUTPUTS)
        check_argument("output", output in OUTPUTS, f"one of {names}, or a layer", repr(output), "choose one of these.")
        options = dict(hidden_units=hidden_units, dropout=dropout) if OUTPUTS[output].includes_hidden_layer else {}
        options |= dict(weight_decay=weight_decay) if weight_decay else {}
        return OUTPUTS[output](vocabulary_size, name="prob", dtype=dtype, **options)
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
