"""What every language model keeps: sums of 1, one probability by both methods, blocks, files,
boundary, refusals.
"""

import functools
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.models.base as base
from keras_nplm import (
    NPLM,
    ContextEmbedding,
    ContextNetwork,
    ContinuousCache,
    Hybrid,
    HybridNetwork,
    InputError,
    LanguageModel,
    Likelihood,
    LinearHead,
    Mixture,
    NgramCache,
    PointerNetwork,
    Shortlist,
    TanhHidden,
    Uniform,
    UnigramCache,
    Vocabulary,
    evaluate,
    read_arpa,
    write_arpa,
)
from keras_nplm.models.dynamic import DynamicSettings, make_dynamic
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.networks.self_normalised import SelfNormalised
from keras_nplm.models.ngrams import (
    ContextFrequencies,
    FrequencyBins,
    class_based,
    count_ngrams,
    deleted_interpolation,
    kneser_ney,
    prune,
)
from keras_nplm.models.ngrams.approximation import approximate

V = 12
VOCABULARY = Vocabulary([f"w{i}" for i in range(V - 4)])
CLASSES = np.array([0, 4, 2, 3, 4, 5, 5, 6, 6, 7, 7, 7], np.int32)
BOUNDARIES = ("stream", "sentence", "text")


def _text(seed: int, boundary: str, tokens: int = 400) -> np.ndarray:
    # 11 is never seen
    ids = np.random.default_rng(seed).choice([1, 4, 4, 5, 6, 7, 8, 9, 10], tokens).astype(np.int32)
    ids[6::7] = 3
    if boundary == "text":
        ids[[0, 7, 77, 140]] = 2  # documents
    return np.append(ids, 3).astype(np.int32)


def _randomise(network):
    rng = np.random.default_rng(0)
    for weight in network.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return network


def _build_nplm(boundary):
    return _randomise(NPLM(V, order=3, embedding_dim=3, hidden_units=4, boundary=boundary))


def _build_network(kind, boundary, num_outputs=None):
    return _randomise(
        kind(
            order=3,
            embed=ContextEmbedding(V, 3, name="embed"),
            hidden=TanhHidden(4, name="hidden"),
            head=LinearHead(V, num_outputs=num_outputs, name="prob"),
            objective=Likelihood(),
            boundary=boundary,
        )
    )


def _build_pointer(boundary):
    return _build_network(PointerNetwork, boundary)


def _build_shortlist(boundary):
    network = _build_network(ContextNetwork, boundary, num_outputs=7)
    return Shortlist(network, build("kneser-ney", boundary))


def _build_hybrid(boundary):
    return Hybrid(_build_network(HybridNetwork, boundary), build("kneser-ney", boundary))


def _build_reread(boundary):
    with tempfile.TemporaryDirectory() as directory:
        write_arpa(f"{directory}/model.arpa", build("kneser-ney", boundary), VOCABULARY)
        return read_arpa(f"{directory}/model.arpa", VOCABULARY, boundary)[0]


MIXED = ["nplm", "kneser-ney", "n-gram cache", "uniform"]


def _build_mixture(boundary):
    weights = np.random.default_rng(0).dirichlet([1] * 4, 1)
    return Mixture([build(name, boundary) for name in MIXED], weights)


def _build_mixture_with_bins(boundary):
    counts = count_ngrams(_text(1, boundary), V, 3, boundary)
    bins = FrequencyBins(ContextFrequencies.from_counts(counts))
    weights = np.random.default_rng(0).dirichlet([1] * 4, bins.number)
    return Mixture([build(name, boundary) for name in MIXED], weights, bins)


def _build_kneser_ney(boundary):
    return kneser_ney(_text(1, boundary), V, 4, boundary)


def _build_interpolation(boundary):
    return deleted_interpolation(_text(1, boundary), _text(2, boundary), V, 3, boundary)


def _build_class_based(boundary):
    return class_based(_text(1, boundary), _text(2, boundary), CLASSES, 3, boundary)


def _build_approximation(boundary):
    model = approximate(build("nplm", boundary), _text(1, boundary), 3)
    return prune(model, 1e-4)


def _build_unigram_cache(boundary):
    return UnigramCache(V, boundary, decay=3, length=9)


def _build_ngram_cache(boundary):
    return NgramCache(V, boundary, decay=3, length=9, factors=(3, 2))


def _build_continuous_cache(boundary):
    return ContinuousCache(build("nplm", boundary), flatness=1.5, length=9)


def _build_uniform(boundary):
    return Uniform(V, boundary)


def _build_self_normalised(boundary):
    return SelfNormalised(build("nplm", boundary))


def _build_dynamic(boundary):
    return make_dynamic(build("nplm", boundary), DynamicSettings(chunk=8, rate=0.5))


def _build_dynamic_mixture(boundary):
    parts = [build("interpolation", boundary), build("uniform", boundary)]
    return make_dynamic(Mixture(parts, [0.5, 0.5]), DynamicSettings(chunk=8, mixture_rate=0.1))


BUILDERS = {
    "nplm": _build_nplm,
    "pointer": _build_pointer,
    "short-list": _build_shortlist,
    "hybrid": _build_hybrid,
    "kneser-ney": _build_kneser_ney,
    "interpolation": _build_interpolation,
    "class-based": _build_class_based,
    "arpa": _build_reread,
    "approximation": _build_approximation,
    "mixture": _build_mixture,
    "mixture with bins": _build_mixture_with_bins,
    "unigram cache": _build_unigram_cache,
    "n-gram cache": _build_ngram_cache,
    "continuous cache": _build_continuous_cache,
    "uniform": _build_uniform,
    "self-normalised": _build_self_normalised,
    "dynamic": _build_dynamic,
    "dynamic mixture": _build_dynamic_mixture,
}
DYNAMIC = {"dynamic", "dynamic mixture"}
of_every_model = pytest.mark.parametrize("name", BUILDERS)
of_every_static_model = pytest.mark.parametrize(
    "name", [name for name in BUILDERS if name not in DYNAMIC]
)
of_every_boundary = pytest.mark.parametrize("boundary", BOUNDARIES)
of_a_boundary = pytest.mark.parametrize(
    "boundary",
    [
        "sentence",
        *(pytest.param(boundary, marks=pytest.mark.long) for boundary in ("stream", "text")),
    ],
)


@functools.cache
def build(name: str, boundary: str):
    return BUILDERS[name](boundary)


def _contexts(model, rows=40):
    contexts = (
        np.random.default_rng(3).choice([1, *range(4, V)], (rows, model.order - 1)).astype(np.int32)
    )
    contexts[: rows // 4, : model.order // 2] = 0
    return contexts


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
def test_blocks_of_rows_change_nothing(name, monkeypatch):
    model = build(name, "stream")
    contexts = _contexts(model)
    targets = np.arange(40) % (V - 4) + 4
    whole = model.log_prob(contexts, targets)
    distributions = model.next_log_probs(contexts)
    monkeypatch.setattr(base, "NGRAM_ROWS", 16)
    monkeypatch.setattr(base, "DISTRIBUTION_ROWS", 16)
    np.testing.assert_allclose(model.log_prob(contexts, targets), whole, rtol=1e-5, atol=1e-6)
    in_blocks = model.next_log_probs(contexts)
    np.testing.assert_allclose(in_blocks, distributions, rtol=1e-5, atol=1e-6)
    assert in_blocks.dtype == distributions.dtype
    assert model.log_prob(contexts[:0], targets[:0]).shape == (0,)
    assert model.next_log_probs(contexts[:0]).shape == (0, V)


@of_every_model
@of_every_boundary
def test_cuts_of_a_text_change_nothing(name, boundary, monkeypatch):
    monkeypatch.setattr("keras_nplm.models.evaluation.BLOCK_SIZE", 60)
    model = build(name, boundary)
    text = _text(5, boundary)

    def measure(ids):
        if name in DYNAMIC:
            model.reset()
        return np.concatenate([log_prob for log_prob, _ in log_probs(model, ids)])

    whole = measure(text)
    for cuts in ([200], range(1, 400), [3, 3, 390]):
        np.testing.assert_allclose(measure(iter(np.split(text, cuts))), whole, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr("keras_nplm.models.evaluation.PART_SIZE", 7)
    np.testing.assert_allclose(measure(text), whole, rtol=1e-4, atol=1e-5)


@of_every_static_model
@of_a_boundary
@settings(max_examples=4, deadline=None)
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
    with pytest.raises(
        InputError, match=f"`boundary` must be '{boundary}', as the model was trained. Received: '"
    ):
        evaluate(model, _text(1, boundary), boundary=other)


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
    with pytest.raises(InputError, match=f"Ids must be 0 to {V - 1}"):
        model.log_prob(row + V, word)
    with pytest.raises(InputError, match=f"Ids must be 0 to {V - 1}"):
        model.log_prob(row, word - 5)
    with pytest.raises(InputError, match=rf"`context_ids` must be \[B, {model.order - 1}\]"):
        model.log_prob(row[:, 1:], word)
    with pytest.raises(InputError, match=r"`target_ids` must be \[1\]"):
        model.log_prob(row, np.array([4, 5]))


@of_every_static_model
def test_wrong_shapes_of_contexts_have_no_distribution(name):
    model = build(name, "stream")
    with pytest.raises(InputError, match="`context_ids` must be"):
        model.next_log_probs(np.full((1, model.order), 4))


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_a_model_that_learns_has_no_distribution(name):
    model = build(name, "stream")
    with pytest.raises(InputError, match="must be asked for the words"):
        model.next_log_probs(np.full((1, model.order - 1), 4))


def test_ngram_models_import_neither_keras_nor_tensorflow():
    modules = "base evaluation mixture shortlist ngrams ngrams.approximation ngrams.mass".split()
    imports = "".join(f"import keras_nplm.models.{module}\n" for module in modules)
    check = "assert not {'keras', 'tensorflow'} & set(sys.modules), 'imported'\n"
    subprocess.run([sys.executable, "-c", f"import sys\n{imports}{check}"], check=True)
