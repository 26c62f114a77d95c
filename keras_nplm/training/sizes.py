"""Count the parameters and floating-point operations of a network, without Keras."""

from keras_nplm.data.ids import SPECIALS
from keras_nplm.io.errors import check_integer
from keras_nplm.training.network import Network

_BACKWARD = 3  # a training step computes the forward pass, and twice as much backward


def compute_sizes(network: Network, vocabulary_size: int) -> dict[str, int]:
    """Count the parameters of a network, and its floating-point operations per n-gram.

    `flops_scoring` are of an exactly normalised log-probability, `flops_training` three times the
    forward pass of the loss. Matrix products count two operations per weight; all else counts
    nothing. Negative samples are shared by a batch, but count for each n-gram. A cluster of the
    adaptive softmax counts as often as a text of Zipf's law, P(r) ∝ 1/r, needs it.

    >>> from keras_nplm.training.network import Concatenated, Tanh
    >>> compute_sizes(Network(order=5, context=Concatenated(), hidden=Tanh()), 17_905)
    {'parameters': 2906805, 'flops_scoring': 3629000, 'flops_training': 10887000}
    """
    check_integer("vocabulary_size", vocabulary_size, len(SPECIALS) + 1)
    cost = network.count(vocabulary_size)
    return {
        "parameters": cost.parameters,
        "flops_scoring": round(2 * cost.scoring),
        "flops_training": round(2 * _BACKWARD * cost.training),
    }
