"""What every language model keeps: sums of 1, one probability by both methods, blocks, files,
boundary, what it cannot do.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    DynamicSettings,
    InputError,
    LanguageModel,
    Mixture,
    evaluate,
    make_dynamic,
)
from keras_nplm.models import base, model_files
from keras_nplm.models.base import NextWordModel
from keras_nplm.training.methods import Method
from tests.language_models import (
    BOUNDARIES,
    BUILDERS,
    DYNAMIC,
    METHODS,
    VOCABULARY,
    V,
    build,
    make_text,
)
from tests.marks import mark_long

# composed of models that are among the others
COMPOSED = ("mixture in a mixture", "continuous cache of a hybrid")
KINDS = mark_long(BUILDERS, lambda name: name not in COMPOSED)
STATIC = mark_long(
    (name for name in BUILDERS if name not in DYNAMIC), lambda name: name not in COMPOSED
)
of_every_model = pytest.mark.parametrize("name", KINDS)
of_every_static_model = pytest.mark.parametrize("name", STATIC)
of_every_boundary = pytest.mark.parametrize("boundary", BOUNDARIES)
# the others for the long tests
of_a_boundary = pytest.mark.parametrize("boundary", mark_long(BOUNDARIES, "sentence".__eq__))


def _contexts(model, rows=40):
    contexts = (
        np.random.default_rng(3).choice([1, *range(4, V)], (rows, model.order - 1)).astype(np.int32)
    )
    contexts[: rows // 4, : model.order // 2] = 0
    return contexts


def test_every_method_of_ngram_is_among_the_models():
    assert METHODS.keys() == Method.kinds.keys(), "add the method to METHODS of language_models.py"


@of_every_static_model
@of_a_boundary
def test_rows_sum_to_1_and_hold_the_probability_of_each_target(name, boundary):
    model = build(name, boundary)
    contexts = _contexts(model)
    rows = np.arange(40)
    found = model.next_log_probs(contexts)
    assert found.shape == (40, V)
    np.testing.assert_allclose(np.exp(found.astype(np.float64)).sum(axis=1), 1, atol=2e-5)
    targets = rows % V
    log_prob = model.log_prob(contexts, targets)
    if name == "self-normalised":  # scores without log Z, which is one number for each context
        np.testing.assert_allclose(
            found, build("nplm", boundary).next_log_probs(contexts), atol=1e-5
        )
        contexts = contexts[[0] * V]
        targets = np.arange(V)
        difference = model.log_prob(contexts, targets) - found[0]
        np.testing.assert_allclose(difference, difference[0], atol=1e-5)
        return
    np.testing.assert_allclose(np.exp(log_prob), np.exp(found[rows, targets]), rtol=1e-4, atol=1e-7)


@of_every_static_model
def test_blocks_of_rows_change_nothing(name):
    model = build(name, "stream")
    contexts = _contexts(model, rows=600)  # more than a block of distributions
    targets = np.arange(600) % (V - 4) + 4
    distributions = model.next_log_probs(contexts)
    places = (0, 1, 250, 600)
    for found, compute in (
        (
            model.log_prob(contexts, targets),
            lambda part: model.log_prob(contexts[part], targets[part]),
        ),
        (distributions, lambda part: model.next_log_probs(contexts[part])),
    ):
        parts = [compute(slice(*pair)) for pair in itertools.pairwise((0, *places))]
        np.testing.assert_allclose(np.concatenate(parts), found, rtol=1e-5, atol=1e-6)
        assert parts[-1].dtype == found.dtype


@of_every_static_model
@of_a_boundary
@settings(max_examples=4)
@given(
    texts=st.lists(
        st.lists(st.sampled_from([*VOCABULARY.words[4:], "new"])), min_size=1, max_size=3
    ),
    data=st.data(),
)
def test_a_scorer_gives_the_score_of_the_text_for_any_cut(name, boundary, texts, data):
    language_model = LanguageModel(build(name, boundary), VOCABULARY, "whitespace")
    scorer = language_model.scorer()
    size = data.draw(st.integers(1, 4))
    states = [scorer.begin()] * len(texts)
    totals = np.zeros(len(texts))
    for start in range(0, max(map(len, texts)), size):
        words = [" ".join(text[start : start + size]) for text in texts]
        log_probs, states = scorer.score_batch(states, words)
        totals += log_probs
    totals += [scorer.end(state) for state in states]
    scores = [*language_model.score(map(" ".join, texts), alone=True)]
    np.testing.assert_allclose(totals, [score.log_prob for score in scores], rtol=1e-4, atol=1e-4)
    distributions = language_model.model.next_log_probs(
        np.stack([np.frombuffer(s, np.int32) for s in states])
    )
    np.testing.assert_allclose(
        np.exp(scorer.next_log_probs(states)), np.exp(distributions), rtol=1e-4, atol=1e-6
    )


@of_every_model
@of_every_boundary
def test_boundary_is_that_of_the_training(name, boundary):
    model = build(name, boundary)
    other = BOUNDARIES[boundary == "stream"]
    assert repr(model).startswith(
        f"{type(model).__name__}(order={model.order}, |V|={V}, boundary='{boundary}'"
    )
    message = f"`boundary` must be that of the training .* Received: {boundary}, {other}. Fix"
    with pytest.raises(InputError, match=message):
        evaluate(model, make_text(1, boundary), boundary=other)


@pytest.mark.parametrize(
    "name", [name for name in BUILDERS if name not in DYNAMIC | {"self-normalised"}]
)
@of_a_boundary
def test_a_saved_model_gives_the_same_numbers(name, boundary, tmp_path):
    model = build(name, boundary)
    LanguageModel(model, VOCABULARY, "whitespace", boundary).save(tmp_path / "model")
    loaded = LanguageModel.load(tmp_path / "model").model
    assert (repr(loaded), loaded.order, loaded.boundary) == (repr(model), model.order, boundary)
    contexts = _contexts(model)
    np.testing.assert_allclose(
        loaded.next_log_probs(contexts), model.next_log_probs(contexts), rtol=1e-12
    )


@of_every_model
def test_wrong_ids_and_shapes_are_refused(name):
    model = build(name, "stream")
    row = np.full((1, model.order - 1), 4)
    word = np.array([4])
    for contexts, targets, message in (
        (row + V, word, f"Ids must be 0 to {V - 1}"),
        (row, word - 5, f"Ids must be 0 to {V - 1}"),
        (row[:, 1:], word, rf"`context_ids` must be \[B, {model.order - 1}\]"),
        (row, np.array([4, 5]), r"`target_ids` must be \[1\]"),
    ):
        with pytest.raises(InputError, match=message):
            model.log_prob(contexts, targets)
    with pytest.raises(InputError, match="`context_ids` must be"):
        model.next_log_probs(row[:, 1:])
    if name in DYNAMIC:
        with pytest.raises(InputError, match="must be asked for the words"):
            model.next_log_probs(row)


LEARNING = ("nplm", "pointer", "short-list", *(name for name in BUILDERS if "mixture" in name))


def _make_learner(model):
    return make_dynamic(model, DynamicSettings(chunk=8, rate=0.5, mixture_rate=0.1))


def _is_refused(model):
    """Return the context of a call whose message names the class, with a remedy."""
    return pytest.raises(InputError, match=rf"(?s){type(model).__name__}.*Fix: ")


@of_every_static_model
def test_a_model_that_cannot_be_trained_is_refused_by_name(name):
    model = build(name, "stream")
    language_model = LanguageModel(model, VOCABULARY, "whitespace")
    if name not in LEARNING:
        with _is_refused(model):
            _make_learner(model)
    if language_model.network is None:
        with _is_refused(model):
            language_model.adapt(["w1 w2", "w2 w3"])


@pytest.mark.parametrize(
    "name", mark_long((name for name in LEARNING if name not in DYNAMIC), "nplm".__eq__)
)
def test_a_model_learns_from_a_text(name):
    model = build(name, "stream")
    learner = _make_learner(model)
    ids = make_text(5, "stream")
    before = evaluate(model, ids)["perplexity"]
    first = evaluate(learner, ids)["perplexity"]
    assert first != pytest.approx(before, rel=1e-6)
    learner.reset()
    assert evaluate(learner, ids)["perplexity"] == pytest.approx(first, rel=1e-5)
    assert evaluate(model, ids)["perplexity"] == before  # the model itself has not learned


@pytest.mark.parametrize("name", ["dynamic", "dynamic mixture", "self-normalised"])
def test_a_model_that_cannot_be_saved_writes_nothing(name, tmp_path):
    model = build(name, "stream")
    mixture = Mixture([build("uniform", "stream"), model], [0.5, 0.5])
    for whole in (model, mixture):
        with _is_refused(model):
            LanguageModel(whole, VOCABULARY, "whitespace").save(tmp_path / "model")
        assert not (tmp_path / "model").exists()


class Wrapped(NextWordModel):
    """A class of the user, with one part whose probabilities it has."""

    description = "A model of a test"

    def __init__(self, part):
        self.part = part
        self.order = part.order
        self.vocabulary_size = part.vocabulary_size
        self.boundary = part.boundary

    @property
    def parts(self):
        return [self.part]

    def with_parts(self, parts):
        return Wrapped(*parts)

    @classmethod
    def read_files(cls, folder):
        return cls(folder.load_part(0))

    def _log_prob(self, context_ids, target_ids):
        return self.part.log_prob(context_ids, target_ids)

    def _next_log_probs(self, context_ids):
        return self.part.next_log_probs(context_ids)


def test_a_class_of_the_user_is_saved_and_learns(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "READERS", dict(base.READERS))
    monkeypatch.setattr(model_files, "READERS", base.READERS)
    base.saved_as("wrapped")(Wrapped)
    model = Mixture([Wrapped(build("nplm", "stream")), build("uniform", "stream")], [0.9, 0.1])
    language_model = LanguageModel(model, VOCABULARY, "whitespace")
    language_model.save(tmp_path / "model")
    loaded = LanguageModel.load(tmp_path / "model")
    assert isinstance(loaded.model.models[0], Wrapped)
    contexts = _contexts(model)
    np.testing.assert_allclose(
        loaded.model.next_log_probs(contexts), model.next_log_probs(contexts), rtol=1e-12
    )
    assert loaded.network is not None
    learner = make_dynamic(model, DynamicSettings(chunk=8, rate=0.5))
    ids = make_text(5, "stream")
    assert evaluate(learner, ids)["perplexity"] != evaluate(model, ids)["perplexity"]
