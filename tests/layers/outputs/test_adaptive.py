"""The adaptive softmax: the sizes of its clusters."""

from keras_nplm import AdaptiveSoftmax


def test_rare_words_have_narrow_clusters():
    output = AdaptiveSoftmax(1000)
    output.build((None, 64))
    assert output.cutoffs == (111, 400)
    assert [projection.shape for projection in output.projections] == [(64, 16), (64, 4)]
    assert output.root[0].shape == (113, 64) and output.clusters[1][0].shape == (600, 4)
