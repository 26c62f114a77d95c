"""The adaptive softmax against its factors in NumPy, and its fast gradient against that of all probabilities."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import AdaptiveSoftmax

V = 30


def _log_softmax(y):
    return y - np.log(np.exp(y).sum(axis=1, keepdims=True))


def test_probability_is_root_times_cluster(randomised, batch):
    output, (features, _) = randomised("adaptive"), batch
    root = _log_softmax(features @ output.root[0].numpy().T + output.root[1].numpy())
    log_probs = np.asarray(output.log_probs(features))
    np.testing.assert_allclose(log_probs[:, :7], root[:, :7], rtol=1e-4)
    for cluster, words in ((0, slice(7, 16)), (1, slice(16, V))):
        kernel, b = (weight.numpy() for weight in output.clusters[cluster])
        within = _log_softmax(features @ output.projections[cluster].numpy() @ kernel.T + b)
        np.testing.assert_allclose(log_probs[:, words], root[:, 7 + cluster, None] + within, rtol=1e-4)


def test_gradient_is_that_of_all_probabilities(randomised, batch):
    output, (features, targets) = randomised("adaptive"), batch
    targets[:3] = 4, 9, 20  # a frequent word and both clusters

    def gradients(loss_of):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_of())
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, [w.value for w in output.trainable_weights])]

    fast = gradients(lambda: output.training_loss(features, targets)[0])
    plain = gradients(lambda: -tf.gather(output.log_probs(features), targets, axis=1, batch_dims=1))
    for left, right, weight in zip(fast, plain, output.trainable_weights, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-4, err_msg=weight.path)


def test_rare_words_have_narrow_clusters():
    output = AdaptiveSoftmax(1000, weight_decay=0.2)
    output.build((None, 64))
    assert output.cutoffs == (111, 400)
    assert [projection.shape for projection in output.projections] == [(64, 16), (64, 4)]
    assert output.root[0].shape == (113, 64) and output.clusters[1][0].shape == (600, 4)
    matrices = [weight for weight in output.trainable_weights if len(weight.shape) == 2]
    squares = sum(np.square(weight.numpy()).sum() for weight in matrices)
    assert sum(map(float, output.losses)) == pytest.approx(0.1 * squares, rel=1e-4)
    assert {id(bias) for bias in output.biases} == {id(w) for w in output.trainable_weights if len(w.shape) == 1}
