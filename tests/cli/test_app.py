"""How the words of a command line become the arguments of a function."""

from pathlib import Path

import pytest

from keras_nplm.cli.app import build_app, parse
from keras_nplm.io.parts import describe_options
from keras_nplm.training.network import Network
from keras_nplm.training.optimisation import Training
from keras_nplm.training.options import CorpusOptions, TextOptions

SCORE = {"model": "runs/a", "file": "text.txt", "dynamic": True}
OPTIONS = {"order": 5, "layer_norm": False, "averages_after": (2, 4), "epochs": 3}


@pytest.mark.parametrize(
    "line, expected",
    [
        # options may stand between arguments
        ("score --dynamic runs/a text.txt", SCORE),
        ("score runs/a --dynamic text.txt", SCORE),
        (
            "nearest runs/a --top-k 3 the cat",
            {"directory": "runs/a", "words": ("the", "cat"), "top_k": 3},
        ),
        # several values, repeated flags
        ("evaluate runs/a --text a b --ln-z --text c", {"text": ("a", "b", "c"), "ln_z": True}),
        ("generate --seed 1 --seed 2", {"seed": 2}),
        (
            "ngram --output m --resample 0.1 a.txt 2.txt --resample 1 b.txt",
            {"resample": ((0.1, ("a.txt", "2.txt")), (1.0, ("b.txt",)))},
        ),
        # options of dataclasses
        (
            "train --output m --order 5 --set layer_norm=no averages_after=2,4 --epochs=3",
            {"options": OPTIONS},
        ),
        # a cache is off, chosen or given
        (
            "mix a b --output m --unigram-cache --ngram-cache 50",
            {"unigram_cache": [], "ngram_cache": [50.0]},
        ),
        # hyphens
        ("score runs/a -", {"file": "-"}),
        ("evaluate runs/a --text a - b", {"text": ("a", "-", "b")}),
        ("generate --prompt -5", {"prompt": "-5"}),
        ("nearest runs/a -- --top-k -", {"words": ("--top-k", "-")}),
    ],
)
def test_words_become_arguments(line, expected):
    arguments = parse(line.split())[1].arguments
    assert {name: arguments[name] for name in expected} == expected
    assert not {"run", "texts", "continuous_cache"} & arguments.keys()


@pytest.mark.long  # pydantic comes with the extra [develop]
def test_values_have_the_types_of_their_annotations():
    pytest.importorskip("pydantic")  # once it is imported, cyclopts compares the two
    line = "train --output m --order 5 --set averages_after=2,4 cutoffs=10,20 --resample 0.5 a.txt"
    given = {"order": 5, "averages_after": (2, 4), "cutoffs": (10, 20)}
    assert parse(line.split())[1].arguments["options"] == given


@pytest.mark.parametrize("word", ["[1]", "{", '{"a": 1}', "null", "none", "", "1.5", "- a", "-5 b"])
def test_text_stays_text(word):
    _, bound = parse(["complete", "runs/a", word])
    assert bound.args == ("runs/a", word)
    assert all(type(word) is str for word in bound.args)


def test_a_command_may_know_how_it_was_called():
    _, bound = parse(["train", "--output", "m"], is_json=True)
    assert bound.arguments["call"].words == ("train", "--output", "m")
    assert bound.arguments["call"].is_json


def test_remote_inputs_are_downloaded(memory_store):
    memory_store.pipe_file("gs://bucket/a/config.json", b"{}")
    arguments = parse("mix gs://bucket/a local --output gs://bucket/b".split())[1].arguments
    copy, local = arguments["directories"]
    assert Path(copy, "config.json").read_bytes() == b"{}" and local == "local"
    assert arguments["output"] == "gs://bucket/b"


@pytest.mark.parametrize("cls", [CorpusOptions, TextOptions, Network, Training])
def test_train_has_a_flag_for_each_option(cls):
    collection = build_app()["train"].assemble_argument_collection()
    flags = {name for argument in collection for name in argument.names}
    assert {f"--{name.replace('_', '-')}" for name in describe_options(cls)} <= flags


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_flags_and_choices(shell, run):
    script = run(f"--completion {shell}").out
    for word in ("add-words", "hidden-units", "bengio2003"):
        assert word in script
