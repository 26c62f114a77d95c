"""Charts of a report as SVG, drawn by Matplotlib: learning curves, perplexity bars, a map of words.

The functions return figures; `render_svg` turns a figure into SVG text for an HTML page. A style sheet colours the SVG,
so that it follows the reader's light or dark theme. A colour has the same meaning in all charts. Matplotlib is imported
when the first chart is drawn, without pyplot and without a change of its settings.
"""

import html
import io
import math
import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Name, light theme, dark theme. The names are those of CSS variables, and of series and bars in the charts.
_COLOURS = {
    "ink": ("#1a1a1a", "#e9e7e0"),
    "soft": ("#63625c", "#a5a299"),
    "rule": ("#dcdad2", "#3b3a36"),
    "training": ("#b4540a", "#f0a05a"),
    "validation": ("#1d5fa6", "#78b4f0"),
    "network": ("#2a7a4b", "#6cc48f"),
    "n-gram": ("#7a7870", "#96948a"),
}
_WIDTH, _HEIGHT = 480, 300  # in CSS pixels, of a line chart
_PIXELS_PER_INCH = 72  # Matplotlib's SVG has 72 units per inch
_SMALL, _NORMAL = 11, 12  # font sizes
_LETTER_WIDTH, _LINE_HEIGHT = 7.0, 14.0  # estimates for a word on a map, in pixels
_MAX_LETTERS = 24  # of a word on a map
_INVALID = re.compile("[^\t\n -\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")  # in XML and HTML


def _declare(theme: int) -> str:
    return ":root { " + " ".join(f"--{name}: {colours[theme]};" for name, colours in _COLOURS.items()) + " }"


_RULES = """
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font-family: system-ui, "Helvetica Neue", Arial, sans-serif !important;
  unicode-bidi: isolate; }
"""
STYLE = f"{_declare(0)} @media (prefers-color-scheme: dark) {{ {_declare(1)} }} {_RULES}"


def escape_html(value: object) -> str:
    """Escape text for HTML or SVG. Characters that are invalid there become U+FFFD.

    Example:

    >>> escape_html('<unk> & "\\x07"')
    '&lt;unk&gt; &amp; &quot;�&quot;'
    """
    return html.escape(replace_invalid(value))


def replace_invalid(value: object) -> str:
    """Replace the characters that XML does not allow, such as control characters, by U+FFFD."""
    return _INVALID.sub("\ufffd", str(value))


def draw_lines(series: Mapping[str, Sequence[float]], y_label: str, marked: int | None = None) -> "Figure":
    """Line chart of values by epoch.

    Args:
        series: names and the values of epochs 1, 2, …. Values that are not finite leave a gap. A series is drawn in
            the colour of its name, `"training"` or `"validation"`, else in the colour of the text.
        y_label: the quantity and its unit.
        marked: the epoch of the last series to mark as the best.

    Returns:
        a figure with one line per series, and one more for the mark.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _open_figure(_WIDTH, _HEIGHT)
    for name, values in series.items():
        epochs, finite = np.arange(1, len(values) + 1), np.where(np.isfinite(values), values, np.nan)
        axes.plot(epochs, finite, marker="o", markersize=4, color=_find_colour(name), label=name)
    if marked:
        value = list(series.values())[-1][marked - 1]
        style = dict(marker="o", markersize=11, fillstyle="none", linestyle="none")
        axes.plot([marked], [value], color=_find_colour(list(series)[-1]), label="best epoch", **style)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch", fontsize=_NORMAL)
    axes.set_title(y_label, loc="left", fontsize=_NORMAL)
    axes.grid(axis="y", color=_COLOURS["rule"][0])
    if marked or len(series) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=_SMALL)
    return figure


def draw_bars(groups: Mapping[str, Mapping[str, float]]) -> "Figure":
    """Horizontal bars from 0, in groups, each bar with its name and its value.

    Args:
        groups: for each group the names and values of its bars; values that are not finite have no bar. A bar has the
            colour of the network if its name begins with `network`, else that of n-gram models.
    """
    rows = [(group, name, value) for group, bars in groups.items() for name, value in bars.items()]
    height = 32 * len(rows) + 28 * len(groups)
    figure, axes = _open_figure(_WIDTH, height)
    y = 0.0
    ticks, names = [], []
    for group, bars in groups.items():
        axes.text(0, y, replace_invalid(group), fontsize=_NORMAL, va="center", parse_math=False)
        for name, value in bars.items():
            y -= 1
            width = value if math.isfinite(value) else 0.0
            colour = _find_colour("network" if name.startswith("network") else "n-gram")
            container = axes.barh([y], [width], height=0.7, color=colour, label=name)
            axes.bar_label(container, labels=[f"{value:.2f}"], padding=5, fontsize=_SMALL)
            ticks.append(y)
            names.append(replace_invalid(name))
        y -= 1.1
    axes.set_yticks(ticks, names, fontsize=_SMALL)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_ylim(y + 0.4, 0.5)
    axes.margins(x=0.15)
    return figure


def draw_words(places: np.ndarray, words: Sequence[str]) -> "Figure":
    """Map of words in the plane, moved apart where they would overlap.

    Args:
        places: float [N, 2].
        words: N words. Long words are cut.

    Returns:
        a figure whose axes hold N texts, in the order of the words, with the group id `word0`, `word1`, ….
    """
    width, height, margin = 1040, 760, 24
    labels = [word if len(word) <= _MAX_LETTERS else word[: _MAX_LETTERS - 1] + "…" for word in words]
    sizes = np.array([[_count_letters(label) * _LETTER_WIDTH + 8, _LINE_HEIGHT] for label in labels])
    span = np.ptp(places, axis=0)
    fraction = (places - places.min(axis=0)) / np.where(span > 0, span, 1)
    box = np.array([width, height]) - 2 * margin
    centres = _separate(margin + sizes / 2 + fraction * (box - sizes), sizes)
    centres -= np.minimum((centres - sizes / 2).min(axis=0), 0)
    width, height = np.maximum((centres + sizes / 2).max(axis=0) + 8, [width, height]).round()
    figure, axes = _open_figure(width, height, layout=None)
    axes.set_position([0, 0, 1, 1])
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(height, 0))
    for number, (centre, label) in enumerate(zip(centres.tolist(), labels, strict=True)):
        style = dict(ha="center", va="center", fontsize=_NORMAL, parse_math=False, gid=f"word{number}")
        axes.text(*centre, replace_invalid(label), **style)
    return figure


def _open_figure(width: float, height: float, layout: str | None = "constrained") -> tuple["Figure", "Axes"]:
    """A transparent figure of a size in pixels, with axes in the colours of the text."""
    from matplotlib.figure import Figure

    size = (width / _PIXELS_PER_INCH, height / _PIXELS_PER_INCH)
    figure = Figure(size, dpi=_PIXELS_PER_INCH, layout=layout, facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_COLOURS["rule"][0])
    axes.tick_params(length=0, labelsize=_SMALL, labelcolor=_COLOURS["soft"][0])
    return figure, axes


def _find_colour(name: str) -> str:
    return _COLOURS.get(name, _COLOURS["ink"])[0]


def _count_letters(word: str) -> float:
    """The width of a word in letters; a wide East Asian character counts as 1.9."""
    wide = {"W": 1.9, "F": 1.9}
    return sum(wide.get(unicodedata.east_asian_width(c), 1.0) for c in word if not unicodedata.combining(c))


def _separate(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Move overlapping boxes apart, each by half along the shorter way, until no two overlap by a pixel."""
    centres = centres + 1e-3 * np.arange(len(centres))[:, None]  # also separates boxes at the same place
    for _ in range(300):
        away = (centres[:, None] - centres).transpose(2, 0, 1)  # [2, N, N]
        x_overlap, y_overlap = ((sizes[:, None] + sizes) / 2).transpose(2, 0, 1) - np.abs(away)
        overlap = np.minimum(x_overlap, y_overlap)
        np.fill_diagonal(overlap, 0)
        if overlap.max() < 1:
            break
        overlap = np.maximum(overlap, 0)
        is_sideways = x_overlap < y_overlap
        moves = np.sign(away) * overlap * np.array([is_sideways, ~is_sideways])
        centres = centres + 0.45 * moves.sum(axis=2).T
    return centres


def render_svg(figure: "Figure", title: str, notes: Mapping[str, str] | None = None) -> str:
    """Render a figure as an SVG element for an HTML page, coloured by `STYLE`.

    Text stays text, in a font of the reader's system, so that words of all scripts appear and can be searched.

    Args:
        figure: a figure of this module.
        title: description of the chart, for screen readers.
        notes: for group ids of the figure, text to show under the pointer.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    no_metadata = dict.fromkeys(["Date", "Creator", "Format", "Type"])
    settings = {"svg.fonttype": "none", "svg.hashsalt": title, "font.sans-serif": ["DejaVu Sans"]}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # the reader's fonts matter, not ours
        FigureCanvasSVG(figure).print_svg(buffer, metadata=no_metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace("<svg ", '<svg role="img" ', 1)
    svg = svg.replace(">", f"><title>{escape_html(title)}</title>", 1)
    for group, note in (notes or {}).items():
        svg = svg.replace(f'<g id="{group}">', f"<g><title>{escape_html(note)}</title>", 1)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # ids of several charts would clash on a page
    variables = {light: f"var(--{name})" for name, (light, _) in _COLOURS.items()}
    return re.sub(r"(?<=fill: |roke: )#[0-9a-f]{6}", lambda match: variables.get(match[0], match[0]), svg)


def render_svg_file(figure: "Figure", title: str, notes: Mapping[str, str] | None = None) -> str:
    """Render a figure as the content of an SVG file, with the colours of the light theme on white."""
    start, end, rest = render_svg(figure, title, notes).partition(">")
    return f'{start}{end}<style>{_declare(0)}{_RULES}</style><rect width="100%" height="100%" fill="#fff"/>{rest}\n'
