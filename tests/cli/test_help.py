"""The help of commands, short and whole: titles, ranges, choices, defaults, configurations."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

from keras_nplm.cli.app import COMMANDS, build_app
from keras_nplm.cli.main import main
from keras_nplm.data.corpus import FRACTIONS
from keras_nplm.training.configurations import CONFIGURATIONS

TEXT_COLUMN = 28  # where the text of an option begins
LONGEST = 110  # lines of the usual help of 80 columns: two screens, with the named configurations


@pytest.fixture
def read_help(capsys, monkeypatch):
    """Return the help that a command prints in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def read(*words: str) -> str:
        assert main(words) == 0
        return capsys.readouterr().out

    return read


def get_options(page: str) -> dict[str, str]:
    """Return the text of each option, argument or command of a page, by its first name."""
    options: dict[str, str] = {}
    name = ""
    for line in page.splitlines():
        if not line.startswith("  "):  # a title
            name = ""
        elif line[2] != " ":
            name, _, text = line.strip().partition(" ")
            name = name.rstrip(",")
            options[name] = text.strip()
        elif name:
            options[name] = f"{options[name]} {line.strip()}".strip()
    return options


def test_the_help_of_all_commands_lists_each(read_help):
    page = read_help("--help")
    assert page.startswith("usage: keras-nplm [options] COMMAND")
    assert COMMANDS.keys() <= get_options(page).keys()
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_has_a_text_and_a_default(name, read_help):
    for argument in build_app()[name].assemble_argument_collection(parse_docstring=True):
        assert argument.parameter.help or argument.children or not argument.parse, argument.name
    page = read_help(name, "--help-all")
    for option, text in get_options(page).items():
        if option not in ("-h", "--help-all", *CONFIGURATIONS):
            assert "default: " in text or "required" in text, option
    assert max(map(len, page.splitlines())) <= 80
    texts = [line[TEXT_COLUMN:].strip() for line in page.splitlines()]
    assert not [text for text in texts if "  " in text]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_usual_help_fits_on_two_screens(name, read_help):
    assert len(read_help(name, "--help").splitlines()) <= LONGEST


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_a_command_has_one_description(command):
    module, _, function = command.path.partition(":")
    documented = getattr(importlib.import_module(f"keras_nplm.cli.{module}"), function)
    assert inspect.getdoc(documented).partition("\n")[0] == command.help


def test_only_the_whole_help_has_advanced_options(read_help):
    short = get_options(read_help("train", "--help"))
    whole = get_options(read_help("train", "--help-all"))
    for option in ("--resample", "--background", "--data-dir"):
        assert option in whole and option not in short
    assert "--order" in short and "--train" in short
    assert short.keys() < whole.keys()


def test_the_whole_help_describes_the_options_of_set(read_help):
    assert "--set" in get_options(read_help("train", "--help"))
    whole = " ".join(read_help("train", "--help-all").split())
    assert "layer_norm={yes,no} layer normalisation before each residual block" in whole
    assert "held_out_mass=X label-smoothing mass" in whole


def test_the_options_of_a_network_have_titles_ranges_choices_and_defaults(read_help):
    page = read_help("train", "--help-all")
    titles = [line for line in page.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "options:",
        "text, tokens and vocabulary:",
        "network:",
        "optimiser, batches and epochs:",
        "time, devices and workers:",
        "options of --set:",
        "named configurations:",
    ]
    options = get_options(page)
    assert options["--order"].endswith("(2 to 1,023; default: auto)")
    assert options["--learning-rate"].endswith("(0 or more; default: auto)")
    assert options["--boundary"].startswith("{sentence,text,stream}")
    assert options["--interpolated"].startswith("--no-interpolated")
    assert options["--output"].endswith("(required)")


def test_the_fractions_of_a_text_are_told(read_help):
    shown = " ".join(map(str, FRACTIONS))
    assert f"default: {shown})" in get_options(read_help("train", "--help-all"))["--fractions"]


@pytest.mark.parametrize("name", ["train", "size"])
def test_the_usual_help_describes_each_named_configuration(name, read_help):
    options = get_options(read_help(name, "--help"))
    for named in CONFIGURATIONS.values():
        assert options[named.name] == named.description


def test_help_is_plain_text_in_a_terminal_without_features(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["export", "--help"]) == 0
    assert all(
        character.isprintable() or character == "\n" for character in capsys.readouterr().out
    )


@pytest.mark.parametrize("columns, widest", [("40", 51), ("200", 100)])
def test_lines_follow_the_width_of_the_terminal(columns, widest, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["mix", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert widest * 0.8 < max(map(len, lines)) <= widest


IMPORTS = """
import sys
from keras_nplm.cli.main import main
main(sys.argv[1:])
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
packages = {name.split(".")[0] for name, file in files.items() if "site-packages" in file}
print(*packages, file=sys.stderr)
"""
# those that take hundredths of a second
LIGHT = {"attr", "attrs", "cyclopts", "docstring_parser", "numpy"}
# of Python's own installation, and of this package
INSTALLED = re.compile(r"keras_nplm|_distutils_hack|distutils-precedence|__editable__.*")


@pytest.mark.parametrize("words", ["--help", "train --help", "train --help-all", "export --help"])
def test_help_starts_with_light_packages_alone(words):
    command = [sys.executable, "-c", IMPORTS, *words.split()]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {name for name in run.stderr.split() if not INSTALLED.fullmatch(name)}
    assert "cyclopts" in imported
    assert imported <= LIGHT


@pytest.mark.parametrize("command", ["train", "ngram", "prepare"])
def test_the_usual_help_tells_the_split_of_training_text_alone(read_help, command):
    shown = "/".join(f"{100 * share:.0f}" for share in FRACTIONS)
    assert f"alone: split {shown} " in get_options(read_help(command, "--help"))["--train"]
