"""Sampled softmax and NCE: losses and gradients against NumPy, the proposal, held-out words."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import NoiseContrastive, SampledSoftmax

V, W = 30, 6


def _samples(output) -> np.ndarray:
    """The negative samples of the layer's next step."""
    return np.asarray(output._sample(output.noise, output._strata(output.num_sampled)))


@pytest.mark.parametrize("kind", ["sampled", "sampled, log-uniform", "nce"])
def test_loss_and_gradient(kind, build, randomised, batch):
    output, (features, targets) = randomised(kind), batch
    samples, k = _samples(build(kind)), output.num_sampled  # the same seed
    u, b = output.kernel.numpy().astype(np.float64), output.b.numpy().astype(np.float64)
    log_q = output.log_q.numpy().astype(np.float64)
    assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-5)
    expected, d_u, d_b = [], np.zeros_like(u), np.zeros_like(b)
    for f, target in zip(features.astype(np.float64), targets, strict=True):
        words = np.concatenate([[target], samples])
        s = u[words] @ f + b[words] - log_q[words] - np.log(k)
        if kind == "nce":
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
    assert all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)  # rows of the words used
    np.testing.assert_allclose(tf.convert_to_tensor(gradients[0]), d_u, atol=1e-4)
    np.testing.assert_allclose(tf.convert_to_tensor(gradients[1]), d_b, atol=1e-4)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.integers(1, 400))
def test_words_are_sampled_as_often_as_the_proposal_says(seed, k):
    """One word per stratum: a word comes k Q(w) times, up to the strata that it shares."""
    output = SampledSoftmax(V, num_sampled=k, seed=seed)
    output.build((None, W))
    counts = np.random.default_rng(seed).integers(0, 50, V)
    counts[:5] = 0, 3, 0, 0, 1
    output.set_unigram(counts)
    often = np.bincount(_samples(output), minlength=V)
    expected = k * np.exp(output.log_q.numpy().astype(np.float64))
    assert often.sum() == k and np.all(np.abs(often - expected) < 2.01)
    assert often[0] == often[2] == 0  # <pad> and <s> are never predicted


def test_all_bits_of_a_seed_count_in_the_samples():
    outputs = [SampledSoftmax(V, num_sampled=9, seed=seed) for seed in (1, (1 << 32) + 1, (1 << 64) + 1, -1)]
    for output in outputs:
        output.build((None, W))
    assert len({tuple(_samples(output).tolist()) for output in outputs}) == 4
    assert outputs[1].get_config()["seed"] == (1 << 32) + 1


def test_words_that_are_never_predicted_are_never_sampled():
    output = SampledSoftmax(V, num_sampled=4, seed=0)
    output.build((None, W))
    for _ in range(2):  # before and after the unigram start
        assert int(output._sample(output.noise, [0.0])[0]) not in (0, 2)
        np.testing.assert_allclose(output.log_q.numpy()[[0, 2]], np.log(1e-12), rtol=1e-5)
        output.set_unigram(np.append([0, 0, 0], np.ones(V - 3)))


def test_log_uniform_proposal_is_by_rank():
    output = SampledSoftmax(8, num_sampled=4, proposal="log-uniform", seed=0)
    output.build((None, W))
    output.set_unigram(np.array([0, 5, 0, 9, 1, 7, 0, 2]))
    q = np.exp(output.log_q.numpy())
    rank = {3: 0, 5: 1, 1: 2, 7: 3, 4: 4, 6: 5}  # by frequency
    expected = np.array([np.log((rank[w] + 2) / (rank[w] + 1)) if w in rank else 0 for w in range(8)])
    np.testing.assert_allclose(q, expected / expected.sum(), atol=1e-6)


@pytest.mark.parametrize("make", [SampledSoftmax, NoiseContrastive])
def test_gradient_vanishes_at_the_true_distribution(make):
    """The mean over many samples. NCE needs log Z = 0 there, too."""
    probability = np.random.default_rng(0).dirichlet(np.ones(V - 4))
    output = make(V, num_sampled=1024, seed=0)
    output.build((None, 1))
    output.kernel.assign(np.zeros((V, 1)))
    output.b.assign(np.concatenate([np.full(4, -20.0), np.log(probability)]))

    @tf.function
    def gradient(targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(output.training_loss(tf.zeros((2048, 1)), targets)[0])
        return tf.convert_to_tensor(tape.gradient(loss, output.b.value))

    targets = np.random.default_rng(1).choice(np.arange(4, V), (100, 2048), p=probability).astype(np.int32)
    mean = np.mean([gradient(batch) for batch in targets], axis=0)
    assert np.abs(mean).max() < 4e-3


def test_targets_are_replaced_by_held_out_words(randomised):
    output = randomised("nce, held out")
    counts = np.full(V, 5)
    counts[20:] = 0
    output.set_unigram(counts, min_count=4)
    replaced = np.concatenate([output._replace_by_held_out(np.full(1000, 4, np.int32)) for _ in range(20)])
    assert np.mean(replaced != 4) == pytest.approx(0.2, abs=0.01)
    assert set(replaced) == {4, *range(20, V)}
