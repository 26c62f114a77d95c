"""How the words of a command line become the arguments of a function."""

import pytest

from keras_nplm.cli.app import COMMANDS, build_app, fetch_inputs, parse
from keras_nplm.cli.main import main
from keras_nplm.io.parts import describe_options
from keras_nplm.training.network import Network
from keras_nplm.training.optimisation import Training
from keras_nplm.training.options import (
    CorpusOptions,
    TextOptions,
)


def parse_arguments(line: str) -> dict:
    _, bound = parse(line.split())
    return bound.arguments


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("score --dynamic runs/a text.txt", id="before"),
        pytest.param("score runs/a --dynamic text.txt", id="between"),
        pytest.param("score runs/a text.txt --dynamic", id="after"),
    ],
)
def test_options_may_stand_between_positional_arguments(line):
    assert parse_arguments(line) == {"model": "runs/a", "file": "text.txt", "dynamic": True}


def test_a_list_of_words_may_follow_options():
    arguments = parse_arguments("nearest runs/a --top-k 3 the cat")
    assert arguments == {"directory": "runs/a", "words": ("the", "cat"), "top_k": 3}


def test_a_flag_takes_several_values_and_may_be_repeated():
    arguments = parse_arguments("evaluate runs/a --text a b --ln-z --text c")
    assert arguments["text"] == ("a", "b", "c")
    assert arguments["ln_z"] is True


def test_the_last_of_repeated_values_counts():
    assert parse_arguments("generate --seed 1 --seed 2")["seed"] == 2


def test_each_resample_has_a_share_and_its_files():
    line = "ngram --output m --resample 0.1 a.txt 2.txt --resample 1 b.txt"
    assert parse_arguments(line)["resample"] == ((0.1, ("a.txt", "2.txt")), (1.0, ("b.txt",)))


def test_options_of_dataclasses_arrive_if_they_are_given():
    line = "train --output m --order 5 --set layer_norm=no averages_after=2,4 --epochs=3"
    arguments = parse_arguments(line)
    given = {"order": 5, "layer_norm": False, "averages_after": (2, 4), "epochs": 3}
    assert arguments["options"] == given
    assert "run" not in arguments and "texts" not in arguments


@pytest.mark.long  # pydantic comes with the extra [develop]
def test_values_have_the_types_of_their_annotations():
    pytest.importorskip("pydantic")  # once it is imported, cyclopts compares the two
    line = "train --output m --order 5 --set averages_after=2,4 cutoffs=10,20 --resample 0.5 a.txt"
    arguments = parse_arguments(line)
    assert arguments["options"] == {"order": 5, "averages_after": (2, 4), "cutoffs": (10, 20)}


def test_a_hyphen_is_standard_input():
    assert parse_arguments("score runs/a -")["file"] == "-"
    assert parse_arguments("evaluate runs/a --text a - b")["text"] == ("a", "-", "b")
    assert parse_arguments("generate --prompt -")["prompt"] == "-"


def test_words_after_two_hyphens_are_no_options():
    assert parse_arguments("nearest runs/a -- --top-k -")["words"] == ("--top-k", "-")


@pytest.mark.parametrize("word", ["[1]", "{", '{"a": 1}', "null", "none", "", "1.5"])
def test_text_stays_text(word):
    _, bound = parse(["complete", "runs/a", word])
    assert bound.args == ("runs/a", word)


def test_a_cache_is_off_chosen_or_given():
    arguments = parse_arguments("mix a b --output m --unigram-cache --ngram-cache 50")
    assert (arguments["unigram_cache"], arguments["ngram_cache"]) == ([], [50.0])
    assert "continuous_cache" not in arguments


def test_a_command_may_know_how_it_was_called():
    _, bound = parse(["train", "--output", "m"], is_json=True)
    assert bound.arguments["call"].words == ("train", "--output", "m")
    assert bound.arguments["call"].is_json


def test_remote_inputs_are_downloaded_before_the_command_runs(monkeypatch):
    fetched = []

    def fetch(path):
        fetched.append(path)
        return f"cache/{len(fetched)}"

    monkeypatch.setattr("keras_nplm.io.remote.fetch", fetch)
    function, bound = parse("mix s3://bucket/a local gs://bucket/b --output s3://bucket/c".split())
    assert not fetched
    fetch_inputs(function, bound)
    assert fetched == ["s3://bucket/a", "gs://bucket/b"]
    assert bound.arguments["directories"] == ("cache/1", "local", "cache/2")
    assert bound.arguments["output"] == "s3://bucket/c"


@pytest.mark.parametrize("cls", [CorpusOptions, TextOptions, Network, Training])
def test_train_has_a_flag_for_each_option(cls):
    collection = build_app()["train"].assemble_argument_collection()
    flags = {name for argument in collection for name in argument.names}
    assert {f"--{name.replace('_', '-')}" for name in describe_options(cls)} <= flags


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_flags_and_choices(shell, capsys):
    assert main(["--completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("add-words", "hidden-units", "bengio2003"):
        assert word in script


def test_each_command_takes_json(capsys):
    for name in COMMANDS:
        assert main([name, "--json", "--help"]) == 0
        assert "--json " in capsys.readouterr().out
