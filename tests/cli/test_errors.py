"""A command line that does not parse: one line with the mistake, a close name and the remedy."""

import re

import pytest
from cyclopts import Token

from keras_nplm.cli.app import COMMANDS, build_app
from keras_nplm.cli.parameters import Reader
from keras_nplm.io.errors import InputError

LINES = [
    "fly",
    "evalute --help",
    "--hlep",
    "--completion tcsh",
    "train",
    "evaluate",
    "generate m n",
    "train my.txt --output m",
    "train --trian x",
    "evaluate m --jsn",
    "train --output m --oder=5",
    "evaluate m -x",
    "evaluate m --text -x.txt",
    "evaluate m --split",
    "evaluate m --text",
    "mix m --output x --ngram-cache 1 2",
    "evaluate m --split dev",
    "train --output m --head sofmax",
    "train --output m --hidden 30",
    "train --output m --config smal",
    "train --output m --order five",
    "nearest m a --top-k 2.6",
    "nearest m a --top-k -1",
    "mix m --output x --weights inf",
    "train --output m --fractions 1 2",
    "train --output m --resample 2 x",
    "train --output m --set averages_after=4;20",
    "train --output m --set averages_after=4,2",
    "train --output m --set layer_nrm=no",
    "train --output m --layer-norm",
    "train --output=",
]


def test_a_wrong_command_line_is_one_line_and_status_2(run, messages):
    for line in ["", *LINES]:
        captured = run(line, status=2)
        (printed,) = captured.err.splitlines()
        assert " Fix: " in printed and printed.isprintable() and not captured.out
        messages.add(printed)


def list_flags(command: str) -> list[str]:
    arguments = build_app()[command].assemble_argument_collection()
    return [name for one in arguments if one.parse for name in one.names if name[:2] == "--"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_flag_gets_the_one_that_was_meant(command, run):
    """Every third flag, also where an argument is missing; two letters are in the wrong order."""
    for flag in list_flags(command)[::3]:
        mistyped = f"--{flag[3]}{flag[2]}{flag[4:]}"
        if mistyped != flag:
            assert f"Did you mean {flag}?" in run(command, mistyped, "x", status=2).err


def list_readers() -> list:
    """List what reads a number: command, flag, and its reader."""
    app = build_app()
    return [
        pytest.param(argument.parameter.converter, id=f"{command} {argument.name}")
        for command in COMMANDS
        for argument in app[command].assemble_argument_collection()
        if isinstance(argument.parameter.converter, Reader)
    ]


@pytest.mark.parametrize("reader", list_readers())
def test_an_error_proposes_a_value_that_is_accepted(reader):
    with pytest.raises(InputError, match="` must be .* Fix: ") as caught:
        reader(None, [Token(keyword="--flag", value="no such value")])
    proposed = re.search(r"give a value such as (.*)\.$", str(caught.value))
    if proposed:
        reader(None, [Token(keyword="--flag", value=proposed[1].strip("'"))])
    else:
        assert "Fix: leave it out." in str(caught.value)
