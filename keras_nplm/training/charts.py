"""Charts as SVG by Matplotlib, for an HTML page or a file.

Text stays text, in a font of the reader's system.
"""

import functools
import html
import io
import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

_COLOURS = {"training": "#b4540a", "validation": "#1d5fa6"}
_FONT = (
    "<style>svg text { font-family: system-ui, Arial, sans-serif !important; unicode-bidi: "
    "isolate; }</style>"
)
_FONT_SIZE = 12  # of a word on a map, in pixels
_LINE_HEIGHT = 15.0
_PADDING = 8.0  # between two words on a line
_MAX_LETTERS = 24  # of a word on a map
MAP_SIZE = (1040, 760)  # of a map of words, in pixels; more words have a larger map
_MARGIN = 24
_MOST_FILLED = 0.2  # of a map by its words: with more, words leave their places
_ROUNDS = 40  # of moving words apart together, before each finds its place
_REACH = 400.0  # pixels from its place in which a word finds one that is free
_RINGS = (1, 20, 60, 180, 540, 1620, 4860)  # places that are looked at together, nearest first
# in XML and HTML
_INVALID = re.compile("[^\t\n -\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")

_SIZE = re.compile(r' (?:width|height)="[\d.]+pt"')  # of an SVG element


def escape_html(value: object) -> str:
    """Escape text for HTML or SVG. Characters that are invalid there become U+FFFD."""
    return html.escape(_INVALID.sub("\ufffd", str(value)))


def draw_lines(title: str, series: Mapping[str, Sequence[float]], best: int) -> Figure:
    """A line chart of named values by epoch, 1, 2, …, with a line at the best epoch."""
    figure = Figure((480 / 72, 280 / 72), dpi=72, layout="constrained")
    axes = figure.subplots()
    for name, values in series.items():
        axes.plot(
            range(1, len(values) + 1),
            np.where(np.isfinite(values), values, np.nan),
            marker="o",
            markersize=4,
            label=name,
            color=_COLOURS.get(name, "#1a1a1a"),
        )
    axes.axvline(best, color="#63625c", linestyle=":", label="best epoch")
    axes.set_xlim(0.5, max(map(len, series.values())) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    axes.set_title(title, loc="left")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_words(
    places: np.ndarray, words: Sequence[str], size: tuple[float, float] = MAP_SIZE
) -> Figure:
    """Map of N words at float [N, 2], moved apart where they would overlap.

    `size` is the width and height in pixels. A map of many words is larger, of the same shape: a
    window shows it smaller.
    """
    labels = [
        word if len(word) <= _MAX_LETTERS else word[: _MAX_LETTERS - 1] + "…" for word in words
    ]
    sizes = np.array([[_measure_width(label) + _PADDING, _LINE_HEIGHT] for label in labels])
    share = sizes.prod(axis=1).sum() / np.prod(size)
    inner = np.array(size) * np.sqrt(max(1.0, share / _MOST_FILLED)) - 2 * _MARGIN
    span = np.ptp(places, axis=0)
    fraction = (places - places.min(axis=0)) / np.where(span > 0, span, 1)
    centres = _separate(sizes / 2 + fraction * (inner - sizes), sizes)
    # the map holds all words, also those that others pushed beyond its edge
    start = np.minimum((centres - sizes / 2).min(axis=0), 0)
    end = np.maximum((centres + sizes / 2).max(axis=0), inner)
    width, height = (end - start + 2 * _MARGIN).round()
    figure = Figure((width / 72, height / 72), dpi=72)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for (x, y), label in zip((centres - start + _MARGIN).tolist(), labels, strict=True):
        shown = _INVALID.sub("\ufffd", label)
        axes.text(x, y, shown, ha="center", va="center", fontsize=_FONT_SIZE, parse_math=False)
    return figure


def _measure_width(label: str) -> float:
    """Return the width of a label in pixels, in DejaVu Sans: wider than most fonts of readers."""
    return sum(map(_measure_character, label))


@functools.cache
def _measure_character(character: str) -> float:
    """Return the width of a character in pixels; a wide one, as of Chinese, is 1.1 heights wide."""
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.1 * _FONT_SIZE
    font = FontProperties(family="DejaVu Sans", size=_FONT_SIZE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        width, _, _ = text_to_path.get_text_width_height_descent(character, font, ismath=False)
    return float(width)


def _separate(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Move overlapping boxes apart: first all together, each by half along the shorter way, which
    keeps neighbours; then one after the other, until no two overlap by a pixel.
    """
    # also separates boxes at the same place
    centres = centres + 1e-3 * np.arange(len(centres))[:, None]
    for _ in range(_ROUNDS):
        away = (centres[:, None] - centres).transpose(2, 0, 1)  # [2, N, N]
        x_overlap, y_overlap = ((sizes[:, None] + sizes) / 2).transpose(2, 0, 1) - np.abs(away)
        overlap = np.maximum(np.minimum(x_overlap, y_overlap), 0)
        np.fill_diagonal(overlap, 0)
        if overlap.max() < 1:
            return centres
        moves = np.sign(away) * overlap * np.array([x_overlap < y_overlap, x_overlap >= y_overlap])
        centres = centres + 0.45 * moves.sum(axis=2).T
    rings = np.split(_list_steps(), np.cumsum(_RINGS))
    for number in range(1, len(centres)):
        centres[number] = _find_place(centres[number], centres[:number], sizes, rings)
    return centres


def _find_place(
    centre: np.ndarray, others: np.ndarray, sizes: np.ndarray, rings: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the nearest place of a box where it overlaps none of the boxes before it."""
    apart = (sizes[: len(others)] + sizes[len(others)]) / 2 - 1
    for steps in rings:
        reach = apart + np.abs(steps).max(axis=0)
        is_near = (np.abs(centre - others) < reach).all(axis=1)
        away = np.abs(centre + steps[:, None] - others[is_near])  # [K, N, 2]
        is_free = (away >= apart[is_near]).any(axis=2).all(axis=1)
        if is_free.any():
            return centre + steps[is_free.argmax()]
    return centre


def _list_steps() -> np.ndarray:
    """Return steps to all sides, the shortest first, float [K, 2]."""
    x = np.arange(-_REACH, _REACH + 1, _PADDING)
    y = np.arange(-_REACH, _REACH + 1, _LINE_HEIGHT / 4)
    steps = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return steps[np.argsort((steps**2).sum(axis=1), kind="stable")]


def render_svg(figure: Figure, title: str) -> str:
    """Render a figure as an SVG element with a title, which is as large as its window or page."""
    buffer = io.StringIO()
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,
        "font.sans-serif": ["DejaVu Sans"],
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # the reader's fonts matter, not ours
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(
            buffer, format="svg", metadata=dict.fromkeys(["Date", "Creator", "Format", "Type"])
        )
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = _SIZE.sub("", svg, count=2)
    svg = svg.replace(">", f' role="img"><title>{escape_html(title)}</title>{_FONT}', 1)
    return re.sub(r'<g id="[^"]*"', "<g", svg)  # ids of several charts would clash on a page
