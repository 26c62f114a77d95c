"""Arguments that layers refuse, and the words of the message."""

import keras
import numpy as np
import pytest

import keras_nplm as nplm
from keras_nplm.layers.build import build_context, build_output

V, M = 30, 3
REFUSALS = [
    (lambda: nplm.AveragedContext(V, M, averages_after=(-1,)), "`averages_after` must rise from 0"),
    (lambda: build_context(nplm.ContextEmbedding(31, M), V, M), "`context` must be a layer of 30 .* of 31 words"),
    (lambda: nplm.DeepHidden(5, activation="sigmoid"), "`activation` must be one of tanh, relu, gelu, silu"),
    (lambda: nplm.DeepHidden(5, residual_blocks=-1), "`residual_blocks` must be 0 or more"),
    (lambda: build_output(keras.layers.Dense(V), V), "`output` must be one of full, .*, or an output layer"),
    (lambda: build_output(nplm.FullSoftmax(31), V), "`output` must be a layer of 30 words"),
    (lambda: build_output(nplm.EnergyOutput(V), V, dropout=0.1), "`dropout` must be 0 if `output` is EnergyOutput"),
    (lambda: nplm.SampledSoftmax(V, num_sampled=0), "`num_sampled` must be 1 or more"),
    (lambda: nplm.NoiseContrastive(V, proposal="bigram"), "`proposal` must be one of unigram, log-uniform"),
    (lambda: nplm.AdaptiveSoftmax(V, cutoffs=(7, 30)), "`cutoffs` must ascend strictly between 0 and 30"),
    (lambda: nplm.FullSoftmax(V, held_out_mass=1.0), r"`held_out_mass` must be in \[0, 1\)"),
    (lambda: nplm.FullSoftmax(V, rank=3, tied=True), "`rank` must be None if `tied`"),
    (lambda: nplm.FullSoftmax(V, shortlist_size=27), "`shortlist_size` must be 1 to 26, or None"),
    (lambda: nplm.FullSoftmax(V, outside_output=True), "`outside_output` must be False without `shortlist_size`"),
    (lambda: nplm.FullSoftmax(V, shortlist_size=5, tied=True), "`tied` must be False with `shortlist_size`"),
    (lambda: nplm.EnergyOutput(V).build((None, 9)), "EnergyOutput must have the matrix C"),
    (lambda: nplm.FullSoftmax(V, tied=True).build((None, 9)), "FullSoftmax must have the matrix C"),
    (lambda: nplm.NPLM(V).set_unigram(np.ones(V - 1)), r"`counts` must be \[30\] with a positive sum"),
    (lambda: nplm.NPLM(V, output="energy", direct_connections=True), "`direct_connections` must be False with "),
    (lambda: nplm.NPLM(V, output="energy", pointer=True), "`pointer` must be False with EnergyOutput"),
]


@pytest.mark.parametrize("make, message", REFUSALS, ids=[message for _, message in REFUSALS])
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(nplm.InputError, match=message):
        make()
