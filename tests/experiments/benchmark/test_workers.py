"""The benchmark `workers` compares two workers with one."""

import pytest

from keras_nplm import Corpus, encode_corpus
from keras_nplm.data.encoding import count_vocabulary
from keras_nplm.experiments.benchmark import workers
from keras_nplm.experiments.tables import format_benchmark
from keras_nplm.io.errors import RunError

LINES = [["the", "cat", "sat", f"w{number % 9}"] for number in range(400)]
CORPUS = Corpus("lines", "whitespace", {split: lambda: iter(LINES) for split in ("train", "validation", "test")})


def test_two_workers_are_compared_with_one(monkeypatch):
    monkeypatch.setattr(workers, "EPOCHS", {"full": 1})
    rates, calls = iter([100.0, 80.0, 160.0, 110.0, 88.0, 154.0]), []

    def train(directory, *arguments):
        assert (directory / "vocabulary.txt").exists() and (directory / "corpus" / "corpus.json").exists()
        calls.append(arguments)
        return {"rate": next(rates), "cpu_seconds": 2.0, "validation_perplexity": 40.0}

    monkeypatch.setattr(workers, "train_workers", train)
    one, synchronous, local = workers.measure(CORPUS, rounds=2, average_every=[1, 8])
    assert calls == [("full", 1, 1), ("full", 2, 1), ("full", 2, 8)] * 2
    assert one["rate"] == 105 and "ratio_to" not in one
    assert synchronous["name"] == "full, 2 workers, synchronous" and synchronous["ratio_to"]["1 worker"][0] == 0.8
    assert local["name"] == "full, 2 workers, K=8" and local["ratio_to"] == {"1 worker": [1.5, 1.4, 1.6]}
    table = format_benchmark({"rows": [row | {"benchmark": "workers"} for row in (one, local)]})
    assert "| full, 2 workers, K=8 | 157 | 154 to 160 | 2 | 40.0 | 1 worker: 1.50 (1.40 to 1.60) |" in table


@pytest.mark.long
@pytest.mark.parametrize("count, every", [(1, 1), (2, 4)])
def test_workers_train_and_report(tmp_path, count, every):
    vocabulary = count_vocabulary(CORPUS)
    vocabulary.save(tmp_path / "vocabulary.txt")
    encode_corpus(CORPUS, vocabulary, tmp_path / "corpus")
    result = workers.train_workers(tmp_path, "full", count, every)
    assert set(result) == {"rate", "cpu_seconds", "validation_perplexity"}
    with pytest.raises(RunError, match="A worker of the benchmark failed: .*corpus.json"):
        workers.train_workers(tmp_path / "absent", "full", count, every)
    assert result["rate"] > 0 and result["cpu_seconds"] > 0 and 1 < result["validation_perplexity"] < 9
