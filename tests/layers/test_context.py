"""Context layers against sums of the feature vectors in NumPy; the lookup and its sparse
gradients.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import AveragedContext, ContextEmbedding
from keras_nplm.layers.lookup import rows, sum_repeated_rows
from tests.formulas import Formulas
from tests.networks import compose

V = 11  # words
M = 3  # components of a word vector


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "embed",
    [
        pytest.param(ContextEmbedding(V, M), id="concatenated"),
        pytest.param(AveragedContext(V, M, averages_after=(2,)), id="averaged"),
    ],
)
def test_id_outside_the_vocabulary_gives_nan(embed, training):
    contexts = np.full((6, 7), 4, np.int32)
    contexts[1, 0] = V
    contexts[2, -1] = -1
    found = embed(contexts, training=training).numpy()
    assert np.isnan(found).any(axis=1).tolist() == [False, True, True, False, False, False]


@settings(max_examples=15)
@given(st.data())
def test_far_words_are_averaged_in_spans(data):
    number = data.draw(st.integers(1, 12))
    edges = sorted(data.draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=4)))
    embed = AveragedContext(V, M, averages_after=edges)
    network = compose(V, number + 1, embed=embed)
    contexts = np.random.default_rng(number).integers(0, V, (5, number)).astype(np.int32)
    expected = Formulas(network).word_features(contexts)
    np.testing.assert_allclose(embed(contexts), expected, atol=1e-6)
    assert embed.num_single_words(number) == edges[0]
    assert embed.compute_output_shape((None, number)) == (None, expected.shape[1])


@pytest.mark.parametrize("option", ["word_dropout", "dropout"])
def test_dropout_leaves_out_whole_words_or_components(option):
    keras.utils.set_random_seed(0)
    embed = ContextEmbedding(V, M, **{option: 0.5})
    contexts = np.full((50, 40), 5, np.int32)
    x = embed(contexts, training=True).numpy()
    ratio = x.reshape(50, 40, M) / embed.C.numpy()[5]
    assert set(np.unique(ratio.round(4))) == {0.0, 2.0}
    kept = ratio > 0
    assert 0.4 < kept.mean() < 0.6
    whole_words = (kept == kept[:, :, :1]).all()
    assert whole_words == (option == "word_dropout")
    plain = embed(contexts)  # not in training
    np.testing.assert_array_equal(plain, np.tile(embed.C.numpy()[5], (50, 40)))


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
    ids = np.array([7, 3, 7, 0, 7], np.int32)
    values = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    run = tf.function(sum_repeated_rows, jit_compile=jit, autograph=False)
    distinct, sums = run(tf.constant(ids), tf.constant(values))
    assert distinct.numpy().tolist() == [0, 3, 7]
    for row, found in zip(distinct.numpy(), sums.numpy(), strict=True):
        np.testing.assert_allclose(found, values[ids == row].sum(axis=0), rtol=1e-6)
