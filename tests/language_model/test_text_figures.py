"""Bits per character, bits per byte and perplexity per word against an oracle in plain Python, by
split, text file and command.
"""

import json
import math

import numpy as np
import pytest

from keras_nplm import LanguageModel, Uniform, Vocabulary, estimate, mix, open_corpus
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.models.spelling import SpellingModel
from keras_nplm.models.text_figures import TextSize, compute_text_figures
from keras_nplm.training.options import TextOptions

LINES = [
    "the cat sat on  the mat",
    "The dog's cat: a cat!",
    " a très étrange dog\tsat ",
    "猫 is a cat",
]
LINES = [*LINES, "the dogs sat"] * 6
FIGURES = (
    "bits_per_character",
    "bits_per_byte",
    "perplexity_per_word",
    "characters",
    "bytes",
    "words",
    "spelling_log_prob",
)


@pytest.fixture(
    scope="module",
    params=[
        "words",
        "sentencepiece",
        "bytes",
        pytest.param("characters", marks=pytest.mark.long),
        pytest.param("words+lower+numbers", marks=pytest.mark.long),
    ],
)
def tokenizer(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=["sentence", "stream"])
def directory(request, tmp_path_factory, tokenizer):
    """A Kneser-Ney model of a text whose last lines are test: some of their words are `<unk>`."""
    directory = tmp_path_factory.mktemp("figures")
    lines = [*LINES[:24], "the new cat sat", "unser étrange", *LINES[26:]]
    (directory / "text.txt").write_text("\n".join(lines))
    (directory / "test.txt").write_text("\n".join(lines[27:]))
    base, *steps = tokenizer.split("+")
    subwords = {"subwords": SubwordOptions(330)} if base == "sentencepiece" else {}
    corpus = open_corpus(
        train=[str(directory / "text.txt")], tokenizer=base, normalise=steps, **subwords
    )
    text = TextOptions(boundary=request.param, min_count=7)
    estimate("kneser-ney", corpus, directory / "model", order=3, text=text)
    return directory


def compute_plainly(language_model: LanguageModel, lines: list[str]) -> dict[str, float]:
    """The figures, token by token and word by word."""
    model = language_model.model
    ids = {word: place for place, word in enumerate(language_model.vocabulary.words)}
    ends = ["</s>"] if language_model.boundary == "sentence" else []
    nats = spelled = 0.0
    history = [0] * (model.order - 1)
    characters = size = words = 0
    for line in lines:
        history = [2] * (model.order - 1) if ends else history
        single = " ".join(line.split())
        characters += len(single) + len(ends)
        size += len(single.encode()) + len(ends)
        words += len(single.split(" ")) + len(ends)
        for token in [*language_model.tokenize(line), *ends]:
            target = ids.get(token, 1)
            nats -= float(model.log_prob(np.array([history]), np.array([target]))[0])
            if target == 1:
                spelled += float(language_model.spelling.log_prob([token])[0])
            history = [*history[1:], target]
    bits = (nats - spelled) / math.log(2)
    rates = bits / characters, bits / size, 2 ** (bits / words)
    return dict(zip(FIGURES, (*rates, characters, size, words, spelled), strict=True))


def test_figures_equal_a_plain_oracle_by_every_way(directory, tokenizer, ask):
    path = directory / "model"
    language_model = LanguageModel.load(path)
    lines = (directory / "test.txt").read_text().split("\n")
    expected = compute_plainly(language_model, lines)
    metrics = json.loads((path / "metrics.json").read_text())["test"]
    has_unknown = get_tokenizer(tokenizer).has_unknown
    assert (metrics["unk_tokens"] > 0) == (language_model.spelling is not None) == has_unknown
    printed = ask("evaluate", path, "--text", directory / "test.txt")
    for figures in (metrics, language_model.evaluate(iter(lines)), printed):
        assert {name: figures[name] for name in FIGURES} == pytest.approx(expected, rel=1e-6)
        assert figures.get("normalised", []) == tokenizer.split("+")[1:]
    assert expected["bits_per_byte"] < expected["bits_per_character"]  # the text is not ASCII


def test_a_mixture_has_the_spelling_of_its_components(directory):
    path = directory / "model"
    metrics = mix([path, path], directory / "mixture", weights=[0.5, 0.5])
    alone, mixed = (LanguageModel.load(directory / name) for name in ("model", "mixture"))
    assert (mixed.spelling and mixed.spelling.counts) == (alone.spelling and alone.spelling.counts)
    expected = [alone.evaluate("test")[name] for name in FIGURES]
    assert [metrics["test"][name] for name in FIGURES] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("has_spelling", [True, False])
def test_figures_of_unknown_words_need_a_spelling_model(has_spelling):
    vocabulary = Vocabulary(["the", "cat", "sat"])
    spelling = SpellingModel.from_vocabulary(vocabulary) if has_spelling else None
    model = Uniform(7, "sentence")
    language_model = LanguageModel(model, vocabulary, "whitespace", spelling=spelling)
    figures = language_model.evaluate(["unseen words"])
    assert ("bits_per_character_missing" in figures) == (not has_spelling)
    figures = language_model.evaluate(["the cat sat", "the cat"])
    assert figures["bits_per_character"] == pytest.approx(7 * math.log2(5) / 20)
    assert figures["perplexity_per_word"] == pytest.approx(5)


def test_a_text_without_spaces_has_no_infinite_figure():
    """JSON has no infinity."""
    figures = compute_text_figures(-701.0, TextSize(1000, 1000, 1, 0.0))
    assert figures["perplexity_per_word"] is None
    assert figures["bits_per_character"] > 1
