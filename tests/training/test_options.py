"""Options of a training run: their facts, and which exclude each other."""

import json

import pytest

from keras_nplm.data.boundary import BOUNDARIES
from keras_nplm.data.tokenizers.normalisation import STEPS
from keras_nplm.data.tokenizers.registry import list_choices
from keras_nplm.io.errors import InputError
from keras_nplm.io.parts import describe_options
from keras_nplm.layers.deep_hidden import ACTIVATIONS
from keras_nplm.training.distribution import STRATEGIES
from keras_nplm.training.methods import NgramOptions
from keras_nplm.training.network import Network
from keras_nplm.training.options import (
    RUN_CLASSES,
    CorpusOptions,
    Options,
    RunOptions,
    TextOptions,
    TextStatistics,
    read_options,
)

CLASSES = (CorpusOptions, RunOptions, TextStatistics, NgramOptions, *RUN_CLASSES)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_option_has_a_help_and_an_accepted_default(cls):
    for name, facts in describe_options(cls).items():
        assert facts.help and not facts.help.endswith("."), name
        assert facts.required or facts.accepts(facts.default), name
        assert facts.example is None or facts.accepts(facts.example), name


def test_choices_are_those_of_the_code():
    for cls, name, choices in (
        (TextOptions, "boundary", BOUNDARIES),
        (Network, "activation", ACTIVATIONS),
        (RunOptions, "strategy", STRATEGIES),
        (CorpusOptions, "normalise", STEPS),
        (CorpusOptions, "tokenizer", list_choices()),
    ):
        assert {*describe_options(cls)[name].choices} == {*choices}


def test_options_of_a_run_have_different_names():
    names = [name for cls in RUN_CLASSES for name in describe_options(cls)]
    assert len({*names}) == len(names) and {*Options().flatten()} <= {*names}


def test_options_are_replaced_by_name():
    options = Options.of(order=5, epochs=3, min_count=4)
    assert (options.network.order, options.training.epochs, options.text.min_count) == (5, 3, 4)
    assert options.replace(epochs=12, order=21, min_count=2) == Options()


def test_options_are_read_from_a_config():
    options = Options.of(averages_after=(4, 9), max_size=None, dropout=0)
    config = json.loads(json.dumps({**options.write_config(), "kind": "nplm", "corpus": "brown"}))
    assert read_options(config) == options
    with pytest.raises(InputError, match="`averages_after` must be a tuple, rising integers"):
        read_options({**config, "context": {"kind": "averaged", "averages_after": 4}})
    del config["head"]  # as if the option were newer than the file
    assert read_options(config) == options
    message = "must have the fields boundary, .* Received: none of them"
    with pytest.raises(InputError, match=message):
        read_options({"kind": "nplm"})
