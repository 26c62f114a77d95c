"""Training of hybrids: never worse than the n-gram model inside, on any layout; small and resampled
texts.
"""

import itertools
import json
import pydoc_data.topics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import Corpus, Hybrid, LanguageModel, Options, Vocabulary, encode_corpus
from keras_nplm.cli.main import main
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.model_files import load_component
from keras_nplm.models.shortlist import BACKGROUND
from keras_nplm.training.background import write_background
from keras_nplm.training.run import Run

SMALL = "--order 5 --embedding-dim 4 --hidden-units 8 --min-count 1"
SMALL += " --set averages_after=3 batch_size=64"


@pytest.fixture
def train_characters(tmp_path, no_report) -> Callable[..., tuple[int, Path]]:
    """A function that trains on characters of texts by split, and returns the exit status and the
    directory.
    """

    def run(
        texts: dict[str, list[str]], flags: str = SMALL, chosen: str = "--network hybrid"
    ) -> tuple[int, Path]:
        files = []
        for split, lines in texts.items():
            path = tmp_path / f"{split}.txt"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            files += [f"--{split}", str(path)]
        output = tmp_path / "model"
        options = ["--token", "character", *chosen.split(), *flags.split(), "--json"]
        return main(["train", *files, *options, "--output", str(output)]), output

    return run


def _measure_alone(directory: Path, split: str) -> float:
    """The perplexity of the n-gram model inside a hybrid."""
    language_model = LanguageModel.load(directory)
    assert isinstance(language_model.model, Hybrid)
    return evaluate(language_model.model.background, language_model.corpus.ids(split))["perplexity"]


@pytest.mark.long
def test_a_network_that_only_harms_is_left_out(train_characters, capsys):
    """Its rate is far too high for a text that has nothing to learn."""
    rng = np.random.default_rng(0)
    texts = {
        split: ["".join(rng.choice([*"abcdef"], 300))] for split in ("train", "validation", "test")
    }
    status, directory = train_characters(
        texts, f"{SMALL} --epochs 2 --set optimizer=adam --learning-rate 1"
    )
    assert status == 0
    captured = capsys.readouterr()
    assert "no epoch is better than the n-gram model alone" in captured.err
    metrics = json.loads((directory / "metrics.json").read_text())
    assert metrics["best_epoch"] == 0
    for split in ("validation", "test"):
        alone = _measure_alone(directory, split)
        assert metrics[split]["perplexity"] == pytest.approx(alone, rel=1e-6)
    assert all(epoch["validation_perplexity"] > alone for epoch in metrics["history"])


@pytest.mark.long
def test_a_refused_text_leaves_nothing_that_refuses_the_next_try(train_characters, capsys):
    held_out = {"validation": ["abab"], "test": ["ab"]}
    flags = f"{SMALL} --epochs 1 --boundary stream"
    status, directory = train_characters({"train": ["a"], **held_out}, flags)
    assert status == 2
    assert "2 n-grams or more" in capsys.readouterr().err
    # a stream with fewer n-grams than parts
    status, directory = train_characters({"train": ["ab"], **held_out}, flags)
    assert status == 0 and (directory / "metrics.json").exists()


@pytest.mark.parametrize(
    "places, agreement, length, order",
    [
        pytest.param(2, 0.95, 25, 4, id="three words gain much, four a little"),
        pytest.param(2, 0.516, 800, 2, id="three words gain less than a thousandth"),
        pytest.param(3, 0.95, 25, 2, id="four words gain after three that gain nothing"),
    ],
)
def test_the_order_inside_is_the_lowest_that_gains_little(
    tmp_path, places, agreement, length, order
):
    """A letter is that of some places before, little or much more often."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(100):
        bits = rng.integers(2, size=3).tolist()
        for _ in range(length):
            bits.append(bits[-places] if rng.random() < agreement else 1 - bits[-places])
        lines.append(["xy"[bit] for bit in bits])
    splits = {"train": lines[::2].__iter__, "validation": lines[1::2].__iter__}
    corpus = Corpus("bits", "characters", splits)
    vocabulary = Vocabulary(["x", "y"])
    encoded = encode_corpus(corpus, vocabulary, tmp_path / "corpus")
    options = Options.of(interpolated=True, order=7)
    write_background(Run(tmp_path, options, {}, encoded, vocabulary))
    assert load_component(tmp_path, BACKGROUND, "sentence", len(vocabulary)).order == order


@pytest.mark.long
@pytest.mark.parametrize("lines", [1, 600])
def test_no_layout_of_a_text_makes_a_hybrid_worse_than_kneser_ney(train_characters, lines):
    words = " ".join(pydoc_data.topics.topics.values()).split()
    text = " ".join(words)[:60_000]
    bounds = {"train": (0, 48_000), "validation": (48_000, 54_000), "test": (54_000, 60_000)}
    texts = {}
    for split, (start, stop) in bounds.items():
        places = np.linspace(start, stop, 1 + max(1, lines * (stop - start) // 48_000)).astype(int)
        texts[split] = [text[a:b] for a, b in itertools.pairwise(places)]
    status, directory = train_characters(texts, "--epochs 2 --hidden-units 60 --set batch_size=128")
    assert status == 0
    metrics = json.loads((directory / "metrics.json").read_text())
    # an honest jackknife lets the network gain 2% and more; a leak loses 20%
    for split in ("validation", "test"):
        assert metrics[split]["perplexity"] < 0.98 * _measure_alone(directory, split)
    assert metrics["best_epoch"] > 0
