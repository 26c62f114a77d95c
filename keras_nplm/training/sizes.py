"""Count the parameters and floating-point operations of a network from its options, without Keras."""

import itertools
import math

from keras_nplm.io.errors import check_argument
from keras_nplm.io.options import check_option, parse_integers
from keras_nplm.io.shapes import choose_cutoffs, cluster_width, count_matched, number_of_blocks
from keras_nplm.training.configuration import Configuration

_SPECIAL_TOKENS = 4  # <pad>, <unk>, <s>, </s>
_BACKWARD = 3  # a training step computes the forward pass, and twice as much backward


def compute_sizes(configuration: Configuration, vocabulary_size: int) -> dict:
    """Count the parameters of a network, and its floating-point operations per n-gram.

    `flops_scoring` are of an exactly normalised log-probability, `flops_training` three times the forward pass of the
    loss. Matrix products count two operations per weight; all else counts nothing.
    Negative samples are shared by a batch, but count for each n-gram. A cluster of the adaptive softmax counts as often
    as a text of Zipf's law, P(r) ∝ 1/r, needs it.

    >>> compute_sizes(Configuration(order=5, averages_after="", residual_blocks=0, layer_norm=False), 17_905)
    {'parameters': 2906805, 'flops_scoring': 3629000, 'flops_training': 10887000}
    """
    check_option("vocabulary_size", vocabulary_size)
    has_words, fix = vocabulary_size > _SPECIAL_TOKENS, "count the 4 special tokens, too."
    check_argument("vocabulary_size", has_words, f"{_SPECIAL_TOKENS + 1} or more", vocabulary_size, fix)
    m, h = configuration.embedding_dim, configuration.hidden_units
    x = m * number_of_blocks(configuration.order, configuration.averages)
    features = x if configuration.output_layer == "energy" else h
    body = biases = 0
    if h and configuration.output_layer != "energy":
        layers = 1 + configuration.residual_blocks
        body = x * h + configuration.residual_blocks * h * h
        biases = layers * h + 2 * layers * h * configuration.layer_norm
    products = body
    if configuration.pointer:
        positions = configuration.order - 1
        body += 2 * features * m
        biases += m + positions + count_matched(positions)
        products = body + 2 * m * positions  # of the queries and the vectors of the context's words
    direct = x if configuration.direct_connections else 0
    width = m if configuration.tied_output else configuration.output_rank or features
    projection = features * width if configuration.tied_output or configuration.output_rank else 0
    weights, scoring, training = _count_output(configuration, vocabulary_size, width, direct)
    if configuration.output_layer == "hybrid":
        biases += 1 + features  # g and v
    return {
        "parameters": vocabulary_size * m + body + biases + projection + weights,
        "flops_scoring": round(2 * (products + projection + scoring)),
        "flops_training": round(2 * _BACKWARD * (products + projection + training)),
    }


def _count_output(
    configuration: Configuration, vocabulary_size: int, width: int, direct: int
) -> tuple[int, float, float]:
    """Count the weights of a head on `width` features and of W on `direct`: all, of one probability, of one loss."""
    m, h, samples = configuration.embedding_dim, configuration.hidden_units, 1 + configuration.num_sampled
    if configuration.output_layer == "energy":
        context, word = width * h, m * h + h
        weights = (width + m) * h + 2 * h + vocabulary_size
        return weights, context + vocabulary_size * word, context + samples * word
    if configuration.output_layer == "adaptive":
        return _count_adaptive(configuration, vocabulary_size, width)
    outputs = vocabulary_size
    if configuration.shortlist_size:
        outputs = _SPECIAL_TOKENS + configuration.shortlist_size
    weights = outputs + outputs * direct + (0 if configuration.tied_output else outputs * width)
    scored = samples if configuration.is_sampled else outputs
    return weights, outputs * (width + direct), scored * (width + direct)


def _count_adaptive(configuration: Configuration, vocabulary_size: int, width: int) -> tuple[int, float, float]:
    ends = [*choose_cutoffs(vocabulary_size, parse_integers(configuration.cutoffs)), vocabulary_size]
    clusters = len(ends) - 1
    matrices = expected = (ends[0] + clusters) * width
    for i, (first, last) in enumerate(itertools.pairwise(ends), start=1):
        narrow = cluster_width(width, i)
        weights = width * narrow + (last - first) * narrow
        matrices += weights
        expected += weights * math.log(last / first) / math.log(vocabulary_size)
    return matrices + vocabulary_size + clusters, expected, expected
