"""Bits per character, bits per byte and perplexity per word against an oracle in plain Python, by
split, text file and command.
"""

import json
import math

import numpy as np
import pytest

from keras_nplm import LanguageModel, Uniform, Vocabulary, estimate, mix, open_corpus
from keras_nplm.cli.main import main
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel
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

_OTHERS = [
    pytest.param(name, marks=pytest.mark.long) for name in ("characters", "words+lower+numbers")
]


@pytest.fixture(scope="module", params=["words", "sentencepiece", "bytes", *_OTHERS])
def tokenizer(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=["sentence", "stream"])
def directory(request, tmp_path_factory, tokenizer):
    """A Kneser-Ney model of a text whose last lines are test: some of their words are `<unk>`."""
    directory = tmp_path_factory.mktemp("figures")
    (directory / "text.txt").write_text(
        "\n".join([*LINES[:24], "the new cat sat", "unser étrange", *LINES[26:]])
    )
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
    spelling = language_model.spelling
    order = language_model.model.order
    ids = {word: place for place, word in enumerate(language_model.vocabulary.words)}
    ends = ["</s>"] if language_model.boundary == "sentence" else []
    nats = 0.0
    spelled = 0.0
    history = [0] * (order - 1)
    characters = size = words = 0
    for line in lines:
        history = [2] * (order - 1) if ends else history
        single = " ".join(line.split())
        characters = characters + len(single) + len(ends)
        size = size + len(single.encode()) + len(ends)
        words = words + len(single.split(" ")) + len(ends)
        for token in [*language_model.tokenize(line), *ends]:
            target = ids.get(token, 1)
            nats -= float(model.log_prob(np.array([history]), np.array([target]))[0])
            spelled += float(spelling.log_prob([token])[0]) if target == 1 else 0.0
            history = [*history[1:], target]
    bits = (nats - spelled) / math.log(2)
    rates = bits / characters, bits / size, 2 ** (bits / words)
    return dict(zip(FIGURES, (*rates, characters, size, words, spelled), strict=True))


def test_figures_equal_a_plain_oracle_by_every_way(directory, tokenizer, capsys):
    language_model = LanguageModel.load(directory / "model")
    lines = (directory / "text.txt").read_text().split("\n")[27:]
    expected = compute_plainly(language_model, lines)
    metrics = json.loads((directory / "model" / "metrics.json").read_text())["test"]
    has_spelling = (directory / "model" / SPELLING_FILE).exists()
    assert (metrics["unk_tokens"] > 0) == has_spelling == get_tokenizer(tokenizer).has_unknown
    (directory / "test.txt").write_text("\n".join(lines))
    assert (
        main(
            ["evaluate", str(directory / "model"), "--text", str(directory / "test.txt"), "--json"]
        )
        == 0
    )
    for figures in (
        metrics,
        language_model.evaluate(iter(lines)),
        json.loads(capsys.readouterr().out),
    ):
        assert {name: figures[name] for name in FIGURES} == pytest.approx(expected, rel=1e-6)
        assert figures.get("normalised", []) == tokenizer.split("+")[1:]
    assert main(["evaluate", str(directory / "model")]) == 0
    assert expected["bits_per_byte"] < expected["bits_per_character"]  # the text is not ASCII
    _, row, *notes = capsys.readouterr().out.splitlines()
    assert row.split()[2:4] == [f"{expected[name]:.3f}" for name in FIGURES[:2]]
    assert any("of the normalised text" in note for note in notes) == ("+" in tokenizer)
    assert main(["evaluate", str(directory / "model"), "--all"]) == 0
    assert f" {expected['perplexity_per_word']:.2f} " in capsys.readouterr().out


def test_a_mixture_has_the_spelling_of_its_components(directory):
    metrics = mix(
        [directory / "model", directory / "model"], directory / "mixture", weights=[0.5, 0.5]
    )
    alone, mixed = (LanguageModel.load(directory / name) for name in ("model", "mixture"))
    assert (mixed.spelling and mixed.spelling.counts) == (alone.spelling and alone.spelling.counts)
    expected = [alone.evaluate("test")[name] for name in FIGURES]
    assert [metrics["test"][name] for name in FIGURES] == pytest.approx(expected, rel=1e-6)


def test_a_directory_without_spelling_model_says_why(tmp_path, capsys):
    LanguageModel(Uniform(5, "sentence"), Vocabulary(["the"]), "words").save(tmp_path / "model")
    (tmp_path / "unknown.txt").write_text("unseen words")
    assert main(["evaluate", str(tmp_path / "model"), "--text", str(tmp_path / "unknown.txt")]) == 0
    assert ": none. The model has no spelling model" in capsys.readouterr().out


def test_the_advice_for_a_model_without_spelling_model_helps(tmp_path, capsys):
    vocabulary = Vocabulary(["the"])
    language_model = LanguageModel(Uniform(5, "sentence"), vocabulary, "words")
    language_model.spelling = SpellingModel.from_vocabulary(vocabulary)
    language_model.save(tmp_path / "model")
    (tmp_path / "unknown.txt").write_text("unseen words")
    assert main(["evaluate", str(tmp_path / "model"), "--text", str(tmp_path / "unknown.txt")]) == 0
    assert "none" not in capsys.readouterr().out


def test_text_without_unknown_words_needs_no_spelling_model():
    language_model = LanguageModel(
        Uniform(7, "sentence"), Vocabulary(["the", "cat", "sat"]), "whitespace"
    )
    for text in (["the cat sat", "the cat"], np.array([4, 5, 6, 3, 4, 5, 3])):
        figures = language_model.evaluate(text)
        assert figures["bits_per_character"] == pytest.approx(7 * math.log2(5) / 20)
        assert figures["perplexity_per_word"] == pytest.approx(5)


def test_a_text_without_spaces_has_no_infinite_figure():
    """JSON has no infinity."""
    figures = compute_text_figures(-701.0, TextSize(1000, 1000, 1, 0.0))
    assert figures["perplexity_per_word"] is None
    assert figures["bits_per_character"] > 1


def test_ids_with_unknown_words_have_no_bits_per_character():
    vocabulary = Vocabulary(["the"])
    language_model = LanguageModel(Uniform(5, "sentence"), vocabulary, "whitespace")
    language_model.spelling = SpellingModel.from_vocabulary(vocabulary)
    figures = language_model.evaluate(np.array([4, 1, 3]))
    assert figures["bits_per_character"] is None
    assert "how out-of-vocabulary words are spelled" in figures["bits_per_character_missing"]
