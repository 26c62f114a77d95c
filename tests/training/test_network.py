"""Parts of a network: their names, and the parameters that each counts."""

import contextlib
import itertools

import numpy as np
import pytest

from keras_nplm import CONFIGURATIONS, InputError
from keras_nplm.io.parts import build_options
from keras_nplm.training.network import (
    Averaged,
    Concatenated,
    Context,
    Head,
    Hidden,
    Kind,
    Network,
    Objective,
    Sampled,
    Tanh,
)

PARTS = {choice.choice: choice.kinds for choice in (Context, Hidden, Head, Kind)}
SIZE = 300  # |V|
SMALL = {
    "order": 6,
    "averages_after": (2,),
    "near_characters": 3,
    "spelling_bits": 4,
    "embedding_dim": 6,
    "hidden_units": 10,
}


def _build(**given: object) -> Network:
    """Return a small network; the options of parts that are not chosen are left out."""
    return build_options(Network, {**SMALL, **given})


def _list_networks() -> list:
    """All choices of parts with weights that do not exclude each other, with and without W; each
    objective, which has none; options of parts; and the named configurations.
    """
    cases = []
    for *names, direct in itertools.product(*PARTS.values(), (False, True)):
        given = dict(zip(PARTS, names, strict=True))
        with contextlib.suppress(InputError):
            network = _build(**given, objective="likelihood", direct_connections=direct)
            cases.append(pytest.param(network, id=" ".join(names) + " direct" * direct))
    for given in (
        *({"objective": objective} for objective in Objective.kinds),
        dict(context="averaged", averages_after=(1, 3)),
        dict(context="averaged", averages_after=(7,)),  # longer than the context
        dict(residual_blocks=2),
        dict(residual_blocks=0, layer_norm=False),
        dict(tied_output=True),
        dict(freeze_embedding=True),
        dict(output_rank=7),
        dict(output_rank=7, direct_connections=True),
        dict(shortlist_size=30),
        dict(shortlist_size=30, direct_connections=True),
        dict(network="pointer", order=9),  # a pointer that compares three words
        dict(head="adaptive", cutoffs=(10, 20, 40)),
        dict(head="adaptive", output_rank=7),  # without effect
    ):
        cases.append(pytest.param(_build(**given), id=str(given)))
    named = CONFIGURATIONS.items()
    return cases + [pytest.param(each.options.network, id=name) for name, each in named]


def _count_weights(network: Network, vocabulary_size: int) -> int:
    layers = network.build(vocabulary_size, boundary="sentence", seed=1)
    return sum(int(np.prod(weight.shape)) for weight in layers.trainable_weights)


@pytest.mark.parametrize("part", Objective.kinds.values())
def test_an_objective_and_its_part_agree_on_samples(part):
    assert part().build(Network(), seed=1).has_likelihood != part.is_sampled


def test_negative_samples_cost_less_in_training_only():
    whole = Network().count(10_000)
    sampled = Network(objective=Sampled(num_sampled=99)).count(10_000)
    assert whole.scoring == sampled.scoring == whole.training
    units = Tanh.hidden_units
    assert sampled.training == whole.training - 10_000 * units + 100 * units


def test_averages_lie_within_the_context():
    averaged = Averaged(averages_after=(4, 20, 60))
    lists = {order: averaged.list_averages(order) for order in (21, 61, 3)}
    assert lists == {21: (4,), 61: (4, 20), 3: ()}
    orders = [Network(order=order, context=averaged).ngram_order for order in (21, 3)]
    assert orders == [5, 3] and Network(order=9, context=Concatenated()).ngram_order == 9


@pytest.mark.parametrize("network", _list_networks())
def test_counted_parameters_are_those_of_the_network(network):
    assert network.count(SIZE).parameters == _count_weights(network, SIZE)
