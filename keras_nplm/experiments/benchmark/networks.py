"""The networks that the benchmarks time: shapes, output layers, training and scoring as contenders."""

import dataclasses
import os
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments.benchmark.contenders import Contender, Work
from keras_nplm.experiments.benchmark.peer_process import PeerProcess
from keras_nplm.experiments.benchmark.peers import run_torch
from keras_nplm.layers.outputs import NoiseContrastive, Output, SampledSoftmax
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.nplm import NPLM
from keras_nplm.training.optimizers import LazySGD

BATCH_SIZE = 512
NUM_SAMPLED = 256
_PRECOMPUTED_BATCHES = 64


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a network. Default: the vocabulary of Brown and the sizes of the paper.

    Args:
        vocabulary_size: |V|.
        order: n.
        embedding_dim: m.
        hidden_units: h.
        direct: whether the network has direct connections, W.
    """

    vocabulary_size: int = 17_905
    order: int = 5
    embedding_dim: int = 60
    hidden_units: int = 100
    direct: bool = False

    def count_flops(self, training: bool, num_sampled: int | None = None) -> int:
        """Return the floating-point operations of the matrix products of one n-gram.

        With the full softmax, scoring takes 2 (|V| h + h (n-1) m), and 2 |V| (n-1) m more with direct connections. With
        a sampled output k+1 words take the place of |V|: the target and k negative samples. A training step computes
        three products of each size where scoring computes one.

        Args:
            training: count a training step: forward and backward pass.
            num_sampled: k of a sampled output. Default: the full softmax.
        """
        x = (self.order - 1) * self.embedding_dim
        features = self.hidden_units + self.direct * x
        words = self.vocabulary_size if num_sampled is None else 1 + num_sampled
        return (6 if training else 2) * (words * features + self.hidden_units * x)


def build_nce(vocabulary_size: int, dtype: str = "float32") -> Output:
    """Return a noise-contrastive output layer."""
    return NoiseContrastive(vocabulary_size, NUM_SAMPLED, self_normalisation=1.0, seed=0, dtype=dtype)


def build_sampled(vocabulary_size: int, dtype: str = "float32") -> Output:
    """Return a sampled-softmax output layer."""
    return SampledSoftmax(vocabulary_size, NUM_SAMPLED, seed=0, dtype=dtype)


def build_network(shape: Shape, build_output: Callable[..., Output], dtype: str = "float32") -> NPLM:
    """Return the paper's network of a shape, with random weights."""
    output = build_output(shape.vocabulary_size, dtype=dtype)
    return NPLM(
        shape.vocabulary_size,
        shape.order,
        shape.embedding_dim,
        shape.hidden_units,
        shape.direct,
        output=output,
        dtype=dtype,
    )


def train_network(
    shape: Shape,
    build_output: Callable[..., Output],
    steps: int,
    precomputed: bool = False,
    dtype: str = "float32",
) -> Work:
    """Return the work of training with plain SGD by `fit`.

    Args:
        shape: the sizes of the network.
        build_output: from |V| and dtype to the output layer.
        steps: number of batches.
        precomputed: train on batches that lie in memory, without the input pipeline.
        dtype: dtype policy of the layers.
    """
    model = build_network(shape, build_output, dtype)
    ids = sample_zipf_ids(shape.vocabulary_size, BATCH_SIZE * 400)
    model.prob.set_unigram(np.bincount(ids, minlength=shape.vocabulary_size))
    model.compile(optimizer=LazySGD(0.1), steps_per_execution=20 if steps >= 100 else 1)
    dataset = ngram_dataset(ids, shape.order, BATCH_SIZE, boundary="stream", drop_remainder=True, first_epoch=0)
    if precomputed:
        batches = [tf.stack(part) for part in zip(*dataset.take(_PRECOMPUTED_BATCHES), strict=True)]
        dataset = tf.data.Dataset.from_tensor_slices(tuple(batches)).repeat()

    def work() -> int:
        model.fit(dataset, steps_per_epoch=steps, shuffle=False, verbose=0)
        return steps * BATCH_SIZE

    return work


def run_nce_on_cores(number: int, peer: bool = False) -> PeerProcess:
    """Return NCE training in a process that runs on some cores. Its rate is per second of the clock.

    Args:
        number: number of cores.
        peer: whether other contenders are compared with it.
    """
    cores = f"{number} {'core' if number == 1 else 'cores'}"
    name = f"NCE, k={NUM_SAMPLED}, {cores}, per second of the clock"
    return PeerProcess(name, f"{__name__}:build_nce_on_cores", {"number": number}, peer=peer)


def build_nce_on_cores(number: int) -> Contender:
    """Return the contender of `run_nce_on_cores`."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(number))
    tf.config.threading.set_intra_op_parallelism_threads(number)
    tf.config.threading.set_inter_op_parallelism_threads(number)
    return Contender("NCE", train_network(Shape(), build_nce, 320), clock=time.perf_counter)


def score_ngrams(model: NextWordModel, ngrams: np.ndarray) -> Work:
    """Return the work of computing ln P of n-grams, int32 [B, n]."""
    return lambda: len(model.log_prob(ngrams[:, :-1], ngrams[:, -1]))


def build_torch_contender(shape: Shape, task: str) -> PeerProcess:
    """Return PyTorch as a peer; `task`: `"train"` or `"score"`."""
    flops = shape.count_flops(training=task == "train")
    return run_torch(dataclasses.asdict(shape), sample_ngrams(shape, BATCH_SIZE), task, flops)


def sample_ngrams(shape: Shape, number: int) -> np.ndarray:
    """Return n-grams of a random text, int32 [number, n]."""
    return extract_ngrams(sample_zipf_ids(shape.vocabulary_size, number), shape.order, "stream")


def sample_zipf_ids(vocabulary_size: int, length: int) -> np.ndarray:
    """Return random word ids, int32 [length], with frequencies proportional to 1/rank as in text (Zipf's law)."""
    probability = 1 / np.arange(1, vocabulary_size - 3)
    random = np.random.default_rng(0)
    return random.choice(np.arange(4, vocabulary_size), length, p=probability / probability.sum()).astype(np.int32)
