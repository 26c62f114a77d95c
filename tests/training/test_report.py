"""The HTML report and its charts: well-formed, with the numbers of the run, the model and
Kneser-Ney.
"""

import functools
import math
import re
import xml.etree.ElementTree as ElementTree
from unittest.mock import Mock

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from keras_nplm import (
    Corpus,
    LanguageModel,
    Likelihood,
    Mixture,
    RunError,
    evaluate,
    kneser_ney,
    open_corpus,
    train,
)
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import encode_corpus
from keras_nplm.data.ids import SPECIALS
from keras_nplm.io.files import read_json
from keras_nplm.models.base import NextWordModel
from keras_nplm.training.charts import draw_lines, draw_words, render_svg
from keras_nplm.training.report import name_text, write_run_report
from tests.language_models import VOCABULARY, V, build
from tests.networks import compose


def _parse(text: str) -> ElementTree.Element:
    """The page as XML, which fails if a tag is not closed in order."""
    return ElementTree.fromstring(
        re.sub("<(meta [^>]*)>", r"<\1/>", text.removeprefix("<!doctype html>\n"))
    )


def _texts(page: ElementTree.Element, path: str) -> list[str]:
    return ["".join(element.itertext()) for element in page.iterfind(f".//{path}")]


@pytest.fixture(scope="module")
def text(model_directory) -> str:
    return (model_directory / "report.html").read_text(encoding="utf-8")


def test_page_is_well_formed_and_self_contained(text):
    tags = {element.tag for element in _parse(text).iter()}
    assert not tags & {"script", "link", "img", "iframe"} and text.count("<svg") == 3
    assert not re.search(r"src=|[^:]href=|onload|@import", text)
    assert set(re.findall(r"(?:url\(|xlink:href=\")(.)", text)) <= {"#"}
    assert all(url.startswith("www.w3.org/") for url in re.findall(r"https?://(\S*)", text))


def test_figures_are_of_the_run_and_a_kneser_ney_model(text, model_directory, kneser_ney_directory):
    metrics = read_json(model_directory / "metrics.json")
    ngrams = read_json(kneser_ney_directory / "metrics.json")
    page = _parse(text)
    cells = _texts(page, "td")
    for name, figures in (("network", metrics), ("Kneser-Ney", ngrams)):
        expected = [f"{figures[split]['perplexity']:.2f}" for split in ("validation", "test")]
        start = cells.index(name)
        assert cells[start + 1 : start + 3] == expected
    names = ("perplexity", "perplexity_without_unk", "perplexity_per_word", "bits_per_character")
    expected = [f"{metrics['test']['unk_tokens']:,}", *(f"{metrics['test'][x]:.3f}" for x in names)]
    start = cells.index("test")
    assert cells[start + 2 : start + 7] == expected
    assert f"Best epoch: {metrics['best_epoch']}." in text
    assert cells[cells.index("Parameters") + 1] == f"{metrics['parameters']:,}"
    change = metrics["test"]["perplexity"] / ngrams["test"]["perplexity"] - 1
    direction = "lower" if change < 0 else "higher"
    assert f"test perplexity is {abs(change):.1%} {direction} than" in text
    assert _texts(page, "pre")[0].startswith("keras-nplm train --")
    assert _texts(page, "h1") == [f"{model_directory.name}: a language model of python_reference"]
    values = [value for epoch in metrics["history"] for value in epoch.values()]
    assert _texts(page, "details//td") == [f"{value:.5g}" for value in values]


def _open(name: str, sentences: list[list[str]]) -> Corpus:
    """A corpus with these sentences in each split."""
    return Corpus(name, "whitespace", dict.fromkeys(SPLITS, functools.partial(iter, sentences)))


@pytest.fixture(scope="module")
def encoded(tmp_path_factory) -> EncodedCorpus:
    """A text of a few words, in three equal splits."""
    words = VOCABULARY.words[len(SPECIALS) :]
    number = len(words)
    sentences = [
        [words[(first * step) % number] for step in range(1, 8)] for first in range(number)
    ]
    corpus = _open("small", sentences)
    return encode_corpus(corpus, VOCABULARY, tmp_path_factory.mktemp("text") / "corpus")


CONFIG = {
    "corpus": "text poems/ours.txt (9 bytes, crc32 0123abcd) split 0.8 0.1 0.1",
    "hidden": "none",
    "direct_connections": True,
    "embedding_dim": 4,
    "network": "context",
    "head": "linear",
    "objective": "likelihood",
}
METRICS = {
    "validation": {"perplexity": 34.46},
    "test": {"perplexity": 48.34},
    "weights": [[0.25, 0.75]],
    "network": {"validation": 41.214, "test": 56.91},
    "kneser_ney": {"validation": 43.61, "test": 63.97},
    "parameters": 400,
    "best_epoch": 2,
    "seconds": 1.5,
    "ngrams_per_second": 1000,
    "history": [
        {"epoch": 1, "validation_perplexity": 60.0, "learning_rate": 0.5},
        {"epoch": 2, "validation_perplexity": 41.214, "learning_rate": 0.0},
    ],
}


def _take_two_columns(vectors: np.ndarray) -> np.ndarray:
    return vectors[:, :2]


@pytest.fixture
def write_small_report(encoded, tmp_path, monkeypatch):
    """A function that writes the report of a model from made-up metrics, and returns its text.

    Default: of a mixture of a network and a trigram model.
    """
    # t-SNE takes longer than all the rest
    monkeypatch.setattr("keras_nplm.training.report.word_map", _take_two_columns)

    def write(model: NextWordModel | None = None, metrics: dict = METRICS) -> str:
        path = tmp_path / "verses" / "report.html"
        path.parent.mkdir()
        if model is None:
            network = compose(V, objective=Likelihood(held_out_mass=0.04))
            model = Mixture([network, kneser_ney(encoded.ids("train"), V, 3)], [0.25, 0.75])
        language_model = LanguageModel(model, VOCABULARY, "whitespace", "sentence")
        language_model.corpus = encoded
        write_run_report(path, language_model, CONFIG, metrics)
        return path.read_text(encoding="utf-8")

    return write


def test_mixture_is_beside_its_network_and_kneser_ney(write_small_report):
    text = write_small_report()
    page = _parse(text)
    cells = _texts(page, "td")
    start = cells.index("mixture")
    assert cells[start : start + 9] == [
        *("mixture", "34.46", "48.34"),
        *("network alone", "41.21", "56.91"),
        *("Kneser-Ney", "43.61", "63.97"),
    ]
    assert cells[cells.index("Mixture of") + 1].startswith("25% a neural probabilistic language")
    assert "embedding_dim 4, head linear," in text  # without hidden units
    assert "test perplexity is 24.4% lower than that of a Kneser-Ney model" in text
    assert "the network has `held_out_mass` 0.04, and `held_out_mass` uses which words" in text
    titles = [*_texts(page, "title")[:1], *_texts(page, "h1")]
    assert titles == ["verses: a language model of ours.txt"] * 2
    (command,) = _texts(page, "pre")
    assert command.startswith("none: it was trained from Python")


def test_a_short_list_is_beside_an_estimated_kneser_ney_model(write_small_report, encoded):
    model = build("short-list", "sentence")
    estimated = kneser_ney(encoded.ids("train"), V, model.network.ngram_order)
    figures = [evaluate(estimated, encoded.ids(split))["perplexity"] for split in SPLITS[1:]]
    metrics = {key: METRICS[key] for key in METRICS.keys() - {"network", "kneser_ney"}}
    text = write_small_report(model, metrics)
    cells = _texts(_parse(text), "td")
    start = cells.index("network of a short-list")
    assert cells[start + 1 : start + 4] == ["34.46", "48.34", "Kneser-Ney"]
    assert cells[start + 4 : start + 6] == [f"{figure:.2f}" for figure in figures]
    assert "held_out_mass" not in text


@pytest.mark.parametrize(
    ("corpus", "expected"),
    [
        pytest.param(
            "text train: a b.txt (9 bytes, crc32 0123abcd) validation: c.txt (1 bytes, crc32 "
            "0123abcd)",
            "a b.txt, c.txt",
            id="a file for each split",
        ),
        pytest.param(
            "text x/a.txt (9 bytes, crc32 0123abcd) resample 0.5: b.txt (1 bytes, crc32 0123abcd)",
            "a.txt, b.txt",
            id="a resampled file",
        ),
    ],
)
def test_a_title_names_the_files(corpus, expected):
    assert name_text(corpus) == expected


def test_samples_are_those_of_the_model(text, model_directory):
    model = LanguageModel.load(model_directory)
    page = _parse(text)
    contexts = _texts(page, "h3/bdi")
    text = "\n".join(" ".join(sentence) for sentence in open_corpus().sentences("validation"))
    assert len(contexts) == 4 and all(f"\n{context}" in text for context in contexts)
    proposed = [
        [word, "", f"{p:.3f}"] for context in contexts for word, p in model.next_words(context, 6)
    ]
    assert _texts(page, "section//td") == [cell for row in proposed for cell in row]
    for seed, (prompt, sample) in enumerate(
        zip(contexts, _texts(page, "blockquote"), strict=False), start=1
    ):
        assert sample == f"{prompt} {model.generate(prompt, 40, seed=seed, temperature=0.7)}"
    word, near = _texts(page, "td")[-2:]
    assert near == ", ".join(f"{other} {cosine:.2f}" for other, cosine in model.nearest(word, 5))
    frequent = [word for word in model.vocabulary.words[4:] if word.isalpha() and len(word) <= 24]
    assert {*frequent[:200]} <= {*_texts(page, "{http://www.w3.org/2000/svg}text")}


_WORDS = "<script>alert(1)</script> &amp; \"x' שלום </title> 漢字 ]]> $x^2".split()
_ODD = [*_WORDS, "\x07\x1b", "x" * 99]


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_odd_words_are_shown_as_text(tmp_path, small_options, monkeypatch, capsys):
    corpus = _open("</h1><b>&", [_ODD[i:] + _ODD[:i] for i in range(10)])
    small = {"epochs": 1, "batch_size": 16, "min_count": 1, "num_sampled": 3}
    options = small_options.replace(objective="nce", boundary="stream", **small)
    with monkeypatch.context() as context:
        context.setattr(
            "keras_nplm.training.train.write_run_report",
            Mock(side_effect=RunError("The disk is full.")),
        )
        metrics = train(corpus, tmp_path / "model", options)
    assert (
        "report.html was not written: The disk is full. Fix: run the same command again"
        in capsys.readouterr().err
    )
    monkeypatch.setattr("keras_nplm.training.report._MAX_BASELINE_TOKENS", 10)
    assert train(corpus, tmp_path / "model", options) == metrics
    text = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    page = _parse(text)
    expected = [word.replace("\x07\x1b", "\ufffd\ufffd") for word in _ODD]
    assert not {element.tag for element in page.iter()} & {"script", "b", "x"}
    assert _texts(page, "h1") == ["model: a language model of </h1><b>&"]
    shown = _texts(page, "{http://www.w3.org/2000/svg}text")
    assert set(shown) >= {
        word if len(word) <= 24 else word[:23] + "…" for word in expected if re.search(r"\w", word)
    }
    assert "Training perplexity is unknown" in text and "Without a Kneser-Ney model" in text


def test_lines_hold_the_values_by_epoch():
    figure = draw_lines("perplexity", {"training": [9.0, math.inf, 5.0]}, best=2)
    (axes,) = figure.axes
    training, best = axes.lines
    np.testing.assert_array_equal(training.get_data(), [[1, 2, 3], [9, np.nan, 5]])
    assert set(best.get_xdata()) == {2} and axes.get_title("left") == "perplexity"


def test_one_epoch_has_one_tick():
    (axes,) = draw_lines("perplexity", {"validation": [9.0]}, best=1).axes
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1]


def _assert_apart(figure: Figure) -> None:
    """No two words of a map overlap, in the wide font that Matplotlib has, and all are on it."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    width, height = figure.get_size_inches() * figure.dpi
    for number, box in enumerate(boxes):
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
        for other in boxes[:number]:
            x = min(box.x1, other.x1) - max(box.x0, other.x0)
            y = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert x <= 0 or y <= 2  # letters leave as much of a line's height


def test_words_of_a_map_do_not_overlap():
    rng = np.random.default_rng(0)
    words = ["WMabcdefghijkl"[: rng.integers(1, 13)] for _ in range(40)]
    _assert_apart(draw_words(rng.choice([-1.0, 0.0, 0.1, 2.0], (40, 2)), words))
    many = draw_words(np.zeros((200, 2)), ["acknowledgement"] * 200)  # in one place
    _assert_apart(many)
    assert many.get_size_inches()[0] * many.dpi > 1040


def test_a_map_is_as_large_as_its_window():
    svg = render_svg(draw_words(np.zeros((1, 2)), ["word"]), "a map")
    opening = svg[: svg.index(">")]
    assert "viewBox=" in opening and "width=" not in opening and "height=" not in opening
