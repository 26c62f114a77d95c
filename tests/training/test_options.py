"""Options of a training run: their facts, and which exclude each other."""

import dataclasses
import json

import pytest

from keras_nplm.data.boundary import BOUNDARIES
from keras_nplm.data.tokenizers.normalisation import STEPS
from keras_nplm.data.tokenizers.registry import list_choices
from keras_nplm.io.errors import InputError
from keras_nplm.layers.deep_hidden import ACTIVATIONS
from keras_nplm.training.distribution import STRATEGIES
from keras_nplm.training.optimizers import OPTIMIZERS
from keras_nplm.training.options import (
    CorpusOptions,
    NetworkOptions,
    Options,
    RunOptions,
    TextOptions,
    TextStatistics,
    TrainingOptions,
    describe_fields,
    describe_options,
    read_options,
)

CLASSES = (CorpusOptions, TextOptions, NetworkOptions, TrainingOptions, RunOptions, TextStatistics)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_option_has_a_help_and_an_accepted_default(cls):
    for name, facts in describe_fields(cls).items():
        assert facts.help and not facts.help.endswith("."), name
        assert facts.required or facts.accepts(facts.default), name
        assert facts.example is None or facts.accepts(facts.example), name


@pytest.mark.parametrize(
    ("cls", "name", "choices"),
    [
        (TextOptions, "boundary", BOUNDARIES),
        (NetworkOptions, "activation", ACTIVATIONS),
        (TrainingOptions, "optimizer", OPTIMIZERS),
        (RunOptions, "strategy", STRATEGIES),
        (CorpusOptions, "normalise", STEPS),
        (CorpusOptions, "tokenizer", list_choices()),
    ],
)
def test_choices_are_those_of_the_code(cls, name, choices):
    assert {*describe_fields(cls)[name].choices} == {*choices}


def test_options_of_a_run_have_different_names():
    classes = (TextOptions, NetworkOptions, TrainingOptions)
    names = [name for cls in classes for name in describe_fields(cls)]
    assert sorted({*names}) == sorted(names) and names == [*describe_options()]
    assert [*Options().flatten()] == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(
            dict(batch_size=10, segment=4),
            "`batch_size` must be a multiple of `segment`, 4",
            id="segment",
        ),
        pytest.param(
            dict(context="spelled", order=41), "`network` must be hybrid", id="spelled, no hybrid"
        ),
        pytest.param(
            dict(
                context="spelled", network="hybrid", objective="likelihood", freeze_embedding=True
            ),
            "`freeze_embedding` must be off",
            id="spelled, random features",
        ),
        pytest.param(
            dict(context="spelled", network="hybrid", objective="likelihood", order=11),
            "`near_characters` must be below",
            id="spelled, a short context",
        ),
        pytest.param(
            dict(averages_after=()), "`averages_after` must have a distance", id="no distance"
        ),
        pytest.param(
            dict(cutoffs=(5, 20)), "`cutoffs` must be left out with `head` linear", id="cutoffs"
        ),
        pytest.param(
            dict(num_sampled=64),
            "`num_sampled` must be left out with `objective` likelihood. Received: 64",
            id="samples",
        ),
        pytest.param(dict(head="energy"), "`hidden` must be none with `head` energy", id="energy"),
        pytest.param(dict(hidden="none"), "`direct_connections` must be on", id="no features"),
        pytest.param(
            dict(head="adaptive", direct_connections=True),
            "`direct_connections` must be off",
            id="W of adaptive",
        ),
        pytest.param(
            dict(head="adaptive", network="pointer"),
            "`network` must be context with `head` adaptive",
            id="pointer",
        ),
        pytest.param(
            dict(head="adaptive", shortlist_size=9),
            "`shortlist_size` must be left out",
            id="short adaptive",
        ),
        pytest.param(
            dict(head="adaptive", objective="nce"),
            "`objective` must be likelihood",
            id="nce of adaptive",
        ),
        pytest.param(
            dict(head="adaptive", held_out_mass=0.1),
            "`held_out_mass` must be 0",
            id="mass of adaptive",
        ),
        pytest.param(
            dict(head="adaptive", self_normalisation=0.1),
            "`self_normalisation` must be 0",
            id="log Z is 0",
        ),
        pytest.param(
            dict(network="hybrid", objective="nce"),
            "`objective` must be likelihood",
            id="nce of hybrid",
        ),
        pytest.param(
            dict(network="hybrid", shortlist_size=9),
            "`shortlist_size` must be left out",
            id="short hybrid",
        ),
        pytest.param(
            dict(network="hybrid", interpolated=True),
            "`interpolated` must be off",
            id="two n-gram models",
        ),
        pytest.param(
            dict(shortlist_size=9, interpolated=True),
            "`interpolated` must be off",
            id="short and mixed",
        ),
        pytest.param(
            dict(shortlist_size=9, tied_output=True),
            "`shortlist_size` must be left out",
            id="short and tied",
        ),
        pytest.param(
            dict(context="concatenated", averages_after=(4,)),
            "`averages_after` must be left out",
            id="no averages",
        ),
        pytest.param(
            dict(hidden="tanh", residual_blocks=2),
            "`residual_blocks` must be left out",
            id="no blocks",
        ),
        pytest.param(
            dict(output_layer="full"), "`output_layer` must be an option of a run", id="unknown"
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused(given, message):
    with pytest.raises(InputError) as caught:
        Options.of(**given)
    assert str(caught.value).startswith(message)
    assert ". Received: " in str(caught.value) and " Fix: " in str(caught.value)


def test_options_are_replaced_by_name():
    options = Options.of(order=5, epochs=3, min_count=4)
    assert (options.network.order, options.training.epochs, options.text.min_count) == (5, 3, 4)
    assert options.replace(epochs=12, order=21, min_count=2) == Options()


def test_options_are_read_from_a_config():
    options = Options.of(averages_after=(4, 9), max_size=None, dropout=0)
    config = json.loads(json.dumps({**options.flatten(), "kind": "nplm", "corpus": "brown"}))
    assert read_options(config) == options
    with pytest.raises(InputError, match="`averages_after` must be a tuple, rising integers"):
        read_options({**config, "averages_after": 4})
    del config["head"]  # as if the option were newer than the file
    assert read_options(config) == options
    message = "must have the fields boundary, .* Received: none of them"
    with pytest.raises(InputError, match=message):
        read_options({"kind": "nplm"})


def test_averages_lie_within_the_context():
    averages = NetworkOptions(averages_after=(4, 20, 60))
    assert (averages.averages, averages.ngram_order) == ((4,), 5)
    assert dataclasses.replace(averages, order=61).averages == (4, 20)
    assert dataclasses.replace(averages, order=3).averages == ()
    assert dataclasses.replace(averages, order=3).ngram_order == 3
    assert dataclasses.replace(averages, context="concatenated").averages == ()
