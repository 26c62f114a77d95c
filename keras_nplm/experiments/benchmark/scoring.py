"""Benchmark `scoring`: log-probabilities of n-grams per CPU second, beside PyTorch and KenLM.

PyTorch scores with the full softmax. KenLM scores the test text with the Kneser-Ney model that is measured beside it,
read from its ARPA file.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments.benchmark.contenders import Contender, measure_groups
from keras_nplm.experiments.benchmark.estimation import encode_training_text
from keras_nplm.experiments.benchmark.networks import (
    Shape,
    build_nce,
    build_network,
    build_torch_contender,
    sample_ngrams,
    score_ngrams,
)
from keras_nplm.experiments.benchmark.peers import is_installed, run_kenlm
from keras_nplm.layers.outputs import FullSoftmax
from keras_nplm.models.ngrams import kneser_ney, write_arpa
from keras_nplm.models.self_normalised import SelfNormalised

_MIN_NGRAMS = 1 << 17  # the test n-grams are repeated until there are so many


def measure(corpus: Corpus, rounds: int) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    return measure_groups(_build_groups(corpus), rounds)


def _build_groups(corpus: Corpus) -> Iterator[list[Contender]]:
    shape = Shape()
    normalised = score_ngrams(build_network(shape, FullSoftmax), sample_ngrams(shape, 1 << 13))
    group = [Contender("normalised", normalised, shape.count_flops(training=False))]
    if is_installed("torch"):
        group.append(build_torch_contender(shape, "score"))
    yield group
    self_normalised = SelfNormalised(build_network(shape, build_nce))
    network = Contender("self-normalised", score_ngrams(self_normalised, sample_ngrams(shape, 1 << 18)))
    with tempfile.TemporaryDirectory() as directory:
        yield [network, *_build_ngram_contenders(corpus, shape.order, Path(directory))]


def _build_ngram_contenders(corpus: Corpus, order: int, directory: Path) -> Iterator[Contender]:
    """Yield Kneser-Ney and, if it is installed, KenLM with the same model; both score the test text."""
    vocabulary, ids = encode_training_text(corpus)
    model = kneser_ney(ids, len(vocabulary), order, "sentence")
    ngrams = extract_ngrams(encode_sentences(corpus.sentences("test"), vocabulary), order, "sentence")
    ngrams = np.tile(ngrams, (max(1, _MIN_NGRAMS // len(ngrams)), 1))
    yield Contender("Kneser-Ney", score_ngrams(model, ngrams))
    if is_installed("kenlm"):
        path = directory / "kneser-ney.arpa"
        write_arpa(path, model, vocabulary)
        sentences = [" ".join(sentence) for sentence in corpus.sentences("test")]
        yield run_kenlm(path, sentences)
