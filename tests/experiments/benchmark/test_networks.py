"""The timed networks: number of operations, training and scoring."""

import dataclasses
import time

import numpy as np
import pytest

from keras_nplm.experiments.benchmark import networks
from keras_nplm.experiments.benchmark.networks import Shape, build_nce, build_network, sample_ngrams
from keras_nplm.experiments.benchmark.peers import is_installed
from keras_nplm.layers.outputs import FullSoftmax
from keras_nplm.training.configuration import CONFIGURATIONS
from keras_nplm.training.sizes import compute_sizes

SMALL = Shape(300, hidden_units=8)


def test_operations_are_those_of_the_matrix_products():
    shape = Shape(1000, order=3, hidden_units=10, direct=True)
    assert shape.count_flops(training=False) == 2 * (1000 * (10 + 120) + 120 * 10)
    assert shape.count_flops(training=True) == 3 * shape.count_flops(training=False)
    for name in ("brown", "brown-nce"):
        configuration = CONFIGURATIONS[name]
        sampled = configuration.num_sampled if configuration.output_layer == "nce" else None
        shape = Shape(order=configuration.order, embedding_dim=configuration.embedding_dim)
        shape = dataclasses.replace(shape, hidden_units=configuration.hidden_units)
        sizes = compute_sizes(configuration, shape.vocabulary_size)
        assert shape.count_flops(training=True, num_sampled=sampled) == sizes["flops_training"]


@pytest.mark.parametrize("build_output", [FullSoftmax, build_nce])
def test_training_updates_the_network_that_is_timed(build_output, monkeypatch):
    models = []

    def spy(*arguments):
        models.append(build_network(*arguments))
        return models[0]

    monkeypatch.setattr(networks, "build_network", spy)
    work = networks.train_network(SMALL, build_output, steps=2)
    before = models[0].prob.b.numpy()
    assert work() == 2 * networks.BATCH_SIZE
    assert np.any(models[0].prob.b.numpy() != before)


def test_precomputed_batches_are_trained_on():
    assert networks.train_network(SMALL, build_nce, steps=2, precomputed=True)() == 2 * networks.BATCH_SIZE


def test_scoring_computes_every_ngram():
    assert networks.score_ngrams(build_network(SMALL, build_nce), sample_ngrams(SMALL, 100))() == 100


@pytest.mark.long
def test_training_on_some_cores_is_timed_by_the_clock():
    contender = networks.run_nce_on_cores(1)
    began = time.perf_counter()
    rate = contender.run_round()
    assert 320 * networks.BATCH_SIZE / (time.perf_counter() - began) <= rate
    contender.close()


@pytest.mark.long
@pytest.mark.parametrize("task", ["train", "score"])
def test_torch_works_beside_tensorflow(task):
    """In one process they end with a segmentation fault, if torch comes with triton."""
    if not is_installed("torch"):
        pytest.skip("torch is not installed (extra [benchmark])")
    torch = networks.build_torch_contender(SMALL, task)
    assert torch.run_round() > 0
    torch.close()
