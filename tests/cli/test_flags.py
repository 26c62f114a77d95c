"""Flags of the command line agree with the code that they set; every help text is complete."""

import pytest

from keras_nplm.cli.main import build_parser, main
from keras_nplm.training.options import describe_options

COMMANDS = next(action.choices for action in build_parser()._actions if action.dest == "command")


def test_train_has_a_flag_for_each_option_of_a_configuration():
    flags = {action.dest for action in COMMANDS["train"]._actions}
    assert {*describe_options(), "strategy", "corpus", "token", "tokenizer", "normalise"} <= flags


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_all_defaults_and_fits_on_two_screens(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert len(COMMANDS[name].format_help().splitlines()) <= 72
    for action in COMMANDS[name]._actions:
        assert action.help, action
        if action.option_strings and action.dest not in ("help", "help_all"):
            assert "default: " in action.help or "required" in action.help, action.option_strings


def test_only_the_full_help_has_advanced_options_and_configurations(capsys):
    printed = []
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit, match="0"):
            main(["train", flag])
        printed.append(capsys.readouterr().out)
    short, long = printed
    for text in ("--residual-blocks", "--resample", "the network of Bengio et al. (2003)"):
        assert text in long and text not in short
    assert "--order" in short and "--order" in long and "bengio2003" in short


def test_options_may_stand_between_positional_arguments():
    parser = build_parser()
    for line in ("runs/a --dynamic text.txt", "--dynamic runs/a text.txt", "runs/a text.txt --dynamic"):
        options = parser.parse_args(["score", *line.split()])
        assert (options.directory, options.file, options.dynamic) == ("runs/a", "text.txt", True)
