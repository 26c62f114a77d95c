"""The output layers: losses and gradients against NumPy, exact probabilities, and steps that cost what they touch."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.layers.ops as operations
from keras_nplm import (
    NPLM,
    AdaptiveSoftmax,
    EnergyOutput,
    FullSoftmax,
    InputError,
    LazyAdagrad,
    LazySGD,
    NoiseContrastive,
    SampledSoftmax,
)
from keras_nplm.data.ngram_arrays import find_distinct_rows
from keras_nplm.layers.ops import linear_softmax, log_normaliser, rows

V, W, B = 30, 6, 9
BUILD = {
    "full": lambda: FullSoftmax(V, name="prob"),
    "held out": lambda: FullSoftmax(V, held_out_mass=0.2, self_normalisation=0.1, name="prob"),
    "sampled": lambda: SampledSoftmax(V, num_sampled=8, seed=3, name="prob"),
    "sampled, log-uniform": lambda: SampledSoftmax(V, num_sampled=8, proposal="log-uniform", seed=3, name="prob"),
    "nce": lambda: NoiseContrastive(V, num_sampled=8, self_normalisation=0.1, seed=3, name="prob"),
    "nce, held out": lambda: NoiseContrastive(V, num_sampled=8, held_out_mass=0.2, seed=3, name="prob"),
    "adaptive": lambda: AdaptiveSoftmax(V, cutoffs=(7, 16), name="prob"),
    "energy": lambda: EnergyOutput(V, hidden_units=W, num_sampled=8, self_normalisation=0.1, seed=3, name="prob"),
}


def _built(name):
    output = BUILD[name]()
    if name == "energy":
        output.tie(_variables(V, 5)[0])
    output.build((None, W))
    return output


def _output(name, seed=0):
    output = _built(name)
    rng = np.random.default_rng(seed)
    for weight in output.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return output


def _batch(seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(B, W)).astype(np.float32), rng.integers(4, V, B).astype(np.int32)


def _variables(size, width, scale=0.3):
    rng = np.random.default_rng(2)
    kernel = rng.normal(0, scale, (size, width)).astype(np.float32)
    bias = rng.normal(0, scale, size).astype(np.float32)
    return keras.Variable(kernel, autocast=False), keras.Variable(bias, autocast=False)


def _softmax_oracle(features, kernel, bias, targets, q, upstream):
    """ln Z, y_t, y_q and the gradients of their sum weighted by `upstream`, in float64."""
    f, u, b = (np.asarray(a, np.float64) for a in (features, kernel, bias))
    y = f @ u.T + b
    greatest = y.max(axis=1, keepdims=True)
    log_z = greatest[:, 0] + np.log(np.exp(y - greatest).sum(axis=1))
    values = log_z, y[np.arange(len(y)), targets], y @ q
    dy = upstream[0][:, None] * np.exp(y - log_z[:, None])
    dy[np.arange(len(y)), targets] += upstream[1]
    dy += upstream[2][:, None] * q
    return values, (dy @ u, dy.T @ f, dy.sum(axis=0))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("whole", [0, 1 << 22])
@pytest.mark.parametrize("size, shift", [(30, 0), (2500, 0), (2500, 200), (2500, -200)])
def test_the_tiled_softmax_and_its_gradient(size, shift, whole, jit, monkeypatch):
    """One tile and several, and logits whose exponentials overflow or vanish."""
    monkeypatch.setattr(operations, "_WHOLE", whole)
    monkeypatch.setattr(operations, "_CACHED", 1)  # the smallest tiles
    kernel, bias = _variables(size, W)
    bias.assign(bias.numpy() + shift)
    features, _ = _batch()
    targets = np.random.default_rng(3).integers(0, size, B).astype(np.int32)
    q = np.random.default_rng(4).dirichlet(np.ones(size))
    upstream = np.random.default_rng(5).normal(size=(3, B))

    @tf.function(jit_compile=jit)
    def run(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            values = linear_softmax(features, kernel, bias, targets, "float32", tf.constant(q, tf.float32))
            total = tf.reduce_sum(tf.stack(values) * tf.constant(upstream, tf.float32))
        return values, tape.gradient(total, [features, kernel.value, bias.value])

    values, gradients = run(tf.constant(features))
    expected, expected_gradients = _softmax_oracle(features, kernel, bias, targets, q, upstream)
    for found, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(log_normaliser(tf.constant(features), kernel, bias), expected[0], rtol=1e-5)


def test_the_tiled_softmax_hands_on_what_is_not_a_number():
    kernel, bias = _variables(30, W)
    features = np.full((2, W), np.nan, np.float32)
    assert np.isnan(log_normaliser(tf.constant(features), kernel, bias)).all()
    assert np.isnan(linear_softmax(tf.constant(features), kernel, bias, np.array([4, 5]), "float32")[0]).all()


def test_the_tiled_softmax_in_half_precision_is_near():
    kernel, bias = _variables(2500, W)
    features, targets = _batch()
    half = linear_softmax(tf.constant(features), kernel, bias, targets, "bfloat16")
    whole = linear_softmax(tf.constant(features), kernel, bias, targets, "float32")
    np.testing.assert_allclose(half[0], whole[0], atol=0.02)


@pytest.mark.parametrize("name", BUILD)
def test_probabilities_are_exact_whatever_the_training(name):
    output, (features, targets) = _output(name), _batch()
    log_probs = keras.ops.convert_to_numpy(output.log_probs(features))
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, rtol=1e-5)
    chosen = log_probs[np.arange(B), targets]
    np.testing.assert_allclose(output.log_prob(features, targets), chosen, rtol=1e-4)
    which = np.array([2, 0, 2, 1, 1, 8, 7, 0, 5], np.int32)
    np.testing.assert_allclose(output.log_prob(features, targets, which), log_probs[which, targets], rtol=1e-4)


def _drawn(name):
    """The words that the first step of an output made by BUILD draws."""
    output = BUILD[name]()
    output.build((None, W))
    if output.held_out_mass:
        return None
    return keras.ops.convert_to_numpy(output._draw(output.noise, output._strata(output.num_sampled)))


@pytest.mark.parametrize("name", ["sampled", "sampled, log-uniform", "nce"])
def test_sampled_losses_and_their_gradients(name):
    output, (features, targets) = _output(name), _batch()
    drawn, k = _drawn(name), output.num_sampled
    u, b = output.kernel.numpy().astype(np.float64), output.b.numpy().astype(np.float64)
    log_q = output.log_q.numpy().astype(np.float64)
    assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-5)
    expected, d_u, d_b = [], np.zeros_like(u), np.zeros_like(b)
    for f, target in zip(features.astype(np.float64), targets, strict=True):
        words = np.concatenate([[target], drawn])
        s = u[words] @ f + b[words] - log_q[words] - np.log(k)
        if name == "nce":
            sigma = 1 / (1 + np.exp(-s))
            log_z = np.log(np.exp(s[1:]).sum())
            expected.append(-np.log(sigma[0]) - np.log(1 - sigma[1:]).sum() + 0.1 * log_z**2)
            ds = np.concatenate([[sigma[0] - 1], sigma[1:] + 0.2 * log_z * np.exp(s[1:] - log_z)])
        else:
            expected.append(np.log(np.exp(s).sum()) - s[0])
            ds = np.exp(s) / np.exp(s).sum() - (np.arange(k + 1) == 0)
        np.add.at(d_u, words, ds[:, None] * f)
        np.add.at(d_b, words, ds)
    with tf.GradientTape() as tape:
        loss, negative_log_likelihood = output.training_loss(features, targets)
        total = tf.reduce_sum(loss)
    assert negative_log_likelihood is None
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    gradients = tape.gradient(total, [output.kernel.value, output.b.value])
    assert all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
    np.testing.assert_allclose(tf.convert_to_tensor(gradients[0]), d_u, atol=1e-4)
    np.testing.assert_allclose(tf.convert_to_tensor(gradients[1]), d_b, atol=1e-4)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 400))
def test_words_are_drawn_as_often_as_the_proposal_says(seed, k):
    """One word a stratum: each comes k Q(w) times, give or take the strata that it shares."""
    output = SampledSoftmax(V, num_sampled=k, seed=seed)
    output.build((None, W))
    counts = np.random.default_rng(seed).integers(0, 50, V)
    counts[:5] = 0, 3, 0, 0, 1
    output.set_unigram(counts)
    drawn = keras.ops.convert_to_numpy(output._draw(output.noise, output._strata(k)))
    often = np.bincount(drawn, minlength=V)
    expected = k * np.exp(output.log_q.numpy().astype(np.float64))
    assert often.sum() == k and np.all(np.abs(often - expected) < 2.01)
    assert often[0] == often[2] == 0  # <pad> and <s> are never predicted


def test_the_sampled_losses_lead_where_the_likelihood_leads():
    """Over many draws the sampled gradient of the logits is that of the softmax, and of NCE where Z = 1."""
    probability = np.random.default_rng(0).dirichlet(np.ones(V - 4))
    for make in (SampledSoftmax, NoiseContrastive):
        output = make(V, num_sampled=1024, seed=0)
        output.build((None, 1))
        output.kernel.assign(np.zeros((V, 1)))
        output.b.assign(np.concatenate([np.full(4, -20.0), np.log(probability)]))
        random = np.random.default_rng(1)

        @tf.function
        def gradient(targets, output=output):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(output.training_loss(tf.zeros((2048, 1)), targets)[0])
            return tf.convert_to_tensor(tape.gradient(loss, output.b.value))

        drawn = random.choice(np.arange(4, V), (100, 2048), p=probability).astype(np.int32)
        mean = np.mean([gradient(targets) for targets in drawn], axis=0)
        assert np.abs(mean).max() < 4e-3, make  # at the true distribution the gradient vanishes


def test_held_out_words_are_drawn_with_their_share():
    output = _output("nce, held out")
    counts = np.full(V, 5)
    counts[20:] = 0
    output.set_unigram(counts, min_count=4)
    replaced = np.concatenate([output._some_held_out(np.full(1000, 4, np.int32)) for _ in range(20)])
    assert np.mean(replaced != 4) == pytest.approx(0.2, abs=0.01)
    assert set(replaced) == {4, *range(20, V)}


def test_the_adaptive_softmax_factors_the_probability_and_its_gradient():
    output, (features, targets) = _output("adaptive"), _batch()
    targets[:3] = 4, 9, 20  # the short-list and both clusters
    root_u, clusters = output.root[0].numpy(), output.clusters
    root = features @ root_u.T + output.root[1].numpy()
    root = root - np.log(np.exp(root).sum(axis=1, keepdims=True))
    within = features @ output.projections[1].numpy() @ clusters[1][0].numpy().T + clusters[1][1].numpy()
    within = within - np.log(np.exp(within).sum(axis=1, keepdims=True))
    log_probs = keras.ops.convert_to_numpy(output(features))
    np.testing.assert_allclose(log_probs[:, :7], root[:, :7], rtol=1e-4)
    np.testing.assert_allclose(log_probs[:, 16:], root[:, 8:9] + within, rtol=1e-4)

    def gradients(loss_of):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_of())
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, [w.value for w in output.trainable_weights])]

    fast = gradients(lambda: output.training_loss(features, targets)[0])
    plain = gradients(lambda: -tf.gather(output(features), targets, axis=1, batch_dims=1))
    for left, right, weight in zip(fast, plain, output.trainable_weights, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-4, err_msg=weight.path)


@pytest.mark.parametrize("name", BUILD)
def test_every_output_begins_as_the_unigram_model(name):
    output, (features, _) = _output(name), _batch()
    for weight in output.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    counts = np.random.default_rng(0).integers(1, 50, V)
    counts[:4] = 0, 7, 0, 0
    output.set_unigram(counts)
    mass = getattr(output, "held_out_mass", 0)
    q = (counts == 0) * 0 + (np.arange(V) > 3) + (np.arange(V) == 1)
    expected = (1 - mass) * counts / counts.sum() + mass * q / q.sum()
    np.testing.assert_allclose(np.exp(output.log_probs(features))[0, 4:], expected[4:], rtol=1e-4)


def _model(name, order=3, **options):
    keras.utils.set_random_seed(0)
    return NPLM(V, order, 5, W, output_layer=BUILD[name](), **options)


@pytest.mark.parametrize("name", BUILD)
def test_every_output_trains_saves_loads_and_goes_on_alike(name, tmp_path):
    rng = np.random.default_rng(0)
    contexts = rng.integers(4, V, (600, 2)).astype(np.int32)
    targets = (contexts[:, 1] % 5 + 4).astype(np.int32)
    model = _model(name, dropout=0.1)
    model.prob.set_unigram(np.bincount(targets, minlength=V))
    optimizer = LazySGD(1.0, weight_decay=1e-4)
    if name == "energy":  # whose weights want steps of different sizes
        optimizer = LazyAdagrad(0.2, initial_accumulator_value=1e-5, weight_decay=1e-4)
    model.compile(optimizer=optimizer, steps_per_execution=10)
    before = np.exp(-model.log_prob(contexts, targets).mean())
    history = model.fit(contexts, targets, batch_size=20, epochs=8, verbose=0, validation_data=(contexts, targets))
    assert history.history["val_perplexity"][-1] < 0.8 * before
    np.testing.assert_allclose(
        history.history["val_perplexity"][-1], np.exp(-model.log_prob(contexts, targets).mean()), rtol=1e-4
    )
    named = {"sampled": "sampled_loss", "energy": "sampled_loss", "nce": "nce_loss"}.get(name.split(",")[0], "loss")
    assert (named in history.history) and ("perplexity" in history.history) == (named == "loss")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded.next_log_probs(contexts[:5]), model.next_log_probs(contexts[:5]))
    for one in (model, loaded):
        one.fit(contexts, targets, shuffle=False, verbose=0)
    for left, right in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=left.path)


@pytest.mark.parametrize("name", ["full", "nce"])
@pytest.mark.parametrize("options", [{"output_rank": 2}, {"tied_output": True}])
def test_low_rank_and_tied_outputs(name, options, tmp_path):
    model = _model(name, **options)
    contexts, targets = np.array([[4, 5], [6, 7]]), np.array([8, 9])
    x = model.embed.C.numpy()[contexts].reshape(2, -1)
    a = np.tanh(x @ model.hidden.H.numpy() + model.hidden.d.numpy()) @ model.project.kernel.numpy()
    kernel = model.embed.C.numpy() if "tied_output" in options else model.prob.kernel.numpy()
    assert kernel.shape[1] == a.shape[1] == (5 if "tied_output" in options else 2)
    np.testing.assert_allclose(model(contexts), a @ kernel.T + model.prob.b.numpy(), atol=1e-6)
    rank = kernel.shape[1]
    expected = V * 5 + 2 * 5 * W + W + W * rank + V + (V * rank if "output_rank" in options else 0)
    assert sum(weight.numpy().size for weight in model.trainable_weights) == expected
    before = model.embed.C.numpy()
    model.compile(optimizer=LazySGD(0.5))
    model.fit(contexts, targets, verbose=0)
    assert np.any(model.embed.C.numpy()[8] != before[8]) == ("tied_output" in options)  # the target's row
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.next_log_probs(contexts), model.next_log_probs(contexts))
    with pytest.raises(InputError, match="`tied_output` must be off"):
        NPLM(V, output_layer="adaptive", tied_output=True)
    with pytest.raises(InputError, match="`output_rank` must be None"):
        NPLM(V, output_rank=3, tied_output=True)


def _shapes(function) -> set[tuple]:
    """The shapes of all that a traced function and the functions that it calls compute."""
    definition = function.graph.as_graph_def(add_shapes=True)
    library = {inner.signature.name: inner for inner in definition.library.function}
    found, waiting = set(), [definition.node]
    while waiting:
        for node in waiting.pop():
            found |= {tuple(d.size for d in shape.dim) for shape in node.attr["_output_shapes"].list.shape}
            called = [attribute.func.name for attribute in node.attr.values() if attribute.HasField("func")]
            waiting += [library.pop(name).node_def for name in called if name in library]
    return found


@pytest.mark.parametrize(
    "name, optimizer, dense",
    [("full", LazySGD, True), ("sampled", LazySGD, False), ("nce", LazySGD, False), ("energy", LazySGD, False)],
)
def test_a_sampled_step_makes_nothing_as_long_as_the_vocabulary(name, optimizer, dense):
    """Neither logits [B, |V|] nor a gradient or an update of [|V|, w]; the full softmax shows both."""
    model = _model(name)
    step = optimizer(0.1, weight_decay=1e-3)
    step.build(model.trainable_variables)
    model.compile(optimizer=step)
    spec = tf.TensorSpec([B, 2], tf.int32), tf.TensorSpec([B], tf.int32)
    traced = tf.function(lambda x, y: model.train_step((x, y))).get_concrete_function(*spec)
    shapes = _shapes(traced)
    assert ((B, V) in shapes) == dense
    assert ((V, W) in shapes) == dense
    assert (V, 5) not in shapes  # C: sparse with every output


@pytest.mark.parametrize("name", BUILD)
def test_every_output_trains_in_mixed_precision_and_is_exported(name, tmp_path):
    output = BUILD[name]()
    config = output.get_config() | {"dtype": "mixed_bfloat16"}
    model = NPLM(V, 3, 5, W, dropout=0.1, output_layer=type(output).from_config(config), dtype="mixed_bfloat16")
    contexts, targets = np.array([[4, 5], [6, 7]], np.int32), np.array([8, 29], np.int32)
    model.compile(optimizer=LazySGD(0.1))
    assert model.features(contexts).dtype == "bfloat16"
    history = model.fit(contexts, targets, verbose=0).history
    assert np.isfinite(next(iter(history.values()))[0])
    np.testing.assert_allclose(np.exp(model.next_log_probs(contexts)).sum(axis=1), 1, rtol=1e-5)
    model.export(
        tmp_path / "exported", verbose=False, input_signature=[keras.InputSpec(shape=(None, 2), dtype="int32")]
    )
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(contexts), model(contexts), atol=2e-3)


def test_a_model_that_is_called_within_anothers_step_gives_its_logits():
    teacher = _model("full")
    seen = []

    class Student(NPLM):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            seen.append((teacher(x).shape[1], y_pred.shape[1]))
            return super().compute_loss(x, y, y_pred, sample_weight, training)

    student = Student(V, 3, 5, W)
    student.compile(optimizer=LazySGD(0.1))
    student.fit(np.array([[4, 5], [6, 7]]), np.array([8, 9]), verbose=0)
    assert seen[0] == (V, W)


@pytest.mark.parametrize("name", BUILD)
def test_ids_out_of_range_do_not_train_unseen(name):
    output, (features, targets) = _output(name), _batch()
    targets[3] = V
    for values in (output.training_loss(features, targets)[0], output.log_prob(features, targets)):
        assert np.flatnonzero(np.isnan(values)).tolist() == [3]


def test_what_an_output_cannot_be_is_refused():
    with pytest.raises(InputError, match="`output_layer` must be one of full, sampled, nce, adaptive, energy"):
        NPLM(V, output_layer="hierarchical")
    with pytest.raises(InputError, match=f"`output_layer` must be of {V} words"):
        NPLM(V, output_layer=FullSoftmax(V + 1))
    with pytest.raises(InputError, match="`num_sampled` must be 1 or more"):
        SampledSoftmax(V, num_sampled=0)
    with pytest.raises(InputError, match="`proposal` must be one of unigram, log-uniform"):
        SampledSoftmax(V, proposal="bigram")
    with pytest.raises(InputError, match="`cutoffs` must ascend strictly between 0 and 30"):
        AdaptiveSoftmax(V, cutoffs=(7, 30))
    with pytest.raises(InputError, match=r"`held_out_mass` must be in \[0, 1\)"):
        FullSoftmax(V, held_out_mass=1.0)
    with pytest.raises(InputError, match="`held_out_mass` must be 0: adaptive has none"):
        NPLM(V, output_layer="adaptive", held_out_mass=0.1)
    with pytest.raises(InputError, match="`weight_decay` must be 0 with a sampled output: LazySGD has one"):
        NPLM(V, output_layer="nce", weight_decay=1e-4)
    with pytest.raises(InputError, match="take mixed_bfloat16"):
        NPLM(V, dtype="mixed_float16")
    for wanted in ({"metrics": ["accuracy"]}, {"weighted_metrics": ["accuracy"]}, {"loss": "mse"}):
        with pytest.raises(InputError, match="trained without logits"):
            _model("nce").compile(optimizer="sgd", **wanted)
    _model("nce").compile("sgd", None)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**31 - 1)), min_size=1, max_size=30))
def test_distinct_contexts_are_all_there_and_once(contexts):
    contexts = np.array(contexts, np.int32)
    distinct, which = find_distinct_rows(contexts)
    np.testing.assert_array_equal(distinct[which], contexts)
    assert len({tuple(row) for row in distinct}) == len(distinct) == len({tuple(row) for row in contexts})


def test_rows_of_a_matrix_have_a_sparse_gradient():
    variable = keras.Variable(np.arange(8.0).reshape(4, 2), autocast=False)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(rows(variable, np.array([1, 3, 1, 99])))
    gradient = tape.gradient(total, variable.value)
    assert isinstance(gradient, tf.IndexedSlices)
    assert tf.convert_to_tensor(gradient).numpy()[:, 0].tolist() == [0, 2, 0, 2]
