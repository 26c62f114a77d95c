"""Pickles of language models, scorers and their two interfaces, and pools of processes that receive
them.
"""

import concurrent.futures
import contextlib
import copy
import functools
import multiprocessing
import os
import pickle
import shutil
import weakref

import numpy as np
import pytest

from keras_nplm import (
    CtcLanguageModel,
    Hybrid,
    HybridNetwork,
    InputError,
    KenlmModel,
    LanguageModel,
    LinearHead,
    Mixture,
    RunError,
    Shortlist,
    Uniform,
    UnigramCache,
    Vocabulary,
    kneser_ney,
    write_arpa,
)
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.subwords import Subwords
from keras_nplm.language_model import kenlm
from keras_nplm.models.spelling import SpellingModel
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


@pytest.mark.parametrize("where", ["by content", "by path"])
@pytest.mark.parametrize("name", EACH)
def test_a_pickled_model_gives_the_same_scores(name, where, tmp_path):
    language_model = build(name)
    if where == "by path":
        language_model.save(tmp_path / "model")
        language_model = LanguageModel.load(tmp_path / "model")
    scorer = language_model.scorer()
    wanted = score_by_words(scorer)
    for again in (
        read_again(scorer),
        copy.copy(scorer),
        copy.deepcopy(scorer),
        read_again(language_model).scorer(),
    ):
        assert again is not scorer
        assert score_by_words(again) == pytest.approx(wanted, rel=1e-6)
        assert [word in again for word in WORDS] == [word in scorer for word in WORDS]
    state = scorer.begin()
    assert read_again(scorer.score)(state, "cat")[0] == pytest.approx(scorer.score(state, "cat")[0])
    for again in (
        read_again(language_model),
        copy.copy(language_model),
        copy.deepcopy(language_model),
    ):
        assert score_lines(again) == pytest.approx(score_lines(language_model), rel=1e-6)
        assert repr(again) == repr(language_model)
    ctc = CtcLanguageModel(
        language_model, alpha=0.3, beta=0.7, unk_score_offset=-3.0, score_boundary=False
    )
    again = read_again(ctc)
    assert again.serializable_attrs == ctc.serializable_attrs
    assert again.score(again.get_start_state(), "cat") == pytest.approx(
        ctc.score(ctc.get_start_state(), "cat")
    )
    assert again.score_partial_token("ca") == ctc.score_partial_token("ca")
    sizes = [len(pickle.dumps(thing)) for thing in (language_model, scorer)]
    assert where == "by content" or max(sizes) < 2000


def test_a_self_normalised_scorer_stays_one(tmp_path):
    build("network").save(tmp_path / "model")
    for language_model in (build("network"), LanguageModel.load(tmp_path / "model")):
        scorer = language_model.scorer(self_normalised=True)
        wanted = score_by_words(scorer)
        assert wanted != pytest.approx(score_by_words(language_model.scorer()), abs=0.01)
        assert score_by_words(read_again(scorer)) == pytest.approx(wanted)
    loaded = LanguageModel.load(tmp_path / "model", self_normalised=True)
    assert score_by_words(read_again(loaded).scorer()) == pytest.approx(wanted)
    assert score_by_words(read_again(loaded.scorer())) == pytest.approx(wanted)


def test_a_pickle_by_path_refuses_missing_and_changed_files(tmp_path):
    directory = tmp_path / "model"
    build("kneser-ney").save(directory)
    (directory / "table.bin").write_text("of a model of one's own")
    loaded = LanguageModel.load(directory)
    of_own_file = pickle.dumps(loaded)
    (directory / "table.bin").write_text("changed")
    with pytest.raises(InputError, match="table.bin must be the file that was pickled"):
        pickle.loads(of_own_file)
    loaded = LanguageModel.load(directory)
    pickles = [pickle.dumps(thing) for thing in (loaded, loaded.scorer(), CtcLanguageModel(loaded))]
    (directory / "metrics.json").write_text("{}")  # not read by loading
    for data in pickles:
        pickle.loads(data)
    (directory / "vocabulary.txt").write_text("changed")
    for data in pickles:
        with pytest.raises(
            InputError, match=r"vocabulary.txt must be the file that was pickled, \d+ bytes, crc32"
        ):
            pickle.loads(data)
    # the model in memory is still whole: now it is pickled by content
    assert score_lines(read_again(loaded)) == score_lines(loaded)
    assert score_by_words(read_again(loaded.scorer())) == score_by_words(loaded.scorer())
    shutil.rmtree(directory)
    for data in pickles:
        with pytest.raises(
            InputError,
            match=r"(config.json|model) does not exist: a pickled model was loaded from it",
        ):
            pickle.loads(data)


def test_what_has_changed_since_the_load_is_pickled_by_content(tmp_path):
    build("network").save(tmp_path / "model")
    loaded = LanguageModel.load(tmp_path / "model")
    by_path = len(pickle.dumps(loaded))
    weight = loaded.network.trainable_weights[0]
    before = score_lines(loaded)
    old_scorer = loaded.scorer()
    weight.assign(weight + 1.0)
    assert score_lines(loaded) != pytest.approx(before)
    assert score_lines(read_again(loaded)) == pytest.approx(score_lines(loaded))
    assert score_by_words(read_again(loaded.scorer())) == pytest.approx(
        score_by_words(loaded.scorer())
    )
    assert score_by_words(read_again(old_scorer)) == pytest.approx(score_by_words(old_scorer))
    other = LanguageModel.load(tmp_path / "model")
    assert len(pickle.dumps(other)) == pytest.approx(by_path, abs=20)
    other.spelling = SpellingModel({"cat": 2})
    assert read_again(other).spelling.counts == {"cat": 2}
    other.model = Uniform(V)
    assert isinstance(read_again(other).model, Uniform)


@pytest.fixture(scope="module")
def arpa(tmp_path_factory):
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    write_arpa(path, _kneser_ney(), VOCABULARY)
    return path


def test_kenlm_models_are_pickled_by_path(arpa, tmp_path):
    path = shutil.copy(arpa, tmp_path / "copy.arpa")
    for kind in (kenlm.Model, kenlm.LanguageModel):
        model = kind(path)
        data = pickle.dumps(model.score)
        assert len(data) < 1000
        assert pickle.loads(data)("the cat sat") == model.score("the cat sat")
        for again in (copy.copy(model), copy.deepcopy(model), read_again(model)):
            assert (type(again), again.path, again.order) == (kind, model.path, model.order)
            assert [*again.full_scores("the zebra")] == [*model.full_scores("the zebra")]
    data = pickle.dumps(model)
    os.unlink(path)
    assert read_again(model).score("the cat") == model.score("the cat")  # by content
    with pytest.raises(InputError, match="copy.arpa does not exist: a pickled model"):
        pickle.loads(data)
    build("kneser-ney").save(tmp_path / "model")
    of_directory = KenlmModel(tmp_path / "model")
    assert len(pickle.dumps(of_directory)) < 2000
    assert read_again(of_directory).score("the cat") == of_directory.score("the cat")


def _score_word(scorer):
    return scorer.score(scorer.begin(), "cat")[0]


def _count_kept(scorer) -> tuple[int, int]:
    return os.getpid(), id(scorer)


def _use_network(language_model) -> list[float]:
    return score_lines(language_model)


@contextlib.contextmanager
def open_pool(method: str, processes: int):
    """A pool whose workers end by themselves: one that is terminated while it waits for a lock may
    stay.
    """
    pool = multiprocessing.get_context(method).Pool(processes)
    try:
        yield pool
        pool.close()
    except BaseException:
        pool.terminate()
        raise
    pool.join()


def test_a_pool_by_fork_uses_the_models_that_it_inherits(arpa):
    model = KenlmModel(arpa)
    scorer = build("network").scorer()
    sentences = ["the cat", "a mat", "new words"] * 3
    with open_pool("fork", 2) as pool:
        assert pool.map_async(model.score, sentences).get(60) == [*map(model.score, sentences)]
        found = pool.map_async(_score_word, [scorer] * 4).get(60)
        assert found == [pytest.approx(_score_word(scorer))] * 4
        ctc = CtcLanguageModel(build("kneser-ney"))
        state = ctc.get_start_state()
        scores = pool.starmap_async(ctc.score, [(state, "cat"), (state, "new")]).get(60)
        assert [score for score, _ in scores] == [
            ctc.score(state, word)[0] for word in ("cat", "new")
        ]


@pytest.mark.long
def test_a_graph_of_tensorflow_in_a_fork_is_refused_not_waited_for(tmp_path):
    build("network").save(tmp_path / "model")
    language_model = LanguageModel.load(tmp_path / "model")
    score_lines(language_model)
    with open_pool("fork", 1) as pool:
        later = LanguageModel.load(tmp_path / "model")  # the fork has not inherited it
        for function, argument in (
            (_use_network, language_model),
            (_use_network, later),
            (_score_word, later.scorer()),
            (_score_word, build("short-list").scorer()),
            (_score_word, build("hybrid").scorer()),
        ):
            with pytest.raises(
                RunError,
                match="must not run in a process made by fork after TensorFlow has started",
            ):
                pool.apply_async(function, (argument,)).get(60)


def test_a_worker_whose_model_has_changed_fails_by_name(arpa, tmp_path):
    with open_pool("fork", 1) as pool:
        path = shutil.copy(arpa, tmp_path / "copy.arpa")
        model = KenlmModel(path)
        data = pickle.dumps(model)
        os.unlink(path)
        with pytest.raises(
            InputError, match="copy.arpa does not exist: a pickled model was loaded from it"
        ):
            pool.apply_async(_score_pickled, (data,)).get(60)


def _score_pickled(data: bytes) -> float:
    return pickle.loads(data).score("the cat")


def test_a_worker_reads_a_model_once_for_many_tasks(monkeypatch):
    data = pickle.dumps(build("kneser-ney").scorer())
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a worker that has not inherited it
    first = pickle.loads(data)
    assert pickle.loads(data) is first


def test_a_worker_keeps_the_last_four_models(monkeypatch):
    pickles = [pickle.dumps(build("kneser-ney").scorer()) for _ in range(5)]
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a worker that has not inherited them
    models = [weakref.ref(pickle.loads(data)) for data in pickles]
    are_kept = [model() is not None for model in models]
    assert are_kept == [False, True, True, True, True]


def _build_scorers(directory) -> list:
    build("network").save(directory)
    scorers = [
        build(name).scorer()
        for name in ("kneser-ney", "network", "subwords", "characters", "mixture")
    ]
    scorers += [
        build("short-list").scorer(),
        LanguageModel.load(directory).scorer(self_normalised=True),
    ]
    return scorers


@pytest.mark.long
def test_a_pool_by_spawn_scores_as_this_process(arpa, tmp_path):
    scorers = _build_scorers(tmp_path / "model")
    model = KenlmModel(arpa)
    texts = ["the cat", "new"]
    with open_pool("spawn", 1) as pool:
        found = pool.map_async(_score_word, scorers, 1).get(240)
        assert found == pytest.approx([*map(_score_word, scorers)], rel=1e-5)
        assert pool.map_async(model.score, texts).get(60) == [*map(model.score, texts)]


def test_an_executor_by_forkserver_needs_no_tensorflow(arpa):
    scorers = [build(name).scorer() for name in ("kneser-ney", "subwords", "characters")]
    model = KenlmModel(arpa)
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        # a function of this file would import TensorFlow
        results = [executor.submit(scorer.score, scorer.begin(), "cat") for scorer in scorers]
        found = [result.result(240)[0] for result in results]
        assert found == pytest.approx([*map(_score_word, scorers)], rel=1e-5)
        has_tensorflow = "'tensorflow' in __import__('sys').modules"
        assert not executor.submit(eval, has_tensorflow).result(60)
        perplexity = executor.submit(model.perplexity, "the cat").result(60)
        assert perplexity == model.perplexity("the cat")
