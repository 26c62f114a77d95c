"""Benchmark `training`: n-grams per CPU second of `fit`, by output layer, beside PyTorch.

The network has the paper's sizes and the vocabulary of Brown, and trains on batches of 512. PyTorch trains the same
network with the full softmax. The share of the peak counts the matrix products of the step, forward and backward: of
the hidden layer, and of all words, or with a sampled output of the target and the k negative samples. The peak is the
rate of a large matrix product in the same rounds. NCE also trains on one and on two cores, per second of the clock.
"""

import os
from collections.abc import Iterator

from keras_nplm.data.corpora import Corpus
from keras_nplm.experiments.benchmark.contenders import Contender, measure_groups
from keras_nplm.experiments.benchmark.networks import (
    NUM_SAMPLED,
    Shape,
    build_nce,
    build_sampled,
    build_torch_contender,
    run_nce_on_cores,
    train_network,
)
from keras_nplm.experiments.benchmark.peers import is_installed
from keras_nplm.layers.outputs import AdaptiveSoftmax, FullSoftmax


def measure(corpus: Corpus, rounds: int) -> list[dict]:
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
        flops, samples = shape.count_flops(training=True, num_sampled=NUM_SAMPLED), f"k={NUM_SAMPLED}, V={size:,}"
        yield [
            Contender(f"NCE, {samples}", train_network(shape, build_nce, 320), flops),
            Contender(f"sampled softmax, {samples}", train_network(shape, build_sampled, 320), flops),
            Contender(f"adaptive softmax, V={size:,}", train_network(shape, AdaptiveSoftmax, 40)),
        ]
    if (os.cpu_count() or 1) > 1:
        yield [run_nce_on_cores(2), run_nce_on_cores(1, peer=True)]
