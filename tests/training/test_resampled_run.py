"""Training on an in-domain text and shares of out-of-domain texts: `--resample`."""

import collections
import itertools
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import LanguageModel, TextOptions, estimate, open_corpus, train

# name, lines and share of texts
TEXTS = [("in.txt", 20, 1), ("out=0.5.a.txt", 60, 0.5), ("out=0.5.b.txt", 61, 0.5)]
TEXTS += [("web.txt", 100, 0.25)]


def _write_text(path: Path, lines: int) -> list[str]:
    """Write lines of words, one of which only this text has; return words and sentence ends."""
    words = "the cat sat on a mat and dogs ran off".split()
    text = [[words[(i * j + lines) % 10] for j in range(3 + i % 4)] for i in range(lines)]
    text.append([f"w{lines}"])
    path.write_text("".join(" ".join(line) + "\n" for line in text), encoding="utf-8")
    return [word for line in text for word in (*line, "</s>")]


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_a_network_starts_from_shares_and_an_ngram_model_counts_all(tmp_path, small_options):
    """That an epoch has the share of each text is in test_run.py."""
    weighted = collections.Counter()
    pairs = set()
    for name, lines, share in TEXTS:
        words = _write_text(tmp_path / name, lines)
        for word in words:
            weighted[word] += share
        pairs |= set(itertools.pairwise(["</s>", *words]))
    held_out = {split: [tmp_path / "in.txt"] for split in ("validation", "test")}
    resample = [(0.5, [tmp_path / "out=*.txt"]), (0.25, [tmp_path / "web.txt"])]
    corpus = open_corpus(train=[tmp_path / "in.txt"], resample=resample, **held_out)
    # weights stay where they started
    options = small_options.replace(epochs=1, batch_size=16, min_count=1, learning_rate=0.0)
    train(corpus, tmp_path / "model", options)
    language_model = LanguageModel.load(tmp_path / "model")
    ids = language_model.vocabulary.encode(some := ["the", "w100", "w20", "cat"])
    # <unk>, unseen, counts as one word in the text of the smallest share
    total = sum(weighted.values()) + 0.25
    biases = np.exp(language_model.model.prob.b.numpy()[ids])
    np.testing.assert_allclose(biases, [weighted[word] / total for word in some], rtol=1e-5)

    result = estimate("kneser-ney", corpus, tmp_path / "kn", order=2, text=TextOptions(min_count=1))
    assert result["ngrams"][1] == len(pairs)
