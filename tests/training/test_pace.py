"""`train --minutes`: the plan is what was timed, and texts of a few words are timed, too."""

import dataclasses
import time

import numpy as np
import pytest

from keras_nplm import open_corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.training import pace
from keras_nplm.training.adaptive_default import AdaptiveConfiguration
from keras_nplm.training.prepare import prepare_corpus

COUNTS = (500_000, 20_000)  # tokens and types
EPOCH, END = 20.0, 10.0  # CPU seconds


@pytest.fixture
def timed(monkeypatch) -> list:
    """The configurations that a plan has timed, on a machine that takes the same time for each."""
    configurations = []

    def measure(configuration, encoded, ngrams):
        configurations.append(configuration)
        return EPOCH, END

    monkeypatch.setattr(pace, "_measure", measure)
    return configurations


@pytest.mark.parametrize("seconds", [31, 49, 51, 69, 110, 119, 150, 400, 1500])
def test_the_network_timed_last_gets_the_epochs_that_fit(timed, seconds):
    plan = pace.plan_minutes(AdaptiveConfiguration(minutes=seconds / 60), None, COUNTS, time.process_time() + 0.5)
    fitting = int((seconds - END) // EPOCH)
    assert plan == dataclasses.replace(timed[-1], epochs=min(timed[-1].epochs, fitting))


def test_given_epochs_are_kept(timed):
    run = AdaptiveConfiguration({"epochs": 7}, minutes=90 / 60)
    assert pace.plan_minutes(run, None, COUNTS, time.process_time()).epochs == 7


def _encode(directory, text: str) -> EncodedCorpus:
    path = directory / "text.txt"
    path.write_text(text, encoding="utf-8")
    files = {split: [str(path)] for split in ("train", "validation", "test")}
    encoded, _ = prepare_corpus(open_corpus(**files), directory / "prepared", min_count=1)
    return encoded


def test_time_of_an_epoch_counts_its_updates_and_its_validation(tmp_path, monkeypatch):
    encoded = _encode(tmp_path, "a b c d\n" * 500)
    times = {"fit": 3.0, "evaluate": 5.0}
    monkeypatch.setattr(pace, "_time", lambda run, steps: times[run.func.__name__])
    chosen = AdaptiveConfiguration({"batch_size": 100}).choose(2500, encoded.vocabulary_size)
    validation = 5.0 * 2000 / pace.VALIDATION_BATCH
    assert pace._measure(chosen, encoded, 2500) == pytest.approx((3.0 * 25 + validation, 3 * validation))


@pytest.mark.long
@pytest.mark.parametrize(
    "text, given",
    [("a b\n", {}), ("a b\n", {"boundary": "stream"}), ("a b\nb a\n" * 3, {"segment": 3})],
    ids=str,
)
def test_texts_of_a_few_words_are_timed(tmp_path, monkeypatch, text, given):
    monkeypatch.setattr(pace, "_SECONDS", 0.0)
    encoded = _encode(tmp_path, text)
    chosen = AdaptiveConfiguration(given).choose(len(text), encoded.vocabulary_size)
    epoch, end = pace._measure(chosen, encoded, len(text.split()))
    assert 0 < epoch < np.inf and 0 < end < np.inf
