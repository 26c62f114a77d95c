"""N-grams per CPU second of `fit`, by output layer, beside PyTorch.

The network has the paper's sizes and the vocabulary of Brown, and trains on batches of 512. PyTorch trains the same
network with the full softmax. The share of the peak, the rate of a large matrix product, counts the products of a step:
of the hidden layer, and of all words, or with a sampled output of the target and the k negative samples.
"""

from collections.abc import Iterator

from keras_nplm.experiments.benchmark import SPEED_COLUMNS, Benchmark, networks
from keras_nplm.experiments.benchmark.contenders import Contender, measure_groups
from keras_nplm.experiments.benchmark.networks import Shape, build_nce, build_sampled, run_torch, train_network
from keras_nplm.layers.outputs import AdaptiveSoftmax, FullSoftmax


def build_groups() -> Iterator[list[Contender]]:
    """Yield the contenders that are compared."""
    for shape, title in ((Shape(), "full softmax"), (Shape(direct=True), "full softmax, direct connections")):
        bfloat16 = train_network(shape, FullSoftmax, 24, dtype="mixed_bfloat16")
        full = Contender(title, train_network(shape, FullSoftmax, 24), shape.count_flops(training=True))
        yield [full, Contender(f"{title}, mixed_bfloat16", bfloat16), run_torch(shape, "train")]
    k = networks.NUM_SAMPLED
    for shape in (Shape(), Shape(100_000)):
        size, flops = f"V={shape.vocabulary_size:,}", shape.count_flops(training=True, num_sampled=k)
        yield [
            Contender(f"NCE, k={k}, {size}", train_network(shape, build_nce, 320), flops),
            Contender(f"sampled softmax, k={k}, {size}", train_network(shape, build_sampled, 320), flops),
            Contender(f"adaptive softmax, {size}", train_network(shape, AdaptiveSoftmax, 40)),
        ]


BENCHMARK = Benchmark(__doc__, SPEED_COLUMNS, lambda settings: measure_groups(build_groups(), settings.rounds))
