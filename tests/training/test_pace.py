"""`train --minutes`: the plan is what was timed, and texts of a few words are timed, too."""

import time

import numpy as np
import pytest

from keras_nplm import InputError, open_corpus
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


@pytest.mark.parametrize("seconds", [31, 49, 51, 110, 150, 1500])
def test_the_network_timed_last_gets_the_epochs_that_fit(timed, seconds):
    assert _plan(seconds / 60, {"epochs": 7}).training.epochs == 7
    plan = _plan(seconds / 60, {}, later=0.5)
    fitting = int((seconds - END) // EPOCH)
    assert plan == timed[-1].replace(epochs=min(timed[-1].training.epochs, fitting))


def test_too_few_minutes_are_refused(timed):
    with pytest.raises(InputError, match=r"`minutes` must be 0.[56] or more.* Received: 0.3"):
        _plan(0.3, {})


def test_more_minutes_widen_the_network_and_add_a_pointer(timed):
    few, default, many = (_plan(seconds / 60, {}) for seconds in (54, 110.5, 1500))
    assert default.replace(epochs=5) == choose_options({}, STATISTICS)
    kinds = [plan.flatten()["network"] for plan in (few, default, many)]
    assert kinds == ["context", "context", "pointer"]
    widths = [plan.flatten()["hidden_units"] for plan in (few, default, many)]
    assert widths[0] < widths[1] < widths[2]
    assert few.training.epochs == 2 and many.training.epochs > default.training.epochs


@pytest.mark.long
@pytest.mark.parametrize(
    "text, given",
    [("a b\n", {"boundary": "stream"}), ("a b\nb a\n" * 3, {"segment": 3})],
    ids=["two words of a stream", "twelve words in segments"],
)
def test_texts_of_a_few_words_are_timed(tmp_path, monkeypatch, text, given):
    monkeypatch.setattr(pace, "MEASURED_SECONDS", 0.0)
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    corpus = open_corpus(**{split: [path] for split in ("train", "validation", "test")})
    encoded, _ = prepare_corpus(corpus, tmp_path / "prepared", TextOptions(min_count=1))
    statistics = TextStatistics(tokens=len(text), vocabulary_size=encoded.vocabulary_size)
    chosen = choose_options(given, statistics)
    epoch, end = pace.measure_seconds(chosen, encoded, len(text.split()))
    assert 0 < epoch < np.inf and 0 < end < np.inf
