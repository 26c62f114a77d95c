"""The table of options."""

import ast
import re

import pytest

from keras_nplm.cli.main import build_parser
from keras_nplm.data.boundary import BOUNDARIES
from keras_nplm.data.subwords import PIECES_KINDS
from keras_nplm.data.tokenizers.normalisation import STEPS
from keras_nplm.io.errors import InputError
from keras_nplm.io.options import GROUPS, OPTIONS, check_option
from keras_nplm.layers.deep_hidden import ACTIVATIONS
from keras_nplm.training.distribution import STRATEGIES
from keras_nplm.training.optimizers import OPTIMIZERS


def test_choices_are_those_of_the_code():
    code = dict(activation=ACTIVATIONS, optimizer=OPTIMIZERS)
    code |= dict(boundary=BOUNDARIES, pieces_kind=PIECES_KINDS, normalise=STEPS, strategy=STRATEGIES)
    assert {name: {*OPTIONS[name].choices} for name in code} == {name: {*choices} for name, choices in code.items()}


def test_defaults_and_examples_are_accepted():
    for option in OPTIONS.values():
        assert option.group in GROUPS
        assert option.example is None or option.accepts(option.example)
        assert option.accepts(option.default) or option.name == "vocabulary_size"  # which has no default


def test_every_error_proposes_a_value_that_is_accepted():
    """The flags of all commands, each with a value below its range or of no kind."""
    for command, parser in build_parser()._subparsers._group_actions[0].choices.items():
        for option in parser.get_default("checked"):
            wrong = "no such value" if option.choices or option.is_list else -1e9 if option.type is float else -1
            if option.type is bool or option.accepts(wrong):
                continue
            with pytest.raises(InputError) as caught:
                option.check(wrong)
            proposed = re.search(r"Fix: give a value such as (.*)\.$", str(caught.value))
            assert proposed, f"{command}: {caught.value}"
            assert option.accepts(ast.literal_eval(proposed[1])), f"{command}: {caught.value}"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("order", 1, "`order` must be 2 to 1,023. Received: 1. Fix: give a value such as 21."),
        ("order", "x", "`order` must be an integer, 2 to 1,023. Received: 'x'."),
        ("learning_rate", float("inf"), "`learning_rate` must be a finite number, 0 or more. Received: inf."),
        ("dropout", float("nan"), "`dropout` must be a finite number, in [0, 1). Received: nan."),
        ("max_size", 0, "`max_size` must be 1 or more, or None. Received: 0."),
        ("boundary", "x", "`boundary` must be one of sentence, text, stream. Received: 'x'."),
        ("averages_after", "5,3", "`averages_after` must be rising integers separated by commas. Received: '5,3'."),
        ("layer_norm", 1, "`layer_norm` must be True or False. Received: 1."),
    ],
)
def test_a_value_out_of_range_is_refused(name, value, message):
    with pytest.raises(InputError) as caught:
        check_option(name, value)
    assert message in str(caught.value)
