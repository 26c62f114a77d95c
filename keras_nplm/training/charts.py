"""Charts as SVG by Matplotlib, for an HTML page or a file.

Text stays text, in a font of the reader's system.
"""

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

_COLOURS = {"training": "#b4540a", "validation": "#1d5fa6"}
_FONT = (
    "<style>svg text { font-family: system-ui, Arial, sans-serif !important; "
    "unicode-bidi: "
    "isolate; }</style>"
)
_LETTER_WIDTH, _LINE_HEIGHT = 7.0, 14.0  # estimates for a word on a map, in pixels
_MAX_LETTERS = 24  # of a word on a map
# in XML and HTML
_INVALID = re.compile("[^\t\n -\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")


def escape_html(value: object) -> str:
    """Escape text for HTML or SVG. Characters that are invalid there become U+FFFD."""
    return html.escape(_INVALID.sub("\ufffd", str(value)))


def draw_lines(charts: Mapping[str, Mapping[str, Sequence[float]]], best: int) -> Figure:
    """Line charts by title, side by side: named values by epoch, 1, 2, …, with a line at the best
    epoch.
    """
    figure = Figure((960 / 72, 280 / 72), dpi=72, layout="constrained")
    for axes, (title, series) in zip(
        figure.subplots(ncols=len(charts)), charts.items(), strict=True
    ):
        for name, values in series.items():
            finite = np.where(np.isfinite(values), values, np.nan)
            colour = _COLOURS.get(name, "#1a1a1a")
            axes.plot(
                range(1, len(values) + 1),
                finite,
                marker="o",
                markersize=4,
                label=name,
                color=colour,
            )
        axes.axvline(best, color="#63625c", linestyle=":", label="best epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("epoch")
        axes.set_title(title, loc="left")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_words(places: np.ndarray, words: Sequence[str]) -> Figure:
    """Map of N words at float [N, 2], moved apart where they would overlap."""
    size = np.array([1040, 760])
    margin = 24
    labels = [
        word if len(word) <= _MAX_LETTERS else word[: _MAX_LETTERS - 1] + "…" for word in words
    ]
    sizes = np.array(
        [[_count_letters(label) * _LETTER_WIDTH + 8, _LINE_HEIGHT] for label in labels]
    )
    span = np.ptp(places, axis=0)
    fraction = (places - places.min(axis=0)) / np.where(span > 0, span, 1)
    centres = _separate(margin + sizes / 2 + fraction * (size - 2 * margin - sizes), sizes)
    centres -= np.minimum((centres - sizes / 2).min(axis=0), 0)
    width, height = np.maximum((centres + sizes / 2).max(axis=0) + 8, size).round()
    figure = Figure((width / 72, height / 72), dpi=72)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for (x, y), label in zip(centres.tolist(), labels, strict=True):
        shown = _INVALID.sub("\ufffd", label)
        axes.text(x, y, shown, ha="center", va="center", fontsize=12, parse_math=False)
    return figure


def _count_letters(word: str) -> float:
    """The width of a word in letters; a wide East Asian character counts as 1.9."""
    return sum(
        1.9 if unicodedata.east_asian_width(c) in "WF" else 1.0
        for c in word
        if not unicodedata.combining(c)
    )


def _separate(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Move overlapping boxes apart, each by half along the shorter way, until no two overlap by a
    pixel.
    """
    # also separates boxes at the same place
    centres = centres + 1e-3 * np.arange(len(centres))[:, None]
    for _ in range(300):
        away = (centres[:, None] - centres).transpose(2, 0, 1)  # [2, N, N]
        x_overlap, y_overlap = ((sizes[:, None] + sizes) / 2).transpose(2, 0, 1) - np.abs(away)
        overlap = np.maximum(np.minimum(x_overlap, y_overlap), 0)
        np.fill_diagonal(overlap, 0)
        if overlap.max() < 1:
            break
        moves = np.sign(away) * overlap * np.array([x_overlap < y_overlap, x_overlap >= y_overlap])
        centres = centres + 0.45 * moves.sum(axis=2).T
    return centres


def render_svg(figure: Figure, title: str) -> str:
    """Render a figure as an SVG element with a title."""
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
    svg = svg[svg.index("<svg") :].replace(
        ">", f' role="img"><title>{escape_html(title)}</title>{_FONT}', 1
    )
    return re.sub(r'<g id="[^"]*"', "<g", svg)  # ids of several charts would clash on a page
