"""Log-probabilities of n-grams per CPU second, beside PyTorch and KenLM.

PyTorch scores with the full softmax. KenLM scores the test text with the Kneser-Ney model that is measured beside it,
read from its ARPA file.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.benchmark import Settings, declare_speed, networks, peers
from keras_nplm.experiments.benchmark.contenders import Contender, Process, is_installed
from keras_nplm.experiments.benchmark.networks import NCE, PAPER, VOCABULARY_SIZE
from keras_nplm.models.ngrams import kneser_ney, write_arpa
from keras_nplm.models.self_normalised import SelfNormalised
from keras_nplm.training.build import build_model
from keras_nplm.training.sizes import compute_sizes

_MIN_NGRAMS = 1 << 17  # the test n-grams are repeated until there are so many


def build_groups(settings: Settings) -> Iterator[list[Contender]]:
    corpus, order, flops = settings.corpus, PAPER.order, compute_sizes(PAPER, VOCABULARY_SIZE)["flops_scoring"]
    normalised = networks.score_ngrams(build_model(PAPER, VOCABULARY_SIZE), networks.sample_ngrams(order, 1 << 13))
    yield [Contender("normalised", normalised, flops), networks.run_torch(PAPER, "scoring")]
    model, ngrams = SelfNormalised(build_model(NCE, VOCABULARY_SIZE)), networks.sample_ngrams(order, 1 << 18)
    self_normalised = Contender("self-normalised", networks.score_ngrams(model, ngrams))
    vocabulary = Vocabulary.build(corpus.sentences("train"), min_count=2)
    ids = encode_sentences(corpus.sentences("train"), vocabulary)
    model = kneser_ney(ids, len(vocabulary), order, "sentence")
    ngrams = extract_ngrams(encode_sentences(corpus.sentences("test"), vocabulary), order, "sentence")
    ngrams = np.tile(ngrams, (max(1, _MIN_NGRAMS // len(ngrams)), 1))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kneser-ney.arpa"
        if is_installed("kenlm"):
            write_arpa(path, model, vocabulary)
        arguments = {"arpa": str(path), "sentences": [" ".join(sentence) for sentence in corpus.sentences("test")]}
        yield [
            self_normalised,
            Contender("Kneser-Ney", networks.score_ngrams(model, ngrams)),
            Process("KenLM, full_scores", f"{peers.__name__}:build_kenlm", arguments, peer=True, needs=["kenlm"]),
        ]


STUDY = declare_speed(__doc__, build_groups)
