"""Averages of the far context, residual blocks, activations, averaged weights: the formulas, and all roads they go."""

import itertools
import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    NPLM,
    InputError,
    LanguageModel,
    LanguageModelBoard,
    Vocabulary,
)
from keras_nplm.language_model.new_word_weights import context_gradients
from keras_nplm.layers.context import AveragedContext, ContextEmbedding
from keras_nplm.layers.outputs import NoiseContrastive
from keras_nplm.models.growth import NewRows, grow
from keras_nplm.models.nplm_file import load_network
from keras_nplm.models.self_normalised import SelfNormalised
from keras_nplm.serving.graphs import build_graph
from keras_nplm.training.optimizers import LazySGD

V, M, H = 11, 3, 4
BODIES = [
    dict(order=8, averages_after=(2,)),
    dict(order=8, averages_after=(1, 3, 6), direct_connections=True),
    dict(order=6, averages_after=(0, 4)),
    dict(order=3, activation="relu", residual_blocks=1),
    dict(order=3, activation="gelu", layer_norm=True),
    dict(order=3, activation="silu", residual_blocks=2, layer_norm=True, direct_connections=True),
    dict(order=7, averages_after=(2, 4), residual_blocks=1, layer_norm=True, tied_output=True),
]


def _model(**options) -> NPLM:
    """A model whose every weight is random."""
    model = NPLM(V, embedding_dim=M, hidden_units=H, **options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


def _batch(order, size=6):
    rng = np.random.default_rng(1)
    contexts = rng.integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, :2] = 0
    return contexts, rng.integers(1, V, size).astype(np.int32)


def _activation(name, z):
    if name == "gelu":  # the approximation by tanh, as Keras's
        return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0), "silu": lambda z: z / (1 + np.exp(-z))}[name](z)


def _normalised(a, gamma, beta):
    return gamma * (a - a.mean()) / np.sqrt(a.var() + 1e-3) + beta


def _log_probs(weights: dict[str, np.ndarray], model: NPLM, context) -> np.ndarray:
    """ln P of all words in one context, from the weights by their paths in the model."""
    words = [weights["embed/C"][word] * (word != 0) for word in context]  # oldest first
    x = words
    if model.averages_after:
        near, ends = model.averages_after[0], [*model.averages_after, len(words)]
        back = words[::-1]
        spans = [np.sum(back[a:b], axis=0) / np.sqrt(b - a) for a, b in itertools.pairwise(ends)]
        x = [*spans[::-1], *words[len(words) - near :]]
    x = np.concatenate(x)
    a = _activation(model.activation, weights["hidden/d"] + x @ weights["hidden/H"])
    for k in range(1, model.residual_blocks + 1):
        given = a
        if model.layer_norm:
            given = _normalised(a, weights[f"hidden/block_{k}/norm/gamma"], weights[f"hidden/block_{k}/norm/beta"])
        z = weights[f"hidden/block_{k}/hidden/d"] + given @ weights[f"hidden/block_{k}/hidden/H"]
        a = a + _activation(model.activation, z)
    if model.layer_norm:
        a = _normalised(a, weights["hidden/norm/gamma"], weights["hidden/norm/beta"])
    features = np.concatenate([a, x]) if model.direct_connections else a
    kernel = weights["embed/C"] if model.tied_output else weights["prob/UW"]
    y = weights["prob/b"] + kernel @ (features @ weights["project/kernel"] if model.tied_output else features)
    return y - np.log(np.exp(y).sum())


def _weights(model) -> dict[str, np.ndarray]:
    return {w.path.removeprefix(f"{model.name}/"): w.numpy().astype(np.float64) for w in model.trainable_weights}


@pytest.mark.parametrize("options", BODIES)
def test_the_formula(options):
    model = _model(**options)
    contexts, targets = _batch(model.order)
    expected = np.array([_log_probs(_weights(model), model, context) for context in contexts])
    np.testing.assert_allclose(model.next_log_probs(contexts), expected, atol=1e-5)
    np.testing.assert_allclose(model.log_prob(contexts, targets), expected[range(len(targets)), targets], atol=1e-5)


@pytest.mark.parametrize("options", BODIES)
def test_the_gradients(options):
    """Those of training against differences of the formula in float64, weight by weight."""
    model = _model(**options)
    contexts, targets = _batch(model.order, size=3)
    weights = _weights(model)

    def loss() -> float:
        log_probs = [_log_probs(weights, model, context) for context in contexts]
        return -np.mean([row[target] for row, target in zip(log_probs, targets, strict=True)])

    model.compile()
    with tf.GradientTape() as tape, model._in_fit():
        found = model.compute_loss(contexts, targets, model(contexts, training=True))
    gradients = tape.gradient(found, model.trainable_weights)
    for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
        expected = np.zeros_like(weight)
        for place in np.ndindex(weight.shape):
            kept = weight[place]
            weight[place] = kept + 1e-5
            above = loss()
            weight[place] = kept - 1e-5
            expected[place] = (above - loss()) / 2e-5
            weight[place] = kept
        np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected, atol=2e-5, err_msg=name)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_averages_are_a_matrix_product_of_their_blocks(data):
    """What `word_blocks` says of each word is what `join` does, for any spans."""
    number = data.draw(st.integers(1, 12))
    edges = data.draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=4))
    embed = AveragedContext(V, M, averages_after=tuple(sorted(edges)))
    contexts = np.array(
        data.draw(st.lists(st.lists(st.integers(0, V - 1), min_size=number, max_size=number), min_size=1))
    )
    contexts = contexts.reshape(-1, number).astype(np.int32)
    x = np.asarray(embed(contexts)).reshape(len(contexts), -1, M)
    block, scale = embed.word_blocks(number)
    assert len(block) == len(scale) == number and x.shape[1] == block.max() + 1
    assert embed.compute_output_shape((None, number)) == (None, x.shape[1] * M)
    vectors = embed.C.numpy()[contexts] * (contexts != 0)[..., None]
    expected = np.zeros_like(x)
    for place in range(number):
        expected[:, block[place]] += scale[place] * vectors[:, place]
    np.testing.assert_allclose(x, expected, atol=1e-6)


def test_spans_of_one_word_are_the_papers_context():
    embed = AveragedContext(V, M, averages_after=(1, 2, 3))
    contexts, _ = _batch(5)
    plain = ContextEmbedding(V, M)
    plain.build(contexts.shape)
    embed.build(contexts.shape)
    plain.C.assign(embed.C)
    np.testing.assert_array_equal(embed(contexts), plain(contexts))


def test_an_id_outside_the_vocabulary_is_nan_wherever_it_stands():
    model = _model(order=8, averages_after=(2,))
    contexts, _ = _batch(8)
    contexts[1, 0], contexts[2, -1] = V, -1
    assert np.isnan(model(contexts).numpy()).any(axis=1).tolist() == [False, True, True, False, False, False]


@pytest.mark.parametrize("options", BODIES)
def test_it_trains_saves_and_loads(options, tmp_path):
    model = _model(**options, word_dropout=0.2, dropout=0.2)
    contexts, targets = _batch(model.order, 64)
    model.compile(optimizer=LazySGD(0.5))
    history = model.fit(contexts, targets, epochs=5, verbose=0).history["perplexity"]
    assert history[-1] < history[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.log_prob(contexts, targets), model.log_prob(contexts, targets))
    for trained in (model, loaded):
        trained.train_on_batch(contexts, targets)  # dropout goes on alike
    np.testing.assert_array_equal(loaded.log_prob(contexts, targets), model.log_prob(contexts, targets))


@pytest.mark.parametrize("options", [*BODIES, dict(order=8, averages_after=(2, 4), output_layer="energy")])
def test_tables_give_the_logits(options):
    model = _model(**options)
    contexts, targets = _batch(model.order)
    scores, logits = SelfNormalised(model), np.asarray(model(contexts))
    np.testing.assert_allclose(scores.log_prob(contexts, targets), logits[range(6), targets], atol=2e-5)
    np.testing.assert_allclose(scores.next_log_probs(contexts), model.next_log_probs(contexts), atol=2e-5)


@pytest.mark.parametrize("options", BODIES)
def test_served_it_answers_alike(options):
    model = _model(**options)
    contexts, targets = _batch(model.order)
    served = build_graph(model)
    np.testing.assert_allclose(served.log_prob(contexts, targets), model.log_prob(contexts, targets), atol=1e-5)
    np.testing.assert_allclose(served.next_log_probs(contexts), model.next_log_probs(contexts), atol=1e-5)


@pytest.mark.parametrize("options", BODIES)
def test_weight_decay_is_of_matrices_alone(options):
    model = _model(**options, weight_decay=0.3)
    vectors = [weight for weight in model.trainable_weights if len(weight.shape) == 1]
    assert {id(bias) for bias in model._biases()} == {id(vector) for vector in vectors}
    squares = sum(np.square(weight).sum() for weight in model.trainable_weights if len(weight.shape) == 2)
    np.testing.assert_allclose(sum(map(float, model.losses)), 0.15 * squares, rtol=1e-5)


def test_a_drawn_output_trains_on_rows_alone():
    model = NPLM(V, 8, M, H, averages_after=(2,), output_layer=NoiseContrastive(V, num_sampled=3, seed=0))
    model.compile(optimizer=LazySGD(1.0))
    contexts = np.array([[4, 4, 5, 0, 0, 6, 7]], np.int32)
    before = model.embed.C.numpy()
    model.train_on_batch(contexts, np.array([8]))
    moved = np.flatnonzero((model.embed.C.numpy() != before).any(axis=1))
    assert moved.tolist() == [4, 5, 6, 7]


def test_word_dropout_leaves_whole_words_out():
    model = _model(order=41, averages_after=(40 - 1,), word_dropout=0.5)
    vectors = model.drop_words(model.embed.vectors(np.full((50, 40), 5, np.int32)), training=True).numpy()
    whole = vectors / model.embed.C.numpy()[5]
    assert set(np.unique(whole.round(4))) == {0.0, 2.0}
    assert (whole == whole[:, :, :1]).all() and 0.4 < (whole > 0).mean() < 0.6


@pytest.mark.parametrize("options", [options for options in BODIES if "tied_output" not in options])
def test_gradients_for_new_words_reach_into_the_averages(options):
    """∂ ln P/∂C(w) of each word of a context, summed over the places where it stands, is what a tape finds."""
    model = _model(**options)
    contexts, targets = _batch(model.order)
    found = context_gradients(model, SelfNormalised(model), contexts, targets)
    with tf.GradientTape() as tape:
        log_probs = tf.gather(tf.nn.log_softmax(model(contexts)), targets, batch_dims=1)
    expected = tf.convert_to_tensor(tape.gradient(log_probs, model.embed.C.value)).numpy()
    summed = np.zeros_like(expected)
    np.add.at(summed, contexts, found)
    np.testing.assert_allclose(summed[1:], expected[1:], atol=1e-5)


def test_the_board_tells_the_matrices_of_the_blocks_apart(tmp_path):
    model = _model(order=6, averages_after=(2,), residual_blocks=2, layer_norm=True, tied_output=True)
    vocabulary = Vocabulary([f"w{i}" for i in range(V - 4)])
    board = LanguageModelBoard(tmp_path, LanguageModel(model, vocabulary, "words", "stream"))
    board.set_model(model)
    norms = board._compute_norms("norm", [weight.value for weight, _ in board._list_matrices()])
    assert set(norms) == {"norm/C", "norm/H", "norm/H1", "norm/H2", "norm/project"}
    assert norms["norm/H2"] == pytest.approx(np.linalg.norm(model.hidden.blocks[1].hidden.H), rel=1e-5)


@pytest.mark.parametrize("options", BODIES)
def test_words_join(options):
    """The network that has grown gives old words their old ratios, and the new one what its row says."""
    model = _model(**options)
    contexts, _ = _batch(model.order)
    random = np.random.default_rng(2)
    C = random.normal(size=(1, M))
    kernel = C if model.tied_output else random.normal(size=(1, model.prob.kernel.shape[1]))
    grown = grow(model, NewRows(C, kernel, np.array([0.3]), np.array([0.01])))
    before, after = model.next_log_probs(contexts), grown.next_log_probs(contexts)
    np.testing.assert_allclose(after[:, 1:V] - after[:, :1], before[:, 1:] - before[:, :1], atol=1e-5)
    y = np.asarray(model.features(contexts)) @ kernel[0] + 0.3
    np.testing.assert_allclose(after[:, V] - after[:, 4], y - np.asarray(model(contexts))[:, 4], atol=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(averages_after=(4, 2)), "must rise"),
        (dict(averages_after=(2, 2)), "must rise"),
        (dict(averages_after=(-1,)), "must rise"),
        (dict(order=5, averages_after=(4,)), "below 4"),
        (dict(activation="sigmoid"), "`activation` must be one of tanh, relu, gelu, silu"),
        (dict(word_dropout=1.0), "`word_dropout` must be in"),
        (dict(residual_blocks=-1), "`residual_blocks` must be 0 or more"),
        (dict(hidden_units=0, direct_connections=True, layer_norm=True), "left out without a hidden layer"),
        (dict(output_layer="energy", residual_blocks=1), "left out without a hidden layer"),
        (dict(output_layer="energy", activation="relu"), "tanh with the energy output"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        NPLM(V, **options)


@pytest.mark.parametrize(
    "options",
    [dict(order=10**10, averages_after=[0]), dict(residual_blocks=10**6, hidden_units=1), dict(residual_blocks=-1)],
)
def test_a_file_that_describes_what_no_memory_holds_is_refused(tmp_path, options):
    path = tmp_path / "model.keras"
    _model(order=8, averages_after=(2,), residual_blocks=1).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(parts["config.json"])
    described["config"] |= options
    parts["config.json"] = json.dumps(described).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    with pytest.raises(InputError):
        load_network(path)


def test_what_keeps_the_unused_out_of_the_papers_model():
    """Without these options the network has the paper's weights and no others."""
    names = {weight.path.removeprefix("NPLM/") for weight in NPLM(V).weights}
    assert names == {"embed/C", "hidden/H", "hidden/d", "prob/UW", "prob/b"}
