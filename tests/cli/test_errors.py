"""A command line that does not parse: one line with the mistake, a close name and the remedy."""

import re

import pytest
from cyclopts import Token

from keras_nplm.cli.app import COMMANDS, build_app
from keras_nplm.cli.main import main
from keras_nplm.cli.parameters import Reader
from keras_nplm.io.errors import InputError

ROWS = [
    pytest.param("", "COMMAND is required.", id="nothing"),
    pytest.param("fly", "Unknown command 'fly'.", id="command"),
    pytest.param("evalute x", "Did you mean evaluate?", id="close command"),
    pytest.param("evalute --help", "Did you mean evaluate?", id="close command with help"),
    pytest.param("--hlep", "Did you mean --help?", id="close flag without a command"),
    pytest.param("train", "`--output` is required.", id="required option"),
    pytest.param("evaluate", "`MODEL` is required.", id="required argument"),
    pytest.param("evaluate m --splt test", "Did you mean --split?", id="close flag"),
    pytest.param("evaluate m --jsn", "Did you mean --json?", id="close flag of all commands"),
    pytest.param("train --output m --oder=5", "Did you mean --order?", id="close option"),
    pytest.param("evaluate m --seed 1", "Unknown option --seed.", id="flag of a command"),
    pytest.param("evaluate m -x", "Unknown option -x.", id="short flag"),
    pytest.param("generate m n", "Unexpected argument 'n'.", id="argument"),
    pytest.param("generate m n", " A text follows --prompt. Fix: ", id="prompt"),
    pytest.param("train t.txt", "`--output` is required. A text follows --train.", id="text first"),
    pytest.param("train t.txt --output m", "'t.txt'. A text follows --train.", id="text of train"),
    pytest.param("train --text t --output m", "--text. A text follows --train.", id="--text"),
    pytest.param("train --order 5", "`--output` is required. Fix: ", id="no text"),
    pytest.param("score m --text t.txt", "--text. A text follows MODEL.", id="text of score"),
    pytest.param("adapt m t.txt --output n", "`--text` is required. Fix: ", id="text of adapt"),
    pytest.param("evaluate m --split", "`--split` must be followed by a value.", id="no value"),
    pytest.param("evaluate m --text", "must be followed by values, 1 or more.", id="no values"),
    pytest.param("mix m --output x --ngram-cache 1 2", "1 at most. Received: 2.", id="two values"),
    pytest.param(
        "rescore m --weights nplm=1 f",
        "`NBEST` is required. Fix: put NBEST before --weights, whose values are all words up to "
        "the next flag.",
        id="argument after a flag of several values",
    ),
    pytest.param(
        "mix --output x --unigram-cache m n",
        "Received: 2. Fix: put other words before --unigram-cache.",
        id="argument after a flag of one value",
    ),
    pytest.param(
        "evaluate m --text -x.txt",
        "Received: 0. Fix: write an equals sign before the hyphen: --text=-x.txt.",
        id="file with a hyphen",
    ),
    pytest.param(
        "evaluate m --split dev",
        "`--split` must be one of train, validation, test. Received: 'dev'.",
        id="choice",
    ),
    pytest.param(
        "train --output m --head sofmax",
        "`--head` must be one of linear, adaptive, energy. Received: 'sofmax'.",
        id="choice of an option",
    ),
    pytest.param(
        "train --output m --order five",
        "`--order` must be an integer, 2 to 1,023. Received: 'five'. Fix: give a value such as 21.",
        id="integer",
    ),
    pytest.param("nearest m a --top-k 2.6", "`--top-k` must be an integer", id="fraction"),
    pytest.param("nearest m a --top-k -1", "must be 1 or more. Received: -1.", id="negative"),
    pytest.param("mix m --output x --weights a", "`--weights` must be a finite", id="number"),
    pytest.param("mix m --output x --weights inf", "must be a finite number", id="infinite"),
    pytest.param("train --output m --fractions 1 2", "followed by 3 values", id="three values"),
    pytest.param("train --output m --config smal", "`--config` must be one of small", id="config"),
    pytest.param(
        "train --output m --set averages_after=4;20",
        "`averages_after` must be rising integers separated by commas. Received: '4;20'. "
        "Fix: give a value such as 4.",
        id="list",
    ),
    pytest.param(
        "train --output m --layer-norm",
        "Unknown option --layer-norm. Fix: write --set layer_norm=yes.",
        id="an option of --set as a flag",
    ),
    pytest.param(
        "train --output m --set layer_nrm=no",
        "Received: 'layer_nrm=no'. Did you mean layer_norm?",
        id="a mistyped option of --set",
    ),
    pytest.param(
        "train --output m --set averages_after=4,2", "Received: '4,2'.", id="falling list"
    ),
    pytest.param(
        "train --output m --set averages_after=4,,9", "Received: '4,,9'.", id="gap in list"
    ),
]


@pytest.mark.parametrize("line, message", ROWS)
def test_a_wrong_command_line_is_one_line_and_status_2(line, message, capsys):
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    (printed,) = captured.err.splitlines()
    assert message in printed and " Fix: " in printed
    assert not captured.out
    assert printed.startswith("keras-nplm")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_flag_gets_the_one_that_was_meant(command, capsys):
    """Also where an argument is missing. The last letter of the flag is typed twice."""
    flags = [
        name
        for argument in build_app()[command].assemble_argument_collection()
        for name in argument.names
        if name.startswith("--")
    ]
    for flag in flags:
        assert main([command, f"{flag}{flag[-1]}", "x"]) == 2
        assert f"Did you mean {flag}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["complete", "- the"],
            "Unknown option - the. Fix: write -- before words that start with a hyphen.",
        ),
        (
            ["generate", "--prompt", "-5 is"],
            "`--prompt` must be followed by a value. Fix: write an equals sign before the hyphen: "
            "--prompt='-5 is'.",
        ),
    ],
)
def test_a_text_that_starts_with_a_hyphen_has_a_remedy(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_an_error_is_plain_text_in_a_terminal_without_features(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "20")
    assert main(["train", "--output", "m", "--order", "x" * 100]) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.isprintable()


def list_readers() -> list:
    """List the flags with a range or with choices: command, flag, and what reads its value."""
    app = build_app()
    found = []
    for command in COMMANDS:
        for argument in app[command].assemble_argument_collection():
            reader = argument.parameter.converter
            if isinstance(reader, Reader) and find_wrong_value(reader):
                found.append(pytest.param(reader, id=f"{command} {argument.name}"))
    return found


def find_wrong_value(reader: Reader) -> str:
    """Return a value that the flag refuses; an empty string if it takes any."""
    if reader.facts.type is str:
        return "no such value" if reader.facts.choices else ""
    return "no such value"


@pytest.mark.parametrize("reader", list_readers())
def test_an_error_proposes_a_value_that_is_accepted(reader):
    with pytest.raises(InputError) as caught:
        reader(None, [Token(keyword="--flag", value=find_wrong_value(reader))])
    name = reader.facts.name if reader.facts.advanced else "--flag"
    proposed = re.search(
        rf"`{name}` must be .* Fix: give a value such as (.*)\.$", str(caught.value)
    )
    assert proposed, caught.value
    reader(None, [Token(keyword="--flag", value=proposed[1].strip("'"))])
