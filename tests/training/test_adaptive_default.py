"""The adaptive default: options chosen from the tokens and types of a text, and the run that uses them."""

import dataclasses
import json
import re
import shlex
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm import (
    AdaptiveConfiguration,
    Configuration,
    EncodedCorpus,
    InputError,
    LanguageModel,
    choose_configuration,
    evaluate,
    open_corpus,
    train,
)
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json
from keras_nplm.training import pace
from keras_nplm.training.adaptive_default import CHOSEN_OPTIONS
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.sizes import compute_sizes


@given(
    tokens=st.integers(1, 10**10),
    more=st.integers(1, 10**10),
    types=st.integers(2, 10**7),
    characters=st.booleans(),
    replicas=st.integers(1, 100),
)
def test_the_choice_is_valid_and_follows_the_tokens_and_replicas(tokens, more, types, characters, replicas):
    few, many = (choose_configuration(count, types, characters=characters) for count in (tokens, tokens + more))
    names = [field.name for field in dataclasses.fields(few)]
    assert {name for name in names if getattr(few, name) != getattr(Configuration(), name)} <= set(CHOSEN_OPTIONS)
    assert few.embedding_dim <= many.embedding_dim and few.hidden_units <= many.hidden_units
    assert few.dropout >= many.dropout and few.embedding_dropout >= many.embedding_dropout
    assert few.epochs >= many.epochs
    divided = AdaptiveConfiguration().choose(tokens, types, characters=characters, replicas=replicas)
    assert divided.batch_size % replicas == 0 and 0 <= divided.batch_size - few.batch_size < replicas
    assert AdaptiveConfiguration({"batch_size": 7}).choose(tokens, types, replicas=replicas).batch_size == 7


def test_the_output_follows_the_vocabulary_and_the_context_the_tokens():
    outputs = [choose_configuration(100_000, types).output_layer for types in (50, 511, 512, 4999, 5000)]
    full = choose_configuration(10**5, 60, characters=True, output_layer="full")
    assert outputs == ["full", "full", "sampled", "sampled", "nce"] and full.embedding_dropout == 0
    words, letters = (choose_configuration(100_000, 60, characters=characters) for characters in (False, True))
    assert (words.averages, letters.averages) == ((4,), ()) and letters.hidden_units == 2 * words.hidden_units
    sizes = [(10**5, 9999), (10**5, 10_000), (10**8, 60)]  # the last two have no n-gram model inside
    outputs = [choose_configuration(*size, subwords=True).output_layer for size in sizes]
    assert outputs == ["hybrid", "nce", "full"] and letters.output_layer == "hybrid" and letters.optimizer == "adam"
    assert letters.weight_average and letters.epochs > full.epochs and full.learning_rate == 0.5 and full.interpolated
    assert choose_configuration(10**5, 60, characters=True, pointer=True, segment=16).output_layer == "full"
    others = ({"effort": 0.5}, {}, {"order": 5}, {"pointer": False})
    news = [choose_configuration(10**6, 10**4, boundary="text", **other) for other in others]
    assert [(run.pointer, run.order) for run in news] == [(False, 21), (True, 241), (False, 5), (False, 21)]
    assert 4 * compute_sizes(choose_configuration(10**9, 10**6), 10**6)["parameters"] < 4e9  # bytes


_GIVEN = dict(embedding_dim=4, hidden_units=8, epochs=1)


@pytest.mark.usefixtures("no_report")
def test_the_printed_command_gives_the_same_run(tmp_path, short_text, capsys):
    tiny = "--embedding-dim 4 --hidden-units 8 --epochs 1".split()
    command = ["train", "--train", str(short_text), "--output", str(tmp_path / "model"), *tiny]
    assert main(command) == 0
    printed = re.search(r"^Options chosen for ([\d,]+) tokens and (\d+) types.*\n(.*)$", capsys.readouterr().err, re.M)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    split = json.loads((tmp_path / "model" / "corpus" / "corpus.json").read_text())["splits"]["train"]
    types = len((tmp_path / "model" / "vocabulary.txt").read_text().splitlines())
    tokens = split["tokens"] + split["sentences"]  # those that are predicted
    assert (printed[1], int(printed[2])) == (f"{tokens:,}", types)
    assert config.items() >= dataclasses.asdict(choose_configuration(tokens, types, **_GIVEN)).items()
    words = shlex.split(printed[3])
    assert words[: len(command) + 3] == ["keras-nplm", *command, "--config", "small"]
    assert main(words[1:]) == 0  # the same options: its directory is finished
    printed = capsys.readouterr().err
    assert "is finished" in printed and "Options chosen" not in printed

    mixture, metrics = LanguageModel.load(tmp_path / "model").model, read_json(tmp_path / "model" / "metrics.json")
    assert [part.kind for part in mixture.models] == ["nplm", "back-off"]
    assert metrics["weights"] == mixture.weights.round(6).tolist()
    held_out = EncodedCorpus.load(tmp_path / "model" / "corpus").ids("validation")
    perplexities = [evaluate(model, held_out)["perplexity"] for model in (mixture, *mixture.models)]
    assert perplexities[0] == pytest.approx(metrics["validation"]["perplexity"], rel=1e-6)
    assert perplexities[0] <= min(perplexities) * 1.001  # EM stops before a weight of 0


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


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_minutes_choose_width_pointer_and_epochs(tmp_path, short_text, monkeypatch, capsys, assert_same_weights):
    command = ["train", "--train", str(short_text), "--output", str(tmp_path / "model")]
    assert main([*command, "--minutes", "0.001"]) == 2
    assert re.search(r"`minutes` must be [\d.]+ or more for this text. Received: 0.001", capsys.readouterr().err)
    given = "--embedding-dim 4 --hidden-units 8 --epochs 1".split()
    assert main([*command, "--minutes=0.3", *given]) == 0
    printed = re.search(r"^Options chosen .*\n(.*)$", capsys.readouterr().err, re.M)[1]
    assert "--minutes" not in printed and main([*shlex.split(printed)[1:], "--output", str(tmp_path / "again")]) == 0
    assert_same_weights(*(tmp_path / name / "components" / "0" for name in ("model", "again")))
    assert main([*command, "--minutes=5", *given]) == 0 and "is finished" in capsys.readouterr().err

    monkeypatch.setattr(pace, "_measure", lambda *_: (20.0, 10.0))  # of a fast machine
    counts, runs = (500_000, 20_000), [AdaptiveConfiguration(minutes=n) for n in (0.9, 110.5 / 60, 25)]
    few, default, many = (pace.plan_minutes(run, None, counts, time.process_time()) for run in runs)
    assert dataclasses.replace(default, epochs=5) == choose_configuration(*counts) and default.epochs in (4, 5)
    assert few.epochs == 2 and not few.pointer and few.hidden_units < default.hidden_units
    assert many.pointer and many.hidden_units > default.hidden_units and many.epochs > default.epochs


@pytest.mark.parametrize(
    "effort, given, epochs",
    [
        # 8 epochs of the default, times the root of the effort
        pytest.param(4.0, {"pointer": False}, 16, id="no pointer"),
        pytest.param(2.8, {}, 11, id="a pointer in sentences takes 1.4 times as long"),
        pytest.param(2.0, {"boundary": "text"}, 11, id="a pointer in a text is in its default"),
        pytest.param(0.001, {}, 1, id="at least one"),
    ],
)
def test_epochs_grow_with_the_root_of_the_effort(effort, given, epochs):
    assert choose_configuration(60_000, 2_000, effort=effort, **given).epochs == epochs


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_a_text_of_ten_tokens_is_trained(tmp_path):
    (tmp_path / "text.txt").write_text("a b a b\nb a b a\na b\n", encoding="utf-8")
    files = {split: [str(tmp_path / "text.txt")] for split in ("train", "validation", "test")}
    options = {"epochs": 1, "order": 3, "residual_blocks": 0, "layer_norm": False}
    metrics = train(AdaptiveConfiguration(options), open_corpus(**files), tmp_path / "model")
    assert np.isfinite(metrics["test"]["perplexity"])


def test_size_follows_the_tokens(capsys):
    assert main("size --vocabulary-size 14117 --tokens 800000 --json".split()) == 0
    chosen = compute_sizes(choose_configuration(800_000, 14_117), 14_117)
    assert json.loads(capsys.readouterr().out)["parameters"] == chosen["parameters"]
