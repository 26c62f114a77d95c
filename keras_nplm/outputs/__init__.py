"""Output layers: what turns features into P(w | context)."""

from keras_nplm.outputs.adaptive import AdaptiveSoftmax
from keras_nplm.outputs.full import FullSoftmax
from keras_nplm.outputs.output import LinearOutput, Output
from keras_nplm.outputs.sampled import PROPOSALS, NoiseContrastive, SampledOutput, SampledSoftmax

OUTPUTS = {"full": FullSoftmax, "sampled": SampledSoftmax, "nce": NoiseContrastive, "adaptive": AdaptiveSoftmax}

__all__ = [
    "OUTPUTS",
    "PROPOSALS",
    "AdaptiveSoftmax",
    "FullSoftmax",
    "LinearOutput",
    "NoiseContrastive",
    "Output",
    "SampledOutput",
    "SampledSoftmax",
]
