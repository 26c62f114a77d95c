"""Log-probabilities of n-grams per CPU second, beside PyTorch and KenLM.

PyTorch scores with the full softmax. KenLM scores the test text with the Kneser-Ney model that is
measured beside it, read from its ARPA file. Then decoders: 256 hypotheses, or one, are extended by
a word at a time, with KenLM by `BaseScore`. The reference model of the package is scored as if it
were self-normalised.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.ids import EOS_ID
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.benchmark import SPEED_COLUMNS, Settings, declare_speed, networks, peers
from keras_nplm.experiments.benchmark.contenders import Contender, Process, Work, is_installed
from keras_nplm.experiments.benchmark.networks import NCE, PAPER, VOCABULARY_SIZE
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.networks.self_normalised import SelfNormalised
from keras_nplm.models.ngrams import kneser_ney, write_arpa
from keras_nplm.training.build import build_model
from keras_nplm.training.sizes import compute_sizes

_MIN_NGRAMS = 1 << 17  # the test n-grams are repeated until there are so many
_HYPOTHESES = 256
_STEPS = 100
_COLUMNS = [*SPEED_COLUMNS, ("µs per n-gram", lambda row: 1e6 / row["rate"], ".2f")]


def build_groups(settings: Settings) -> Iterator[list[Contender]]:
    corpus = settings.corpus
    order = PAPER.network.order
    flops = compute_sizes(PAPER.network, VOCABULARY_SIZE)["flops_scoring"]
    normalised = networks.score_ngrams(
        build_model(PAPER, VOCABULARY_SIZE), networks.sample_ngrams(order, 1 << 13)
    )
    yield [Contender("normalised", normalised, flops), networks.run_torch(PAPER, "scoring")]
    model = SelfNormalised(build_model(NCE, VOCABULARY_SIZE))
    ngrams = networks.sample_ngrams(order, 1 << 18)
    self_normalised = Contender("self-normalised", networks.score_ngrams(model, ngrams))
    vocabulary = Vocabulary.build(corpus.sentences("train"), min_count=2)
    ids = encode_sentences(corpus.sentences("train"), vocabulary)
    model = kneser_ney(ids, len(vocabulary), order, "sentence")
    test_ids = encode_sentences(corpus.sentences("test"), vocabulary)
    ngrams = extract_ngrams(test_ids, order, "sentence")
    ngrams = np.tile(ngrams, (max(1, _MIN_NGRAMS // len(ngrams)), 1))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kneser-ney.arpa"
        if is_installed("kenlm"):
            write_arpa(path, model, vocabulary)
        arguments = {
            "arpa": str(path),
            "sentences": [" ".join(sentence) for sentence in corpus.sentences("test")],
        }
        yield [
            self_normalised,
            Contender("Kneser-Ney", networks.score_ngrams(model, ngrams)),
            Process(
                "KenLM, full_scores",
                f"{peers.__name__}:build_kenlm",
                arguments,
                peer=True,
                needs=["kenlm"],
            ),
        ]
        words = vocabulary.decode(np.resize(test_ids[test_ids != EOS_ID], _HYPOTHESES * _STEPS))
        columns = [words[step::_STEPS] for step in range(_STEPS)]
        ids = vocabulary.encode(words).reshape(_HYPOTHESES, _STEPS).T
        scorer = LanguageModel(build_model(NCE, len(vocabulary)), vocabulary, "whitespace").scorer(
            self_normalised=True
        )
        reference = LanguageModel.from_preset("reference").scorer(self_normalised=True)
        state = scorer.begin()
        size = len(words)
        name = f"self-normalised, {_HYPOTHESES} hypotheses"
        contexts = np.tile(np.frombuffer(state, np.int32), (_HYPOTHESES, 1))
        build = f"{peers.__name__}:build_kenlm_states"
        arguments = {"arpa": str(path), "columns": columns}
        yield [
            Contender(name, _extend(scorer.score_batch, [state] * _HYPOTHESES, columns, size)),
            Contender(f"{name}, arrays of ids", _extend(scorer.score_ids, contexts, ids, size)),
            Contender("self-normalised, one word", _extend(scorer.score, state, words, size)),
            Contender(
                "reference, one word", _extend(reference.score, reference.begin(), words, size)
            ),
            Process(
                f"KenLM, {_HYPOTHESES} hypotheses", build, arguments, peer=True, needs=["kenlm"]
            ),
        ]


def _extend(
    score: Callable[[Any, Any], tuple[Any, Any]], begin: Any, steps: Iterable, ngrams: int
) -> Work:
    """Return the work of a decoder: score the words of each step, and go on from the states after
    them.
    """

    def work() -> int:
        states = begin
        for words in steps:
            _, states = score(states, words)
        return ngrams

    return work


STUDY = declare_speed(__doc__, build_groups, _COLUMNS)
