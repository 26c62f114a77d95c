"""Log-probabilities of n-grams per CPU second, beside PyTorch and KenLM.

PyTorch scores with the full softmax. KenLM scores the test text with the Kneser-Ney model that is
measured beside it, read from its ARPA file. Then decoders: 256 hypotheses, or one, are extended by
a word at a time, with KenLM by `BaseScore`. The network of the starter model is scored as if it
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
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import find_network
from keras_nplm.models.networks.self_normalised import SelfNormalised
from keras_nplm.models.ngrams import BackoffModel, kneser_ney, write_arpa
from keras_nplm.training.build import build_model
from keras_nplm.training.sizes import compute_sizes
from tests.benchmarks import networks, peers
from tests.benchmarks.contenders import Contender, Process, Work, declare_speed
from tests.benchmarks.networks import NCE, PAPER, VOCABULARY_SIZE
from tests.benchmarks.report import SPEED_COLUMNS, Settings

_MIN_NGRAMS = 1 << 17  # the test n-grams are repeated until there are so many
_HYPOTHESES = 256
_STEPS = 100


def build_groups(settings: Settings) -> Iterator[list[Contender]]:
    yield _build_normalised_group()
    corpus = settings.corpus
    vocabulary = Vocabulary.build(corpus.sentences("train"), min_count=2)
    train_ids = encode_sentences(corpus.sentences("train"), vocabulary)
    test_ids = encode_sentences(corpus.sentences("test"), vocabulary)
    ngram_model = kneser_ney(train_ids, len(vocabulary), PAPER.network.order, "sentence")
    sentences = [" ".join(sentence) for sentence in corpus.sentences("test")]
    with tempfile.TemporaryDirectory() as directory:
        arpa = Path(directory) / "kneser-ney.arpa"
        write_arpa(arpa, ngram_model, vocabulary)
        yield _build_text_group(ngram_model, test_ids, sentences, arpa)
        words = test_ids[test_ids != EOS_ID]
        yield _build_decoder_group(vocabulary, words, arpa)


def _build_normalised_group() -> list[Contender]:
    """Return the exact softmax on random n-grams, and PyTorch."""
    model = build_model(PAPER, VOCABULARY_SIZE)
    ngrams = networks.sample_ngrams(PAPER.network.order, 1 << 13)
    flops = compute_sizes(PAPER.network, VOCABULARY_SIZE)["flops_scoring"]
    return [
        Contender("normalised", networks.score_ngrams(model, ngrams), flops),
        networks.run_torch(PAPER, "scoring"),
    ]


def _build_text_group(
    ngram_model: BackoffModel, test_ids: np.ndarray, sentences: list[str], arpa: Path
) -> list[Contender]:
    """Return self-normalised scoring of random n-grams; Kneser-Ney and KenLM on the test text."""
    order = PAPER.network.order
    self_normalised = SelfNormalised(build_model(NCE, VOCABULARY_SIZE))
    random_ngrams = networks.sample_ngrams(order, 1 << 18)
    test_ngrams = extract_ngrams(test_ids, order, "sentence")
    test_ngrams = np.tile(test_ngrams, (max(1, _MIN_NGRAMS // len(test_ngrams)), 1))
    return [
        Contender("self-normalised", networks.score_ngrams(self_normalised, random_ngrams)),
        Contender("Kneser-Ney", networks.score_ngrams(ngram_model, test_ngrams)),
        Process(
            "KenLM, full_scores",
            f"{peers.__name__}:build_kenlm",
            {"arpa": str(arpa), "sentences": sentences},
            peer=True,
        ),
    ]


def _build_decoder_group(vocabulary: Vocabulary, text: np.ndarray, arpa: Path) -> list[Contender]:
    """Return decoders: each hypothesis is continued by consecutive words of a text, ids [T]."""
    size = _HYPOTHESES * _STEPS
    words = vocabulary.decode(np.resize(text, size))
    # of each step: the words of all hypotheses
    columns = [words[step::_STEPS] for step in range(_STEPS)]
    ids = vocabulary.encode(words).reshape(_HYPOTHESES, _STEPS).T
    model = SelfNormalised(build_model(NCE, len(vocabulary)))
    scorer = LanguageModel(model, vocabulary, "whitespace").scorer()
    starter = LanguageModel.from_preset("starter")
    starter_network = SelfNormalised(find_network(starter.model))
    starter_scorer = starter.replace_model(starter_network).scorer()
    state = scorer.begin()
    contexts = np.tile(np.frombuffer(state, np.int32), (_HYPOTHESES, 1))

    def score_ids(contexts: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        after = np.concatenate([contexts[:, 1:], ids[:, None]], axis=1)
        return model.log_prob(contexts, ids), after

    batch = _extend(scorer.score_batch, [state] * _HYPOTHESES, columns, size)
    arrays = _extend(score_ids, contexts, ids, size)
    one_word = _extend(scorer.score, state, words, size)
    starter_word = _extend(starter_scorer.score, starter_scorer.begin(), words, size)
    name = f"self-normalised, {_HYPOTHESES} hypotheses"
    return [
        Contender(name, batch),
        Contender(f"{name}, arrays of ids", arrays),
        Contender("self-normalised, one word", one_word),
        Contender("starter network, one word", starter_word),
        Process(
            f"KenLM, {_HYPOTHESES} hypotheses",
            f"{peers.__name__}:build_kenlm_states",
            {"arpa": str(arpa), "columns": columns},
            peer=True,
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


REPORT = declare_speed(
    __doc__, build_groups, [*SPEED_COLUMNS, ("µs per n-gram", "rate", "microseconds")]
)
