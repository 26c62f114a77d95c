"""Context layers against sums of the feature vectors in NumPy; the lookup and its sparse gradients."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import AveragedContext, ContextEmbedding
from keras_nplm.layers.lookup import rows, sum_repeated_rows

V, M = 11, 3


def _contexts(order: int, size: int = 7) -> np.ndarray:
    contexts = np.random.default_rng(1).integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, 0] = 0
    return contexts


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_embedding_is_a_linear_layer_on_one_hot_vectors_without_padding(padded, compiled):
    embed, contexts = ContextEmbedding(V, M), _contexts(5)
    contexts[0, 0] = 0 if padded else 1
    plain = embed(contexts)
    upstream = np.random.default_rng(2).normal(size=(len(contexts), 4 * M)).astype(np.float32)

    def step(contexts):
        with tf.GradientTape() as tape:
            x = embed(contexts, training=True)
        return x, tf.convert_to_tensor(tape.gradient(x, embed.C.value, output_gradients=tf.constant(upstream)))

    x, gradient = (tf.function(step) if compiled else step)(tf.constant(contexts))
    one_hot = np.eye(V)[contexts] * (contexts != 0)[..., None]  # [B, n-1, V]
    for found in (plain, x):
        np.testing.assert_allclose(found, (one_hot @ embed.C.numpy()).reshape(len(contexts), -1), rtol=1e-6)
    expected = np.einsum("bnv,bnm->vm", one_hot, upstream.reshape(len(contexts), 4, M))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("embed", [ContextEmbedding(V, M), AveragedContext(V, M, averages_after=(2,))])
def test_id_outside_the_vocabulary_gives_nan(embed, training):
    contexts = _contexts(8, size=6)
    contexts[1, 0], contexts[2, -1] = V, -1
    found = embed(contexts, training=training).numpy()
    assert np.isnan(found).any(axis=1).tolist() == [False, True, True, False, False, False]


def _x_by_spans(C, context, averages_after):
    """x of one context, span by span as the formula has it, oldest span first."""
    back = [C[word] * (word != 0) for word in context[::-1]]  # the nearest word first
    near, ends = averages_after[0], [*averages_after, len(back)]
    spans = [np.sum(back[a:b], axis=0) / np.sqrt(b - a) for a, b in itertools.pairwise(ends)]
    return np.concatenate([*spans[::-1], *back[:near][::-1]])


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_far_words_are_averaged_in_spans(data):
    number = data.draw(st.integers(1, 12))
    edges = sorted(data.draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=4)))
    embed = AveragedContext(V, M, averages_after=edges)
    contexts = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, V, (5, number)).astype(np.int32)
    x, C = np.asarray(embed(contexts)), embed.C.numpy()
    np.testing.assert_allclose(x, [_x_by_spans(C, context, edges) for context in contexts], atol=1e-6)
    assert embed.num_single_words(number) == edges[0] and ContextEmbedding(V, M).num_single_words(8) == 8
    assert embed.compute_output_shape((None, number)) == (None, x.shape[1])


@pytest.mark.parametrize("option", ["word_dropout", "dropout"])
def test_dropout_leaves_out_whole_words_or_components(option):
    keras.utils.set_random_seed(0)
    embed, contexts = ContextEmbedding(V, M, **{option: 0.5}), np.full((50, 40), 5, np.int32)
    ratio = embed(contexts, training=True).numpy().reshape(50, 40, M) / embed.C.numpy()[5]
    assert set(np.unique(ratio.round(4))) == {0.0, 2.0} and 0.4 < (ratio > 0).mean() < 0.6
    assert ((ratio > 0) == (ratio[:, :, :1] > 0)).all() == (option == "word_dropout")
    np.testing.assert_array_equal(embed(contexts), np.tile(embed.C.numpy()[5], (50, 40)))  # not outside training


@pytest.mark.parametrize("sum_gradient", [False, True])
def test_rows_have_a_sparse_gradient_and_ids_are_clipped(sum_gradient):
    variable = keras.Variable(np.arange(8.0).reshape(4, 2), autocast=False)
    with tf.GradientTape() as tape:
        found = rows(variable, np.array([1, 3, 1, 99]), sum_gradient)
        total = tf.reduce_sum(found)
    assert found.numpy()[:, 0].tolist() == [2, 6, 2, 6]
    gradient = tape.gradient(total, variable.value)
    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.indices.numpy().tolist() == ([1, 3] if sum_gradient else [1, 3, 1, 3])
    assert tf.convert_to_tensor(gradient).numpy()[:, 0].tolist() == [0, 2, 0, 2]


@pytest.mark.parametrize("jit", [False, True])
def test_repeated_rows_are_summed(jit):
    ids, values = np.array([7, 3, 7, 0, 7], np.int32), np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    distinct, sums = tf.function(sum_repeated_rows, jit_compile=jit)(tf.constant(ids), tf.constant(values))
    assert sorted(distinct.numpy()) == [0, 3, 7]
    for row, found in zip(distinct.numpy(), sums.numpy(), strict=True):
        np.testing.assert_allclose(found, values[ids == row].sum(axis=0), rtol=1e-6)
