"""Benchmark `estimation`: training tokens per CPU second of Kneser-Ney estimation.

The model has order 5 and is estimated from word ids in memory.
"""

import numpy as np

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.benchmark.contenders import Contender, measure_group
from keras_nplm.models.ngrams import kneser_ney

_ORDER = 5


def measure(corpus: Corpus, rounds: int, tokens: int) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    vocabulary, ids = encode_training_text(corpus)

    def estimate() -> int:
        kneser_ney(ids, len(vocabulary), _ORDER, "sentence")
        return len(ids)

    return measure_group([Contender(f"Kneser-Ney, order {_ORDER}", estimate)], rounds)


def encode_training_text(corpus: Corpus) -> tuple[Vocabulary, np.ndarray]:
    """Return the vocabulary of the training text and the text as ids, int32 [T]."""
    vocabulary = Vocabulary.build(corpus.sentences("train"), min_count=2)
    return vocabulary, encode_sentences(corpus.sentences("train"), vocabulary)
