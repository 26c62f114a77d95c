"""Parts of a network: their names, and the parameters that each counts."""

import contextlib
import itertools

import numpy as np
import pytest

from keras_nplm import CONFIGURATIONS, InputError, NetworkOptions
from keras_nplm.training.options import describe_fields
from keras_nplm.training.parts import (
    CONTEXTS,
    HEADS,
    HIDDEN_LAYERS,
    NETWORKS,
    OBJECTIVES,
    build_network,
    count_network,
)

PARTS = {
    "context": CONTEXTS,
    "hidden": HIDDEN_LAYERS,
    "head": HEADS,
    "objective": OBJECTIVES,
    "network": NETWORKS,
}
SIZE = 60  # |V|
SMALL = {
    "order": 6,
    "averages_after": (2,),
    "near_characters": 3,
    "spelling_bits": 4,
    "embedding_dim": 6,
    "hidden_units": 10,
}


def _list_combinations() -> list:
    """All choices of parts that do not exclude each other, with and without W."""
    cases = []
    for *names, direct in itertools.product(*PARTS.values(), (False, True)):
        given = dict(zip(PARTS, names, strict=True))
        with contextlib.suppress(InputError):
            options = NetworkOptions(**SMALL, **given, direct_connections=direct)
            cases.append(pytest.param(options, id=" ".join(names) + " direct" * direct))
    return cases


def _count_weights(options: NetworkOptions, vocabulary_size: int) -> int:
    network = build_network(options, vocabulary_size, boundary="sentence", seed=1)
    return sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)


@pytest.mark.parametrize("option", PARTS)
def test_the_choices_of_an_option_are_its_parts(option):
    assert [*describe_fields(NetworkOptions)[option].choices] == [*PARTS[option]]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_and_its_part_agree_on_samples(objective):
    part = OBJECTIVES[objective]
    assert part.build(NetworkOptions(), seed=1).has_likelihood != part.is_sampled


@pytest.mark.parametrize("options", _list_combinations())
def test_parameters_of_all_parts_are_those_of_the_network(options):
    assert count_network(options, SIZE).parameters == _count_weights(options, SIZE)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(dict(context="averaged", averages_after=(1, 3)), id="two averages"),
        pytest.param(dict(context="averaged", averages_after=(7,)), id="a short context"),
        pytest.param(dict(residual_blocks=2), id="two blocks"),
        pytest.param(dict(residual_blocks=0, layer_norm=False), id="no blocks, no norm"),
        pytest.param(dict(tied_output=True), id="tied"),
        pytest.param(dict(freeze_embedding=True), id="random features"),
        pytest.param(dict(output_rank=7), id="low rank"),
        pytest.param(dict(output_rank=7, direct_connections=True), id="low rank, direct"),
        pytest.param(dict(shortlist_size=30), id="short-list"),
        pytest.param(dict(shortlist_size=30, direct_connections=True), id="short-list, direct"),
        pytest.param(dict(network="pointer", order=9), id="a pointer that compares three words"),
        pytest.param(dict(head="adaptive", cutoffs=(10, 20, 40)), id="three clusters"),
        pytest.param(dict(head="adaptive", output_rank=7), id="a rank without effect"),
    ],
)
def test_parameters_of_a_part_follow_its_options(given):
    options = NetworkOptions(**{**SMALL, **given})
    assert count_network(options, SIZE).parameters == _count_weights(options, SIZE)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_parameters_of_named_configurations_are_those_of_their_networks(name):
    options = CONFIGURATIONS[name].options.network
    assert count_network(options, 300).parameters == _count_weights(options, 300)


def test_negative_samples_cost_less_in_training_only():
    whole = count_network(NetworkOptions(objective="likelihood"), 10_000)
    sampled = count_network(NetworkOptions(objective="sampled", num_sampled=99), 10_000)
    assert whole.scoring == sampled.scoring == whole.training
    rows = 100 * NetworkOptions.hidden_units
    assert sampled.training == whole.training - 10_000 * NetworkOptions.hidden_units + rows
