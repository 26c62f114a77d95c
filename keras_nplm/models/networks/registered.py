"""All layers and networks of this package: importing this module registers them, so that Keras finds them in a file."""

from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.objectives.sampled import NoiseContrastive, SampledSoftmax
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.networks.nplm import NPLM
from keras_nplm.models.networks.pointer_network import PointerNetwork

REGISTERED = (
    AveragedContext,
    DeepHidden,
    AdaptiveHead,
    EnergyHead,
    NoiseContrastive,
    SampledSoftmax,
    NPLM,
    PointerNetwork,
    HybridNetwork,
)
