"""Training: losses, logs, sample weights, what is never computed, the user's own loss and call."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.layers.softmax as softmax
from keras_nplm import (
    NPLM,
    LazySGD,
    Likelihood,
    NoiseContrastive,
)
from keras_nplm.layers.objectives.base import Losses, Objective
from tests.formulas import Formulas
from tests.networks import compose, compose_energy, randomise

V = 11
ORDER = 4
M = 3
H = 5


def build_nplm(kind=NPLM, **options):
    return randomise(kind(V, ORDER, M, H, direct_connections=True, **options))


def build_network(objective):
    return randomise(compose(V, ORDER, M, H, objective=objective))


def make_batch(size=7):
    rng = np.random.default_rng(1)
    contexts = rng.integers(1, V, (size, ORDER - 1)).astype(np.int32)
    contexts[0, 0] = 0
    return contexts, rng.integers(1, V, size).astype(np.int32)


def find_step(model, contexts, targets, **options):
    """Return the gradient by each weight, from an update of plain SGD with learning rate 1."""
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=True, **options)
    model.train_on_batch(contexts, targets)
    pairs = zip(model.trainable_weights, before, strict=True)
    return [value - weight.numpy() for weight, value in pairs]


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=5e-6)


# What `fit` and `evaluate` report


def test_logs_have_the_penalised_loss_and_plain_perplexity():
    model = build_nplm(weight_decay=0.1)
    contexts, targets = make_batch(size=10)
    formulas = Formulas(model)
    likelihood = formulas.losses({"contexts": contexts}, targets, None).mean()
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    # batches of 4, 4 and 2
    history = model.fit(contexts, targets, batch_size=4, verbose=0).history
    np.testing.assert_allclose(history["perplexity"], np.exp(likelihood), rtol=1e-5)
    np.testing.assert_allclose(history["loss"], likelihood + formulas.penalty(), rtol=1e-5)
    loss, perplexity = model.evaluate(contexts, targets, batch_size=4, verbose=0)
    np.testing.assert_allclose(loss, history["loss"][0], rtol=1e-5)
    np.testing.assert_allclose(perplexity, history["perplexity"][0], rtol=1e-5)


def test_sample_weights_count():
    model = build_nplm()
    contexts, targets = make_batch(size=6)
    weights = np.array([1, 0, 2, 0, 0, 1], np.float32)
    total = (-model.log_prob(contexts, targets) * weights).sum()
    model.compile(keras.optimizers.SGD(1.0), metrics=["accuracy"], run_eagerly=True)
    figures = model.evaluate(contexts, targets, sample_weight=weights, verbose=0, return_dict=True)
    assert set(figures) == {"loss", "perplexity", "accuracy"}
    np.testing.assert_allclose(figures["loss"], total / 6, rtol=1e-5)
    np.testing.assert_allclose(figures["perplexity"], np.exp(total / 4), rtol=1e-5)
    # an n-gram of weight 2 is two n-grams
    twin = build_nplm()
    twin.compile(keras.optimizers.SGD(4 / 6), run_eagerly=True)
    model.train_on_batch(contexts, targets, sample_weight=weights)
    places = [0, 2, 2, 5]
    twin.train_on_batch(contexts[places], targets[places])
    assert_close(model.get_weights(), twin.get_weights())


class Doubled(Objective):
    """Twice -ln P."""

    loss_name = "doubled"

    def losses(self, scores, target_ids):
        log_z, logit = scores.for_training(target_ids)
        return Losses(2 * (log_z - logit), log_z - logit)


class Unknown(Objective):
    """An objective that does not say its likelihood."""

    def losses(self, scores, target_ids):
        log_z, logit = scores.for_training(target_ids)
        return Losses(log_z - logit, None)


class NoLikelihood(Unknown):
    has_likelihood = False


@pytest.mark.parametrize(
    "objective, names",
    [
        (Doubled(), {"doubled", "perplexity"}),
        (NoLikelihood(), {"loss"}),
        (NoiseContrastive(num_sampled=3, seed=0), {"nce_loss"}),
    ],
)
def test_logs_follow_the_objective(objective, names):
    model = build_network(objective)
    model.compile("sgd", run_eagerly=True)
    contexts, targets = make_batch()
    assert set(model.train_on_batch(contexts, targets, return_dict=True)) == names
    logs = model.test_on_batch(contexts, targets, return_dict=True)
    assert set(logs) == {"loss", "perplexity"}
    exact = -model.log_prob(contexts, targets).mean()
    np.testing.assert_allclose([logs["loss"], np.log(logs["perplexity"])], exact, rtol=1e-5)


def test_an_objective_says_that_it_has_no_likelihood():
    model = build_network(Unknown())
    model.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError):
        model.train_on_batch(*make_batch())


@pytest.mark.parametrize(
    "objective, options, names",
    [
        (NoiseContrastive(num_sampled=3, seed=1), {}, {"nce_loss"}),
        (Likelihood(), {"loss": "sparse_categorical_crossentropy"}, {"loss", "perplexity"}),
    ],
)
def test_callbacks_know_that_a_low_perplexity_is_best(objective, options, names, tmp_path):
    model = build_network(objective)
    data = make_batch(size=64)
    stop = keras.callbacks.EarlyStopping("val_perplexity", min_delta=1e9, patience=2)
    path = tmp_path / "best.keras"
    best = keras.callbacks.ModelCheckpoint(path, "val_perplexity", save_best_only=True)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True, **options)
    fitted = model.fit(*data, validation_data=data, epochs=9, verbose=0, callbacks=[stop, best])
    assert set(fitted.history) == names | {"val_loss", "val_perplexity"}
    assert len(fitted.epoch) == 3  # nothing improves by a billion
    figures = keras.models.load_model(path).evaluate(*data, verbose=0, return_dict=True)
    assert figures["perplexity"] == pytest.approx(min(fitted.history["val_perplexity"]), rel=1e-5)
    expected = np.exp(-model.log_prob(*data).mean())
    assert fitted.history["val_perplexity"][-1] == pytest.approx(expected, rel=1e-5)


# A subclass, and a loss of the user's own


class Flatter(NPLM):
    """P^(1/3), renormalised."""

    def call(self, inputs, training=False):
        rows = super().call(inputs, training=training)
        return keras.ops.softmax(keras.ops.log(rows + 1e-30) / 3)


class Logits(NPLM):
    """A network that returns logits."""

    def call(self, inputs, training=False):
        return keras.ops.log(super().call(inputs, training=training))


def test_a_subclass_is_trained_and_evaluated_on_its_own_call():
    model = build_nplm(Flatter)
    contexts, targets = make_batch(size=64)
    own = -np.log(np.asarray(model(contexts))[np.arange(64), targets]).mean()

    with tf.GradientTape() as tape:
        chosen = tf.gather(model(contexts, training=True), targets, batch_dims=1)
        of_call = -tf.reduce_mean(tf.math.log(chosen))
    gradients = tape.gradient(of_call, [weight.value for weight in model.trainable_weights])
    expected = [tf.convert_to_tensor(gradient) for gradient in gradients]
    model.compile("sgd", run_eagerly=True)
    loss, perplexity = model.evaluate(contexts, targets, verbose=0)
    np.testing.assert_allclose([loss, np.log(perplexity)], own, rtol=1e-4)
    # of the scores, without `call`
    assert abs(-model.log_prob(contexts, targets).mean() - own) > 0.1
    assert_close(find_step(model, contexts, targets), expected)


SPARSE = keras.losses.SparseCategoricalCrossentropy


@pytest.mark.parametrize(
    "kind, make_targets, options",
    [
        pytest.param(NPLM, np.array, dict(loss=SPARSE(from_logits=False)), id="a loss"),
        pytest.param(NPLM, np.array, dict(metrics=["accuracy"]), id="a metric"),
        pytest.param(Logits, np.array, dict(loss=SPARSE(from_logits=True)), id="logits"),
        pytest.param(
            NPLM, np.eye(V).__getitem__, dict(loss="categorical_crossentropy"), id="one-hot"
        ),
    ],
)
def test_a_loss_or_a_metric_changes_no_update(kind, make_targets, options):
    contexts, targets = make_batch()
    expected = find_step(build_nplm(weight_decay=0.2), contexts, targets)
    model = build_nplm(kind, weight_decay=0.2)
    assert_close(find_step(model, contexts, make_targets(targets), **options), expected)


def test_a_width_of_contexts_that_is_not_known_is_checked_in_the_graph():
    """As in datasets of generators; a wrong width stops training."""
    model = build_nplm()
    contexts, targets = make_batch()
    expected = find_step(build_nplm(), contexts, targets)
    signature = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(1.0))
    step = tf.function(lambda *data: model.train_step(data), signature, autograph=False)
    step(contexts, targets)
    assert_close(
        [old - new for old, new in zip(before, model.get_weights(), strict=True)], expected
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[7,4\].*\[\?,3\]"):
        step(np.repeat(contexts, [1, 1, 2], axis=1), targets)


# What the default path does not compute


def trace_shapes(model, step, batch_size):
    """Return the shapes of all tensors in a traced step and in the functions that it calls."""
    model.optimizer.build(model.trainable_variables)
    contexts = tf.TensorSpec([batch_size, model.order - 1], tf.int32)
    targets = tf.TensorSpec([batch_size], tf.int32)

    @tf.function(autograph=False)
    def run(x, y):
        return step((x, y))

    graph = run.get_concrete_function(contexts, targets).graph
    definition = graph.as_graph_def(add_shapes=True)
    library = {inner.signature.name: inner for inner in definition.library.function}
    found = set()
    waiting = [definition.node]
    while waiting:
        for node in waiting.pop():
            for shape in node.attr["_output_shapes"].list.shape:
                found.add(tuple(dimension.size for dimension in shape.dim))
            for attribute in node.attr.values():
                if attribute.HasField("func") and attribute.func.name in library:
                    waiting.append(library.pop(attribute.func.name).node_def)
    return found


def test_default_steps_build_no_probabilities_of_all_words(monkeypatch):
    """No tensor [B, |V|] is in the graph."""
    size = 10_000
    batch_size = 64
    # as a larger vocabulary would have it
    monkeypatch.setattr(softmax, "WHOLE", batch_size * size - 1)
    model = NPLM(size, 4, 5, 6, direct_connections=True)
    model.compile(LazySGD(0.1))
    for step in (model.train_step, model.test_step):
        shapes = trace_shapes(model, step, batch_size)
        assert (batch_size, size) not in shapes
        # the features [a; x]
        assert (batch_size, 6 + 15) in shapes


@pytest.mark.parametrize(
    "build, is_dense",
    [
        (lambda size: compose(size, 3, 5, 6), True),
        (lambda size: compose(size, 3, 5, 6, objective=NoiseContrastive()), False),
        (lambda size: compose_energy(size, 3, 5, 6), False),
    ],
    ids=["likelihood", "nce", "energy"],
)
def test_a_sampled_step_builds_nothing_as_long_as_the_vocabulary(build, is_dense):
    """Neither logits [B, |V|] nor a gradient or an update [|V|, h]. The likelihood has both."""
    size = 50
    batch_size = 9
    model = build(size)
    model.compile(LazySGD(0.1, weight_decay=1e-3))
    shapes = trace_shapes(model, model.train_step, batch_size)
    assert ((batch_size, size) in shapes) == is_dense
    assert ((size, 6) in shapes) == is_dense
    # C has sparse gradients with every head
    assert (size, 5) not in shapes


def test_under_xla_a_target_out_of_range_gives_nan():
    """XLA removes the assertion that stops a step."""
    model = build_nplm()
    contexts, targets = make_batch()
    targets[0] = V
    model.compile("sgd")
    if not tf.config.list_logical_devices("GPU"):
        assert model.jit_compile is False
    model.compile("sgd", jit_compile=True)
    assert np.isnan(model.train_on_batch(contexts, targets, return_dict=True)["loss"])
