"""Networks: Keras models of P(w | context), composed of layers.

nplm: the paper's network. context_network: what all networks share: read, score, minimise. pointer_network,
hybrid_network: networks that copy words of the context, and that have an n-gram model inside. training, gradients,
replicas, metrics: `fit`. probabilities: `log_prob` and `next_log_probs` as compiled graphs. network_file: safe loading.
growth, self_normalised: new words, and logits as log-probabilities.
"""

from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads import AdaptiveHead, EnergyHead
from keras_nplm.layers.objectives import NoiseContrastive, SampledSoftmax
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.networks.nplm import NPLM
from keras_nplm.models.networks.pointer_network import PointerNetwork

# importing this package registers all layers and networks, so that Keras finds them in a file
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
