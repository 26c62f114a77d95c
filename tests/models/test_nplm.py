"""The network's formula and probabilities against NumPy in float64; its composition of layers."""

import contextlib
import functools
import io
import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    NPLM,
    AdaptiveSoftmax,
    AveragedContext,
    ContextEmbedding,
    DeepHidden,
    FullSoftmax,
    InputError,
    NoiseContrastive,
    TanhHidden,
)
from keras_nplm.layers.outputs import OUTPUTS

SHAPES = [(5, 3, 4, True), (5, 3, 4, False), (2, 1, 1, True), (3, 6, 0, True)]  # n, m, h, direct connections
V, M, H = 11, 3, 4
VARIANTS = {
    "averaged": dict(order=8, averages_after=(2,)),
    "averaged, direct": dict(order=8, averages_after=(1, 3, 6), direct_connections=True),
    "all averaged": dict(order=6, averages_after=(0, 4)),
    "block": dict(order=3, activation="relu", residual_blocks=1),
    "normalised": dict(order=3, activation="gelu", layer_norm=True),
    "deep, direct": dict(order=3, activation="silu", residual_blocks=2, layer_norm=True, direct_connections=True),
    "all, tied": dict(order=7, averages_after=(2, 4), residual_blocks=1, layer_norm=True, tied=True),
}


def _randomised(model: NPLM) -> NPLM:
    """Give every weight a random value, biases too."""
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.6, weight.shape))
    return model


def _variant(order, averages_after=None, tied=False, direct_connections=False, **hidden) -> NPLM:
    options = dict(order=order, embedding_dim=M, hidden_units=H, direct_connections=direct_connections)
    if averages_after:
        options["context"] = AveragedContext(V, M, averages_after=averages_after)
    if hidden:
        options["hidden"] = DeepHidden(H, **hidden)
    return _randomised(NPLM(V, output=FullSoftmax(V, tied=tied), **options))


def _batch(order, size=7):
    rng = np.random.default_rng(1)
    contexts = rng.integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, 0] = 0
    return contexts, rng.integers(1, V, size).astype(np.int32)


def _paper_probabilities(model, context) -> np.ndarray:
    """P of every word in one context: the paper's equation 1, word by word, with a zero vector for <pad>."""
    C, UW, b = (np.array(w, np.float64) for w in (model.embed.C, model.prob.kernel, model.prob.b))
    x = np.concatenate([C[word] * (word != 0) for word in context])
    features = []
    if model.hidden is not None:
        features.append(np.tanh(model.hidden.d.numpy() + x @ model.hidden.H.numpy()))
    if model.direct_connections:
        features.append(x)
    y = b + UW @ np.concatenate(features)
    return np.exp(y) / np.exp(y).sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_probabilities_are_those_of_the_paper(shape):
    model, (contexts, targets) = _randomised(NPLM(V, *shape)), _batch(shape[0])
    expected = np.array([_paper_probabilities(model, context) for context in contexts])
    np.testing.assert_allclose(model(contexts), expected, rtol=1e-5)
    np.testing.assert_allclose(np.exp(model.next_log_probs(contexts)), expected, rtol=1e-5)
    chosen = expected[np.arange(len(targets)), targets]
    np.testing.assert_allclose(model.log_prob(contexts, targets), np.log(chosen), rtol=1e-5)
    np.testing.assert_allclose(model.output_log_prob(contexts, targets), np.log(chosen), rtol=1e-5)


def _activate(name, z):
    if name == "gelu":  # approximated with tanh, as in Keras
        return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0), "silu": lambda z: z / (1 + np.exp(-z))}[name](z)


def _normalise(a, norm):
    return norm.gamma.numpy() * (a - a.mean()) / np.sqrt(a.var() + 1e-3) + norm.beta.numpy()


def _variant_probabilities(model, context, averages_after=None, **_) -> np.ndarray:
    """P of every word in one context: averages of far words, residual blocks, tied output, all in one formula."""
    C = model.embed.C.numpy().astype(np.float64)
    words = [C[word] * (word != 0) for word in context]  # oldest first
    if averages_after:
        near, ends, back = averages_after[0], [*averages_after, len(words)], words[::-1]
        spans = [np.sum(back[a:b], axis=0) / np.sqrt(b - a) for a, b in itertools.pairwise(ends)]
        words = [*spans[::-1], *words[len(words) - near :]]
    x, hidden = np.concatenate(words), model.hidden
    a = _activate(hidden.activation, hidden.d.numpy() + x @ hidden.H.numpy())
    for block in getattr(hidden, "blocks", []):
        given = a if block.norm is None else _normalise(a, block.norm)
        a = a + _activate(hidden.activation, block.d.numpy() + given @ block.H.numpy())
    a = a if getattr(hidden, "norm", None) is None else _normalise(a, hidden.norm)
    features = np.concatenate([a, x]) if model.direct_connections else a
    kernel = C if model.prob.tied else model.prob.kernel.numpy()
    y = model.prob.b.numpy() + kernel @ (features @ model.prob.P.numpy() if model.prob.tied else features)
    return np.exp(y) / np.exp(y).sum()


@pytest.mark.parametrize("name", VARIANTS)
def test_probabilities_of_variants_are_those_of_the_formula(name):
    model = _variant(**VARIANTS[name])
    contexts, targets = _batch(model.order)
    expected = np.array([_variant_probabilities(model, context, **VARIANTS[name]) for context in contexts])
    np.testing.assert_allclose(model(contexts), expected, rtol=2e-4)
    chosen = np.log(expected[np.arange(len(targets)), targets])
    np.testing.assert_allclose(model.log_prob(contexts, targets), chosen, rtol=1e-4, atol=1e-5)


@functools.cache
def _shared() -> NPLM:
    return _randomised(NPLM(V, 4, M, H, True))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.integers(0, V - 1), min_size=3, max_size=3), min_size=1, max_size=9))
def test_every_distribution_sums_to_one(contexts):
    np.testing.assert_allclose(np.exp(_shared().next_log_probs(np.array(contexts))).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("output", OUTPUTS)
def test_call_and_predict_return_probabilities(output):
    model, (contexts, _) = _randomised(NPLM(V, 4, M, H, output=output)), _batch(4)
    probabilities = model.predict(contexts, verbose=0)
    assert probabilities.shape == (7, V) and (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model(contexts), probabilities, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(np.log(probabilities), model.next_log_probs(contexts), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("outside_output", [False, True])
def test_shortlist_has_probabilities_of_its_outputs(outside_output):
    output = FullSoftmax(V, shortlist_size=3, outside_output=outside_output)
    model, (contexts, _) = _randomised(NPLM(V, 4, M, H, output=output)), _batch(4)
    probabilities = model.predict(contexts, verbose=0)
    assert probabilities.shape == (7, 7 + outside_output)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    log_probs = model.next_log_probs(contexts)
    assert log_probs.shape == (7, V) and np.isneginf(log_probs[:, 7:]).all()
    np.testing.assert_allclose(log_probs[:, :7], np.log(probabilities[:, :7]), rtol=1e-4, atol=1e-5)
    assert np.isneginf(model.log_prob(contexts, np.full(7, 9))).all()


def test_padding_in_a_context_adds_nothing():
    model = _randomised(NPLM(V, 4, M, H, True))
    short = model(np.array([[0, 0, 6]]))
    model.embed.C.assign(model.embed.C.numpy() + 10.0 * (np.arange(V) == 0)[:, None])
    np.testing.assert_array_equal(model(np.array([[0, 0, 6]])), short)


@pytest.mark.parametrize("shape", SHAPES)
def test_number_of_parameters(shape):
    n, m, h, direct = shape
    # h (1 + (n-1) m) is H and d, absent without hidden units
    expected = V * (1 + (n if direct else 1) * m + h) + h * (1 + (n - 1) * m)
    assert NPLM(V, n, m, h, direct).count_params() == expected


def test_weights_of_the_papers_model_and_no_others():
    names = {weight.path.removeprefix("NPLM/") for weight in NPLM(V).weights}
    assert names == {"embed/C", "hidden/H", "hidden/d", "prob/UW", "prob/b"}


@pytest.mark.parametrize("tied", [False, True])
def test_number_of_parameters_of_low_rank_outputs(tied):
    rank = M if tied else 2
    model = NPLM(V, 4, M, H, output=FullSoftmax(V, tied=tied, rank=None if tied else 2))
    expected = V * M + 3 * M * H + H + H * rank + V + (0 if tied else V * rank)
    assert sum(weight.numpy().size for weight in model.trainable_weights) == expected == model.count_params()


def _summary(model) -> list[str]:
    """The names of the layers in the order of `model.summary()`."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        model.summary()
    assert "?" not in out.getvalue()  # an unknown shape
    lines = out.getvalue().splitlines()
    names = [line.strip("│| ").split()[0] for line in lines if line.startswith(("│", "|"))]
    return [name for name in names if name in {layer.name for layer in model.layers}]


def test_summary_lists_layers_in_data_flow_order():
    assert _summary(NPLM(V, direct_connections=True)) == ["embed", "hidden", "direct", "prob"]
    assert _summary(NPLM(V)) == ["embed", "hidden", "prob"]
    assert _summary(NPLM(V, hidden_units=0, direct_connections=True)) == ["embed", "direct", "prob"]
    model = NPLM(
        V,
        order=8,
        direct_connections=True,
        context=AveragedContext(V, M, averages_after=(2,), name="embed"),
        hidden=DeepHidden(H, residual_blocks=1, name="hidden"),
        output=NoiseContrastive(V, name="prob"),
    )
    assert _summary(model) == ["embed", "hidden", "direct", "prob"]


def test_layers_may_be_given():
    model = NPLM(V, 8, context=AveragedContext(V, M, averages_after=(2,)), hidden=DeepHidden(H, layer_norm=True))
    assert (model.embedding_dim, model.hidden_units) == (M, H)
    assert model.hidden.H.shape == (3 * M, H) and model.prob.kernel.shape == (V, H)
    model = NPLM(V, 4, M, hidden=keras.layers.Dense(7, activation="sigmoid"), output=AdaptiveSoftmax(V, cutoffs=(6,)))
    assert model.hidden_units == 7 and model.hidden.kernel.shape == (3 * M, 7)
    contexts, targets = _batch(4)
    model.compile(keras.optimizers.SGD(0.5))
    history = model.fit(contexts, targets, epochs=3, verbose=0).history["perplexity"]
    assert history[-1] < history[0]
    assert NPLM(V, hidden=None, direct_connections=True).hidden is None
    two = keras.Sequential([keras.layers.Dense(7, activation="tanh"), keras.layers.Dense(5)])
    assert NPLM(V, 4, M, hidden=two)(contexts).shape == (7, V)


def test_layer_with_weights_keeps_them():
    """As pretrained feature vectors, or a context layer that two models share."""
    embed = ContextEmbedding(V, M)
    embed.build((None, 3))
    embed.C.assign(np.random.default_rng(0).normal(size=(V, M)))
    before = embed.C.numpy()
    first, second = (NPLM(V, 4, hidden_units=H, context=embed) for _ in range(2))
    assert first.embed.C is second.embed.C is embed.C and len(embed.weights) == 1
    np.testing.assert_array_equal(embed.C.numpy(), before)


def test_order_of_an_equal_ngram_model():
    assert NPLM(V, order=4).ngram_order == 4
    assert NPLM(V, order=8, context=AveragedContext(V, M, averages_after=(2,))).ngram_order == 3
    assert NPLM(V, order=8, context=AveragedContext(V, M, averages_after=(0, 2))).ngram_order == 2


def test_many_ngrams_are_scored_in_blocks():
    model = _randomised(NPLM(V, 3, 2, 3))
    rng = np.random.default_rng(0)
    contexts, targets = rng.integers(0, V, (2100, 2)), rng.integers(0, V, 2100)
    whole = model.log_prob(contexts, targets)
    np.testing.assert_allclose(whole, model.next_log_probs(contexts)[np.arange(2100), targets], rtol=1e-5)
    assert model.log_prob(contexts[:0], targets[:0]).shape == (0,)
    assert model.next_log_probs(contexts[:0]).shape == (0, V)


def test_probabilities_are_exact_in_mixed_precision():
    model = _randomised(NPLM(V, 4, M, H, True, dtype="mixed_bfloat16"))
    contexts, targets = _batch(4)
    assert model.features(contexts).dtype == "bfloat16" and model(contexts).dtype == "float32"
    np.testing.assert_allclose(np.asarray(model(contexts)).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(model.next_log_probs(contexts)).sum(axis=1), 1, rtol=1e-5)
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    assert np.isfinite(model.fit(contexts, targets, verbose=0).history["loss"][0])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 1}, "`order` must be"),
        ({"hidden_units": 0}, "`hidden_units` must be 1 or more without direct connections"),
        ({"hidden": None}, "`hidden_units` must be 1 or more without direct connections"),
        ({"embedding_dim": 0}, "`embedding_dim` must be"),
        ({"vocabulary_size": 1}, "`vocabulary_size` must be"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\)"),
        ({"word_dropout": 1.0}, r"`word_dropout` must be in \[0, 1\)"),
        ({"embedding_dropout": -0.1}, r"`embedding_dropout` must be in \[0, 1\)"),
        ({"weight_decay": -1e-3}, "`weight_decay` must be"),
        ({"boundary": "line"}, "`boundary` must be one of sentence, stream"),
        (
            {"dtype": "mixed_float16"},
            "`dtype` must be float32, .* Received: mixed_float16",
        ),
        ({"output": "hierarchical"}, "`output` must be one of full, sampled, nce, adaptive, energy"),
        ({"output": "nce", "weight_decay": 1e-4}, "`weight_decay` must be 0 with a sampled output"),
        ({"hidden": "sigmoid"}, "`hidden` must be one of tanh, relu, gelu, silu"),
        ({"context": "averaged"}, "`context` must be 'concatenated' or a context layer"),
        ({"order": 5, "context": AveragedContext(V, M, averages_after=(4,))}, "`averages_after` must be below 4"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        NPLM(**{"vocabulary_size": V} | options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"hidden": TanhHidden(H), "dropout": 0.1}, "`dropout` must be 0 if `hidden` is a layer"),
        ({"context": ContextEmbedding(V, M), "word_dropout": 0.1}, "`word_dropout` must be 0 if `context` is a layer"),
        ({"context": ContextEmbedding(V, M), "embedding_dropout": 0.1}, "`embedding_dropout` must be 0 if `context`"),
        ({"held_out_mass": 0.1}, "held_out_mass"),
        ({"rank": 3}, "rank"),
        ({"tied": True}, "tied"),
        ({"shortlist_size": 3}, "shortlist_size"),
        ({"averages_after": (1,)}, "averages_after"),
        ({"residual_blocks": 1}, "residual_blocks"),
    ],
)
def test_options_of_a_layer_are_refused(options, message):
    with pytest.raises((InputError, TypeError, ValueError), match=message):
        NPLM(V, **options)


def test_invalid_ids_and_shapes_are_refused():
    model = NPLM(V, 3, 2, 3)
    with pytest.raises(InputError, match="Ids must be 0 to 10. Received: 11"):
        model.log_prob([[1, 11]], [1])
    with pytest.raises(InputError, match="Ids must be 0 to 10. Received: -1"):
        model.log_prob([[1, 2]], [-1])
    with pytest.raises(InputError, match=r"`context_ids` must be \[B, 2\]. Received: \[1, 3\]"):
        model.next_log_probs([[1, 2, 3]])
    with pytest.raises(InputError, match=r"`target_ids` must be \[1\]. Received: \[2\]"):
        model.log_prob([[1, 2]], [1, 2])


def test_unigram_start_gives_the_unigram_probabilities():
    counts = np.array([0, 5, 0, 0, 40, 30, 20, 10, 8, 6, 4])
    model = NPLM(V, 3, M, H)
    model.set_unigram(counts)
    model.prob.kernel.assign(np.zeros(model.prob.kernel.shape))
    np.testing.assert_allclose(model(np.array([[4, 5]]))[0], counts / counts.sum(), atol=1e-6)
