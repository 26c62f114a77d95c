"""The formula, its gradients and what follows from them, against plain NumPy in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    NPLM,
    ContextEmbedding,
    InputError,
    Perplexity,
    TanhHidden,
    Vocabulary,
    encode_sentences,
)
from keras_nplm.data.dataset import ngram_dataset

SHAPES = [(5, 3, 4, True), (5, 3, 4, False), (2, 1, 1, True), (3, 6, 0, True)]  # n, m, h, direct connections
V = 11


def _model(order, m, h, direct, **options) -> NPLM:
    """A model whose every weight, biases too, is random."""
    model = NPLM(V, order, m, h, direct, **options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def _letters(model) -> dict[str, np.ndarray]:
    """The weights by the paper's letters and shapes, in float64."""
    h = model.hidden_units
    kernel = model.prob.kernel.numpy().astype(np.float64)
    letters = {"C": model.embed.C.numpy().astype(np.float64), "U": kernel[:, :h], "W": kernel[:, h:]}
    letters["b"] = model.prob.b.numpy().astype(np.float64)
    if h:
        letters |= {"H": model.hidden.H.numpy().astype(np.float64).T, "d": model.hidden.d.numpy().astype(np.float64)}
    return letters


def _oracle(letters, context):
    """x, a, y and P for one context: the paper's equation 1, word by word, with a zero vector for <pad>."""
    x = np.concatenate([letters["C"][word] * (word != 0) for word in context])
    a = np.tanh(letters["d"] + letters["H"] @ x) if "H" in letters else np.zeros(0)
    y = letters["b"] + letters["U"] @ a + (letters["W"] @ x if letters["W"].size else 0)
    return x, a, y, np.exp(y) / np.exp(y).sum()


def _batch(order, size=7, seed=1):
    rng = np.random.default_rng(seed)
    contexts = rng.integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, 0] = 0
    return contexts, rng.integers(1, V, size).astype(np.int32)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_formula(shape):
    model, (contexts, targets) = _model(*shape), _batch(shape[0])
    letters = _letters(model)
    expected = np.array([_oracle(letters, context)[3] for context in contexts])
    np.testing.assert_allclose(keras.ops.softmax(model(contexts)), expected, rtol=1e-5)
    np.testing.assert_allclose(np.exp(model.next_log_probs(contexts)), expected, rtol=1e-5)
    chosen = expected[np.arange(len(targets)), targets]
    np.testing.assert_allclose(model.log_prob(contexts, targets), np.log(chosen), rtol=1e-5)


def _oracle_gradients(letters, contexts, targets, weight_decay, q, mass):
    """The gradients of the penalised mean loss, by the chain rule, n-gram by n-gram."""
    gradients = {name: np.zeros_like(value) for name, value in letters.items()}
    m = letters["C"].shape[1]
    for context, target in zip(contexts, targets, strict=True):
        x, a, _, p = _oracle(letters, context)
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


def _gradients(model, contexts, targets):
    with tf.GradientTape() as tape:
        loss = model.compute_loss(contexts, targets, model(contexts, training=True))
    found = dict(
        zip((w.name for w in model.trainable_weights), tape.gradient(loss, model.trainable_weights), strict=True)
    )
    found = {name: tf.convert_to_tensor(gradient).numpy() for name, gradient in found.items()}
    kernel, h = found.pop("UW"), model.hidden_units
    found |= {"U": kernel[:, :h], "W": kernel[:, h:]}
    if "H" in found:
        found["H"] = found["H"].T
    return found


@pytest.mark.parametrize("weight_decay, mass", [(0.0, 0.0), (0.3, 0.0), (0.0, 0.2)])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradients(shape, weight_decay, mass):
    model = _model(*shape, weight_decay=weight_decay, held_out_mass=mass)
    contexts, targets = _batch(shape[0])
    q = np.full(V, 1 / V)
    expected = _oracle_gradients(_letters(model), contexts, targets, weight_decay, q, mass)
    found = _gradients(model, contexts, targets)
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, atol=1e-6, err_msg=name)


def test_only_the_rows_of_the_context_words_move():
    model = _model(4, 3, 5, False)
    before = model.embed.C.numpy()
    model.compile(optimizer=keras.optimizers.SGD(1.0))
    model.train_on_batch(np.array([[0, 4, 5], [7, 4, 5]]), np.array([8, 9]))
    moved = np.flatnonzero(np.any(model.embed.C.numpy() != before, axis=1))
    assert moved.tolist() == [4, 5, 7]  # not <pad>, not the targets


def test_an_embedding_is_a_linear_layer_on_one_hot_vectors():
    embed = ContextEmbedding(V, 3)
    contexts, _ = _batch(5)
    one_hot = np.eye(V)[contexts] * (contexts != 0)[..., None]  # [B, n-1, V]
    found = np.asarray(embed(contexts))
    np.testing.assert_allclose(found, (one_hot @ np.asarray(embed.C)).reshape(len(contexts), -1), rtol=1e-6)


def test_the_sketch_that_forgets_to_concatenate_is_another_model():
    """Dense on a rank-3 embedding predicts at every position, from one word each: not the paper's model."""
    contexts, _ = _batch(4)
    embed, hidden = ContextEmbedding(V, 3), TanhHidden(5)
    ours = hidden(embed(contexts))
    assert ours.shape == (7, 5)
    sketch = keras.Sequential([keras.layers.Embedding(V, 3), keras.layers.Dense(5, activation="tanh")])
    assert sketch(contexts).shape == (7, 3, 5)
    swapped = contexts[:, ::-1]
    assert not np.allclose(hidden(embed(swapped)), ours)  # the order of the context matters
    np.testing.assert_array_equal(np.asarray(sketch(swapped))[:, ::-1], sketch(contexts))  # there it does not


def test_a_masked_position_adds_nothing():
    model = _model(4, 3, 5, True)
    short = model(np.array([[0, 0, 6]]))
    model.embed.C.assign(model.embed.C.numpy() + 10.0 * (np.arange(V) == 0)[:, None])
    np.testing.assert_array_equal(model(np.array([[0, 0, 6]])), short)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.integers(0, V - 1), min_size=3, max_size=3), min_size=1, max_size=9))
def test_every_distribution_sums_to_one(contexts):
    model = _model(4, 3, 5, True)
    np.testing.assert_allclose(np.exp(model.next_log_probs(np.array(contexts))).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_number_of_parameters(shape):
    n, m, h, direct = shape
    # h (1 + (n-1) m) is H and d, which are not there without hidden units
    expected = V * (1 + (n if direct else 1) * m + h) + h * (1 + (n - 1) * m)
    assert NPLM(V, n, m, h, direct).count_params() == expected


def test_fit_minimises_the_penalised_likelihood_and_reports_perplexity_without_the_penalty():
    model, (contexts, targets) = _model(4, 3, 5, True, weight_decay=0.1), _batch(4, size=10)
    letters = _letters(model)
    likelihoods = [-np.log(_oracle(letters, c)[3][t]) for c, t in zip(contexts, targets, strict=True)]
    penalty = 0.05 * sum(np.sum(letters[name] ** 2) for name in "CHUW")
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    history = model.fit(contexts, targets, batch_size=4, verbose=0).history  # batches of 4, 4 and 2
    np.testing.assert_allclose(history["perplexity"], np.exp(np.mean(likelihoods)), rtol=1e-5)
    np.testing.assert_allclose(history["loss"], np.mean(likelihoods) + penalty, rtol=1e-5)
    loss, perplexity = model.evaluate(contexts, targets, batch_size=4, verbose=0)
    np.testing.assert_allclose([loss, perplexity], [history["loss"][0], history["perplexity"][0]], rtol=1e-5)


def test_sample_weights_and_the_users_own_loss_and_metrics_are_honoured():
    model, (contexts, targets) = _model(4, 3, 5, True), _batch(4, size=6)
    weights = np.array([1, 0, 2, 0, 0, 1], np.float32)
    nll = -model.log_prob(contexts, targets)
    model.compile(optimizer=keras.optimizers.SGD(0.0), metrics=["sparse_categorical_accuracy"])
    result = model.evaluate(contexts, targets, sample_weight=weights, verbose=0, return_dict=True)
    assert set(result) == {"loss", "perplexity", "sparse_categorical_accuracy"}
    np.testing.assert_allclose(result["perplexity"], np.exp((nll * weights).sum() / 4), rtol=1e-5)
    own = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss=own)
    result = model.evaluate(contexts, targets, verbose=0, return_dict=True)
    np.testing.assert_allclose(result["loss"], nll.mean(), rtol=1e-5)
    np.testing.assert_allclose(np.log(result["perplexity"]), nll.mean(), rtol=1e-5)


def test_the_bias_starts_as_the_unigram_model():
    counts = np.array([0, 5, 0, 0, 3, 2, 0, 0, 0, 0, 0])
    model = NPLM(V, 3, held_out_mass=0.1)
    model.prob.set_unigram(counts, min_count=4)
    lacking = np.array([0, 0, 0, 0, 1, 2, 4, 4, 4, 4, 4])
    expected = 0.9 * counts / 10 + 0.1 * lacking / lacking.sum()
    expected[[0, 2, 3]] = 1e-12
    np.testing.assert_allclose(np.exp(model.prob.b.numpy()), expected, rtol=1e-5)
    np.testing.assert_allclose(model.prob.q.numpy(), lacking / lacking.sum(), rtol=1e-6)
    model = NPLM(V, 3)
    model.prob.set_unigram(counts)
    assert np.exp(model.prob.b.numpy())[6] == pytest.approx(1 / 15)  # 10 seen, and 5 words as if seen once
    with pytest.raises(InputError, match=r"`counts` must be \[11\]"):
        model.prob.set_unigram(counts[1:])


def test_save_and_load_give_the_same_numbers_and_go_on_training_alike(tmp_path):
    model, (contexts, targets) = _model(4, 3, 5, True, weight_decay=0.1, dropout=0.5, held_out_mass=0.1), _batch(4)
    model.compile(optimizer=keras.optimizers.Adam(0.1))
    model.fit(contexts, targets, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded.next_log_probs(contexts), model.next_log_probs(contexts))
    for one in (model, loaded):
        one.fit(contexts, targets, shuffle=False, verbose=0)
    for left, right in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=left.path)


def test_weights_alone_load_into_a_new_model(tmp_path):
    model, (contexts, _) = _model(4, 3, 5, True), _batch(4)
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = NPLM(V, 4, 3, 5, True)
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(fresh(contexts).numpy(), model(contexts).numpy())


def test_many_ngrams_are_scored_in_parts():
    model = _model(3, 2, 3, False)
    rng = np.random.default_rng(0)
    contexts, targets = rng.integers(0, V, (2100, 2)), rng.integers(0, V, 2100)
    whole = model.log_prob(contexts, targets)
    np.testing.assert_allclose(whole, model.next_log_probs(contexts)[np.arange(2100), targets], rtol=1e-5)
    assert model.log_prob(contexts[:0], targets[:0]).shape == (0,)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 1}, "`order` must be 2 or more"),
        ({"hidden_units": 0}, "`hidden_units` must be 1 or more"),
        ({"embedding_dim": 0}, "`embedding_dim` must be 1 or more"),
        ({"vocabulary_size": 1}, "`vocabulary_size` must be 2 or more"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\)"),
        ({"weight_decay": -1e-3}, "`weight_decay` must be 0 or more"),
        ({"held_out_mass": 1.0}, "`held_out_mass` must be in"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        NPLM(**{"vocabulary_size": V} | options)


def test_ids_and_shapes_that_do_not_fit_are_refused():
    model = _model(3, 2, 3, False)
    with pytest.raises(InputError, match="Ids must be 0 to 10. Received: 11"):
        model.log_prob([[1, 11]], [1])
    with pytest.raises(InputError, match="Ids must be 0 to 10. Received: -1"):
        model.log_prob([[1, 2]], [-1])
    with pytest.raises(InputError, match=r"`context_ids` must be \[B, 2\]. Received: \[1, 3\]"):
        model.next_log_probs([[1, 2, 3]])
    with pytest.raises(InputError, match=r"`target_ids` must be \[1\]. Received: \[2\]"):
        model.log_prob([[1, 2]], [1, 2])


def test_ids_out_of_range_do_not_train_unseen():
    model, (contexts, targets) = _model(4, 3, 5, True), _batch(4)
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    assert np.isfinite(model.evaluate(contexts, targets[:, None], verbose=0)[0])  # targets of rank 2 are the same
    for wrong in (V, -1):
        assert np.isnan(model.evaluate(contexts, np.full_like(targets, wrong), verbose=0)[0])
        assert np.isnan(model.evaluate(np.full_like(contexts, wrong), targets, verbose=0)[0])


def test_probabilities_are_exact_under_mixed_precision():
    model = _model(4, 3, 5, True, dtype="mixed_bfloat16", held_out_mass=0.1)
    contexts, targets = _batch(4)
    np.testing.assert_allclose(np.exp(model.next_log_probs(contexts)).sum(axis=1), 1, rtol=1e-5)
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    assert np.isfinite(model.fit(contexts, targets, verbose=0).history["loss"][0])


def test_weights_saved_without_dropout_load_into_a_model_with_it(tmp_path):
    _model(4, 3, 5, True).save_weights(tmp_path / "model.weights.h5")
    _model(4, 3, 5, True, dropout=0.1).load_weights(tmp_path / "model.weights.h5")


def test_perplexity_is_over_tokens_and_not_over_batches():
    perplexity = Perplexity()
    assert float(perplexity.result()) == 1.0
    perplexity.update_state(np.log(np.array([2.0, 2.0, 2.0], np.float32)))
    perplexity.update_state(np.log(np.array([32.0], np.float32)))
    assert float(perplexity.result()) == pytest.approx((2 * 2 * 2 * 32) ** (1 / 4))  # 4, where batches would say 8
    perplexity.reset_state()
    perplexity.update_state(np.log(np.array([2.0, 8.0], np.float32)), sample_weight=np.array([3.0, 1.0]))
    assert float(perplexity.result()) == pytest.approx((2**3 * 8) ** (1 / 4))


def test_what_is_learned_of_the_dog_holds_for_the_cat():
    """The lectures' example: "the cat is eating" never occurs, but cat and dog share their other contexts."""
    verbs = ["is running", "is sleeping", "is barking at the moon", "was lost", "sat there"]
    sentences = [f"{the} {animal} {verb}" for the in ("the", "a") for animal in ("dog", "cat") for verb in verbs]
    sentences += ["the dog is eating", "a dog is eating"] * 2
    sentences += [
        f"{the} {thing} {verb}" for the in ("the", "a") for thing in ("stone", "table") for verb in ("fell", "broke")
    ]
    sentences += ["the moon is shining", "a moon is shining"] * 2
    tokens = [sentence.split() for sentence in sentences]
    vocabulary = Vocabulary.build(tokens)
    ids = encode_sentences(tokens, vocabulary)
    keras.utils.set_random_seed(0)
    model = NPLM(len(vocabulary), order=4, embedding_dim=8, hidden_units=16, weight_decay=1e-3)
    model.compile(optimizer=keras.optimizers.Adam(0.02), steps_per_execution=4)
    model.fit(ngram_dataset(ids, 4, 16, boundary="sentence"), epochs=60, shuffle=False, verbose=0)
    context = vocabulary.encode(["the", "cat", "is"])
    probability = dict(zip(vocabulary.words, np.exp(model.next_log_probs(context[None])[0]), strict=True))
    assert probability["eating"] > 2 * probability["shining"]  # which follows "is" as often
    assert probability["eating"] > 2 * probability["broke"]
