"""What every network keeps, whatever its layers, head and objective; see `tests.every_network`.

The formulas are in `tests.formulas`, in NumPy.
"""

import inspect
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.layers.objectives.base import Objective
from keras_nplm.layers.ops import ConfiguredLayer, NewRows
from keras_nplm.layers.scores import compute_log_prob
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.growth import check_growable, grow
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.networks.network_file import load_network
from keras_nplm.models.networks.pointer_network import PointerNetwork
from keras_nplm.models.networks.self_normalised import SelfNormalised
from tests.every_network import (
    NETWORKS,
    B,
    M,
    N,
    V,
    add_log_q,
    build,
    build_network,
    make_contexts,
    make_inputs,
    make_segments,
    make_targets,
)
from tests.formulas import Formulas, log_softmax, wide
from tests.marks import mark_long

LENGTHS = {"stream": 12, "sentence": 4, "text": 1}  # targets of a segment
EMBEDS = [name for name in NETWORKS if name.startswith("embed ")]
ROWS = np.arange(B)


def has_a_new_part(name: str) -> bool:
    """Return whether no network before it has its head or its objective."""
    head, _, objective = name.partition(" / ")
    return head == "linear" or objective in ("", "likelihood")


of_every_part = pytest.mark.parametrize("name", mark_long(NETWORKS, has_a_new_part))
# each layer once: these tests do not depend on the objective
of_every_scorer = pytest.mark.parametrize(
    "name", [name for name in NETWORKS if "/" not in name or "/ likelihood" in name]
)


def list_arguments(kind: type[ConfiguredLayer]) -> set[str]:
    """Return the arguments of a layer and its base classes in the package."""
    names: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("keras_nplm") and "__init__" in vars(base):
            names.update(inspect.signature(base.__init__).parameters)
    return names - {"self", "args", "kwargs"}


def test_every_registered_layer_is_among_them_and_tells_its_arguments():
    seen: set[type] = set()
    for name in NETWORKS:
        network = build(name)
        seen.add(type(network))
        for layer in network._flatten_layers():
            seen.add(type(layer))
            if isinstance(layer, ConfiguredLayer):
                config = layer.get_config()
                arguments = list_arguments(type(layer))
                missing = arguments - config.keys()
                assert not missing, f"{type(layer).__name__}.options must have {missing}"
                rates = {name: 0.25 for name in arguments if isinstance(config[name], float)}
                other = type(layer).from_config(config | rates)
                assert other.get_config() == config | rates
    registered = keras.saving.get_custom_objects()
    for name, kind in registered.items():
        is_part = isinstance(kind, type) and issubclass(kind, (ConfiguredLayer, ContextNetwork))
        if name.startswith("keras_nplm>") and is_part:
            assert kind in seen, f"tests/every_network.py must have a network with {kind.__name__}"


# Probabilities


@of_every_scorer
def test_probabilities_are_those_of_the_formula(name):
    network = build(name)
    inputs = make_inputs(network)
    probabilities = network(inputs).numpy()
    assert probabilities.shape == (B, network.prob.num_outputs)
    expected = log_softmax(Formulas(network).logits(inputs))
    np.testing.assert_allclose(probabilities, np.exp(expected), rtol=2e-4, atol=1e-7)
    targets = make_targets(network, inputs["contexts"])
    scores = network.scores(inputs)
    for places in (ROWS, ROWS[::-1].copy()):
        found = compute_log_prob(scores, targets, places)
        np.testing.assert_allclose(found, expected[places, targets], atol=2e-4)


# Precision

# float32: see the tests above
TOLERANCES = {"float64": 1e-7, "bfloat16": 0.25, "mixed_bfloat16": 0.25, "mixed_float16": 0.03}
of_half_precision = pytest.mark.parametrize(
    "name",
    [
        "paper",
        *EMBEDS,
        "hidden deep",
        "low rank / nce",
        "tied / sampled",
        "adaptive / likelihood",
        "energy / sampled",
        "pointer, direct",
        "hybrid",
    ],
)


@of_half_precision
@pytest.mark.parametrize(
    "dtype",
    [
        "float64",
        "mixed_bfloat16",
        "mixed_float16",
        pytest.param("bfloat16", marks=pytest.mark.long),
    ],
)
def test_scores_have_float32_at_least_whatever_the_precision(name, dtype):
    network = build(name, dtype)
    inputs = make_inputs(network)
    accumulator = "float64" if dtype == "float64" else "float32"
    scores = network.scores(inputs)
    log_z = scores.log_z()
    assert log_z.dtype.name == accumulator
    y = scores.logits()
    assert y.dtype.name == accumulator
    expected = log_softmax(Formulas(network).logits(inputs))
    log_probs = wide(y) - wide(log_z)[:, None]
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, atol=1e-5)
    likely = expected > -5
    np.testing.assert_allclose(log_probs[likely], expected[likely], atol=TOLERANCES[dtype])


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("energy / sampled", "mixed_bfloat16"),
        ("low rank / nce", "bfloat16"),
        ("adaptive / likelihood", "bfloat16"),
        ("paper", "mixed_float16"),
        ("hidden deep", "mixed_float16"),
        ("pointer, direct", "mixed_float16"),
    ],
)
def test_half_precision_trains(name, dtype):
    network = build_network(name, dtype)
    inputs = make_inputs(network)
    targets = make_targets(network, inputs["contexts"])
    network.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    before = network.test_on_batch(inputs, targets, return_dict=True)["loss"]
    for _ in range(3):
        network.train_on_batch(inputs, targets)
    after = network.test_on_batch(inputs, targets, return_dict=True)["loss"]
    assert after < before


# Training


def draw_words(network: ContextNetwork, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets and negative samples of the next step: those that the step will draw."""
    objective = network.objective
    if objective.has_likelihood:
        return targets, None
    state = objective.seed_generator.state
    before = state.numpy()
    if objective.held_out_mass:
        targets = objective.replace_at_random(targets, objective.held_out).numpy()
    samples = objective.noise.draw(objective.draw_strata(objective.num_sampled)).numpy()
    state.assign(before)
    return targets, samples


def take_step(network: ContextNetwork, inputs: dict, targets: np.ndarray) -> tuple[dict, list]:
    """Return the logs and the gradient by each weight of a step of SGD with learning rate 1."""
    before = [weight.numpy() for weight in network.trainable_weights]
    network.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    logs = network.train_on_batch(inputs, targets, return_dict=True)
    pairs = zip(before, network.trainable_weights, strict=True)
    return logs, [old - weight.numpy() for old, weight in pairs]


@of_every_part
def test_a_step_has_loss_and_gradient_of_the_formula(name):
    network = build_network(name, "float64")
    inputs = make_inputs(network)
    targets = make_targets(network, inputs["contexts"])
    trained_targets, samples = draw_words(network, targets)
    formulas = Formulas(network)
    loss = formulas.loss(inputs, trained_targets, samples)
    of_targets = log_softmax(formulas.logits(inputs))[ROWS, targets]
    rng = np.random.default_rng(5)
    directions = []
    differences = []
    for weight in network.trainable_weights:
        value = wide(weight)
        direction = rng.normal(size=value.shape)
        losses = []
        for sign in (1, -1):
            changed = {id(weight): value + sign * 1e-6 * direction}
            loss = Formulas(network, changed).loss(inputs, trained_targets, samples)
            losses.append(loss)
        directions.append(direction)
        differences.append((losses[0] - losses[1]) / 2e-6)
    paths = [weight.path for weight in network.trainable_weights]
    logs, gradients = take_step(network, inputs, targets)
    np.testing.assert_allclose(logs[network.objective.loss_name], loss, rtol=1e-6)
    if network.objective.has_likelihood:
        np.testing.assert_allclose(np.log(logs["perplexity"]), -of_targets.mean(), rtol=1e-5)
    for path, gradient, direction, expected in zip(
        paths, gradients, directions, differences, strict=True
    ):
        found = np.sum(gradient * direction)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7, err_msg=path)


def test_ids_out_of_range_are_refused():
    network = build_network("pointer linear")
    contexts = make_contexts()
    targets = make_targets(network, contexts)
    network.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    for wrong in (V, -1):
        wrong_targets = targets.copy()
        wrong_targets[3] = wrong
        wrong_contexts = contexts.copy()
        wrong_contexts[3, 1] = wrong
        for use in (network.train_on_batch, network.test_on_batch):
            with pytest.raises(tf.errors.InvalidArgumentError, match="`target_ids` must be 0 to"):
                use(contexts, wrong_targets)
            with pytest.raises(tf.errors.InvalidArgumentError, match="`context_ids` must be 0 to"):
                use(wrong_contexts, targets)


@of_every_scorer
def test_biases_are_the_weights_without_decay(name):
    network = build(name)
    biases = {
        weight.path
        for weight in network.trainable_weights
        if weight.name == "S"  # is hashed
        # v of the pointer and of energies multiplies vectors, as a row of a matrix does
        or (len(weight.shape) == 1 and not weight.path.endswith(("pointer/v", "prob/v")))
    }
    assert {weight.path for weight in network.biases} == biases


# Segments


OF_BOUNDARIES = ["paper", *EMBEDS, "pointer linear", "pointer short-list", "hybrid"]


@pytest.mark.parametrize(
    "name, boundary",
    [
        *itertools.product(OF_BOUNDARIES, ["stream", "sentence", "text"]),
        ("hidden none", "sentence"),
        ("adaptive / likelihood", "sentence"),
        ("energy / likelihood", "sentence"),
        ("pointer tied", "sentence"),
        ("pointer, direct", "sentence"),
        ("hybrid, direct / held out", "sentence"),
    ],
)
def test_segments_have_the_probabilities_of_their_windows(name, boundary):
    network = build(name, boundary=boundary)
    segments, _, contexts = make_segments(boundary, LENGTHS[boundary])
    of_segments = add_log_q(network, {"segments": segments})
    of_contexts = add_log_q(network, {"contexts": contexts})
    found = network(of_segments)
    assert found.shape == (len(segments), LENGTHS[boundary], network.prob.num_outputs)
    expected = network(of_contexts).numpy().reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "name, boundary",
    [
        *itertools.product(EMBEDS, ["sentence"]),
        ("hidden deep", "stream"),
        ("adaptive / likelihood", "sentence"),
        ("energy / sampled", "sentence"),
        ("pointer short-list", "sentence"),
        ("pointer / likelihood, held out", "stream"),
        ("pointer / sampled", "text"),
        ("hybrid", "sentence"),
    ],
)
def test_a_step_on_segments_is_one_on_their_windows_that_have_a_target(name, boundary):
    segments, targets, contexts = make_segments(boundary, LENGTHS[boundary])
    targets[0, -1] = 0  # as at the end of a text
    is_target = targets.reshape(-1) > 0
    network = build_network(name, "float64", boundary)
    inputs = add_log_q(network, {"segments": segments})
    logs, found = take_step(network, inputs, targets)
    network = build_network(name, "float64", boundary)
    windows = {"contexts": contexts[is_target]}
    if "log_q" in inputs:
        windows["log_q"] = inputs["log_q"][is_target]
    wanted_logs, expected = take_step(network, windows, targets.reshape(-1)[is_target])
    assert logs == pytest.approx(wanted_logs, rel=1e-6)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


# Files


def assert_same(network: ContextNetwork, other: ContextNetwork) -> None:
    """Compare class, configuration, weights and scores, exactly."""
    assert type(other) is type(network)
    assert other.get_config() == network.get_config()
    assert not other.compiled
    for one, copy in zip(network.weights, other.weights, strict=True):
        assert copy.path == one.path
        assert copy.dtype == one.dtype
        np.testing.assert_array_equal(copy.numpy(), one.numpy())
    inputs = make_inputs(network)
    expected = network.scores(inputs).logits()
    np.testing.assert_array_equal(other.scores(inputs).logits(), expected)


@of_every_scorer
def test_a_clone_is_the_same_network(name):
    network = build(name)
    clone = keras.models.clone_model(network)
    clone.set_weights(network.get_weights())
    assert_same(network, clone)


# a file has the weights of each part, whatever its pair
@pytest.mark.parametrize(
    "name, dtype",
    [
        ("paper", "mixed_bfloat16"),
        ("hidden of Keras", "float32"),
        ("pointer, direct", "float32"),
        ("energy / nce, held out", "float32"),
        *itertools.product(EMBEDS, ["float32"]),
    ],
)
def test_a_file_makes_the_same_network(name, dtype, tmp_path):
    network = build(name, dtype)
    path = tmp_path / "model.keras"
    network.save(path)
    loaded = load_network(path)
    assert_same(network, loaded)
    states = zip(network.random_states(), loaded.random_states(), strict=True)
    for one, copy in states:
        np.testing.assert_array_equal(copy.numpy(), one.numpy())


# New words

NO_NEW_WORDS = ("hybrid", "adaptive", "energy", "short-list")


def make_rows(network: ContextNetwork) -> NewRows:
    """Return the weights of two new words."""
    rng = np.random.default_rng(6)
    head = network.prob
    C = rng.normal(size=(2, M))
    kernels = [np.zeros((2, 0))]
    if head.uses_embedding:
        kernels.append(C)
    elif head.U is not None:
        kernels.append(rng.normal(size=(2, head.U.shape[1])))
    if network.direct is not None:
        kernels.append(rng.normal(size=(2, network.direct.W.shape[1])))
    kernel = np.concatenate(kernels, axis=1)
    return NewRows(C, kernel, rng.normal(size=2), np.array([0.05, 0.02]))


@of_every_scorer
def test_words_are_added_or_refused_by_name(name):
    network = build(name)
    if any(part in name for part in NO_NEW_WORDS):
        with pytest.raises(InputError):
            check_growable(network)
        return
    rows = make_rows(network)
    grown = grow(network, rows)
    contexts = make_contexts()
    contexts[::2, 1] = V + 1  # a new word
    y = grown.scores(contexts).logits()
    np.testing.assert_allclose(
        y, Formulas(grown).logits({"contexts": contexts}), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(grown.embed.C.numpy()[V:], rows.C, rtol=1e-6)
    np.testing.assert_allclose(grown.prob.b.numpy()[V:], rows.b, rtol=1e-6)
    for old, new in zip(network.trainable_weights, grown.trainable_weights, strict=True):
        np.testing.assert_array_equal(new.numpy()[: old.shape[0]], old.numpy())


# Logits as log-probabilities


def has_numpy_form(layer: keras.layers.Layer) -> bool:
    if isinstance(layer, Objective):  # scores need none
        return True
    return isinstance(layer, ConfiguredLayer) and layer.list_arrays() is not None


@of_every_scorer
def test_self_normalised_scores_are_the_logits_or_are_refused(name):
    network = build(name)
    if network.reads_log_q or not all(map(has_numpy_form, network.list_layers())):
        with pytest.raises(InputError):
            SelfNormalised(network)
        return
    scores = SelfNormalised(network)
    contexts = make_contexts(30)  # by the tables as a whole; a few contexts by rows
    targets = make_targets(network, contexts)
    y = Formulas(network).logits({"contexts": contexts})
    wanted = y[np.arange(30), targets]
    np.testing.assert_allclose(scores.log_prob(contexts, targets), wanted, atol=1e-4)
    few = scores.log_prob(contexts[:3], targets[:3])
    np.testing.assert_allclose(few, wanted[:3], atol=1e-4)
    ngram = np.append(contexts[0], targets[0]).astype(np.int32)
    assert scores.log_prob_of_one(ngram) == pytest.approx(wanted[0], abs=1e-4)
    np.testing.assert_allclose(scores.next_log_probs(contexts), log_softmax(y), atol=1e-4)


# The unigram start


@of_every_part
def test_a_network_starts_as_the_unigram_model_or_its_ngram_model(name):
    if name.startswith("hybrid adaptive"):
        pytest.skip("clusters have the weight of one word each")
    network = build_network(name)
    for weight in network.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    counts = np.random.default_rng(0).integers(1, 50, V)
    counts[:4] = 0, 7, 0, 0
    network.set_unigram(counts)
    outputs = network.prob.num_outputs
    counts = counts[:outputs]
    p = counts / counts.sum()
    mass = network.objective.held_out_mass
    q = (np.arange(outputs) > 3).astype(float)
    q[1] = 1
    p = (1 - mass) * p + mass * q / q.sum()
    inputs = make_inputs(network)
    expected = np.tile(p, (B, 1))
    if isinstance(network, HybridNetwork):
        network.g.assign([1.0])
        expected = np.exp(inputs["log_q"])
    if isinstance(network, PointerNetwork):
        network.pointer.u.assign(np.full(N - 1, -100))
    np.testing.assert_allclose(network(inputs), expected, rtol=1e-4, atol=1e-9)
