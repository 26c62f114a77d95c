"""Output layers turn the features of a context into P(w | context).

base: the base classes. linear: kernels with a row per word. full: the full softmax. sampled: sampled softmax and
noise-contrastive estimation. adaptive: the adaptive softmax. energy: the energy-based output of the paper. hybrid: an
n-gram model inside the full softmax.
"""

from keras_nplm.layers.outputs.adaptive import AdaptiveSoftmax
from keras_nplm.layers.outputs.base import Output
from keras_nplm.layers.outputs.energy import EnergyOutput
from keras_nplm.layers.outputs.full import FullSoftmax
from keras_nplm.layers.outputs.hybrid import HybridSoftmax
from keras_nplm.layers.outputs.sampled import NoiseContrastive, SampledSoftmax

OUTPUTS: dict[str, type[Output]] = {
    "full": FullSoftmax,
    "sampled": SampledSoftmax,
    "nce": NoiseContrastive,
    "adaptive": AdaptiveSoftmax,
    "energy": EnergyOutput,
    "hybrid": HybridSoftmax,
}
