"""Training on an in-domain text and shares of out-of-domain texts: `--resample`."""

import collections
import itertools
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_nplm import EncodedCorpus, LanguageModel, TextOptions, estimate, open_corpus, train
from keras_nplm.io.files import read_json

# data/test_resampling.py has the batches of resampled texts in the fast tests
pytestmark = pytest.mark.long

# lines and share of a small file, and of large ones with `=` in their names
TEXTS = {
    "in.txt": (20, 1),
    "out=0.5.a.txt": (60, 0.5),
    "out=0.5.b.txt": (61, 0.5),
    "web.txt": (100, 0.25),
}


def _write_text(path: Path, lines: int) -> list[str]:
    """Write lines of words, one of which only this text has; return words and sentence ends."""
    words = "the cat sat on a mat and dogs ran off".split()
    text = [[words[(i * j + lines) % 10] for j in range(3 + i % 4)] for i in range(lines)]
    text.append([f"w{lines}"])
    path.write_text("".join(" ".join(line) + "\n" for line in text), encoding="utf-8")
    return [word for line in text for word in (*line, "</s>")]


@pytest.mark.usefixtures("no_report")
def test_an_epoch_has_the_share_of_each_text(tmp_path, small_options):
    sizes = collections.Counter()
    weighted = collections.Counter()
    pairs = set()
    for name, (lines, share) in TEXTS.items():
        words = _write_text(tmp_path / name, lines)
        sizes[share] += len(words)
        for word in words:
            weighted[word] += share
        pairs |= set(itertools.pairwise(["</s>", *words]))
    _write_text(tmp_path / "held-out.txt", 6)
    held_out = {split: [tmp_path / "held-out.txt"] for split in ("validation", "test")}
    resample = [(0.5, [tmp_path / "out=*.txt"]), (0.25, [tmp_path / "web.txt"])]
    corpus = open_corpus(train=[tmp_path / "in.txt"], resample=resample, **held_out)
    model = tmp_path / "model"
    # weights stay where they started
    options = small_options.replace(epochs=2, batch_size=16, min_count=1, learning_rate=0.0)
    metrics = train(corpus, model, options)

    assert "resample 0.5:" in read_json(model / "config.json")["corpus"]
    described = read_json(model / "corpus" / "corpus.json")["splits"]["train"]
    assert described["shares"] == [[1, 1.0], [1, 0.5], [1, 0.25]]
    resampled = EncodedCorpus.load(model / "corpus").for_training()
    assert dict(zip(resampled.shares, map(len, resampled.texts), strict=True)) == sizes
    steps = sum(round(share * size) for share, size in sizes.items()) // 16
    optimizer = keras.models.load_model(model / "model.keras").optimizer
    assert int(optimizer.iterations) == metrics["best_epoch"] * steps
    language_model = LanguageModel.load(model)
    ids = language_model.vocabulary.encode(some := ["the", "w100", "w20", "cat"])
    # <unk>, unseen, counts as one word in the text of the smallest share
    total = sum(weighted.values()) + 0.25
    biases = np.exp(language_model.model.prob.b.numpy()[ids])  # where they started
    np.testing.assert_allclose(biases, [weighted[word] / total for word in some], rtol=1e-5)

    # n-gram models count all of the text
    result = estimate("kneser-ney", corpus, tmp_path / "kn", order=2, text=TextOptions(min_count=1))
    assert result["ngrams"][1] == len(pairs)
