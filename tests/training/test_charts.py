"""Charts: the numbers reach the figure, labels are escaped, colours have one meaning."""

import html
import math
import re
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm.training.charts import STYLE, draw_bars, draw_lines, draw_words, escape_html, render_svg

_SVG = "{http://www.w3.org/2000/svg}"
ODD_WORDS = ["<script>x</script>", "&amp;", "\"x'", "שלום", "]]>", "\x07\x1b", "漢字", "$x^2", "$\\frac$", "x" * 99]


def _texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


def test_lines_hold_the_values_by_epoch():
    perplexities = {"training": [9.0, 7.0, math.inf, 5.0], "validation": [8.0, 6.0, 6.5]}
    axes = draw_lines(perplexities, "perplexity", marked=2).axes[0]
    training, validation, best = axes.lines
    np.testing.assert_array_equal(training.get_data(), [[1, 2, 3, 4], [9, 7, np.nan, 5]])
    np.testing.assert_array_equal(validation.get_data(), [[1, 2, 3], [8, 6, 6.5]])
    np.testing.assert_array_equal(best.get_data(), [[2], [6]])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["training", "validation", "best epoch"]


def test_bars_hold_the_values_from_zero():
    figure = draw_bars({"validation": {"network": 61.5, "KN 5-gram": 80.0}, "test": {"network": math.inf, "KN": 0.0}})
    assert [bar.get_width() for bar in figure.axes[0].patches] == [61.5, 80.0, 0.0, 0.0]
    assert {bar.get_x() for bar in figure.axes[0].patches} == {0.0}
    texts = _texts(render_svg(figure, "bars"))
    assert set(texts) == {"validation", "test", "network", "KN 5-gram", "KN", "61.50", "80.00", "inf", "0.00"}


def test_a_colour_has_the_same_meaning_in_all_charts():
    lines = render_svg(draw_lines({"training": [2.0, 1.0], "validation": [2.0, 1.5]}, "perplexity"), "lines")
    rates = render_svg(draw_lines({"learning rate": [2.0, 1.0]}, "learning rate"), "rates")
    bars = render_svg(draw_bars({"test": {"network with short-list": 1.0, "KN 5-gram": 2.0}}), "bars")
    series = {"training", "validation", "network", "n-gram"}
    used = [series & set(re.findall(r"var\(--([a-z-]+)\)", svg)) for svg in (lines, rates, bars)]
    assert used == [{"training", "validation"}, set(), {"network", "n-gram"}]
    assert not re.findall("(?:fill|stroke): #", lines + rates + bars)  # only colours of the style sheet
    for name in series:
        assert STYLE.count(f"--{name}: #") == 2  # light and dark


def test_odd_words_and_notes_are_text_in_the_chart():
    notes = {f"word{number}": word for number, word in enumerate(ODD_WORDS)}
    svg = render_svg(draw_words(np.eye(len(ODD_WORDS))[:, :2], ODD_WORDS), "</title><b>", notes)
    root = ElementTree.fromstring(svg)
    expected = [word.replace("\x07\x1b", "\ufffd\ufffd") for word in ODD_WORDS]
    assert _texts(svg) == [word if len(word) <= 24 else word[:23] + "…" for word in expected]
    assert [title.text for title in root.iter(f"{_SVG}title")] == ["</title><b>", *expected]
    assert not {element.tag for element in root.iter()} & {f"{_SVG}script", f"{_SVG}b", f"{_SVG}image"}


def test_charts_on_one_page_share_no_ids():
    charts = [render_svg(draw_lines({"training": [1.0, 2.0]}, "y"), title) for title in ("one", "two")]
    ids = [name for svg in charts for name in re.findall(r'\bid="([^"]*)"', svg)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("seed", range(5))
def test_words_of_a_map_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    words = ["abcdefghijkl"[: rng.integers(1, 13)] for _ in range(40)]
    axes = draw_words(rng.choice([-1.0, 0.0, 0.1, 2.0], (40, 2)), words).axes[0]
    boxes = [(*text.get_position(), 7.0 * len(text.get_text())) for text in axes.texts]
    for number, (x, y, width) in enumerate(boxes):
        for other_x, other_y, other_width in boxes[:number]:
            assert abs(x - other_x) >= (width + other_width) / 2 or abs(y - other_y) >= 12.5


def test_settings_of_matplotlib_are_left_alone():
    names = [name for name in matplotlib.rcParams if name.startswith(("svg.", "font.", "text.", "axes."))]
    before = [matplotlib.rcParams[name] for name in names]
    render_svg(draw_lines({"training": [1.0]}, "y"), "title")
    assert [matplotlib.rcParams[name] for name in names] == before


@given(st.text())
def test_any_text_is_escaped_for_html_and_svg(value):
    escaped = escape_html(value.replace("\r", ""))
    assert ElementTree.fromstring(f"<a b='{escaped}'>{escaped}</a>").text in (None, html.unescape(escaped))
