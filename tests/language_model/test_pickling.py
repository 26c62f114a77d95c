"""Pickles of language models, scorers and their two interfaces, for pools of processes."""

import concurrent.futures
import copy
import functools
import multiprocessing
import pickle
import shutil

import numpy as np
import pytest

from keras_nplm import (
    CtcLanguageModel,
    Hybrid,
    HybridNetwork,
    KenlmModel,
    LanguageModel,
    LinearHead,
    Mixture,
    Shortlist,
    UnigramCache,
    Vocabulary,
    kneser_ney,
    write_arpa,
)
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.subwords import Subwords
from tests.networks import compose

LINES = ["the cat sat, 3 hats", "that cat's hat", "a mat: the act"] * 4
WORDS = ["the", "cat", "unheard-of", "hat"]
VOCABULARY = Vocabulary.build(LINES, tokenizer="words")
V = len(VOCABULARY)


def _kneser_ney(tokenizer="words", vocabulary=VOCABULARY):
    ids = encode_lines(LINES, vocabulary, tokenizer, "sentence")
    return kneser_ney(ids, len(vocabulary), 3)


def _network(**options):
    network = compose(V, 3, 3, 4, boundary="sentence", **options)
    rng = np.random.default_rng(0)
    for weight in network.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return network


def _characters():
    vocabulary = Vocabulary.build(LINES, tokenizer="characters")
    return LanguageModel(_kneser_ney("characters", vocabulary), vocabulary, "characters")


def _subwords():
    vocabulary = Vocabulary.from_subwords(Subwords.train(LINES, 300))
    return LanguageModel(_kneser_ney("sentencepiece", vocabulary), vocabulary, "sentencepiece")


def _shortlist():
    return Shortlist(_network(head=LinearHead(V, num_outputs=9, name="prob")), _kneser_ney())


def _mixture():
    return Mixture([_network(), _kneser_ney(), UnigramCache(V, length=9)], [0.4, 0.3, 0.3])


def _hybrid():
    return Hybrid(_network(kind=HybridNetwork), _kneser_ney())


MODELS = {
    "kneser-ney": _kneser_ney,
    "network": _network,
    "short-list": _shortlist,
    "hybrid": _hybrid,
    "mixture": _mixture,
}
OF_OTHER_TOKENS = {"characters": _characters, "subwords": _subwords}
BUILDERS = {**MODELS, **OF_OTHER_TOKENS}


@functools.cache
def build(name: str) -> LanguageModel:
    if name in OF_OTHER_TOKENS:
        return OF_OTHER_TOKENS[name]()
    return LanguageModel(MODELS[name](), VOCABULARY, "words")


def read_again(thing):
    return pickle.loads(pickle.dumps(thing))


def score_by_words(scorer) -> list[float]:
    state = scorer.begin()
    scores = []
    for word in WORDS:
        log_prob, state = scorer.score(state, word)
        scores.append(log_prob)
    return [*scores, scorer.end(state)]


def score_lines(language_model) -> list[float]:
    return [score.log_prob for score in language_model.score(LINES[:3])]


FAST = ("kneser-ney", "characters", "subwords", "network")
EACH = [pytest.param(name, marks=[] if name in FAST else pytest.mark.long) for name in BUILDERS]


@pytest.mark.parametrize("name", EACH)
def test_a_pickle_needs_no_file_and_gives_the_same_scores(name, tmp_path):
    directory = tmp_path / "model"
    build(name).save(directory)
    language_model = LanguageModel.load(directory)
    scorer = language_model.scorer()
    ctc = CtcLanguageModel(language_model, alpha=0.3, unk_score_offset=-3.0, score_boundary=False)
    wanted = score_by_words(scorer)
    pickles = [pickle.dumps(thing) for thing in (language_model, scorer, scorer.score, ctc)]
    shutil.rmtree(directory)
    again, scorer_again, score_again, ctc_again = map(pickle.loads, pickles)
    for other in (scorer_again, copy.copy(scorer), copy.deepcopy(scorer), again.scorer()):
        assert score_by_words(other) == pytest.approx(wanted, rel=1e-6)
        assert [word in other for word in WORDS] == [word in scorer for word in WORDS]
    assert score_again(scorer.begin(), WORDS[0])[0] == pytest.approx(wanted[0])
    for model in (again, copy.copy(language_model), copy.deepcopy(language_model)):
        assert score_lines(model) == pytest.approx(score_lines(language_model), rel=1e-6)
        assert repr(model) == repr(language_model)
    assert again.spelling == language_model.spelling
    assert ctc_again.serializable_attrs == ctc.serializable_attrs
    start = ctc.get_start_state()
    assert ctc_again.score(start, "cat") == pytest.approx(ctc.score(start, "cat"))
    assert ctc_again.score_partial_token("ca") == ctc.score_partial_token("ca")


def test_a_self_normalised_scorer_stays_one(tmp_path):
    build("network").save(tmp_path / "model")
    scorer = build("network").scorer(self_normalised=True)
    wanted = score_by_words(scorer)
    assert wanted != pytest.approx(score_by_words(build("network").scorer()), abs=0.01)
    loaded = LanguageModel.load(tmp_path / "model", self_normalised=True)
    for other in (scorer, loaded.scorer()):
        assert score_by_words(read_again(other)) == pytest.approx(wanted)
    assert score_by_words(read_again(loaded).scorer()) == pytest.approx(wanted)


@pytest.fixture(scope="module")
def kenlm_model(tmp_path_factory) -> KenlmModel:
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    write_arpa(path, _kneser_ney(), VOCABULARY)
    return KenlmModel(path)


def test_kenlm_models_are_pickled_and_copied(kenlm_model):
    sentence = "the cat zebra"
    assert read_again(kenlm_model.score)(sentence) == kenlm_model.score(sentence)
    for again in (copy.copy(kenlm_model), copy.deepcopy(kenlm_model), read_again(kenlm_model)):
        assert (again.path, again.order) == (kenlm_model.path, kenlm_model.order)
        assert [*again.full_scores(sentence)] == [*kenlm_model.full_scores(sentence)]


def _score_word(scorer):
    return scorer.score(scorer.begin(), "cat")[0]


@pytest.mark.long
def test_a_pool_by_spawn_scores_as_this_process(kenlm_model):
    scorers = [build(name).scorer() for name in BUILDERS]
    texts = ["the cat", "new"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map_async(_score_word, scorers, 1).get(240)
        assert found == pytest.approx([*map(_score_word, scorers)], rel=1e-5)
        assert pool.map_async(kenlm_model.score, texts).get(60) == [*map(kenlm_model.score, texts)]
        pool.close()
        pool.join()


def test_workers_of_numpy_models_need_no_tensorflow(kenlm_model):
    """As in a DataLoader: workers by forkserver."""
    scorers = [build(name).scorer() for name in ("kneser-ney", "subwords", "characters")]
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        # a function of this file would import TensorFlow
        results = [executor.submit(scorer.score, scorer.begin(), "cat") for scorer in scorers]
        found = [result.result(240)[0] for result in results]
        assert found == pytest.approx([*map(_score_word, scorers)], rel=1e-5)
        has_tensorflow = "'tensorflow' in __import__('sys').modules"
        assert not executor.submit(eval, has_tensorflow).result(60)
        perplexity = executor.submit(kenlm_model.perplexity, "the cat").result(60)
        assert perplexity == kenlm_model.perplexity("the cat")


def test_workers_by_fork_use_what_they_inherit():
    """As in a DataLoader by fork, whose data set holds the scorer of a network: NumPy."""
    scorer = build("network").scorer()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.map_async(_score_word, [scorer] * 2).get(60)
        pool.close()
        pool.join()
    assert found == pytest.approx([_score_word(scorer)] * 2)
