"""Pickles of language models, scorers and their two interfaces, for pools of processes."""

import concurrent.futures
import copy
import functools
import multiprocessing
import pickle
import shutil

import pytest

from keras_nplm import CtcLanguageModel, KenlmModel, LanguageModel, write_arpa
from keras_nplm.language_model.scorer import Scorer
from tests import language_models
from tests.tokenizers import build_model

LINES = ["w1 w2, 3 hats", "w2 w1's hat", "w3 w1: the act"] * 4
WORDS = ["w1", "w2", "unheard-of", "w3"]
LINE = " ".join(WORDS)
NUMPY = ("kneser-ney", "sentencepiece", "characters", "nplm")
LONG = ("short-list", "hybrid", "mixture")


@functools.cache
def build(name: str) -> LanguageModel:
    if name in ("characters", "sentencepiece"):
        return build_model(name, LINES)
    model = language_models.build(name, "sentence")
    return LanguageModel(model, language_models.VOCABULARY, "whitespace")


def list_scores(thing: LanguageModel | Scorer | CtcLanguageModel | KenlmModel) -> list[float]:
    if isinstance(thing, LanguageModel):
        return [score.log_prob for score in thing.score([LINE])]
    if isinstance(thing, KenlmModel):
        return [thing.order, *(score.log_prob for score in thing.full_scores(LINE))]
    state = thing.begin() if isinstance(thing, Scorer) else thing.get_start_state()
    scores = []
    for word in WORDS:
        score, state = thing.score(state, word)
        scores.append(score)
    return scores


@pytest.mark.parametrize(
    "name", [*NUMPY, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)]
)
def test_a_copy_needs_no_file_and_gives_the_same_scores(name, tmp_path):
    build(name).save(tmp_path / "model")
    language_model = LanguageModel.load(tmp_path / "model")
    scorer = language_model.scorer()
    ctc = CtcLanguageModel(language_model, alpha=0.3, unk_score_offset=-3.0, score_boundary=False)
    things = [language_model, scorer, ctc, KenlmModel(tmp_path / "model")]
    wanted = [*map(list_scores, things)]
    shutil.rmtree(tmp_path / "model")
    for make_copy in (lambda thing: pickle.loads(pickle.dumps(thing)), copy.copy, copy.deepcopy):
        again = [*map(make_copy, things)]
        for thing, expected in zip([*again, again[0].scorer()], [*wanted, wanted[1]], strict=True):
            assert list_scores(thing) == pytest.approx(expected, rel=1e-6)
        assert again[0].spelling == language_model.spelling
        assert [word in again[1] for word in WORDS] == [word in scorer for word in WORDS]


def test_workers_of_numpy_models_need_no_tensorflow(tmp_path):
    """As in a DataLoader: workers by forkserver."""
    language_model = build("kneser-ney")
    write_arpa(tmp_path / "model.arpa", language_model.model, language_model.vocabulary)
    kenlm = KenlmModel(tmp_path / "model.arpa")
    scorers = [build(name).scorer() for name in NUMPY]
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        # a function of this file would import TensorFlow
        results = [executor.submit(scorer.score, scorer.begin(), "w2") for scorer in scorers]
        expected = [scorer.score(scorer.begin(), "w2")[0] for scorer in scorers]
        assert [result.result(240)[0] for result in results] == pytest.approx(expected, rel=1e-5)
        assert executor.submit(kenlm.score, LINE).result(60) == kenlm.score(LINE)
        has_tensorflow = "'tensorflow' in __import__('sys').modules"
        assert not executor.submit(eval, has_tensorflow).result(60)
