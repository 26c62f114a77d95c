"""Benchmark `cost`: training rate against the vocabulary size |V|, the order n and the hidden units h.

One size changes at a time. The full softmax costs time in proportion to |V|; noise-contrastive estimation does not.
"""

from collections.abc import Iterator

from keras_nplm.data.corpora import Corpus
from keras_nplm.experiments.benchmark.contenders import Contender, measure_groups
from keras_nplm.experiments.benchmark.networks import NUM_SAMPLED, Shape, build_nce, train_network
from keras_nplm.layers.outputs import FullSoftmax


def measure(corpus: Corpus, rounds: int) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    return measure_groups(_build_groups(), rounds)


def _build_groups() -> Iterator[list[Contender]]:
    shapes = [Shape(size) for size in (5_000, 50_000, 200_000)] + [Shape(order=n) for n in (3, 5, 9)]
    for shape in [*shapes, *(Shape(hidden_units=h) for h in (50, 200, 400))]:
        title = f"V={shape.vocabulary_size:,} n={shape.order} h={shape.hidden_units}"
        steps = max(1, 10 * Shape().vocabulary_size // shape.vocabulary_size)
        full = train_network(shape, FullSoftmax, steps)
        yield [
            Contender(f"full softmax, {title}", full, shape.count_flops(training=True)),
            Contender(f"NCE, k={NUM_SAMPLED}, {title}", train_network(shape, build_nce, 160)),
        ]
