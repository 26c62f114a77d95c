"""Build the network that options describe, and start C from word vectors."""

import keras
import numpy as np

from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.network_file import check_memory
from keras_nplm.training.options import Options

# root mean square of the components of word vectors that C starts from; less if C is the output,
# too, where 0.3 was worse than a random start
_START_SIZE = 0.3
_TIED_START_SIZE = 0.1


def build_model(options: Options, vocabulary_size: int) -> ContextNetwork:
    """Build the network of the options, not compiled. Refuse weights larger than the memory.

    Weight decay is the optimiser's: see `Training.build_optimizer`.
    """
    check_memory(options.network.count(vocabulary_size).parameters)
    network = options.network.build(
        vocabulary_size, boundary=options.text.boundary, seed=options.training.seed
    )
    if options.network.freeze_embedding:
        _scale_to_unit_variance(network.embed.C)
    return network


def _scale_to_unit_variance(weight: keras.Variable) -> None:
    """Scale random weights to the variance of usual inputs.

    Learned features grow. Features that stay as small as they begin would slow the layers after
    them down, beside which a comparison would not be fair.
    """
    weight.assign(weight / keras.ops.std(weight))


def set_word_vectors(network: ContextNetwork, vectors: np.ndarray) -> None:
    """Start C from word vectors, float32 [|V|, m].

    Frozen vectors stay as they are. Others are multiplied by one number, which changes no angle:
    components of one size suit the learning rate, and those of files have 0.05 to 0.6.
    """
    scale = 1.0
    if network.embed.trainable:
        size = _TIED_START_SIZE if network.prob.uses_embedding else _START_SIZE
        scale = size / np.sqrt(np.square(vectors, dtype=np.float64).mean())
    network.embed.C.assign(vectors * scale)
