"""Networks that are trained and dropped leave nothing behind: searches, adapting servers."""

import gc
import re
import weakref

import keras
import numpy as np
import pytest
from tensorflow.python.framework import ops as tf_ops

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    AveragedContext,
    ContextEmbedding,
    ContextNetwork,
    DeepHidden,
    EnergyHead,
    Likelihood,
    LinearHead,
    NoiseContrastive,
    PointerNetwork,
    SampledSoftmax,
    TanhHidden,
)
from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.dynamic.network import (
    DynamicNPLM,
    DynamicSettings,
    measure_mean_squares,
)

ORDER = 5
M = 5
H = 6
# a name without the number of a trace: the gradient, its results and its inputs
OF_LAYERS = re.compile(r"keras_nplm\.layers\.[\w.]+-\d-\d")


def build_half(size):
    options = dict(direct_connections=True, weight_decay=0.1, dtype="mixed_bfloat16")
    return NPLM(size, ORDER, M, H, **options)


def build_tiles(size):
    embed = ContextEmbedding(size, M, word_dropout=0.1, name="embed")
    objective = Likelihood(held_out_mass=0.1, self_normalisation=0.1)
    return ContextNetwork(ORDER, embed, LinearHead(size), objective, TanhHidden(H))


def build_nce(size):
    embed = ContextEmbedding(size, M, name="embed")
    objective = NoiseContrastive(num_sampled=9, self_normalisation=0.1)
    return ContextNetwork(ORDER, embed, LinearHead(size), objective, TanhHidden(H))


def build_pointer(size):
    embed = ContextEmbedding(size, M, name="embed")
    head = LinearHead(size, tied=True)
    objective = SampledSoftmax(num_sampled=9)
    return PointerNetwork(ORDER, embed, head, objective, TanhHidden(H))


def build_adaptive(size):
    embed = ContextEmbedding(size, M, name="embed")
    hidden = DeepHidden(H, residual_blocks=1, layer_norm=True)
    return ContextNetwork(ORDER, embed, AdaptiveHead(size), Likelihood(), hidden)


def build_energy(size):
    embed = AveragedContext(size, M, averages_after=(2,), name="embed")
    head = EnergyHead(size, hidden_units=H, dropout=0.1)
    return ContextNetwork(ORDER, embed, head, SampledSoftmax())


def make_ngrams(size):
    rng = np.random.default_rng(0)
    return rng.integers(4, size, (32, ORDER)).astype("int32")


def train(network, contexts, targets):
    network.compile("adam")
    network.fit(contexts, targets, verbose=0)
    network.log_prob(contexts, targets)


def train_and_drop(network):
    """Train and read with a network, and return references to what must be freed."""
    ngrams = make_ngrams(network.vocabulary_size)
    contexts = ngrams[:, :-1]
    targets = ngrams[:, -1]
    train(network, contexts, targets)
    return refer_to([network])


def use_in_every_way_and_drop(network, directory):
    """Train, read, adapt, export, predict, and train with a loss."""
    ngrams = make_ngrams(network.vocabulary_size)
    contexts = ngrams[:, :-1]
    targets = ngrams[:, -1]
    train(network, contexts, targets)
    squares = measure_mean_squares(network, ngrams, 8)
    dynamic = DynamicNPLM(network, DynamicSettings(rule="rms", chunk=8), squares)
    dynamic.log_prob(contexts, targets)
    adapted, _ = adapt_network(network, targets, targets, epochs=1)
    network.predict(contexts, verbose=0)
    network.next_log_probs(contexts)
    network.export(directory / f"{network.vocabulary_size}", verbose=False)
    network.compile("sgd", loss="sparse_categorical_crossentropy")
    data = (contexts, targets)
    network.fit(*data, validation_data=data, batch_size=16, verbose=0)
    return refer_to([network, dynamic.network, adapted])


def refer_to(networks):
    references = [weakref.ref(network) for network in networks]
    return references + [weakref.ref(network.embed.C) for network in networks]


def assert_freed(references):
    keras.backend.clear_session()
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def list_gradients() -> set[str]:
    """Return the functions of gradients that TensorFlow keeps, without those of our layers, which
    are registered once for all networks.
    """
    return {name for name in tf_ops._gradient_registry.list() if not OF_LAYERS.fullmatch(name)}


@pytest.mark.long
@pytest.mark.parametrize(
    "build", [build_nce, build_half, build_tiles, build_energy, build_adaptive]
)
def test_a_dropped_network_is_freed(build):
    registered = list_gradients()
    assert_freed(train_and_drop(build(31)))
    assert list_gradients() == registered


@pytest.mark.long
def test_a_network_used_in_every_way_is_freed(tmp_path):
    registered = list_gradients()
    assert_freed(use_in_every_way_and_drop(build_pointer(31), tmp_path))
    assert list_gradients() == registered
