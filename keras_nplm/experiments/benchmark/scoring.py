"""Log-probabilities of n-grams per CPU second, beside PyTorch and KenLM.

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
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.benchmark import SPEED_COLUMNS, Benchmark, peers
from keras_nplm.experiments.benchmark.contenders import Contender, Process, is_installed, measure_groups
from keras_nplm.experiments.benchmark.networks import (
    Shape,
    build_nce,
    build_network,
    run_torch,
    sample_ngrams,
    score_ngrams,
)
from keras_nplm.layers.outputs import FullSoftmax
from keras_nplm.models.ngrams import kneser_ney, write_arpa
from keras_nplm.models.self_normalised import SelfNormalised

_MIN_NGRAMS = 1 << 17  # the test n-grams are repeated until there are so many


def build_groups(corpus: Corpus) -> Iterator[list[Contender]]:
    """Yield the contenders that are compared."""
    shape = Shape()
    normalised = score_ngrams(build_network(shape, FullSoftmax), sample_ngrams(shape, 1 << 13))
    yield [Contender("normalised", normalised, shape.count_flops(training=False)), run_torch(shape, "score")]
    self_normalised = SelfNormalised(build_network(shape, build_nce))
    vocabulary = Vocabulary.build(corpus.sentences("train"), min_count=2)
    ids = encode_sentences(corpus.sentences("train"), vocabulary)
    model = kneser_ney(ids, len(vocabulary), shape.order, "sentence")
    ngrams = extract_ngrams(encode_sentences(corpus.sentences("test"), vocabulary), shape.order, "sentence")
    ngrams = np.tile(ngrams, (max(1, _MIN_NGRAMS // len(ngrams)), 1))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kneser-ney.arpa"
        if is_installed("kenlm"):
            write_arpa(path, model, vocabulary)
        arguments = {"arpa": str(path), "sentences": [" ".join(sentence) for sentence in corpus.sentences("test")]}
        yield [
            Contender("self-normalised", score_ngrams(self_normalised, sample_ngrams(shape, 1 << 18))),
            Contender("Kneser-Ney", score_ngrams(model, ngrams)),
            Process("KenLM, full_scores", f"{peers.__name__}:build_kenlm", arguments, peer=True, needs=["kenlm"]),
        ]


BENCHMARK = Benchmark(
    __doc__, SPEED_COLUMNS, lambda settings: measure_groups(build_groups(settings.corpus), settings.rounds)
)
