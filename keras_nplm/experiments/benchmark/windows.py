"""Benchmark `windows`: n-grams per CPU second of the input pipeline, alone and within training.

The pipeline alone reads n-grams of a text in random order. Training with it is compared with training on precomputed
batches: a ratio of 0.98 says that the pipeline costs 2%.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.experiments.benchmark.contenders import Contender, Work, measure_groups
from keras_nplm.experiments.benchmark.networks import (
    BATCH_SIZE,
    NUM_SAMPLED,
    Shape,
    build_nce,
    sample_zipf_ids,
    train_network,
)
from keras_nplm.layers.outputs import FullSoftmax


def measure(corpus: Corpus, rounds: int) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    return measure_groups(_build_groups(), rounds)


def _build_groups() -> Iterator[list[Contender]]:
    shape = Shape()
    ids = sample_zipf_ids(shape.vocabulary_size, 1 << 20)
    yield [Contender(f"windows, batches of {size}", read_ngrams(ids, shape.order, size)) for size in (BATCH_SIZE, 128)]
    for title, build_output, steps in (("full softmax", FullSoftmax, 24), (f"NCE, k={NUM_SAMPLED}", build_nce, 320)):
        precomputed = train_network(shape, build_output, steps, precomputed=True)
        yield [
            Contender(f"{title}, reading windows", train_network(shape, build_output, steps)),
            Contender("precomputed batches (no input pipeline)", precomputed, peer=True),
        ]


def read_ngrams(ids: np.ndarray, order: int, batch_size: int) -> Work:
    """Return the work of reading one epoch of n-grams from word ids."""

    def work() -> int:
        dataset = ngram_dataset(ids, order, batch_size, boundary="stream", drop_remainder=True)
        return int(dataset.reduce(np.int64(0), lambda total, batch: total + tf.size(batch[1], tf.int64)))

    return work
