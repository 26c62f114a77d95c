"""The adaptive default: options chosen by the size of a text, and the run that uses them."""

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm import (
    EncodedCorpus,
    LanguageModel,
    Options,
    TextStatistics,
    Vocabulary,
    choose_options,
    encode_corpus,
    evaluate,
    open_corpus,
)
from keras_nplm.io.files import read_json
from keras_nplm.training import pace
from keras_nplm.training.adaptive_default import CHOSEN_OPTIONS
from keras_nplm.training.options import describe_run_options, read_options
from keras_nplm.training.run import count_text


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
    less, more = few.flatten(), many.flatten()
    assert {name for name in less if less[name] != known[name].default} <= {*CHOSEN_OPTIONS}
    for name in ("embedding_dim", "hidden_units"):
        assert less[name] <= more[name]
    assert less["embedding_dropout"] >= more["embedding_dropout"]
    if less["network"] == more["network"]:
        assert less["dropout"] >= more["dropout"] and less["epochs"] >= more["epochs"]
    statistics = TextStatistics(tokens=tokens, vocabulary_size=types, unit=unit)
    divided = choose_options({}, statistics, replicas=replicas).training.batch_size
    assert divided % replicas == 0
    assert 0 <= divided - few.training.batch_size < replicas
    kept = choose_options({"batch_size": 7}, statistics, replicas=replicas)
    assert kept.training.batch_size == 7
    assert choose_options({}, statistics) == few


WORDS = (100_000, 6000, "words")
FEW_WORDS = (100_000, 60, "words")
LETTERS = (100_000, 60, "characters")
LONG = (1_000_000, 60, "characters")
BOOK = (1_000_000, 10_000, "words")
SHORT = (60_000, 2000, "words")
CHOICES = [
    # the objective follows the vocabulary
    (FEW_WORDS, {}, {"objective": "likelihood", "context": "averaged"}),
    ((100_000, 4999, "words"), {}, {"objective": "sampled", "num_sampled": 256}),
    (WORDS, {}, {"objective": "sampled", "num_sampled": 512}),
    ((1_000_000, 30_000, "words"), {}, {"objective": "nce", "num_sampled": 512}),
    # characters and few subwords have an n-gram model inside, long texts vectors of spelled words
    (LETTERS, {}, {"network": "hybrid", "optimizer": "adam", "context": "concatenated"}),
    ((10**5, 10_000, "subwords"), {}, {"network": "context", "objective": "sampled"}),
    (LONG, {}, {"context": "spelled", "order": 61, "spelling_bits": 15}),
    ((1_000_000, 60, "subwords"), {}, {"context": "averaged"}),
    # given options choose what fits them
    (LETTERS, {"context": "spelled"}, {"network": "hybrid", "order": 61}),
    (FEW_WORDS, {"spelled_words": 2}, {"network": "hybrid", "context": "spelled"}),
    (LONG, {"order": 5}, {"context": "concatenated"}),
    (LONG, {"averages_after": (3,)}, {"network": "hybrid", "context": "averaged"}),
    (LONG, {"freeze_embedding": True}, {"context": "concatenated"}),
    (LETTERS, {"objective": "nce"}, {"network": "context"}),
    (LETTERS, {"interpolated": True}, {"network": "context"}),
    (LETTERS, {"num_sampled": 64}, {"network": "context", "objective": "sampled"}),
    (LETTERS, {"objective": "likelihood"}, {"embedding_dropout": 0, "interpolated": True}),
    (WORDS, {"head": "energy"}, {"hidden": "none", "objective": "sampled"}),
    (WORDS, {"head": "adaptive"}, {"objective": "likelihood"}),
    (FEW_WORDS, {"head": "adaptive"}, {"learning_rate": 0.5}),
    (WORDS, {"optimizer": "adam"}, {"learning_rate": 0.002}),
    # a pointer to a text that crosses sentences, where the time suffices
    (BOOK, {"boundary": "text", "effort": 0.5}, {"network": "context", "order": 21}),
    (BOOK, {"boundary": "text"}, {"network": "pointer", "order": 241, "objective": "nce"}),
    (BOOK, {"boundary": "text", "network": "context"}, {"order": 21}),
    # epochs: 8, times the root of the effort; a pointer in sentences takes 1.4 times as long
    (SHORT, {"network": "context", "effort": 4.0}, {"epochs": 16}),
    (SHORT, {"effort": 2.8}, {"network": "pointer", "epochs": 11}),
    (SHORT, {"effort": 0.001}, {"epochs": 1}),
]


@pytest.mark.parametrize("text, given, expected", CHOICES, ids=str)
def test_the_choice_fits_the_text_and_the_given_options(text, given, expected):
    assert _choose(*text, **given).flatten().items() >= expected.items()


def test_a_rate_is_small_where_one_token_is_common():
    # 1.2 diverged in tables with 43% dashes
    for share, rate in ((0.06, 1.2), (0.2, 1.2), (0.43, 0.58)):
        text = TextStatistics(tokens=300_000, vocabulary_size=9000, largest_share=share)
        assert choose_options({}, text).training.learning_rate == rate


def test_the_share_of_the_commonest_token_is_counted_among_the_predicted_ones(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a b b\nb a\nc\nc\n" * 20)
    corpus = open_corpus(train=[text], validation=[text], tokenizer="whitespace")
    vocabulary = Vocabulary(["a", "b", "c"])
    encoded = encode_corpus(corpus, vocabulary, tmp_path / "encoded")
    shares = [count_text(encoded, boundary).largest_share for boundary in ("sentence", "stream")]
    assert shares == [4 / 11, 3 / 7]  # of `</s>`, and of b
    assert type(shares[0]) is float  # the printed rate follows from it


_GIVEN = dict(embedding_dim=4, hidden_units=8, epochs=1)
_TINY = "--embedding-dim 4 --hidden-units 8 --epochs 1"


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_the_printed_command_gives_the_same_run(here, run, short_text):
    command = f"train --train {short_text} --output model {_TINY}"
    printed = re.search(
        r"^Options chosen for ([\d,]+) tokens and (\d+) types: (--order 21 .*)\. .*\n +(.*)$",
        run(command).err,
        re.M,
    )
    encoded = EncodedCorpus.load("model/corpus")
    statistics = count_text(encoded, "sentence")
    assert (printed[1], int(printed[2])) == (f"{statistics.tokens:,}", encoded.vocabulary_size)
    assert read_options(read_json("model/config.json")) == choose_options(_GIVEN, statistics)
    assert printed[3] == f"--order 21 {_TINY[:-11]} --objective likelihood --epochs 1"
    assert printed[4].startswith(f"keras-nplm {command} --config small ")
    assert printed[4].count("--epochs") == 1
    again = run(printed[4].removeprefix("keras-nplm ")).err  # its directory is finished
    assert "is finished" in again and "Options chosen" not in again

    metrics = read_json("model/metrics.json")
    mixture = LanguageModel.load("model").model
    assert [part.kind for part in mixture.models] == ["nplm", "back-off", "class-based"]
    held_out = encoded.ids("validation")
    whole, network, *ngrams = (
        evaluate(model, held_out)["perplexity"] for model in (mixture, *mixture.models)
    )
    assert whole == pytest.approx(metrics["validation"]["perplexity"], rel=1e-6)
    assert network == pytest.approx(metrics["network"]["validation"], rel=1e-4)
    assert whole <= min(network, *ngrams) * 1.001  # EM stops before a weight of 0
    page = Path("model/report.html").read_text(encoding="utf-8")
    assert f"<pre>{printed[4]}</pre>" in page
    assert short_text.name in page and "<h1>model: a language model</h1>" in page
    for name in ("network", "kneser_ney"):
        assert f"{metrics[name]['test']:.2f}</td>" in page
    assert f"{metrics['test']['perplexity']:.2f}</td>" in page and "Mixture of" in page


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_minutes_choose_options_that_can_be_repeated(
    here, run, short_text, monkeypatch, assert_same_weights
):
    monkeypatch.setattr(pace, "MEASURED_SECONDS", 0.05)
    command = f"train --train {short_text} --output model --network context {_TINY}"
    chosen = run(f"{command} --minutes=0.3").err
    printed = re.search(r"^Options chosen .*\n +keras-nplm (.*)$", chosen, re.M)[1]
    assert "--minutes" not in printed
    run(*shlex.split(printed), "--output", "again")
    assert_same_weights(*(Path(name, "components", "0") for name in ("model", "again")))
    resumed = run(f"{command} --minutes=5").err
    assert "is finished" in resumed and "a run is planned once" in resumed
