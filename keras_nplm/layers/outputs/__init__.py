"""Output layers: what turns features into P(w | context)."""

from keras_nplm.layers.outputs.adaptive import AdaptiveSoftmax
from keras_nplm.layers.outputs.base import LinearOutput, Output
from keras_nplm.layers.outputs.energy import EnergyOutput
from keras_nplm.layers.outputs.full import FullSoftmax
from keras_nplm.layers.outputs.sampled import PROPOSALS, NoiseContrastive, SampledOutput, SampledSoftmax

OUTPUTS = {
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
]
