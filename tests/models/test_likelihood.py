"""Training by penalised likelihood: gradients, losses, metrics, what is never computed, the user's own loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.layers.softmax as operations
from keras_nplm import NPLM, FullSoftmax, LazySGD, NoiseContrastive

SHAPES = [(5, 3, 4, True), (5, 3, 4, False), (2, 1, 1, True), (3, 6, 0, True)]  # n, m, h, direct connections
V = 11


def _randomised(model: NPLM) -> NPLM:
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def _model(*shape, **options) -> NPLM:
    return _randomised(NPLM(V, *(shape or (4, 3, 5, True)), **options))


def _batch(order=4, size=7):
    rng = np.random.default_rng(1)
    contexts = rng.integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, 0] = 0
    return contexts, rng.integers(1, V, size).astype(np.int32)


def _step(model, contexts, targets, **options) -> dict[str, np.ndarray]:
    """The gradient by each weight, from a step of plain SGD with learning rate 1."""
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=True, **options)
    model.train_on_batch(contexts, targets)
    pairs = zip(model.trainable_weights, before, strict=True)
    return {weight.path.removeprefix(f"{model.name}/"): value - weight.numpy() for weight, value in pairs}


def _letters(model) -> dict[str, np.ndarray]:
    """The weights by the paper's letters and shapes, in float64."""
    h = model.hidden_units if model.hidden is not None else 0
    kernel = model.prob.kernel.numpy().astype(np.float64)
    letters = {"C": model.embed.C.numpy().astype(np.float64), "U": kernel[:, :h], "W": kernel[:, h:]}
    letters["b"] = model.prob.b.numpy().astype(np.float64)
    if h:
        letters |= {"H": model.hidden.H.numpy().astype(np.float64).T, "d": model.hidden.d.numpy().astype(np.float64)}
    return letters


def _paper(letters, context):
    """x, a and P for one context: the paper's equation 1, word by word, with a zero vector for <pad>."""
    x = np.concatenate([letters["C"][word] * (word != 0) for word in context])
    a = np.tanh(letters["d"] + letters["H"] @ x) if "H" in letters else np.zeros(0)
    y = letters["b"] + letters["U"] @ a + (letters["W"] @ x if letters["W"].size else 0)
    return x, a, np.exp(y) / np.exp(y).sum()


def _paper_gradients(letters, contexts, targets, weight_decay, q, mass):
    """The gradients of the penalised mean loss, by the chain rule, n-gram by n-gram."""
    gradients = {name: np.zeros_like(value) for name, value in letters.items()}
    m = letters["C"].shape[1]
    for context, target in zip(contexts, targets, strict=True):
        x, a, p = _paper(letters, context)
        dy = (p - (1 - mass) * (np.arange(V) == target) - mass * q) / len(contexts)
        gradients["b"] += dy
        dx = np.zeros_like(x)
        if letters["W"].size:
            gradients["W"] += np.outer(dy, x)
            dx += letters["W"].T @ dy
        if "H" in letters:
            gradients["U"] += np.outer(dy, a)
            do = (1 - a**2) * (letters["U"].T @ dy)
            gradients["d"] += do
            gradients["H"] += np.outer(do, x)
            dx += letters["H"].T @ do
        for k, word in enumerate(context):
            gradients["C"][word] += dx[k * m : (k + 1) * m] * (word != 0)
    for name in "CHUW":
        if name in gradients:
            gradients[name] += weight_decay * letters[name]
    return gradients


@pytest.mark.parametrize("weight_decay, mass", [(0.0, 0.0), (0.3, 0.0), (0.0, 0.2)])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_the_penalised_likelihood(shape, weight_decay, mass):
    output = FullSoftmax(V, held_out_mass=mass, weight_decay=weight_decay, name="prob")
    model, (contexts, targets) = _model(*shape, weight_decay=weight_decay, output=output), _batch(shape[0])
    q = np.full(V, 1 / V)
    expected = _paper_gradients(_letters(model), contexts, targets, weight_decay, q, mass)
    h = model.hidden_units if model.hidden is not None else 0
    found = _step(model, contexts, targets)
    found = {name.split("/")[1]: gradient for name, gradient in found.items()}
    kernel = found.pop("UW")
    found |= {"U": kernel[:, :h], "W": kernel[:, h:]} | ({"H": found["H"].T} if h else {})
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, atol=1e-6, err_msg=name)


def test_tiled_loss_has_the_gradients_of_the_probabilities():
    """The default path and a step on what `call` returns, with Keras's own loss and with the model's."""
    contexts, targets = _batch()
    own = {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=False)}
    metrics = {"metrics": [keras.metrics.MeanMetricWrapper(lambda y, p: keras.ops.sum(p, axis=-1))]}
    steps = [
        _step(_model(hidden="relu", weight_decay=0.2), contexts, targets, **options) for options in ({}, own, metrics)
    ]
    for default, with_loss, with_metrics in zip(*(step.values() for step in steps), strict=True):
        np.testing.assert_allclose(default, with_loss, atol=2e-6)
        np.testing.assert_allclose(default, with_metrics, atol=2e-6)


def test_fit_reports_the_penalised_loss_and_plain_perplexity():
    model, (contexts, targets) = _model(weight_decay=0.1), _batch(4, size=10)
    letters = _letters(model)
    likelihoods = [-np.log(_paper(letters, c)[2][t]) for c, t in zip(contexts, targets, strict=True)]
    penalty = 0.05 * sum(np.sum(letters[name] ** 2) for name in "CHUW")
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    history = model.fit(contexts, targets, batch_size=4, verbose=0).history  # batches of 4, 4 and 2
    np.testing.assert_allclose(history["perplexity"], np.exp(np.mean(likelihoods)), rtol=1e-5)
    np.testing.assert_allclose(history["loss"], np.mean(likelihoods) + penalty, rtol=1e-5)
    loss, perplexity = model.evaluate(contexts, targets, batch_size=4, verbose=0)
    np.testing.assert_allclose([loss, perplexity], [history["loss"][0], history["perplexity"][0]], rtol=1e-5)


def test_sample_weights_are_honoured_with_and_without_metrics():
    model, (contexts, targets) = _model(), _batch(size=6)
    weights = np.array([1, 0, 2, 0, 0, 1], np.float32)
    likelihoods = -model.log_prob(contexts, targets)
    for options in ({}, {"metrics": ["accuracy"]}):
        model.compile(optimizer=keras.optimizers.SGD(0.0), run_eagerly=True, **options)
        result = model.evaluate(contexts, targets, sample_weight=weights, verbose=0, return_dict=True)
        assert set(result) == {"loss", "perplexity", *options.get("metrics", ())}
        np.testing.assert_allclose(result["loss"], (likelihoods * weights).sum() / 6, rtol=1e-5)
        np.testing.assert_allclose(result["perplexity"], np.exp((likelihoods * weights).sum() / 4), rtol=1e-5)


def test_a_sampled_loss_has_a_name_of_its_own():
    model, (contexts, targets) = _model(4, 3, 5, output=NoiseContrastive(V, num_sampled=3, seed=0)), _batch()
    model.compile(optimizer=LazySGD(0.1), run_eagerly=True)
    history = model.fit(contexts, targets, validation_data=(contexts, targets), verbose=0).history
    assert set(history) == {"nce_loss", "val_loss", "val_perplexity"}
    exact = -model.log_prob(contexts, targets).mean()
    np.testing.assert_allclose([history["val_loss"][0], np.log(history["val_perplexity"][0])], exact, rtol=1e-5)


def _small(kind=NPLM, **options) -> NPLM:
    keras.utils.set_random_seed(1)
    return kind(V, order=4, embedding_dim=8, hidden_units=16, **options)


class Flatter(NPLM):
    """P^(1/3), renormalised."""

    def call(self, context_ids, training=False):
        return keras.ops.softmax(keras.ops.log(super().call(context_ids, training=training) + 1e-30) / 3)


def test_a_subclass_is_trained_and_evaluated_on_its_own_call():
    model, (contexts, targets) = _randomised(_small(Flatter)), _batch(size=64)
    model.compile(keras.optimizers.SGD(0.5))
    own = -np.log(np.asarray(model(contexts))[np.arange(64), targets])
    loss, perplexity = model.evaluate(contexts, targets, verbose=0)
    np.testing.assert_allclose([loss, np.log(perplexity)], own.mean(), rtol=1e-4)
    assert abs(-model.log_prob(contexts, targets).mean() - own.mean()) > 0.1  # of `features`, without `call`

    with tf.GradientTape() as tape:
        chosen = tf.gather(model(contexts, training=True), targets, batch_dims=1)
        expected = -tf.reduce_mean(tf.math.log(chosen))
    gradient = tape.gradient(expected, model.prob.b.value)
    before = model.prob.b.numpy()
    model.train_on_batch(contexts, targets)
    np.testing.assert_allclose((before - model.prob.b.numpy()) / 0.5, gradient, atol=1e-5)


def test_a_subclass_may_compute_its_own_loss_and_metrics():
    class Student(NPLM):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return 2 * super().compute_loss(x, y, y_pred, sample_weight, training)

        def compute_metrics(self, x, y, y_pred, sample_weight=None):
            return super().compute_metrics(x, y, y_pred, sample_weight) | {"outputs": y_pred.shape[1]}

    model, (contexts, targets) = _small(Student), _batch()
    model.compile(LazySGD(0.1), run_eagerly=True)
    found = model.evaluate(contexts, targets, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["loss"], -2 * model.log_prob(contexts, targets).mean(), rtol=1e-4)
    assert model.train_on_batch(contexts, targets, return_dict=True)["outputs"] == V == found["outputs"]


# What the default path does not compute


def _trace(model, step, batch_size: int) -> set[tuple]:
    """The shapes of all tensors in a traced step and in the functions that it calls."""
    model.optimizer.build(model.trainable_variables)
    signature = tf.TensorSpec([batch_size, model.order - 1], tf.int32), tf.TensorSpec([batch_size], tf.int32)
    function = tf.function(lambda x, y: step((x, y))).get_concrete_function(*signature)
    definition = function.graph.as_graph_def(add_shapes=True)
    library = {inner.signature.name: inner for inner in definition.library.function}
    found, waiting = set(), [definition.node]
    while waiting:
        for node in waiting.pop():
            found |= {tuple(d.size for d in shape.dim) for shape in node.attr["_output_shapes"].list.shape}
            called = [attribute.func.name for attribute in node.attr.values() if attribute.HasField("func")]
            waiting += [library.pop(name).node_def for name in called if name in library]
    return found


@pytest.mark.parametrize("options", [{}, {"metrics": ["accuracy"]}])
def test_default_steps_build_no_probabilities_of_all_words(options, monkeypatch):
    """No tensor [B, |V|] is in the graph. With a metric of the probabilities there is one."""
    size, batch_size = 10_000, 64
    monkeypatch.setattr(operations, "_WHOLE", batch_size * size - 1)  # as a larger vocabulary would have it
    model = NPLM(size, 4, 5, 6, direct_connections=True)
    model.compile(LazySGD(0.1), **options)
    if options:
        model._compile_metrics.build(tf.zeros(1, tf.int32), tf.zeros((1, size)))
    for step in (model.train_step, model.test_step):
        shapes = _trace(model, step, batch_size)
        assert ((batch_size, size) in shapes) == bool(options)
        assert (batch_size, 6 + 15) in shapes  # the features [a; x]


@pytest.mark.parametrize("output, dense", [("full", True), ("nce", False), ("energy", False)])
def test_a_sampled_step_builds_nothing_as_long_as_the_vocabulary(output, dense):
    """Neither logits [B, |V|] nor a gradient or an update [|V|, w]. The full softmax has both."""
    size, batch_size = 50, 9
    model = NPLM(size, 3, 5, 6, output=output)
    model.compile(LazySGD(0.1, weight_decay=1e-3))
    shapes = _trace(model, model.train_step, batch_size)
    assert ((batch_size, size) in shapes) == dense
    assert ((size, 6) in shapes) == dense
    assert (size, 5) not in shapes  # C has sparse gradients with every output


def test_jit_compilation_is_off_on_a_cpu():
    model = NPLM(V, 4, 3, 5)
    model.compile("sgd")
    assert bool(tf.config.list_logical_devices("GPU")) or model.jit_compile is False
    model.compile("sgd", jit_compile=True)
    assert model.jit_compile is True
