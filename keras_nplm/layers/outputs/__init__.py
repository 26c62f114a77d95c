"""Output layers turn the features of a context into P(w | context).

base: the base classes. full: the full softmax. sampled: sampled softmax and noise-contrastive estimation.
adaptive: the adaptive softmax. energy: the energy-based output of the paper's section 5.1.
"""

import keras

from keras_nplm.io.errors import check_argument
from keras_nplm.layers.outputs.adaptive import AdaptiveSoftmax
from keras_nplm.layers.outputs.base import LinearOutput, Output
from keras_nplm.layers.outputs.energy import EnergyOutput
from keras_nplm.layers.outputs.full import FullSoftmax
from keras_nplm.layers.outputs.sampled import PROPOSALS, NoiseContrastive, SampledOutput, SampledSoftmax

OUTPUTS: dict[str, type[Output]] = {
    "full": FullSoftmax,
    "sampled": SampledSoftmax,
    "nce": NoiseContrastive,
    "adaptive": AdaptiveSoftmax,
    "energy": EnergyOutput,
}

__all__ = [
    "OUTPUTS",
    "PROPOSALS",
    "AdaptiveSoftmax",
    "EnergyOutput",
    "FullSoftmax",
    "LinearOutput",
    "NoiseContrastive",
    "Output",
    "SampledOutput",
    "SampledSoftmax",
    "build_output",
]


def build_output(
    output: str | keras.layers.Layer,
    vocabulary_size: int,
    hidden_units: int = 100,
    weight_decay: float = 0.0,
    dropout: float = 0.0,
    dtype: str | keras.DTypePolicy | None = None,
) -> Output:
    """Return the output layer that a name stands for, or the given layer.

    Args:
        output: a name of `OUTPUTS`, which stands for that layer with its default options, or an output layer.
        vocabulary_size: int, |V|.
        hidden_units, dropout: of a named layer that has a hidden layer of its own (energy).
        weight_decay: of the matrices of a named layer. Sampled outputs refuse it.
        dtype: dtype policy of a named layer.

    Raises:
        InputError: unknown name, not an output layer, a layer of a different vocabulary, or dropout that belongs to it.
    """
    if isinstance(output, str):
        names = ", ".join(OUTPUTS)
        check_argument("output", output in OUTPUTS, f"one of {names}, or a layer", repr(output), "choose one of these.")
        options = dict(hidden_units=hidden_units, dropout=dropout) if OUTPUTS[output].includes_hidden_layer else {}
        options |= dict(weight_decay=weight_decay) if weight_decay else {}
        return OUTPUTS[output](vocabulary_size, name="prob", dtype=dtype, **options)
    wanted = f"one of {', '.join(OUTPUTS)}, or an output layer such as NoiseContrastive(...)"
    check_argument("output", isinstance(output, Output), wanted, output, "pass a name or a layer.")
    check_argument(
        "output",
        output.vocabulary_size == vocabulary_size,
        f"a layer of {vocabulary_size} words",
        f"{output.name} of {output.vocabulary_size} words",
        "give both the same `vocabulary_size`.",
    )
    shared = dropout and output.includes_hidden_layer
    check_argument("dropout", not shared, f"0 if `output` is {type(output).__name__}", dropout, "give it to the layer.")
    return output
