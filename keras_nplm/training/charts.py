"""Charts as SVG by Matplotlib, for an HTML page or a file.

Text stays text, in a font of the reader's system.
"""

import html
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import east_asian_width

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

_COLOURS = {"training": "#b4540a", "validation": "#1d5fa6", "": "#1a1a1a"}
_FONT = (
    "<style>svg text { font-family: system-ui, Arial, sans-serif !important; unicode-bidi: "
    "isolate; }</style>"
)
_FONT_SIZE = 12  # of a word on a map, in pixels
_LINE_HEIGHT = 15.0
_PADDING = 8.0  # between two words on a line
_LETTER = 8.0  # mean width of a letter, in pixels, in most fonts less
_MAX_LETTERS = 24  # of a word on a map
_MAP_SIZE = (960, 720)  # of a map of words, in pixels; more words have a larger map
_MARGIN = 24
_MOST_FILLED = 0.2  # of a map by its words: with more, words leave their places
# in XML and HTML
_INVALID = re.compile("[^\t\n -\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")


def escape_html(value: object) -> str:
    """Escape text for HTML or SVG. Characters that are invalid there become U+FFFD."""
    return html.escape(_INVALID.sub("\ufffd", str(value)))


def draw_lines(title: str, series: Mapping[str, Sequence[float]], best: int) -> Figure:
    """A line chart of named values by epoch, 1, 2, …, with a line at the best epoch."""
    figure = Figure((480 / 72, 280 / 72), dpi=72, layout="constrained")
    axes = figure.subplots()
    for name, values in series.items():
        epochs = range(1, len(values) + 1)
        axes.plot(epochs, values, marker="o", markersize=4, label=name, color=_COLOURS[name])
    axes.axvline(best, color="#63625c", linestyle=":", label="best epoch")
    axes.set_xlim(0.5, max(map(len, series.values())) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    axes.set_title(title, loc="left")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_words(places: np.ndarray, words: Sequence[str]) -> Figure:
    """Map of N words at float [N, 2]: each on the line of its place, moved where it would overlap.

    A map of many words is larger: a window shows it smaller.
    """
    labels = [
        word if len(word) <= _MAX_LETTERS else word[: _MAX_LETTERS - 1] + "…" for word in words
    ]
    # a letter of Chinese is as wide as two of Latin
    letters = [sum(1 + (east_asian_width(c) in "WF") for c in label) for label in labels]
    widths = _PADDING + _LETTER * np.array(letters)
    filled = widths.sum() * _LINE_HEIGHT / np.prod(_MAP_SIZE)
    size = np.array(_MAP_SIZE) * np.sqrt(max(1.0, filled / _MOST_FILLED))
    span = np.maximum(np.ptp(places, axis=0), 1e-9)
    x, y = ((places - places.min(axis=0)) / span * size).T
    lines = (y / _LINE_HEIGHT).round()
    x = _spread(x, widths, lines)
    y = lines * _LINE_HEIGHT
    left, right = (x - widths / 2).min() - _MARGIN, (x + widths / 2).max() + _MARGIN
    top, bottom = y.min() - _MARGIN, y.max() + _MARGIN
    figure = Figure(((right - left) / 72, (bottom - top) / 72), dpi=72)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(left, right), ylim=(bottom, top))
    axes.set_axis_off()
    style: Any = {"ha": "center", "va": "center", "fontsize": _FONT_SIZE, "parse_math": False}
    for across, down, label in zip(x.tolist(), y.tolist(), labels, strict=True):
        axes.text(across, down, _INVALID.sub("\ufffd", label), **style)
    return figure


def _spread(x: np.ndarray, widths: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Move words apart on each line, in their order: as far as those to the left push them, and
    as those to the right do, in the mean.
    """
    x = x.copy()
    for line in np.unique(lines):
        (words,) = np.nonzero(lines == line)
        words = words[np.argsort(x[words], kind="stable")]
        packed = np.cumsum(widths[words]) - widths[words] / 2
        free = x[words] - packed
        pushed = np.maximum.accumulate(free) + np.minimum.accumulate(free[::-1])[::-1]
        x[words] = packed + pushed / 2
    return x


def render_svg(figure: Figure, title: str) -> str:
    """Render a figure as an SVG element with a title."""
    buffer = io.StringIO()
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,
        "font.sans-serif": "DejaVu Sans",
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # the reader's fonts matter, not ours
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        hidden = dict.fromkeys(["Date", "Creator", "Format", "Type"])
        figure.savefig(buffer, format="svg", metadata=hidden)
    _, _, content = buffer.getvalue().partition("<svg")
    opening, _, content = content.partition(">")
    content = re.sub(r'<g id="[^"]*"', "<g", content)  # ids of charts would clash on a page
    return f'<svg{opening} role="img"><title>{escape_html(title)}</title>{_FONT}{content}'
