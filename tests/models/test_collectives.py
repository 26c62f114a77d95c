"""One message carries all sparse gradients of a worker: nothing of them changes on the way."""

import types

import numpy as np
import tensorflow as tf
from hypothesis import given, settings, strategies

from keras_nplm.models.collectives import gather_slices, sum_over_replicas

ROWS = {"float32": (3,), "float64": (2, 2), "float16": (), "bfloat16": (4,)}


def _draw_gradients(numbers: list[int], seed: int) -> list[tf.IndexedSlices]:
    """A sparse gradient of each dtype and row shape, with so many slices; a row may come twice."""
    random = np.random.default_rng(seed)
    gradients = []
    for number, (dtype, row) in zip(numbers, ROWS.items(), strict=True):
        indices = tf.constant(random.integers(0, 2**31 - 1, number), "int64" if dtype == "float64" else "int32")
        values = tf.cast(random.normal(size=(number, *row)), dtype)
        gradients.append(tf.IndexedSlices(values, indices, tf.constant([2**31 - 1, *row], tf.int64)))
    return gradients


def _send(replicas: list[list[tf.IndexedSlices]]) -> list[tf.IndexedSlices]:
    """What each replica receives, from a stand-in of tf.distribute that keeps the messages of the others."""
    messages = []

    def all_gather(message, axis):
        assert axis == 0 and message.dtype == tf.int32
        messages.append(message)
        return tf.concat(messages, axis=0)

    for number, gradients in enumerate(replicas, start=1):
        replica = types.SimpleNamespace(all_gather=all_gather, num_replicas_in_sync=number)
        received = gather_slices(gradients, replica)
    return received


NUMBERS = strategies.lists(strategies.integers(0, 4), min_size=len(ROWS), max_size=len(ROWS))


@settings(max_examples=15, deadline=None)
@given(strategies.lists(NUMBERS, min_size=1, max_size=3))
def test_all_slices_of_all_replicas_arrive(numbers):
    replicas = [_draw_gradients(of_replica, seed) for seed, of_replica in enumerate(numbers)]
    for place, received in enumerate(_send(replicas)):
        sent = [gradients[place] for gradients in replicas]
        assert received.values.dtype == sent[0].values.dtype and received.indices.dtype == sent[0].indices.dtype
        assert np.array_equal(received.indices, np.concatenate([gradient.indices for gradient in sent]))
        assert np.array_equal(received.values, np.concatenate([gradient.values for gradient in sent]))
        assert np.array_equal(received.dense_shape, sent[0].dense_shape)


def test_one_replica_keeps_its_gradients():
    gradients = [None, tf.ones(2), *_draw_gradients([1, 2, 0, 3], seed=0)]
    assert sum_over_replicas(gradients) is gradients
