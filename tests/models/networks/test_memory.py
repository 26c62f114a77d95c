"""Networks that are trained and dropped leave nothing behind: searches, servers that adapt, notebooks."""

import gc
import weakref

import keras
import numpy as np
import pytest
from tensorflow.python.framework import ops as tf_ops

from keras_nplm import NPLM, AveragedContext, DeepHidden, FullSoftmax
from keras_nplm.layers.outputs import NoiseContrastive, SampledSoftmax
from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.dynamic.network import DynamicNPLM, DynamicSettings, measure_mean_squares

ORDER = 5
VARIANTS = {
    "half": lambda size: dict(dtype="mixed_bfloat16", direct_connections=True, weight_decay=0.1),
    "tiles": lambda size: dict(output=FullSoftmax(size, held_out_mass=0.1, self_normalisation=0.1), word_dropout=0.1),
    "nce": lambda size: dict(output=NoiseContrastive(size, num_sampled=9, self_normalisation=0.1)),
    "sampled": lambda size: dict(output=SampledSoftmax(size, num_sampled=9, tied=True), pointer=True),
    "adaptive": lambda size: dict(output="adaptive", hidden=DeepHidden(6, residual_blocks=1, layer_norm=True)),
    "energy": lambda size: dict(output="energy", dropout=0.1, context=AveragedContext(size, 5, averages_after=(2,))),
}


def _use(name: str, size: int, directory) -> list[weakref.ref]:
    """Train a network of its own size, use it in every way, and return references to what must be freed."""
    keras.backend.clear_session()
    network = NPLM(size, ORDER, embedding_dim=5, hidden_units=6, **VARIANTS[name](size))
    rng = np.random.default_rng(0)
    ngrams = rng.integers(4, size, (32, ORDER)).astype("int32")
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    network.compile("adam")
    network.fit(contexts, targets, verbose=0)
    network.log_prob(contexts, targets)
    dynamic, kept = DynamicNPLM(network, DynamicSettings(chunk=8)), [network]
    if name != "nce":  # in the long tests
        squares = measure_mean_squares(network, ngrams, 8)
        dynamic = DynamicNPLM(network, DynamicSettings(rule="rms", chunk=8), squares)
        kept += [adapt_network(network, targets, targets, epochs=1)[0]]
        network.predict(contexts, verbose=0), network.next_log_probs(contexts)
        network.export(directory / f"{size}", verbose=False)
        network.compile("sgd", loss=None if name == "half" else "sparse_categorical_crossentropy")
        network.fit(contexts, targets, validation_data=(contexts, targets), batch_size=16, verbose=0)
    dynamic.log_prob(contexts, targets)
    kept += [dynamic.network]
    return [weakref.ref(item) for item in kept] + [weakref.ref(part.embed.C) for part in kept]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name != "nce" else name for name in VARIANTS]
)
def test_a_dropped_network_is_freed(name, tmp_path):
    _use(name, 30, tmp_path)
    registered = len(tf_ops._gradient_registry.list())
    references = _use(name, 31, tmp_path)
    keras.backend.clear_session()
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
    assert len(tf_ops._gradient_registry.list()) == registered
