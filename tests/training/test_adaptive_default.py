"""The adaptive default: options chosen by the size of a text, and the run that uses them."""

import json
import re
import shlex
import shutil
import time
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm import (
    EncodedCorpus,
    InputError,
    LanguageModel,
    Options,
    TextStatistics,
    Vocabulary,
    choose_options,
    encode_corpus,
    evaluate,
    open_corpus,
    train,
)
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json
from keras_nplm.training import pace
from keras_nplm.training.adaptive_default import CHOSEN_OPTIONS
from keras_nplm.training.network import Averaged, Concatenated, NoLayer, Sampled, WithNgramModel
from keras_nplm.training.options import describe_run_options, read_options
from keras_nplm.training.run import count_text
from keras_nplm.training.sizes import compute_sizes


def _choose(tokens: int, types: int, unit: str = "words", effort: float = 1.0, **given) -> Options:
    statistics = TextStatistics(tokens=tokens, vocabulary_size=types, unit=unit)
    return choose_options(given, statistics, effort=effort)


@given(
    tokens=st.integers(1, 10**10),
    more=st.integers(1, 10**10),
    types=st.integers(2, 10**7),
    unit=st.sampled_from(["words", "characters"]),
    replicas=st.integers(1, 100),
)
def test_the_choice_is_valid_and_follows_the_tokens_and_replicas(
    tokens, more, types, unit, replicas
):
    few = _choose(tokens, types, unit)
    many = _choose(tokens + more, types, unit)
    known = describe_run_options()
    changed = {name for name, value in few.flatten().items() if value != known[name].default}
    assert changed <= set(CHOSEN_OPTIONS)
    assert few.network.embedding_dim <= many.network.embedding_dim
    assert few.flatten()["hidden_units"] <= many.flatten()["hidden_units"]
    if few.flatten()["network"] == many.flatten()["network"]:
        assert few.flatten()["dropout"] >= many.flatten()["dropout"]
        assert few.training.epochs >= many.training.epochs
    assert few.network.embedding_dropout >= many.network.embedding_dropout
    statistics = TextStatistics(tokens=tokens, vocabulary_size=types, unit=unit)
    divided = choose_options({}, statistics, replicas=replicas).training.batch_size
    assert divided % replicas == 0
    assert 0 <= divided - few.training.batch_size < replicas
    kept = choose_options({"batch_size": 7}, statistics, replicas=replicas)
    assert kept.training.batch_size == 7
    assert choose_options({}, statistics) == few


def test_the_objective_follows_the_vocabulary():
    objectives = [
        _choose(100_000, types).flatten()["objective"] for types in (50, 511, 512, 4999, 5000)
    ]
    assert objectives == ["likelihood", "likelihood", "sampled", "sampled", "nce"]


def test_characters_and_few_subwords_have_an_ngram_model_inside():
    letters = _choose(100_000, 60, "characters")
    assert letters.flatten()["network"] == "hybrid"
    assert letters.flatten()["optimizer"] == "adam"
    assert letters.training.weight_average > 0
    sizes = [(10**5, 9999), (10**5, 10_000), (10**8, 60)]
    subwords = [_choose(*size, "subwords").flatten() for size in sizes]
    assert [flat["network"] for flat in subwords] == ["hybrid", "context", "context"]
    assert [flat["objective"] for flat in subwords] == ["likelihood", "nce", "likelihood"]


def test_long_texts_of_characters_have_vectors_of_spelled_words():
    short = _choose(499_999, 60, "characters")
    long = _choose(500_000, 60, "characters")
    assert (short.flatten()["context"], long.flatten()["context"]) == ("concatenated", "spelled")
    assert (long.network.order, long.flatten()["spelling_bits"]) == (61, 14)
    assert _choose(4_300_000, 60, "characters").flatten()["spelling_bits"] == 17
    assert _choose(1_000_000, 60, "subwords").flatten()["context"] == "averaged"
    given = _choose(10**5, 60, "characters", context="spelled").network
    assert (given.context.kind, given.order) == ("spelled", 61)


@pytest.mark.parametrize("unit", ["words", "characters", "subwords"])
@pytest.mark.parametrize("given", [{"context": "spelled"}, {"spelled_words": 2}], ids=str)
def test_options_of_spelled_words_choose_their_context(unit, given):
    chosen = _choose(10**5, 1000, unit, **given).network
    assert (chosen.network.kind, chosen.context.kind) == ("hybrid", "spelled")


@pytest.mark.parametrize(
    "given, context",
    [
        pytest.param({"order": 5}, "concatenated", id="a short context"),
        pytest.param({"averages_after": (3,)}, "averaged", id="averages"),
        pytest.param({"context": "concatenated"}, "concatenated", id="another context"),
        pytest.param({"network": "context"}, "averaged", id="no n-gram model"),
        pytest.param({"freeze_embedding": True}, "concatenated", id="random features"),
    ],
)
def test_given_options_choose_a_context_without_spelled_words(given, context):
    assert _choose(10**6, 60, "characters", **given).flatten()["context"] == context


def test_the_rate_follows_the_optimizer_and_the_commonest_token():
    def choose_rate(share: float = 0.06, **given) -> float:
        statistics = TextStatistics(tokens=300_000, vocabulary_size=9000, largest_share=share)
        return choose_options(given, statistics).training.learning_rate

    assert choose_rate() == choose_rate(0.2) == choose_rate(0.0) == 1.2
    assert choose_rate(0.43) == 0.58  # 1.2 diverged in tables with 43% dashes
    assert choose_rate(optimizer="adam") == choose_rate(0.43, optimizer="adam") == 0.002
    assert choose_rate(optimizer="adagrad") == 0.1
    assert choose_rate(0.43, learning_rate=1.0) == 1.0


def test_the_share_of_the_commonest_token_is_counted_among_the_predicted_ones(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a b b\nb a\nc\nc\n" * 20)
    corpus = open_corpus(train=[text], validation=[text], tokenizer="whitespace")
    vocabulary = Vocabulary(["a", "b", "c"])
    encoded = encode_corpus(corpus, vocabulary, tmp_path / "encoded")
    shares = [count_text(encoded, boundary).largest_share for boundary in ("sentence", "stream")]
    assert shares == [4 / 11, 3 / 7]  # of `</s>`, and of b
    assert type(shares[0]) is float  # the printed rate follows from it


def test_characters_without_an_ngram_model_are_learned_by_heart():
    words = _choose(100_000, 60)
    inside = _choose(100_000, 60, "characters")
    letters = _choose(100_000, 60, "characters", objective="likelihood")
    assert letters.flatten()["network"] == "context"
    assert letters.network.embedding_dropout == 0
    assert letters.network.interpolated
    assert letters.training.learning_rate == 0.5
    assert words.network.context == Averaged() and inside.network.context == Concatenated()
    assert letters.flatten()["hidden_units"] == 2 * words.flatten()["hidden_units"]
    assert inside.training.epochs > letters.training.epochs


@pytest.mark.parametrize(
    "given",
    [
        dict(objective="nce"),
        dict(head="energy"),
        dict(shortlist_size=9),
        dict(segment=4),
        dict(interpolated=True),
        dict(num_sampled=64),
        dict(proposal="log-uniform"),
    ],
    ids=str,
)
def test_options_that_a_hybrid_has_not_choose_another_network(given):
    assert _choose(100_000, 60, "characters", **given).flatten()["network"] == "context"


@pytest.mark.parametrize(
    "given, network, order",
    [
        pytest.param({"effort": 0.5}, "context", 21, id="too little time"),
        pytest.param({}, "pointer", 241, id="a pointer to the text"),
        pytest.param({"order": 5}, "context", 5, id="a short context"),
        pytest.param({"network": "context"}, "context", 21, id="no pointer"),
    ],
)
def test_a_pointer_reads_texts_that_cross_sentences(given, network, order):
    chosen = _choose(10**6, 10**4, boundary="text", **given).network
    assert (chosen.network.kind, chosen.order) == (network, order)


def test_the_parts_that_are_given_choose_what_fits_them():
    energy = _choose(10**5, 6000, head="energy").network
    assert energy.hidden == NoLayer() and energy.objective == Sampled(num_sampled=512)
    assert _choose(10**5, 6000, head="adaptive").flatten()["objective"] == "likelihood"
    assert _choose(10**5, 60, num_sampled=64).flatten()["objective"] == "sampled"
    assert _choose(10**5, 60, head="adaptive").training.learning_rate == 0.5
    averaged = _choose(10**5, 60, "characters", averages_after=(3,)).network
    assert averaged.network == WithNgramModel()
    assert averaged.context == Averaged(averages_after=(3,))


def test_the_largest_choice_fits_a_usual_memory():
    largest = _choose(10**9, 10**6).network
    assert 4 * compute_sizes(largest, 10**6)["parameters"] < 4e9  # bytes


_GIVEN = dict(embedding_dim=4, hidden_units=8, epochs=1)


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_the_printed_command_gives_the_same_run(tmp_path, short_text, capsys):
    tiny = "--embedding-dim 4 --hidden-units 8 --epochs 1".split()
    command = ["train", "--train", str(short_text), "--output", str(tmp_path / "model"), *tiny]
    assert main(command) == 0
    printed = re.search(
        r"^Options chosen for ([\d,]+) tokens and (\d+) types.*\n(.*)$",
        capsys.readouterr().err,
        re.M,
    )
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    split = json.loads((tmp_path / "model" / "corpus" / "corpus.json").read_text())["splits"][
        "train"
    ]
    types = len((tmp_path / "model" / "vocabulary.txt").read_text().splitlines())
    tokens = split["tokens"] + split["sentences"]  # those that are predicted
    assert (printed[1], int(printed[2])) == (f"{tokens:,}", types)
    statistics = count_text(EncodedCorpus.load(tmp_path / "model" / "corpus"), "sentence")
    assert read_options(config) == choose_options(_GIVEN, statistics)
    words = shlex.split(printed[3])
    assert words[: len(command) + 3] == ["keras-nplm", *command, "--config", "small"]
    assert main(words[1:]) == 0  # the same options: its directory is finished
    printed = capsys.readouterr().err
    assert "is finished" in printed and "Options chosen" not in printed

    mixture = LanguageModel.load(tmp_path / "model").model
    metrics = read_json(tmp_path / "model" / "metrics.json")
    assert [part.kind for part in mixture.models] == ["nplm", "back-off"]
    assert metrics["weights"] == mixture.weights.round(6).tolist()
    held_out = EncodedCorpus.load(tmp_path / "model" / "corpus").ids("validation")
    perplexities = [evaluate(model, held_out)["perplexity"] for model in (mixture, *mixture.models)]
    assert perplexities[0] == pytest.approx(metrics["validation"]["perplexity"], rel=1e-6)
    assert perplexities[0] <= min(perplexities) * 1.001  # EM stops before a weight of 0


def test_an_interrupted_adaptive_run_resumes(tmp_path, short_text, capsys, monkeypatch):
    """Ctrl-C as training begins: that checkpoints resume is in test_checkpoint.py."""
    requested = _GIVEN | {"epochs": 2}
    text = Path(shutil.copy(short_text, tmp_path / "text.txt"))
    corpus = open_corpus(train=[str(text)])
    fit_network = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("keras_nplm.training.train.fit_network", fit_network)
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "model", **requested)
    config = read_json(tmp_path / "model" / "config.json")
    with pytest.raises(InputError, match="holds a run with other options: batch_size"):
        train(corpus, tmp_path / "model", **{**requested, "batch_size": 9})
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "model", **requested)
    assert "Resuming the run" in capsys.readouterr().err
    assert read_json(tmp_path / "model" / "config.json") == config
    begun, resumed = (call.args[0].options for call in fit_network.call_args_list)
    assert begun == resumed
    text.write_text(text.read_text().replace("w1 ", "w2 "))  # of the same size
    with pytest.raises(InputError, match="corpus: its files have changed"):
        train(open_corpus(train=[str(text)]), tmp_path / "model", **requested)


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_minutes_choose_options_that_can_be_repeated(
    tmp_path, short_text, capsys, monkeypatch, assert_same_weights
):
    monkeypatch.setattr(pace, "MEASURED_SECONDS", 0.05)
    monkeypatch.setattr(pace, "_MOST_EFFORT", 1.5)  # no pointer, which trains more slowly
    command = ["train", "--train", str(short_text), "--output", str(tmp_path / "model")]
    with monkeypatch.context() as context:
        context.setattr(pace, "measure_seconds", Mock(return_value=(20.0, 10.0)))
        assert main([*command, "--minutes", "0.001"]) == 2
    assert re.search(
        r"`minutes` must be [\d.]+ or more for this text. Received: 0.001", capsys.readouterr().err
    )
    given = "--embedding-dim 4 --hidden-units 8 --epochs 1".split()
    # the first of two plans is not timed, to save seconds
    measure = Mock(wraps=pace.measure_seconds, side_effect=[(0.1, 0.1), DEFAULT])
    monkeypatch.setattr(pace, "measure_seconds", measure)
    assert main([*command, "--minutes=0.3", *given]) == 0
    assert measure.call_count == 2
    printed = re.search(r"^Options chosen .*\n(.*)$", capsys.readouterr().err, re.M)[1]
    assert (
        "--minutes" not in printed
        and main([*shlex.split(printed)[1:], "--output", str(tmp_path / "again")]) == 0
    )
    assert_same_weights(*(tmp_path / name / "components" / "0" for name in ("model", "again")))
    assert main([*command, "--minutes=5", *given]) == 0
    resumed = capsys.readouterr().err
    assert "is finished" in resumed and "a run is planned once" in resumed


def test_more_minutes_widen_the_network_and_add_a_pointer(monkeypatch):
    def measure(options, encoded, ngrams):
        """Return the seconds of a fast machine."""
        return 20.0, 10.0

    monkeypatch.setattr(pace, "measure_seconds", measure)
    statistics = TextStatistics(tokens=500_000, vocabulary_size=20_000)
    plans = [
        pace.plan_minutes(minutes, {}, statistics, None, started=time.process_time())
        for minutes in (0.9, 110.5 / 60, 25)
    ]
    few, default, many = plans
    assert default.replace(epochs=5) == choose_options({}, statistics)
    assert default.training.epochs in (4, 5)
    assert few.training.epochs == 2
    assert few.flatten()["network"] == "context"
    assert few.flatten()["hidden_units"] < default.flatten()["hidden_units"]
    assert many.flatten()["network"] == "pointer"
    assert many.flatten()["hidden_units"] > default.flatten()["hidden_units"]
    assert many.training.epochs > default.training.epochs


@pytest.mark.parametrize(
    "effort, given, epochs",
    [
        # 8 epochs of the default, times the root of the effort
        pytest.param(4.0, {"network": "context"}, 16, id="no pointer"),
        pytest.param(2.8, {}, 11, id="a pointer in sentences takes 1.4 times as long"),
        pytest.param(2.0, {"boundary": "text"}, 11, id="a pointer in a text is in its default"),
        pytest.param(0.001, {}, 1, id="at least one"),
    ],
)
def test_epochs_grow_with_the_root_of_the_effort(effort, given, epochs):
    assert _choose(60_000, 2_000, effort=effort, **given).training.epochs == epochs


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_a_text_of_ten_tokens_is_trained(tmp_path):
    (tmp_path / "text.txt").write_text("a b a b\nb a b a\na b\n", encoding="utf-8")
    files = {split: [str(tmp_path / "text.txt")] for split in ("train", "validation", "test")}
    options = {"epochs": 1, "order": 3, "residual_blocks": 0, "layer_norm": False}
    metrics = train(open_corpus(**files), tmp_path / "model", **options)
    assert np.isfinite(metrics["test"]["perplexity"])


def test_size_follows_the_tokens(capsys):
    assert main("size --vocabulary-size 14117 --tokens 800000 --json".split()) == 0
    chosen = compute_sizes(_choose(800_000, 14_117).network, 14_117)
    assert json.loads(capsys.readouterr().out)["parameters"] == chosen["parameters"]
