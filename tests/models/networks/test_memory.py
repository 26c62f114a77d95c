"""Networks that are trained and dropped leave nothing behind: searches, adapting servers."""

import gc
import re
import weakref

import keras
import numpy as np
import pytest
from tensorflow.python.framework import ops as tf_ops

from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.dynamic.network import (
    DynamicNPLM,
    DynamicSettings,
    measure_mean_squares,
)
from tests.every_network import N, V, build_network

# a name without the number of a trace: the gradient, its results and its inputs
OF_LAYERS = re.compile(r"keras_nplm\.layers\.[\w.]+-\d-\d")


def train(network):
    """Train and read with a network, and return its n-grams."""
    ngrams = np.random.default_rng(0).integers(4, V, (32, N)).astype("int32")
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    network.compile("adam")
    network.fit(contexts, targets, verbose=0)
    network.log_prob(contexts, targets)
    return ngrams


def train_and_drop(network):
    train(network)
    return refer_to([network])


def use_in_every_way_and_drop(network, directory):
    """Train, read, adapt, export, predict, and train with a loss."""
    ngrams = train(network)
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    squares = measure_mean_squares(network, ngrams, 8)
    dynamic = DynamicNPLM(network, DynamicSettings(chunk=8), squares)
    dynamic.log_prob(contexts, targets)
    adapted, _ = adapt_network(network, targets, targets, epochs=1)
    network.predict(contexts, verbose=0)
    network.next_log_probs(contexts)
    network.export(directory / "served", verbose=False)
    network.compile("sgd", loss="sparse_categorical_crossentropy")
    data = (contexts, targets)
    network.fit(*data, validation_data=data, batch_size=16, verbose=0)
    return refer_to([network, dynamic.network, adapted])


def refer_to(networks):
    """Return references to what must be freed."""
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
    "name, dtype",
    [
        ("linear / nce", "float32"),
        ("paper, no hidden layer", "mixed_bfloat16"),
        ("linear / likelihood, held out", "float32"),
        ("energy / sampled", "float32"),
        ("adaptive / likelihood", "float32"),
    ],
)
def test_a_dropped_network_is_freed(name, dtype):
    registered = list_gradients()
    assert_freed(train_and_drop(build_network(name, dtype)))
    assert list_gradients() == registered


@pytest.mark.long
def test_a_network_used_in_every_way_is_freed(tmp_path):
    registered = list_gradients()
    assert_freed(use_in_every_way_and_drop(build_network("pointer / sampled"), tmp_path))
    assert list_gradients() == registered
