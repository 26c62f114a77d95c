"""Context layers against sums of the feature vectors in NumPy."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import AveragedContext, ContextEmbedding, TanhHidden

V, M = 11, 3


def _contexts(order, size=7):
    contexts = np.random.default_rng(1).integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, 0] = 0
    return contexts


def test_embedding_is_a_linear_layer_on_one_hot_vectors():
    embed, contexts = ContextEmbedding(V, M), _contexts(5)
    one_hot = np.eye(V)[contexts] * (contexts != 0)[..., None]  # [B, n-1, V]
    found = np.asarray(embed(contexts))
    np.testing.assert_allclose(found, (one_hot @ np.asarray(embed.C)).reshape(len(contexts), -1), rtol=1e-6)


def test_sketch_that_does_not_concatenate_is_a_different_model():
    """Dense on a rank-3 embedding predicts at every position, from one word each."""
    contexts = _contexts(4)
    embed, hidden = ContextEmbedding(V, M), TanhHidden(5)
    ours = hidden(embed(contexts))
    assert ours.shape == (7, 5)
    sketch = keras.Sequential([keras.layers.Embedding(V, M), keras.layers.Dense(5, activation="tanh")])
    assert sketch(contexts).shape == (7, 3, 5)
    swapped = contexts[:, ::-1]
    assert not np.allclose(hidden(embed(swapped)), ours)  # the order of the context matters
    np.testing.assert_array_equal(np.asarray(sketch(swapped))[:, ::-1], sketch(contexts))  # there it does not


@pytest.mark.parametrize("options", [None, dict(averages_after=(1,))])
def test_padding_adds_nothing(options):
    embed = ContextEmbedding(V, M) if options is None else AveragedContext(V, M, **options)
    short = embed(np.array([[0, 0, 6]]))
    embed.C.assign(embed.C.numpy() + 10.0 * (np.arange(V) == 0)[:, None])
    np.testing.assert_array_equal(embed(np.array([[0, 0, 6]])), short)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_training_leaves_padding_out_of_x_and_of_the_gradient(padded, compiled):
    embed, contexts = ContextEmbedding(V, M), _contexts(5)
    contexts[0, 0] = 0 if padded else 1
    embed(contexts)
    upstream = np.random.default_rng(2).normal(size=(len(contexts), 4 * M)).astype(np.float32)

    def step(contexts):
        with tf.GradientTape() as tape:
            x = embed(contexts, training=True)
        return x, tf.convert_to_tensor(tape.gradient(x, embed.C.value, output_gradients=tf.constant(upstream)))

    x, gradient = (tf.function(step) if compiled else step)(tf.constant(contexts))
    one_hot = np.eye(V)[contexts] * (contexts != 0)[..., None]  # [B, n-1, V]
    np.testing.assert_allclose(x, (one_hot @ embed.C.numpy()).reshape(len(contexts), -1), rtol=1e-6)
    expected = np.einsum("bnv,bnm->vm", one_hot, upstream.reshape(len(contexts), 4, M))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    outside = step(tf.constant(np.where(contexts == 1, V, contexts)))[0].numpy()
    assert np.isnan(outside).any(axis=1).tolist() == (contexts == 1).any(axis=1).tolist()


@pytest.mark.parametrize("options", [None, dict(averages_after=(2,))])
def test_id_outside_the_vocabulary_gives_nan(options):
    embed = ContextEmbedding(V, M) if options is None else AveragedContext(V, M, **options)
    contexts = _contexts(8, size=6)
    contexts[1, 0], contexts[2, -1] = V, -1
    assert np.isnan(embed(contexts).numpy()).any(axis=1).tolist() == [False, True, True, False, False, False]


def _x_by_spans(C, context, averages_after):
    """x of one context, span by span as the formula has it, oldest span first."""
    back = [C[word] * (word != 0) for word in context[::-1]]  # the nearest word first
    near, ends = averages_after[0], [*averages_after, len(back)]
    spans = [np.sum(back[a:b], axis=0) / np.sqrt(b - a) for a, b in itertools.pairwise(ends)]
    return np.concatenate([*spans[::-1], *back[:near][::-1]])


@pytest.mark.parametrize("averages_after", [(2,), (1, 3, 6), (0, 4)])
def test_far_words_are_averaged_in_spans(averages_after):
    embed, contexts = AveragedContext(V, M, averages_after=averages_after), _contexts(9)
    found = embed(contexts)
    expected = [_x_by_spans(embed.C.numpy(), context, averages_after) for context in contexts]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert embed.num_single_words(8) == averages_after[0] and ContextEmbedding(V, M).num_single_words(8) == 8


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_word_blocks_describe_x(data):
    """x is the sum of scaled feature vectors in the blocks that `position_spans` names, for any spans."""
    number = data.draw(st.integers(1, 12))
    edges = data.draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=4))
    embed = AveragedContext(V, M, averages_after=tuple(sorted(edges)))
    contexts = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, V, (5, number)).astype(np.int32)
    x = np.asarray(embed(contexts)).reshape(len(contexts), -1, M)
    block, scale = embed.position_spans(number)
    assert len(block) == len(scale) == number and x.shape[1] == block.max() + 1
    assert embed.compute_output_shape((None, number)) == (None, x.shape[1] * M)
    vectors = embed.C.numpy()[contexts] * (contexts != 0)[..., None]
    expected = np.zeros_like(x)
    for place in range(number):
        expected[:, block[place]] += scale[place] * vectors[:, place]
    np.testing.assert_allclose(x, expected, atol=1e-6)


def test_spans_of_one_word_are_the_concatenated_context():
    embed, contexts = AveragedContext(V, M, averages_after=(1, 2, 3)), _contexts(5)
    plain = ContextEmbedding(V, M)
    plain.build(contexts.shape)
    embed.build(contexts.shape)
    plain.C.assign(embed.C)
    np.testing.assert_array_equal(embed(contexts), plain(contexts))


def test_word_dropout_leaves_out_whole_words():
    keras.utils.set_random_seed(0)
    embed = ContextEmbedding(V, M, word_dropout=0.5)
    contexts = np.full((50, 40), 5, np.int32)
    whole = embed(contexts, training=True).numpy().reshape(50, 40, M) / embed.C.numpy()[5]
    assert set(np.unique(whole.round(4))) == {0.0, 2.0}
    assert (whole == whole[:, :, :1]).all() and 0.4 < (whole > 0).mean() < 0.6
    np.testing.assert_array_equal(embed(contexts), np.tile(embed.C.numpy()[5], (50, 40)))  # not outside training


def test_dropout_leaves_out_components():
    keras.utils.set_random_seed(0)
    embed = ContextEmbedding(V, M, dropout=0.5)
    kept = embed(np.full((50, 40), 5, np.int32), training=True).numpy().reshape(50, 40, M) != 0
    assert 0.4 < kept.mean() < 0.6 and not (kept == kept[:, :, :1]).all()
