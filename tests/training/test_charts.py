"""Charts: the numbers reach the figure, labels are escaped, words of a map do not overlap."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np

from keras_nplm.training.charts import draw_lines, draw_words, render_svg

ODD_WORDS = ["<script>x</script>", "&amp;", "\"x'", "שלום", "]]>", "\x07\x1b", "漢字", "$x^2", "$\\frac$", "x" * 99]


def test_lines_hold_the_values_by_epoch():
    figure = draw_lines({"perplexity": {"training": [9.0, math.inf, 5.0]}, "rate": {"": [1.0, 2.0]}}, best=2)
    training, best = figure.axes[0].lines
    np.testing.assert_array_equal(training.get_data(), [[1, 2, 3], [9, np.nan, 5]])
    assert set(best.get_xdata()) == {2} and list(figure.axes[1].lines[0].get_ydata()) == [1, 2]


def test_odd_words_and_notes_are_text_in_the_chart():
    notes = {f"word{number}": word for number, word in enumerate(ODD_WORDS)}
    svg = render_svg(draw_words(np.eye(len(ODD_WORDS))[:, :2], ODD_WORDS), "</title><b>", notes)
    root, expected = ElementTree.fromstring(svg), [word.replace("\x07\x1b", "\ufffd\ufffd") for word in ODD_WORDS]
    texts, titles = ([each.text for each in root.iterfind(f".//{{*}}{tag}")] for tag in ("text", "title"))
    assert texts == [word if len(word) <= 24 else word[:23] + "…" for word in expected]
    assert titles == ["</title><b>", *expected]


def test_words_of_a_map_do_not_overlap():
    rng = np.random.default_rng(0)
    words = ["abcdefghijkl"[: rng.integers(1, 13)] for _ in range(40)]
    texts = draw_words(rng.choice([-1.0, 0.0, 0.1, 2.0], (40, 2)), words).axes[0].texts
    places, widths = np.array([text.get_position() for text in texts]), np.array([7.0 * len(word) for word in words])
    x, y = np.abs(places[:, None] - places).transpose(2, 0, 1)
    assert ((x >= (widths[:, None] + widths) / 2) | (y >= 12.5) | np.eye(40, dtype=bool)).all()
