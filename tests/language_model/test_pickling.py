"""Pickles of language models, scorers and their two interfaces, for pools of processes."""

import concurrent.futures
import copy
import functools
import multiprocessing
import pickle
import shutil

import pytest

from keras_nplm import CtcLanguageModel, KenlmModel, LanguageModel, write_arpa
from tests import language_models
from tests.tokenizers import build_model

LINES = ["w1 w2, 3 hats", "w2 w1's hat", "w3 w1: the act"] * 4
WORDS = ["w1", "w2", "unheard-of", "w3"]
LINE = " ".join(WORDS)
NUMPY = ("kneser-ney", "sentencepiece", "characters", "nplm")
NAMES = (*NUMPY, "short-list", "hybrid", "mixture")


@functools.cache
def build(name: str) -> LanguageModel:
    if name in ("characters", "sentencepiece"):
        return build_model(name, LINES)
    model = language_models.build(name, "sentence")
    return LanguageModel(model, language_models.VOCABULARY, "whitespace")


@pytest.fixture(scope="module")
def kenlm_model(tmp_path_factory) -> KenlmModel:
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    language_model = build("kneser-ney")
    write_arpa(path, language_model.model, language_model.vocabulary)
    return KenlmModel(path)


def score_by_words(scorer) -> list[float]:
    state = scorer.begin()
    scores = []
    for word in WORDS:
        log_prob, state = scorer.score(state, word)
        scores.append(log_prob)
    return [*scores, scorer.end(state)]


def score_line(language_model) -> float:
    [score] = language_model.score([LINE])
    return score.log_prob


def list_copies(thing) -> list:
    return [pickle.loads(pickle.dumps(thing)), copy.copy(thing), copy.deepcopy(thing)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in NAMES[4:])) for name in NAMES],
)
def test_a_copy_needs_no_file_and_gives_the_same_scores(name, kenlm_model, tmp_path):
    build(name).save(tmp_path / "model")
    language_model = LanguageModel.load(tmp_path / "model")
    scorer = language_model.scorer()
    ctc = CtcLanguageModel(language_model, alpha=0.3, unk_score_offset=-3.0, score_boundary=False)
    wanted = score_by_words(scorer)
    copies = [*map(list_copies, (language_model, scorer, ctc))]
    shutil.rmtree(tmp_path / "model")
    for again, scorer_again, ctc_again in zip(*copies, strict=True):
        assert score_line(again) == pytest.approx(score_line(language_model), rel=1e-6)
        assert again.spelling == language_model.spelling
        for other in (scorer_again, again.scorer()):
            assert score_by_words(other) == pytest.approx(wanted, rel=1e-6)
            assert [word in other for word in WORDS] == [word in scorer for word in WORDS]
        start = ctc.get_start_state()
        assert ctc_again.score(start, "w2") == pytest.approx(ctc.score(start, "w2"))
        assert ctc_again.score_partial_token("w") == ctc.score_partial_token("w")
    for again in list_copies(kenlm_model):
        assert (again.path, again.order) == (kenlm_model.path, kenlm_model.order)
        assert [*again.full_scores(LINE)] == [*kenlm_model.full_scores(LINE)]


def _score_word(scorer):
    return scorer.score(scorer.begin(), "w2")[0]


def test_workers_of_numpy_models_need_no_tensorflow(kenlm_model):
    """As in a DataLoader: workers by forkserver."""
    scorers = [build(name).scorer() for name in NUMPY]
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        # a function of this file would import TensorFlow
        results = [executor.submit(scorer.score, scorer.begin(), "w2") for scorer in scorers]
        found = [result.result(240)[0] for result in results]
        assert found == pytest.approx([*map(_score_word, scorers)], rel=1e-5)
        assert executor.submit(kenlm_model.score, LINE).result(60) == kenlm_model.score(LINE)
        has_tensorflow = "'tensorflow' in __import__('sys').modules"
        assert not executor.submit(eval, has_tensorflow).result(60)
