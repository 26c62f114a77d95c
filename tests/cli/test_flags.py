"""Flags of the command line agree with the code that they set; every help text is complete."""

import argparse

import pytest

from keras_nplm.cli import estimating, experiments, exporting, new_words, rescoring
from keras_nplm.cli.flags import configuration_names, describe
from keras_nplm.cli.main import build_parser
from keras_nplm.data.corpora.corpus import FRACTIONS
from keras_nplm.experiments.benchmark import BENCHMARKS, LARGE_TOKENS, SMALL_TOKENS
from keras_nplm.io.options import OPTIONS
from keras_nplm.language_model.new_words import PRIOR_TOKENS, RULES
from keras_nplm.language_model.rescoring.features import FEATURE_NAME
from keras_nplm.language_model.rescoring.nbest import FORMATS
from keras_nplm.language_model.rescoring.tuning import RESTARTS
from keras_nplm.models.ngrams.approximation import MIN_EXPECTED_COUNT, ORDER
from keras_nplm.training.estimate import METHODS, NUM_CLASSES

COMMANDS = next(action.choices for action in build_parser()._actions if action.dest == "command")


def test_defaults_and_choices_are_those_of_the_code():
    assert (estimating.METHOD.choices, estimating.NUM_CLASSES.default) == (tuple(METHODS), NUM_CLASSES)
    assert (new_words.RULE.choices, new_words.PRIOR_TOKENS.default) == (RULES, PRIOR_TOKENS)
    assert (new_words.RULE.default, rescoring.FORMAT.choices) == (RULES[0], FORMATS)
    assert (rescoring.RESTARTS.default, rescoring.NAME.default) == (RESTARTS, FEATURE_NAME)
    assert (exporting.ORDER.example, exporting.MIN_EXPECTED_COUNT.example) == (ORDER, MIN_EXPECTED_COUNT)
    assert (experiments.TOKENS.default, experiments.TOKENS.least) == (LARGE_TOKENS, SMALL_TOKENS)
    assert experiments.BENCHMARKS == BENCHMARKS
    assert COMMANDS["train"].get_default("fractions") == FRACTIONS


def test_train_has_a_flag_for_each_option_of_a_configuration():
    flags = {action.dest for action in COMMANDS["train"]._actions}
    assert {*configuration_names(), "strategy", "corpus", "token", "tokenizer", "normalise"} <= flags


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_has_its_default_in_its_help(name):
    for action in COMMANDS[name]._actions:
        assert action.help, action
        if action.option_strings and not isinstance(action, argparse._HelpAction):
            assert "default: " in action.help or "required" in action.help, action.option_strings


def test_a_default_that_prints_as_nothing_says_none():
    assert describe(OPTIONS["max_size"], None).endswith("default: none)")
    assert describe(OPTIONS["cutoffs"], "").endswith("default: none)")
    assert describe(OPTIONS["layer_norm"], False).endswith("default: off)")
    assert describe(OPTIONS["vocabulary_size"], None, required=True).endswith("(2 or more; required)")
