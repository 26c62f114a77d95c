"""The networks that the benchmarks time: sizes, output layers, training and scoring as work."""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments.benchmark.contenders import Process, Work
from keras_nplm.layers.outputs import NoiseContrastive, Output, SampledSoftmax
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.nplm import NPLM
from keras_nplm.training.optimizers import LazySGD

BATCH_SIZE, NUM_SAMPLED = 512, 256


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a network: |V|, n, m, h and whether it has W. Default: those of the paper on Brown."""

    vocabulary_size: int = 17_905
    order: int = 5
    embedding_dim: int = 60
    hidden_units: int = 100
    direct: bool = False

    def count_flops(self, training: bool, num_sampled: int | None = None) -> int:
        """Return the floating-point operations of the matrix products of one n-gram.

        A sampled output multiplies the target and k negative samples in place of |V| words. A training step computes
        three products of each size where scoring computes one.
        """
        x = (self.order - 1) * self.embedding_dim
        words = self.vocabulary_size if num_sampled is None else 1 + num_sampled
        return (6 if training else 2) * (words * (self.hidden_units + self.direct * x) + self.hidden_units * x)


def build_nce(vocabulary_size: int, dtype: str = "float32") -> Output:
    return NoiseContrastive(vocabulary_size, NUM_SAMPLED, self_normalisation=1.0, seed=0, dtype=dtype)


def build_sampled(vocabulary_size: int, dtype: str = "float32") -> Output:
    return SampledSoftmax(vocabulary_size, NUM_SAMPLED, seed=0, dtype=dtype)


def build_network(shape: Shape, build_output: Callable[..., Output], dtype: str = "float32") -> NPLM:
    """Return the paper's network of a shape, with random weights."""
    return NPLM(*dataclasses.astuple(shape), output=build_output(shape.vocabulary_size, dtype=dtype), dtype=dtype)


def train_network(shape: Shape, build_output: Callable[..., Output], steps: int, dtype: str = "float32") -> Work:
    """Return the work of training with plain SGD by `fit`, for a number of batches."""
    model = build_network(shape, build_output, dtype)
    ids = sample_zipf_ids(shape.vocabulary_size, BATCH_SIZE * 400)
    model.prob.set_unigram(np.bincount(ids, minlength=shape.vocabulary_size))
    model.compile(optimizer=LazySGD(0.1), steps_per_execution=20 if steps >= 100 else 1)
    dataset = ngram_dataset(ids, shape.order, BATCH_SIZE, boundary="stream", drop_remainder=True, first_epoch=0)

    def work() -> int:
        model.fit(dataset, steps_per_epoch=steps, shuffle=False, verbose=0)
        return steps * BATCH_SIZE

    return work


def score_ngrams(model: NextWordModel, ngrams: np.ndarray) -> Work:
    """Return the work of computing ln P of n-grams, int32 [B, n]."""
    return lambda: len(model.log_prob(ngrams[:, :-1], ngrams[:, -1]))


def run_torch(shape: Shape, task: str) -> Process:
    """Return the same network in PyTorch as a peer; `task`: `"train"` or `"score"`."""
    ngrams = sample_ngrams(shape, BATCH_SIZE).tolist()
    arguments = {"shape": dataclasses.asdict(shape), "ngrams": ngrams, "task": task}
    build, flops = f"{__package__}.torch_models:build_nplm", shape.count_flops(training=task == "train")
    return Process("PyTorch", build, arguments, ["torch"], flops=flops, peer=True)


def sample_ngrams(shape: Shape, number: int) -> np.ndarray:
    """Return n-grams of a random text, int32 [number, n]."""
    return extract_ngrams(sample_zipf_ids(shape.vocabulary_size, number), shape.order, "stream")


def sample_zipf_ids(vocabulary_size: int, length: int) -> np.ndarray:
    """Return random word ids, int32 [length], with frequencies proportional to 1/rank as in text (Zipf's law)."""
    probability = 1 / np.arange(1, vocabulary_size - 3)
    random = np.random.default_rng(0)
    return random.choice(np.arange(4, vocabulary_size), length, p=probability / probability.sum()).astype(np.int32)
