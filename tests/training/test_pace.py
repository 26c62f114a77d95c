"""`train --minutes`: the plan is what was timed, and texts of a few words are timed, too."""

import time
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import open_corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.training import pace
from keras_nplm.training.adaptive_default import choose_options
from keras_nplm.training.options import Options, TextOptions, TextStatistics
from keras_nplm.training.prepare import prepare_corpus

STATISTICS = TextStatistics(tokens=500_000, vocabulary_size=20_000)
EPOCH, END = 20.0, 10.0  # CPU seconds


@pytest.fixture
def timed(monkeypatch) -> list:
    """The options that a plan has timed, on a machine that takes the same time for each."""
    timed_options = []

    def measure(options, encoded, ngrams):
        timed_options.append(options)
        return EPOCH, END

    monkeypatch.setattr(pace, "measure_seconds", measure)
    return timed_options


def _plan(minutes: float, given: dict, later: float = 0.0) -> Options:
    """Plan a run that began so many seconds later."""
    started = time.process_time() + later
    return pace.plan_minutes(minutes, given, STATISTICS, None, started=started)


@pytest.mark.parametrize("seconds", [31, 49, 51, 69, 110, 119, 150, 400, 1500])
def test_the_network_timed_last_gets_the_epochs_that_fit(timed, seconds):
    plan = _plan(seconds / 60, {}, later=0.5)
    fitting = int((seconds - END) // EPOCH)
    assert plan == timed[-1].replace(epochs=min(timed[-1].training.epochs, fitting))


def test_given_epochs_are_kept(timed):
    assert _plan(90 / 60, {"epochs": 7}).training.epochs == 7


def _encode(directory, text: str) -> EncodedCorpus:
    path = directory / "text.txt"
    path.write_text(text, encoding="utf-8")
    files = {split: [str(path)] for split in ("train", "validation", "test")}
    encoded, _ = prepare_corpus(
        open_corpus(**files), directory / "prepared", TextOptions(min_count=1)
    )
    return encoded


def test_time_of_an_epoch_counts_its_updates_and_its_validation(tmp_path, monkeypatch):
    encoded = _encode(tmp_path, "a b c d\n" * 500)
    times = {"fit": 3.0, "evaluate": 5.0}

    def find_time(run, steps):
        return times[run.func.__name__]

    monkeypatch.setattr(pace, "time_steps", find_time)
    monkeypatch.setattr(pace, "_measure_ngram_models", Mock(return_value=7.0))
    statistics = TextStatistics(tokens=2500, vocabulary_size=encoded.vocabulary_size)
    chosen = choose_options({"batch_size": 100}, statistics)
    validation = 5.0 * 2000 / pace.VALIDATION_BATCH
    expected = (3.0 * 25 + validation, 3 * validation + 7.0)
    assert pace.measure_seconds(chosen, encoded, 2500) == pytest.approx(expected)


@pytest.mark.parametrize(
    "given, models",
    [
        pytest.param({"interpolated": False}, 0.0, id="a network alone"),
        pytest.param({"interpolated": True}, (2 + 3 + 4) / 4, id="a mixture"),
        pytest.param({"network": "hybrid"}, (2 + 3 + 4) / 4 + 4, id="a hybrid with a jackknife"),
        pytest.param({"shortlist_size": 9, "objective": "sampled"}, 1.0, id="a short-list"),
    ],
)
def test_the_ngram_models_of_a_run_are_timed(monkeypatch, given, models):
    clock = iter([10.0, 13.0])
    monkeypatch.setattr(pace, "kneser_ney", Mock())
    monkeypatch.setattr(pace, "time", Mock(process_time=lambda: next(clock)))
    options = Options.of(order=4, **given)
    assert pace._measure_ngram_models(options, None, 20) == pytest.approx(3.0 * models)


@pytest.mark.long
@pytest.mark.parametrize(
    "text, given",
    [
        pytest.param("a b\n", {}, id="two words"),
        pytest.param("a b\n", {"boundary": "stream"}, id="two words of a stream"),
        pytest.param("a b\nb a\n" * 3, {"segment": 3}, id="twelve words in segments"),
    ],
)
def test_texts_of_a_few_words_are_timed(tmp_path, monkeypatch, text, given):
    monkeypatch.setattr(pace, "MEASURED_SECONDS", 0.0)
    encoded = _encode(tmp_path, text)
    statistics = TextStatistics(tokens=len(text), vocabulary_size=encoded.vocabulary_size)
    chosen = choose_options(given, statistics)
    epoch, end = pace.measure_seconds(chosen, encoded, len(text.split()))
    assert 0 < epoch < np.inf and 0 < end < np.inf
