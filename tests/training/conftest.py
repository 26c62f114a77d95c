"""A short text and small options: a training run on them takes one or two seconds."""

import dataclasses

import numpy as np
import pytest

from keras_nplm import Configuration, Corpus, open_corpus


@pytest.fixture(scope="session")
def short_corpus(tmp_path_factory) -> Corpus:
    """400 lines of 3 to 11 words, about 30 word types by Zipf's law."""
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.zipf(1.5, rng.integers(3, 12)) % 30) for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return open_corpus(train=[str(path)])


@pytest.fixture(scope="session")
def short_configuration(small_configuration) -> Configuration:
    return dataclasses.replace(small_configuration, batch_size=64, min_count=2)


@pytest.fixture
def no_report(monkeypatch):
    """Training runs that write no report.html, which takes longer than such a run."""
    monkeypatch.setattr("keras_nplm.training.train.write_run_report", lambda *_: None)
