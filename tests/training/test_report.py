"""The HTML report and its charts: well-formed, with the numbers of the run, the model and
Kneser-Ney.
"""

import functools
import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from keras_nplm import (
    Corpus,
    LanguageModel,
    open_corpus,
    train,
)
from keras_nplm.data.corpus import SPLITS
from keras_nplm.io.files import read_json
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


def test_page_is_self_contained_and_has_the_figures_of_the_run(
    text, model_directory, kneser_ney_directory
):
    page = _parse(text)
    tags = {element.tag for element in page.iter()}
    assert not tags & {"script", "link", "img", "iframe"} and text.count("<svg") == 3
    assert not re.search(r"src=|[^:]href=|onload|@import", text)
    assert set(re.findall(r"(?:url\(|xlink:href=\")(.)", text)) <= {"#"}
    assert all(url.startswith("www.w3.org/") for url in re.findall(r"https?://(\S*)", text))
    metrics = read_json(model_directory / "metrics.json")
    ngrams = read_json(kneser_ney_directory / "metrics.json")
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
    assert (
        f"test perplexity is {abs(change):.1%} {'lower' if change < 0 else 'higher'} than" in text
    )
    assert _texts(page, "pre")[0].startswith("keras-nplm train --")
    values = [value for epoch in metrics["history"] for value in epoch.values()]
    assert _texts(page, "details//td") == [f"{value:.5g}" for value in values]


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


_WORDS = "<script>alert(1)</script> &amp; \"x' שלום </title> 漢字 ]]> $x^2".split()
_ODD = [*_WORDS, "\x07\x1b", "x" * 99]


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_odd_words_are_shown_as_text(tmp_path, small_options):
    sentences = [_ODD[i:] + _ODD[:i] for i in range(10)]
    splits = dict.fromkeys(SPLITS, functools.partial(iter, sentences))
    corpus = Corpus("</h1><b>&", "whitespace", splits)
    small = {"epochs": 1, "batch_size": 16, "min_count": 1, "num_sampled": 3}
    options = small_options.replace(objective="nce", boundary="stream", **small)
    train(corpus, tmp_path / "<b>&", options)
    text = (tmp_path / "<b>&" / "report.html").read_text(encoding="utf-8")
    page = _parse(text)
    expected = [word.replace("\x07\x1b", "\ufffd\ufffd") for word in _ODD]
    assert not {element.tag for element in page.iter()} & {"script", "b", "x"}
    assert _texts(page, "h1") == ["<b>&: a language model"]
    shown = _texts(page, "{http://www.w3.org/2000/svg}text")
    assert set(shown) >= {
        word if len(word) <= 24 else word[:23] + "…" for word in expected if re.search(r"\w", word)
    }
    assert "Training perplexity is unknown" in text


def test_lines_hold_the_values_by_epoch():
    (axes,) = draw_lines("perplexity", {"training": [9.0, math.inf, 5.0]}, best=2).axes
    training, best = axes.lines
    np.testing.assert_array_equal(training.get_data(), [[1, 2, 3], [9, math.inf, 5]])
    low, high = axes.get_ylim()
    assert set(best.get_xdata()) == {2} and 4 < low < 5 and 9 < high < 10


def test_words_of_a_map_do_not_overlap():
    """In the wide font that Matplotlib has, of words in one place."""
    figure = draw_words(np.zeros((80, 2)), ["acknowledgement"] * 80)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    for one, other in itertools.combinations(boxes, 2):
        assert (
            one.x0 >= other.x1
            or other.x0 >= one.x1
            or (
                min(one.y1, other.y1) - max(one.y0, other.y0) <= 2  # letters leave that much free
            )
        )
    width, height = figure.get_size_inches() * figure.dpi
    assert min(box.x0 for box in boxes) >= 0 and max(box.x1 for box in boxes) <= width
    assert min(box.y0 for box in boxes) >= 0 and max(box.y1 for box in boxes) <= height
