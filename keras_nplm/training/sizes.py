"""How large a network of some options would be, and what it would compute, before any of it is made."""

import itertools
import math

import numpy as np

from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.io.errors import InputError
from keras_nplm.layers.context import number_of_blocks
from keras_nplm.layers.outputs import AdaptiveSoftmax
from keras_nplm.training.configuration import Configuration, numbers_of

_BACKWARD = 3  # a training step computes so many times what the forward pass does


def sizes(configuration: Configuration, vocabulary_size: int) -> dict:
    """Parameters, and floating-point operations of matrix products for an n-gram: two a weight that has a part in it.

    A look-up, an average, a bias, an activation and a softmax count nothing. Drawn words, which a batch shares, count
    for each n-gram; the clusters of an adaptive softmax as often as a text of Zipf's law, P(r) ∝ 1/r, asks for them.
    Training computes three times what the forward pass of its loss does.

    Args:
        configuration: the options.
        vocabulary_size: |V|, special tokens included.

    Returns:
        `parameters`; `flops_scoring`, of an n-gram's exactly normalised log-probability; `flops_training`, of an n-gram
        in training.

    Raises:
        InputError: the vocabulary is too small for the options.

    Example:

    >>> brown = Configuration(order=5, embedding_dim=60, hidden_units=100)
    >>> sizes(brown, 17_905)
    {'parameters': 2906805, 'flops_scoring': 3629000, 'flops_training': 10887000}
    """
    if vocabulary_size <= len(SPECIALS):
        raise InputError(f"`vocabulary_size` must be {len(SPECIALS) + 1} or more. Received: {vocabulary_size}.")
    m, h = configuration.embedding_dim, configuration.hidden_units
    x = m * number_of_blocks(configuration.order, configuration.averages)
    body = 0
    features = x if configuration.output_layer == "energy" else h + x * configuration.direct_connections
    if h and configuration.output_layer != "energy":
        body += x * h + configuration.residual_blocks * h * h
    biases = (1 + configuration.residual_blocks) * h if body else 0
    biases += 2 * h * (1 + configuration.residual_blocks) * configuration.layer_norm if body else 0
    width = m if configuration.tied_output else configuration.output_rank or features
    projection = features * width if configuration.tied_output or configuration.output_rank else 0
    matrices, vectors, scoring, training = _output(configuration, vocabulary_size, width)
    return {
        "parameters": vocabulary_size * m + body + biases + projection + matrices + vectors,
        "flops_scoring": round(2 * (body + projection + scoring)),
        "flops_training": round(2 * _BACKWARD * (body + projection + training)),
    }


def _output(configuration: Configuration, vocabulary_size: int, width: int) -> tuple[int, int, float, float]:
    """Of an output on `width` features: the weights of matrices of its own and its biases; the weights that have a
    part in an n-gram's exact probability, and in its training loss."""
    m, h, drawn = configuration.embedding_dim, configuration.hidden_units, 1 + configuration.num_sampled
    if configuration.output_layer == "energy":
        matrices = (width + m) * h
        return (
            matrices,
            2 * h + vocabulary_size,
            width * h + vocabulary_size * (m * h + h),
            width * h + drawn * (m * h + h),
        )
    if configuration.output_layer == "adaptive":
        return _adaptive(configuration, vocabulary_size, width)
    predicted = vocabulary_size
    if configuration.shortlist_size:
        predicted = len(SPECIALS) + configuration.shortlist_size + configuration.outside_output
    everything = predicted * width
    training = everything if configuration.output_layer == "full" else drawn * width
    return everything * (not configuration.tied_output), predicted, everything, training


def _adaptive(configuration: Configuration, vocabulary_size: int, width: int) -> tuple[int, int, float, float]:
    output = AdaptiveSoftmax(vocabulary_size, numbers_of(configuration.cutoffs) or None)
    ends = [*output.cutoffs, vocabulary_size]
    root = (ends[0] + len(ends) - 1) * width
    matrices, expected = root, float(root)
    of_all = np.log(vocabulary_size)
    for i, (first, last) in enumerate(itertools.pairwise(ends), start=1):
        narrow = min(width, max(4, width // 4**i))
        cluster = width * narrow + (last - first) * narrow
        matrices += cluster
        expected += cluster * math.log(last / first) / of_all
    return matrices, vocabulary_size + len(ends) - 1, expected, expected
