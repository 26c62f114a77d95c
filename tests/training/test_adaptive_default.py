"""The adaptive default: options chosen from the tokens and types of a text, and the run that uses them."""

import dataclasses
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm import AdaptiveConfiguration, Configuration, InputError, choose_configuration, open_corpus, train
from keras_nplm.cli.main import main
from keras_nplm.training.adaptive_default import CHOSEN_OPTIONS
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.sizes import compute_sizes

COUNTS = dict(tokens=st.integers(1, 10**10), types=st.integers(2, 10**7))


@given(**COUNTS, characters=st.booleans())
def test_the_choice_is_valid_and_differs_in_the_listed_options_only(tokens, types, characters):
    chosen, small = choose_configuration(tokens, types, characters=characters), Configuration()
    different = {
        field.name for field in dataclasses.fields(chosen) if getattr(chosen, field.name) != getattr(small, field.name)
    }
    assert different <= set(CHOSEN_OPTIONS)


@given(**COUNTS, more=COUNTS["tokens"], characters=st.booleans())
def test_more_tokens_never_give_a_narrower_network_or_more_epochs(tokens, types, more, characters):
    few, many = (choose_configuration(count, types, characters=characters) for count in (tokens, tokens + more))
    assert few.embedding_dim <= many.embedding_dim and few.hidden_units <= many.hidden_units
    assert few.dropout >= many.dropout and few.embedding_dropout >= many.embedding_dropout
    assert few.epochs >= many.epochs


@given(**COUNTS, replicas=st.integers(1, 100))
def test_the_chosen_batch_divides_among_replicas(tokens, types, replicas):
    chosen = AdaptiveConfiguration().choose(tokens, types, replicas=replicas)
    alone = AdaptiveConfiguration().choose(tokens, types)
    assert chosen.batch_size % replicas == 0
    assert 0 <= chosen.batch_size - alone.batch_size < replicas
    assert AdaptiveConfiguration({"batch_size": 7}).choose(tokens, types, replicas=replicas).batch_size == 7


def test_the_output_follows_the_vocabulary_and_the_context_the_tokens():
    outputs = [choose_configuration(100_000, types).output_layer for types in (50, 511, 512, 4999, 5000)]
    assert outputs == ["full", "full", "sampled", "sampled", "nce"]
    words, letters = (choose_configuration(100_000, 60, characters=characters) for characters in (False, True))
    assert (words.averages, letters.averages) == ((4,), (10,)) and letters.hidden_units == 2 * words.hidden_units
    assert 4 * compute_sizes(choose_configuration(10**9, 10**6), 10**6)["parameters"] < 4e9  # bytes


_GIVEN = dict(embedding_dim=4, hidden_units=8, epochs=1)
TINY = "--embedding-dim 4 --hidden-units 8 --epochs 1".split()


@pytest.mark.usefixtures("no_report")
def test_the_printed_command_gives_the_same_run(tmp_path, short_text, capsys, assert_same_weights):
    command = ["train", "--train", str(short_text), "--output", str(tmp_path / "model"), *TINY]
    assert main(command) == 0
    printed = re.search(r"^Options chosen for ([\d,]+) tokens and (\d+) types.*\n(.*)$", capsys.readouterr().err, re.M)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    split = json.loads((tmp_path / "model" / "corpus" / "corpus.json").read_text())["splits"]["train"]
    types = len((tmp_path / "model" / "vocabulary.txt").read_text().splitlines())
    tokens = split["tokens"] + split["sentences"]  # those that are predicted
    assert (printed[1], int(printed[2])) == (f"{tokens:,}", types)
    chosen = choose_configuration(tokens, types, **_GIVEN)
    assert {name: config[name] for name in dataclasses.asdict(chosen)} == dataclasses.asdict(chosen)
    words = shlex.split(printed[3])
    assert words[: len(command) + 3] == ["keras-nplm", *command, "--config", "small"]
    assert main(words[1:]) == 0  # the same run: its directory is finished
    assert "is finished" in capsys.readouterr().err
    explicit = [word.replace("model", "explicit") if word.startswith(str(tmp_path)) else word for word in words[1:]]
    assert main(explicit) == 0
    assert "Options chosen" not in capsys.readouterr().err
    assert json.loads((tmp_path / "explicit" / "config.json").read_text()) == config
    assert_same_weights(tmp_path / "model", tmp_path / "explicit")


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_an_interrupted_adaptive_run_resumes(tmp_path, short_text, capsys, interrupted_after):
    requested = AdaptiveConfiguration(_GIVEN | {"epochs": 2})
    text = Path(shutil.copy(short_text, tmp_path / "text.txt"))
    corpus = open_corpus(train=[str(text)])

    with interrupted_after(Checkpoint, "on_epoch_end"):
        train(requested, corpus, tmp_path / "model")
    with pytest.raises(InputError, match="holds a run with other options: batch_size"):
        train(AdaptiveConfiguration({**requested.given, "batch_size": 9}), corpus, tmp_path / "model")
    capsys.readouterr()
    assert [epoch["epoch"] for epoch in train(requested, corpus, tmp_path / "model")["history"]] == [1, 2]
    assert "Resuming the run" in capsys.readouterr().err
    text.write_text(text.read_text().replace("w1 ", "w2 "))  # of the same size
    with pytest.raises(InputError, match="The text files of the run in .* have changed"):
        train(requested, open_corpus(train=[str(text)]), tmp_path / "model")


@pytest.mark.usefixtures("no_report")
def test_a_text_of_ten_tokens_is_trained(tmp_path):
    (tmp_path / "text.txt").write_text("a b a b\nb a b a\na b\n", encoding="utf-8")
    files = {split: [str(tmp_path / "text.txt")] for split in ("train", "validation", "test")}
    metrics = train(AdaptiveConfiguration({"epochs": 1}), open_corpus(**files), tmp_path / "model")
    assert np.isfinite(metrics["test"]["perplexity"])


def test_size_follows_the_tokens(capsys):
    parameters = []
    for more in ("", "--tokens 800000", "--tokens 9 --config small"):
        assert main(["size", "--vocabulary-size", "14117", "--json", *more.split()]) == 0
        parameters.append(json.loads(capsys.readouterr().out)["parameters"])
    chosen = compute_sizes(choose_configuration(800_000, 14_117), 14_117)
    assert parameters[1] == chosen["parameters"] > parameters[0] == parameters[2]
