"""Training on an in-domain text and shares of out-of-domain texts: `--resample`."""

import collections
import itertools
import json

import keras
import numpy as np
import pytest

from keras_nplm import EncodedCorpus, LanguageModel, Options, TextOptions, estimate, open_corpus

# data/test_resampling.py has the batches of resampled texts in the fast tests
pytestmark = pytest.mark.long

SHARES = {"in.txt": 1, "out=0.5.a.txt": 0.5, "out=0.5.b.txt": 0.5, "web.txt": 0.25}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of text: a small one, large ones with `=` in their names, and held-out ones."""
    directory = tmp_path_factory.mktemp("files")
    lines = {
        "in.txt": 20,
        "out=0.5.a.txt": 60,
        "out=0.5.b.txt": 60,
        "web.txt": 100,
        "validation.txt": 6,
        "test.txt": 6,
    }
    for number, (name, size) in enumerate(lines.items()):
        words = "the cat sat on a mat and dogs ran off".split()
        text = [
            " ".join(words[(i * j + number) % 10] for j in range(3 + i % 4)) for i in range(size)
        ]
        (directory / name).write_text("\n".join([*text, name.partition(".")[0]]) + "\n")
    return directory


def _open(files):
    resample = [(0.5, [str(files / "out=*.txt")]), (0.25, [str(files / "web.txt")])]
    held_out = {split: [str(files / f"{split}.txt")] for split in ("validation", "test")}
    return open_corpus(train=[str(files / "in.txt")], resample=resample, **held_out)


@pytest.fixture(scope="module")
def options(small_options) -> Options:
    """Weights stay where they started."""
    return small_options.replace(epochs=2, batch_size=16, min_count=1, learning_rate=0.0)


@pytest.fixture(scope="module")
def trained(files, options, tmp_path_factory, train_without_report):
    directory = tmp_path_factory.mktemp("models") / "m"
    train_without_report(options, _open(files), directory)
    return directory


def _read_words(path):
    """The words and sentence ends of a file."""
    return [
        word
        for line in path.read_text().splitlines()
        for word in (*line.replace("=", " = ").split(), "</s>")
    ]


def test_an_epoch_has_the_share_of_each_text(trained, files):
    described = json.loads((trained / "corpus" / "corpus.json").read_text())["splits"]["train"]
    assert described["shares"] == [[1, 1.0], [1, 0.5], [1, 0.25]]
    assert "resample 0.5:" in json.loads((trained / "config.json").read_text())["corpus"]
    encoded = EncodedCorpus.load(trained / "corpus")
    resampled = encoded.for_training()
    sizes = dict.fromkeys(SHARES.values(), 0)
    weighted = collections.Counter()
    for name, share in SHARES.items():
        words = _read_words(files / name)
        sizes[share] += len(words)
        for word in words:
            weighted[word] += share
    assert list(zip(resampled.shares, map(len, resampled.texts), strict=True)) == list(
        sizes.items()
    )
    steps = sum(round(share * size) for share, size in sizes.items()) // 16
    best_epoch = json.loads((trained / "metrics.json").read_text())["best_epoch"]
    language_model = LanguageModel.load(trained)
    assert (
        int(keras.models.load_model(trained / "model.keras").optimizer.iterations)
        == best_epoch * steps
    )
    ids = language_model.vocabulary.encode(some := ["the", "web", "in", "cat"])
    # <unk>, unseen, counts as one word in the text of the smallest share
    total = sum(weighted.values()) + 0.25
    biases = np.exp(language_model.model.prob.b.numpy()[ids])  # where they started
    np.testing.assert_allclose(biases, [weighted[word] / total for word in some], rtol=1e-5)


def test_ngram_models_count_all_of_the_text(trained, files, tmp_path):
    result = estimate(
        "kneser-ney", _open(files), tmp_path / "kn", order=2, text=TextOptions(min_count=1)
    )
    pairs = set()
    for name in SHARES:
        pairs |= set(itertools.pairwise(["</s>", *_read_words(files / name)]))
    assert result["ngrams"][1] == len(pairs)
    assert (tmp_path / "kn" / "vocabulary.txt").read_bytes() == (
        trained / "vocabulary.txt"
    ).read_bytes()
