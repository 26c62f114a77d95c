"""The HTML report and its charts: well-formed, with the numbers of the run, the model and
Kneser-Ney.
"""

import functools
import json
import math
import re
import shlex
import xml.etree.ElementTree as ElementTree
from unittest.mock import Mock

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from keras_nplm import (
    CONFIGURATIONS,
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
from keras_nplm.cli.main import main
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import encode_corpus
from keras_nplm.data.ids import SPECIALS
from keras_nplm.models.base import NextWordModel
from keras_nplm.training.adaptive_default import complete_command
from keras_nplm.training.charts import draw_lines, draw_words, render_svg
from keras_nplm.training.report import name_text, write_run_report
from tests.language_models import VOCABULARY, V, build
from tests.networks import compose

SMALL_OPTIONS = CONFIGURATIONS["small"].options


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
    assert not tags & {"script", "link", "img", "iframe"} and not re.search(
        r"src=|[^:]href=|onload|@import", text
    )
    assert set(re.findall(r"(?:url\(|xlink:href=\")(.)", text)) <= {"#"} and text.count("<svg") == 3
    assert set(re.findall(r"https?://[^\"]*", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_figures_are_of_the_run_and_a_kneser_ney_model(text, model_directory, kneser_ney_directory):
    metrics, ngrams = (
        json.loads((directory / "metrics.json").read_text())
        for directory in (model_directory, kneser_ney_directory)
    )
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


@pytest.fixture(scope="module")
def encoded(tmp_path_factory) -> EncodedCorpus:
    """A text of a few words, in three equal splits."""
    words = VOCABULARY.words[len(SPECIALS) :]
    number = len(words)
    sentences = [
        [words[(first * step) % number] for step in range(1, 8)] for first in range(number)
    ]
    read = functools.partial(iter, sentences)
    corpus = Corpus("small", "whitespace", dict.fromkeys(SPLITS, read))
    return encode_corpus(corpus, VOCABULARY, tmp_path_factory.mktemp("text") / "corpus")


def _build_mixture(encoded: EncodedCorpus, held_out_mass: float = 0.0) -> Mixture:
    network = compose(V, objective=Likelihood(held_out_mass=held_out_mass))
    return Mixture([network, kneser_ney(encoded.ids("train"), V, 3)], [0.25, 0.75])


CONFIG = {
    "corpus": "text poems/ours.txt (9 bytes, crc32 0123abcd) split 0.8 0.1 0.1",
    "hidden_units": 5,
    "embedding_dim": 4,
    "network": "context",
    "head": "linear",
    "objective": "likelihood",
}
FIGURES = {
    "perplexity": 34.46,
    "perplexity_without_unk": 34.46,
    "tokens": 240,
    "characters": 1500,
    "bytes": 1500,
    "words": 240,
    "spelling_log_prob": 0.0,
    "bits_per_character": 0.817,
    "bits_per_byte": 0.817,
    "perplexity_per_word": 34.46,
}
METRICS = {
    "validation": FIGURES,
    "test": {**FIGURES, "perplexity": 48.34},
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

    def write(
        command: str | None = None,
        model: NextWordModel | None = None,
        metrics: dict = METRICS,
        config: dict = CONFIG,
    ) -> str:
        path = tmp_path / "verses" / "report.html"
        path.parent.mkdir()
        model = model or _build_mixture(encoded)
        language_model = LanguageModel(model, VOCABULARY, "whitespace", "sentence")
        language_model.corpus = encoded
        write_run_report(path, language_model, config, metrics, command)
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
    assert "test perplexity is 24.4% lower than that of a Kneser-Ney model" in text


@pytest.mark.parametrize(
    "options, expected",
    [
        pytest.param({}, "embedding_dim 4, hidden_units 5, head linear,", id="tanh"),
        pytest.param(
            {"hidden": "none", "direct_connections": True},
            "embedding_dim 4, head linear,",
            id="none",
        ),
    ],
)
def test_a_network_is_described_by_its_parts(write_small_report, options, expected):
    assert expected in write_small_report(config={**CONFIG, **options})


@pytest.mark.parametrize("mass", [0.0, 0.04])
def test_a_network_with_held_out_mass_is_not_comparable(write_small_report, encoded, mass):
    text = write_small_report(model=_build_mixture(encoded, mass))
    sentence = "the network has `held_out_mass` 0.04, and `held_out_mass` uses which words"
    assert (sentence in text) == bool(mass)


@pytest.mark.parametrize(
    ("kind", "name", "is_estimated"),
    [
        pytest.param("hybrid", "network with an n-gram model inside", False, id="a hybrid"),
        pytest.param("short-list", "network of a short-list", True, id="a short-list"),
    ],
)
def test_other_models_are_beside_kneser_ney(write_small_report, encoded, kind, name, is_estimated):
    model = build(kind, "sentence")
    metrics = {key: value for key, value in METRICS.items() if key != "network"}
    figures = ["43.61", "63.97"]
    if is_estimated:
        del metrics["kneser_ney"]
        estimated = kneser_ney(encoded.ids("train"), V, model.network.ngram_order)
        ids = [encoded.ids(split) for split in ("validation", "test")]
        figures = [f"{evaluate(estimated, split)['perplexity']:.2f}" for split in ids]
    cells = _texts(_parse(write_small_report(model=model, metrics=metrics)), "td")
    start = cells.index(name)
    assert cells[start : start + 6] == [name, "34.46", "48.34", "Kneser-Ney", *figures]


def test_a_run_without_test_text_is_compared_on_validation(write_small_report):
    metrics = {name: value for name, value in METRICS.items() if name != "test"}
    text = write_small_report(metrics=metrics)
    page = _parse(text)
    cells = _texts(page, "td")
    start = cells.index("mixture")
    assert cells[start : start + 4] == ["mixture", "34.46", "network alone", "41.21"]
    assert "validation perplexity is 21.0% lower" in text


def test_kneser_ney_of_the_metrics_is_not_estimated_again(write_small_report, monkeypatch):
    estimate = Mock(side_effect=AssertionError("estimated again"))
    monkeypatch.setattr("keras_nplm.training.report.kneser_ney", estimate)
    assert "63.97" in write_small_report()


def test_title_and_command_are_of_the_run(write_small_report):
    command = "keras-nplm train --train 'poems/ours.txt' --output verses"
    page = _parse(write_small_report(command))
    titles = [*_texts(page, "title")[:1], *_texts(page, "h1")]
    assert titles == ["verses: a language model of ours.txt"] * 2
    assert _texts(page, "pre") == [command]
    style = "".join(_texts(page, "head/style"))
    assert re.search(r"pre \{[^}]*user-select: all", style)


def test_text_without_a_command_is_explained(write_small_report):
    (shown,) = _texts(_parse(write_small_report()), "pre")
    assert shown.startswith("none: it was trained from Python")


@pytest.mark.parametrize(
    ("corpus", "expected"),
    [
        pytest.param("brown/marks", "brown/marks", id="a corpus with a name"),
        pytest.param(
            "text train: a b.txt (9 bytes, crc32 0123abcd) validation: c.txt (1 bytes, crc32 "
            "0123abcd) test: d.txt (1 bytes, crc32 0123abcd)",
            "a b.txt, c.txt, d.txt",
            id="a file for each split",
        ),
        pytest.param(
            "text x/a.txt (9 bytes, crc32 0123abcd) y/b.txt (1 bytes, crc32 0123abcd) split 1 0 0",
            "a.txt, b.txt",
            id="two files",
        ),
        pytest.param(
            "text a.txt (9 bytes, crc32 0123abcd) resample 0.5: b.txt (1 bytes, crc32 0123abcd)",
            "a.txt, b.txt",
            id="a resampled file",
        ),
    ],
)
def test_a_title_names_the_files(corpus, expected):
    assert name_text(corpus) == expected


@pytest.mark.parametrize("given_options", [{}, {"order": 4}], ids=["none", "order"])
def test_a_command_of_all_options_repeats_its_own_flags(given_options):
    options = SMALL_OPTIONS.replace(dropout=0.25, **given_options)
    words = ["keras-nplm", "train", "--train", "my text.txt"]
    if given_options:
        words += ["--order", "4"]
    command = complete_command(options, given_options, words)
    assert command == shlex.join([*words, "--config", "small", "--dropout", "0.25"])


def test_samples_are_those_of_the_model(text, model_directory):
    model = LanguageModel.load(model_directory)
    page = _parse(text)
    contexts = _texts(page, "h3/bdi")
    sentences = [" ".join(sentence) for sentence in open_corpus().sentences("validation")]
    assert len(contexts) == 4 and all(
        any(sentence.startswith(each) for sentence in sentences) for each in contexts
    )
    proposed = [
        [word, "", f"{p:.3f}"] for context in contexts for word, p in model.next_words(context, 6)
    ]
    assert _texts(page, "section//td") == [cell for row in proposed for cell in row]
    for seed, (prompt, sample) in enumerate(
        zip(contexts, _texts(page, "blockquote"), strict=False), start=1
    ):
        assert sample == f"{prompt} {model.generate(prompt, 40, seed=seed, temperature=0.7)}"
    nearest = _texts(page, "td")[-40:]
    for word, near in zip(nearest[::2], nearest[1::2], strict=True):
        assert near == ", ".join(
            f"{other} {cosine:.2f}" for other, cosine in model.nearest(word, 5)
        )
    plain = [
        word
        for word in model.vocabulary.words[4:]
        if any(map(str.isalpha, word)) and len(word) <= 24
    ][:200]
    assert {*plain} <= {*_texts(page, "{http://www.w3.org/2000/svg}text")}


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_train_on_a_file_reports_its_command_and_the_network_alone(
    tmp_path, short_text, monkeypatch
):
    monkeypatch.setattr("keras_nplm.training.report.word_map", _take_two_columns)
    directory = tmp_path / "model"
    command = ["train", "--train", str(short_text), "--output", str(directory)]
    command += "--embedding-dim 4 --hidden-units 8 --epochs 1".split()
    assert main(command) == 0
    metrics = json.loads((directory / "metrics.json").read_text())
    (epoch,) = metrics["history"]
    best = epoch["validation_perplexity"]
    assert metrics["network"]["validation"] == pytest.approx(best, rel=1e-4)
    page = _parse((directory / "report.html").read_text(encoding="utf-8"))
    (shown,) = _texts(page, "pre")
    assert shown.startswith(shlex.join(["keras-nplm", *command, "--config", "small"]))
    assert _texts(page, "h1") == [f"model: a language model of {short_text.name}"]
    assert f"{metrics['network']['test']:.2f}" in _texts(page, "td")


_ODD = [
    "<script>alert(1)</script>",
    "&amp;",
    "\"x'",
    "שלום",
    "</title>",
    "\x07\x1b",
    "漢字",
    "]]>",
    "$x^2",
    "x" * 99,
]


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_odd_words_are_shown_as_text(tmp_path, small_options, monkeypatch, capsys):
    sentences = [[_ODD[(first + i) % 10] for i in range(5)] for first in range(10)]
    read = functools.partial(iter, sentences)
    corpus = Corpus("</h1><b>&", "whitespace", dict.fromkeys(SPLITS, read))
    small = {"epochs": 1, "batch_size": 16, "min_count": 1, "num_sampled": 3}
    options = small_options.replace(objective="nce", boundary="stream", **small)
    with monkeypatch.context() as context:
        context.setattr(
            "keras_nplm.training.train.write_run_report",
            Mock(side_effect=RunError("The disk is full.")),
        )
        metrics = train(corpus, tmp_path / "model", **options._asdict())
    assert (
        "report.html was not written: The disk is full. Fix: run the same command again"
        in capsys.readouterr().err
    )
    monkeypatch.setattr("keras_nplm.training.report._MAX_BASELINE_TOKENS", 10)
    assert train(corpus, tmp_path / "model", **options._asdict()) == metrics
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


def test_many_words_in_one_place_have_a_larger_map():
    figure = draw_words(np.zeros((200, 2)), ["acknowledgement"] * 200)
    _assert_apart(figure)
    assert figure.get_size_inches()[0] * figure.dpi > 1040


def test_a_map_is_as_large_as_its_window():
    svg = render_svg(draw_words(np.zeros((1, 2)), ["word"]), "a map")
    opening = svg[: svg.index(">")]
    assert "viewBox=" in opening and "width=" not in opening and "height=" not in opening
