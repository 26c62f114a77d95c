"""The help of commands, usual and whole: titles, ranges, choices, defaults, configurations."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

from keras_nplm.cli.app import COMMANDS, build_app, select_set_options
from keras_nplm.data.corpus import FRACTIONS
from keras_nplm.rescoring.formats import FORMATS, name_total
from keras_nplm.rescoring.ranking import name_features
from keras_nplm.serving.web_page import RUNTIME_VERSION
from keras_nplm.training.configurations import CONFIGURATIONS

LONGEST = 60  # lines of the usual help of 80 columns; of `train` 50


@pytest.fixture
def read_help(run, monkeypatch):
    """Return the help that a command prints in 80 columns, and in 200 as one paragraph."""

    def read(*words: str) -> tuple[list[str], str]:
        monkeypatch.setenv("COLUMNS", "80")
        lines = run(*words).out.splitlines()
        monkeypatch.setenv("COLUMNS", "200")
        wide = run(*words).out.splitlines()
        return lines, " ".join(" ".join(line.strip("│╭╰─╮╯ ") for line in wide).split())

    return read


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_help_of_all_commands_lists_each(read_help, flag):
    lines, text = read_help(flag, "--json")
    assert lines[0] == "Usage: keras-nplm COMMAND"
    for command in COMMANDS.values():
        assert f" {command.name} {command.help} " in text
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_whole_help_has_each_option_with_its_text(name, read_help):
    usual, usual_text = read_help(name, "--help")
    whole, whole_text = read_help(name, "--help-all")
    arguments = build_app()[name].assemble_argument_collection(parse_docstring=True)
    advanced = select_set_options(arguments)
    for argument in arguments:
        if argument.parse and not argument.children:
            is_usual = argument.parameter.show is not False
            help = " ".join(argument.parameter.help.split()) + " ["  # default, choices, required
            assert help in whole_text and (help in usual_text) == is_usual, argument.name
    for option, argument in advanced.items():
        assert f" {option}=" in whole_text and f"{argument.name} " not in usual_text
    assert "--json" in usual_text and "--call" not in whole_text
    assert usual[-1] == f"Example: keras-nplm {name} {COMMANDS[name].example}"
    assert len(usual) <= (50 if name == "train" else LONGEST)
    assert max(map(len, whole)) <= 80


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_a_command_has_one_description(command):
    module, _, function = command.path.partition(":")
    documented = getattr(importlib.import_module(f"keras_nplm.cli.{module}"), function)
    assert inspect.getdoc(documented).partition("\n")[0] == command.help


def test_the_help_of_train_has_titles_ranges_choices_and_defaults(read_help):
    lines, text = read_help("train", "--help-all")
    titles = [line.strip("╭─╮ ") for line in lines if line.startswith("╭")]
    assert titles == [
        *("options", "text, tokens and vocabulary", "network", "training"),
        *("named configurations", "text, tokens and vocabulary", "network", "training"),
        *("--set: text, tokens and vocabulary", "--set: context", "--set: hidden", "--set: head"),
        *("--set: objective", "--set: network", "--set: optimizer", "--set: schedule"),
        "--set: training",
    ]
    split = "/".join(f"{100 * share:.0f}" for share in FRACTIONS)
    for part in (
        "--output DIR model directory to write [required]",
        "(2 to 1,023) [default: auto]",
        "[choices: sentence, text, stream] [default: sentence]",
        "layer_norm=yes|no deep: layer normalisation before each residual block",
        f"alone: split {split} [default: none]",
        f"[default: {' '.join(map(str, FRACTIONS))}]",
        *(f"{named.name} {named.description}" for named in CONFIGURATIONS.values()),
    ):
        assert part in text


def test_the_help_of_export_names_the_version_of_the_runtime(read_help):
    assert f"`npm pack onnxruntime-web@{RUNTIME_VERSION}`" in read_help("export", "--help")[1]


@pytest.mark.parametrize("format", FORMATS.values())
def test_the_help_of_rescore_names_what_is_written(read_help, format):
    """Its features, and the files beside the output."""
    _, text = read_help("rescore", "--help")
    line = {"moses": "0 ||| a ||| ||| 1", "kaldi": "u-1 a", "tsv": "0\ta"}[format.name]
    values = dict.fromkeys([*name_features("NAME"), name_total("NAME")], 1.0)
    written = (format(line) if format.name == "tsv" else format()).extend(line, values)
    named = [*values] if format.name == "tsv" else re.findall(r"NAME\w*", str(written))
    assert len(named) >= len(values)
    assert not [name for name in named if not re.search(rf"\b{name}\b", text)]


def test_help_is_plain_text_in_a_terminal_without_features(run, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = run("export --help").out
    assert all(character.isprintable() or character == "\n" for character in text)


PROGRAM = """
import sys
from keras_nplm.cli.main import main
for name in sys.argv[1:]:
    main([name, "--help-all"])
print({"keras", "numpy", "tensorflow"} & {*sys.modules}, file=sys.stderr)
"""


def test_help_loads_no_numpy():
    command = [sys.executable, "-c", PROGRAM, "--json", *COMMANDS]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stderr == "set()\n"
