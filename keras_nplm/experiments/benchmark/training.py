"""Benchmark `training`: n-grams per CPU second of `fit`, by output layer, beside PyTorch.

The network has the paper's sizes and the vocabulary of Brown, and trains on batches of 512. PyTorch trains the same
network with the full softmax.
"""

from collections.abc import Iterator

from keras_nplm.data.corpora import Corpus
from keras_nplm.experiments.benchmark.contenders import Contender, measure_groups
from keras_nplm.experiments.benchmark.networks import (
    NUM_SAMPLED,
    Shape,
    build_nce,
    build_sampled,
    build_torch_contender,
    train_network,
)
from keras_nplm.experiments.benchmark.peers import is_installed
from keras_nplm.layers.outputs import AdaptiveSoftmax, FullSoftmax


def measure(corpus: Corpus, rounds: int, tokens: int) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    return measure_groups(_build_groups(), rounds)


def _build_groups() -> Iterator[list[Contender]]:
    for direct in (False, True):
        shape = Shape(direct=direct)
        title = f"full softmax{', direct connections' if direct else ''}"
        bfloat16 = train_network(shape, FullSoftmax, 24, dtype="mixed_bfloat16")
        group = [
            Contender(title, train_network(shape, FullSoftmax, 24), shape.count_flops(training=True)),
            Contender(f"{title}, mixed_bfloat16", bfloat16),
        ]
        if is_installed("torch"):
            group.append(build_torch_contender(shape, "train"))
        yield group
    for size in (Shape().vocabulary_size, 100_000):
        shape = Shape(size)
        yield [
            Contender(f"NCE, k={NUM_SAMPLED}, V={size:,}", train_network(shape, build_nce, 320)),
            Contender(f"sampled softmax, k={NUM_SAMPLED}, V={size:,}", train_network(shape, build_sampled, 320)),
            Contender(f"adaptive softmax, V={size:,}", train_network(shape, AdaptiveSoftmax, 40)),
        ]
