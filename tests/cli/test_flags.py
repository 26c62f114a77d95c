"""Flags of the command line agree with the code that they set; every help text is complete."""

import pytest

from keras_nplm.cli import adapting, estimating, experiments, exporting, rescoring
from keras_nplm.cli.flags import configuration_names, describe
from keras_nplm.cli.main import build_parser, main
from keras_nplm.data.corpora.opening import FRACTIONS
from keras_nplm.experiments.benchmark import BENCHMARKS
from keras_nplm.io.options import OPTIONS
from keras_nplm.language_model.new_words import PRIOR_TOKENS, RULES
from keras_nplm.language_model.rescoring.features import FEATURE_NAME
from keras_nplm.language_model.rescoring.nbest import FORMATS
from keras_nplm.language_model.rescoring.tuning import RESTARTS
from keras_nplm.models.ngrams.approximation import MIN_EXPECTED_COUNT, ORDER
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.estimate import METHODS, NUM_CLASSES
from keras_nplm.training.sizes import compute_sizes

COMMANDS = next(action.choices for action in build_parser()._actions if action.dest == "command")


def test_defaults_and_choices_are_those_of_the_code():
    assert (estimating.METHOD.choices, estimating.NUM_CLASSES.default) == (tuple(METHODS), NUM_CLASSES)
    assert (adapting.RULE.choices, adapting.PRIOR_TOKENS.default) == (RULES, PRIOR_TOKENS)
    assert (adapting.RULE.default, rescoring.FORMAT.choices) == (RULES[0], FORMATS)
    assert (rescoring.RESTARTS.default, rescoring.NAME.default) == (RESTARTS, FEATURE_NAME)
    assert (exporting.ORDER.example, exporting.MIN_EXPECTED_COUNT.example) == (ORDER, MIN_EXPECTED_COUNT)
    assert experiments.BENCHMARKS == BENCHMARKS
    assert COMMANDS["train"].get_default("fractions") == FRACTIONS


def test_train_has_a_flag_for_each_option_of_a_configuration():
    flags = {action.dest for action in COMMANDS["train"]._actions}
    assert {*configuration_names(), "strategy", "corpus", "token", "tokenizer", "normalise"} <= flags


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_has_its_default_in_its_help(name):
    for action in COMMANDS[name]._actions:
        assert action.help, action
        if action.option_strings and action.dest not in ("help", "help_all"):
            assert "default: " in action.help or "required" in action.help, action.option_strings


def test_a_default_that_prints_as_nothing_says_none():
    assert describe(OPTIONS["max_size"], None).endswith("default: none)")
    assert describe(OPTIONS["cutoffs"], "").endswith("default: none)")
    assert describe(OPTIONS["layer_norm"], False).endswith("default: off)")
    assert describe(OPTIONS["vocabulary_size"], None, required=True).endswith("(2 or more; required)")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_on_two_screens(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert len(COMMANDS[name].format_help().splitlines()) <= 72


def test_only_the_full_help_has_advanced_options_and_configurations(capsys):
    with pytest.raises(SystemExit) as basic:
        main(["train", "--help"])
    short = capsys.readouterr().out
    with pytest.raises(SystemExit) as full:
        main(["train", "--help-all"])
    long = capsys.readouterr().out
    assert not basic.value.code and not full.value.code
    for text in ("--residual-blocks", "--resample", "the network of Bengio et al. (2003)"):
        assert text in long and text not in short
    assert "--order" in short and "--order" in long and "bengio2003" in short


def test_advanced_options_work_without_being_shown():
    options = build_parser().parse_args(["train", "--output", "x", "--residual-blocks", "2"])
    assert options.residual_blocks == 2


_OPTIONS_OF_SIZE = {  # of each option of `size` two sets of options with different sizes
    "order": (dict(order=5, averages_after=""), dict(order=9, averages_after="")),
    "embedding_dim": (dict(embedding_dim=8), dict(embedding_dim=9)),
    "hidden_units": (dict(hidden_units=8), dict(hidden_units=9)),
    "direct_connections": (dict(direct_connections=False), dict(direct_connections=True)),
    "pointer": (dict(pointer=False), dict(pointer=True)),
    "averages_after": (dict(averages_after="4"), dict(averages_after="4,8")),
    "residual_blocks": (dict(residual_blocks=1), dict(residual_blocks=2)),
    "layer_norm": (dict(layer_norm=True), dict(layer_norm=False)),
    "output_layer": (dict(output_layer="full"), dict(output_layer="nce", num_sampled=8)),
    "num_sampled": (dict(output_layer="nce", num_sampled=8), dict(output_layer="nce", num_sampled=9)),
    "cutoffs": (dict(output_layer="adaptive", cutoffs="20"), dict(output_layer="adaptive", cutoffs="20,50")),
    "output_rank": (dict(output_rank=None), dict(output_rank=8)),
    "tied_output": (dict(tied_output=False), dict(tied_output=True)),
    "shortlist_size": (dict(shortlist_size=None), dict(shortlist_size=40)),
    "outside_output": (dict(shortlist_size=40), dict(shortlist_size=40, outside_output=True)),
}


def test_every_option_of_size_changes_what_it_prints():
    assert {*_OPTIONS_OF_SIZE, "epochs"} == {a.dest for a in COMMANDS["size"]._actions} & {*configuration_names()}
    for one, other in _OPTIONS_OF_SIZE.values():
        assert compute_sizes(Configuration(**one), 100) != compute_sizes(Configuration(**other), 100)


def test_options_may_stand_between_positional_arguments():
    parser = build_parser()
    for line in (
        "score runs/a --dynamic text.txt",
        "score --dynamic runs/a text.txt",
        "score runs/a text.txt --dynamic",
    ):
        options = parser.parse_args(line.split())
        assert (options.directory, options.file, options.dynamic) == ("runs/a", "text.txt", True)
