"""States of n-gram models hold only the words that count: as many as in KenLM, with the same
continuations.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    LanguageModel,
    Mixture,
    Uniform,
    UnigramCache,
    deleted_interpolation,
    read_arpa,
    write_arpa,
)
from keras_nplm.data.ids import PAD_ID
from keras_nplm.language_model import kenlm
from keras_nplm.models.ngrams import prune
from keras_nplm.models.ngrams.backoff import BackoffModel
from tests.language_models import VOCABULARY, V, build, make_text

TEXTS = [make_text(seed, "sentence") for seed in (1, 2)]
KNESER_NEY = build("kneser-ney", "sentence")
DELETED = build("deleted-interpolation", "sentence")
BINNED = build("mixture with bins", "sentence")


def _random_tables(seed: int) -> BackoffModel:
    """Return a model of random n-grams whose contexts are not listed as n-grams, as pruning may
    leave them.
    """
    rng = np.random.default_rng(seed)

    def draw(order, lowest, highest):
        ids = np.unique(rng.integers(4, V, (9, order)), axis=0)
        return ids, rng.uniform(lowest, highest, len(ids)).astype(np.float32)

    ngrams = [draw(order, -3, -1) for order in (2, 3, 4)]
    contexts = [draw(length, -1, 0) for length in (1, 2, 3)]
    return BackoffModel.from_ngrams(
        rng.uniform(-4, -2, V).astype(np.float32), ngrams, contexts, "sentence"
    )


MODELS = {name: build(name, "sentence") for name in ("kneser-ney", "class-based", "uniform")} | {
    "pruned": prune(KNESER_NEY, 1e-3),
    "contexts that are not listed": _random_tables(0),
    "contexts that are not listed, again": _random_tables(1),
    "deleted interpolation": DELETED,
    "deleted interpolation of the paper": deleted_interpolation(*TEXTS, V, 3, back_off=False),
    "mixture": Mixture([KNESER_NEY, DELETED], [0.5, 0.5]),
    # of contexts that its unigrams do not use
    "mixture by frequency": Mixture(
        [prune(KNESER_NEY, 1e9), *[Uniform(V)] * 3], BINNED.weights, BINNED.bins
    ),
    "mixture with a cache": Mixture([KNESER_NEY, UnigramCache(V, "sentence", 3, 6)], [0.5, 0.5]),
}


def test_a_back_off_weight_alone_makes_a_context_count():
    weights = [np.zeros(size, np.float32) for size in KNESER_NEY.contexts.sizes]
    weights[0][11] = -0.3  # of a word that no listed n-gram follows
    model = dataclasses.replace(KNESER_NEY, backoffs=weights)
    contexts = np.array([[4, 4, 11]], np.int32)
    assert model.find_used_lengths(contexts).tolist() == [1]
    assert KNESER_NEY.find_used_lengths(contexts).tolist() == [0]
    _, after = model.log_prob_and_lengths(contexts[:, [0, 0, 1]], contexts[:, 2])
    assert after.tolist() == [1]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 30))
def test_words_beyond_the_used_length_change_nothing(name, seed):
    model = MODELS[name]
    rng = np.random.default_rng(seed)
    contexts = rng.choice([1, *range(4, V)], (20, model.order - 1)).astype(np.int32)
    contexts[:5, : model.order // 2] = 2  # after the beginning of a sentence
    targets = rng.integers(4, V, 20).astype(np.int32)
    lengths = model.find_used_lengths(contexts)
    is_used = np.arange(model.order - 1, 0, -1) <= lengths[:, None]
    shortened = np.where(is_used, contexts, PAD_ID).astype(np.int32)
    np.testing.assert_array_equal(model.next_log_probs(shortened), model.next_log_probs(contexts))
    log_probs, after = model.log_prob_and_lengths(shortened, targets)
    np.testing.assert_array_equal(log_probs, model.log_prob(contexts, targets))
    # the length after a word is the same from the shortened context, and is that of the whole next
    # context
    whole = np.concatenate([contexts[:, 1:], targets[:, None]], axis=1)
    np.testing.assert_array_equal(after, model.find_used_lengths(whole))


def test_whole_contexts_are_kept_where_all_words_count():
    assert MODELS["mixture with a cache"].uses_whole_contexts
    assert MODELS["contexts that are not listed"].uses_whole_contexts
    for name in ("mixture by frequency", "uniform"):
        assert not MODELS[name].uses_whole_contexts


@pytest.mark.parametrize("name", ["kneser-ney", "mixture by frequency"])
def test_histories_before_an_unknown_word_are_one_state(name):
    scorer = LanguageModel(MODELS[name], VOCABULARY, "whitespace").scorer()
    text = [*VOCABULARY.words[4:], "w1 w2 w3", "w2 w2", ""]
    _, states = scorer.score_batch([scorer.begin()] * len(text), text)
    _, states = scorer.score_batch(states, ["w7"] * len(text))  # a known word that no text has seen
    assert len({*states}) == 1


@pytest.mark.packages
def test_states_are_as_many_as_those_of_kenlm(tmp_path):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed")
    rng = np.random.default_rng(5)
    for number, model in enumerate((KNESER_NEY, MODELS["pruned"])):
        path = tmp_path / f"{number}.arpa"
        write_arpa(path, model, VOCABULARY)
        read, vocabulary = read_arpa(path)
        scorer = LanguageModel(read, vocabulary, "whitespace").scorer()
        ours = kenlm.Model(path)
        theirs = real.Model(str(path))
        seen = {}
        kinds = {"scorer": set(), "ours": set(), "theirs": set()}
        for _ in range(40):
            state = scorer.begin()
            pair = kenlm.State(), real.State()
            ours.BeginSentenceWrite(pair[0])
            theirs.BeginSentenceWrite(pair[1])
            for word in rng.choice([*VOCABULARY.words[4:], "new"], 12).tolist():
                _, state = scorer.score(state, word)
                after = kenlm.State(), real.State()
                ours.BaseScore(pair[0], word, after[0])
                theirs.BaseScore(pair[1], word, after[1])
                pair = after
                # states that are equal in one are equal in the others
                assert seen.setdefault(pair[1], (state, pair[0])) == (state, pair[0])
                kinds["scorer"].add(state)
                kinds["ours"].add(pair[0])
                kinds["theirs"].add(pair[1])
        numbers = {name: len(states) for name, states in kinds.items()}
        assert len({*numbers.values()}) == 1 and 20 < numbers["theirs"] < 480, numbers
