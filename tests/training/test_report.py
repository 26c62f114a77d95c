"""The HTML report and its charts: well-formed, with the numbers of the run, the model and
Kneser-Ney.
"""

import functools
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import Corpus, LanguageModel, RunError, open_corpus, train
from keras_nplm.data.corpus import SPLITS
from keras_nplm.training.charts import draw_lines, draw_words


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
    assert set(re.findall(r"(?:url\(|xlink:href=\")(.)", text)) <= {"#"} and text.count("<svg") == 2
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
    expected = []
    for name, figures in (("network", metrics), ("KN 4-gram", ngrams)):
        of_splits = [figures[split]["perplexity"] for split in ("validation", "test")]
        of_test = [
            figures["test"][name] for name in ("perplexity_without_unk", "perplexity_per_word")
        ]
        expected += [
            name,
            *(f"{x:.2f}" for x in of_splits + of_test),
            f"{figures['test']['bits_per_character']:.3f}",
        ]
    cells = _texts(page, "td")
    assert any(cells[start : start + 12] == expected for start in range(len(cells)))
    assert cells[8:12:3] == ["test", f"{metrics['test']['unk_tokens']:,}"]
    assert f"Parameters: {metrics['parameters']:,}. Best epoch: {metrics['best_epoch']}." in text
    assert f"{metrics['test']['perplexity'] / ngrams['test']['perplexity']:.3f} times" in text
    assert _texts(page, "pre")[0].startswith("keras-nplm train --")
    values = [value for epoch in metrics["history"] for value in epoch.values()]
    assert _texts(page, "details//td") == [f"{value:.5g}" for value in values]


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
        metrics = train(options, corpus, tmp_path / "model")
    assert (
        "report.html was not written: The disk is full. Fix: run the same command again"
        in capsys.readouterr().err
    )
    monkeypatch.setattr("keras_nplm.training.report._MAX_BASELINE_TOKENS", 10)
    assert train(options, corpus, tmp_path / "model") == metrics
    text = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    page = _parse(text)
    expected = [word.replace("\x07\x1b", "\ufffd\ufffd") for word in _ODD]
    assert not {element.tag for element in page.iter()} & {"script", "b", "x"} and _texts(
        page, "h1"
    ) == ["</h1><b>&"]
    shown = _texts(page, "{http://www.w3.org/2000/svg}text")
    assert set(shown) >= {
        word if len(word) <= 24 else word[:23] + "…" for word in expected if re.search(r"\w", word)
    }
    assert "Training perplexity is unknown" in text and "Without a Kneser–Ney model" in text


def test_lines_hold_the_values_by_epoch():
    figure = draw_lines(
        {"perplexity": {"training": [9.0, math.inf, 5.0]}, "rate": {"": [1.0, 2.0]}}, best=2
    )
    training, best = figure.axes[0].lines
    np.testing.assert_array_equal(training.get_data(), [[1, 2, 3], [9, np.nan, 5]])
    assert set(best.get_xdata()) == {2} and list(figure.axes[1].lines[0].get_ydata()) == [1, 2]


def test_words_of_a_map_do_not_overlap():
    rng = np.random.default_rng(0)
    words = ["abcdefghijkl"[: rng.integers(1, 13)] for _ in range(40)]
    texts = draw_words(rng.choice([-1.0, 0.0, 0.1, 2.0], (40, 2)), words).axes[0].texts
    places = np.array([text.get_position() for text in texts])
    widths = np.array([7.0 * len(word) for word in words])
    x, y = np.abs(places[:, None] - places).transpose(2, 0, 1)
    assert ((x >= (widths[:, None] + widths) / 2) | (y >= 12.5) | np.eye(40, dtype=bool)).all()
