"""Charts as inline SVG: lines, bars, and words in the plane; coloured by a style sheet, by day and by night."""

import html
import math
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

_UNPRINTABLE = re.compile("[^\t\n -\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")  # XML has none
_WIDTH, _HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 44  # margins of a line chart
_LETTER, _LINE = 7.0, 14.0  # a letter's mean width and a line's height on a word map
_LONGEST = 24  # characters of a word on a map

_DAY = ":root { --ink: #1a1a1a; --soft: #63625c; --rule: #dcdad2; --s1: #b4540a; --s2: #1d5fa6; }"
_NIGHT = ":root { --ink: #e9e7e0; --soft: #a5a299; --rule: #3b3a36; --s1: #f0a05a; --s2: #78b4f0; }"
_RULES = """
svg { display: block; width: 100%; height: auto; font-family: system-ui, "Helvetica Neue", Arial, sans-serif; }
.tick, .value, .axis { font-size: 12px; fill: var(--soft); } .axis, .value { fill: var(--ink); }
.grid { stroke: var(--rule); } .line { fill: none; stroke-width: 2; } .best { fill: none; stroke-width: 1.5; }
.line.s1, .best.s1 { stroke: var(--s1); } .line.s2, .best.s2 { stroke: var(--s2); }
.dot.s1, .bar.s1 { fill: var(--s1); } .dot.s2, .bar.s2 { fill: var(--s2); }
.word { font-size: 12px; fill: var(--ink); text-anchor: middle; unicode-bidi: isolate; }
.word:hover { fill: var(--s1); }
"""
STYLE = f"{_DAY} @media (prefers-color-scheme: dark) {{ {_NIGHT} }} {_RULES}"


def escaped(value: object) -> str:
    """Text as it may stand in HTML or SVG; characters that neither allows become U+FFFD.

    Example:

    >>> escaped('<unk> & "\\x07"')
    '&lt;unk&gt; &amp; &quot;�&quot;'
    """
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)))


def line_chart(title: str, series: dict[str, Sequence[float]], y_label: str, marked: int | None = None) -> str:
    """Values by epoch.

    Args:
        title: what the chart shows, for those who do not see it.
        series: a name and the values of epochs 1, 2, …; what is not finite is left out.
        y_label: what the values are.
        marked: an epoch of the last series to mark as the best.
    """
    epochs = max(map(len, series.values()))
    finite = [value for values in series.values() for value in values if math.isfinite(value)] or [0.0]
    y_ticks = ticks(min(finite), max(finite))
    x_ticks = [epoch for epoch in ticks(1, max(epochs, 2)) if epoch == int(epoch) and 1 <= epoch <= epochs]
    low, high = min(y_ticks[0], *finite), max(y_ticks[-1], *finite)

    def x(epoch: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * ((epoch - 1) / (epochs - 1) if epochs > 1 else 0.5)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    parts = [
        f'<path class="grid" d="M{_LEFT} {y(tick):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in y_ticks
    ]
    parts += [
        f'<text class="tick" x="{x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{tick:g}</text>'
        for tick in x_ticks or [1]
    ]
    parts += [
        f'<text class="axis" x="{x((epochs + 1) / 2):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">epoch</text>',
        f'<text class="axis" x="{_LEFT}" y="16">{escaped(y_label)}</text>',
    ]
    for number, (name, values) in enumerate(series.items(), start=1):
        points = [(epoch, value) for epoch, value in enumerate(values, start=1) if math.isfinite(value)]
        path = " ".join(f"{x(epoch):.2f},{y(value):.2f}" for epoch, value in points)
        parts.append(f'<polyline class="line s{number}" points="{path}"/>')
        parts += [
            f'<circle class="dot s{number}" cx="{x(epoch):.2f}" cy="{y(value):.2f}" r="3">'
            f"<title>{escaped(name)}, epoch {epoch}: {value:.5g}</title></circle>"
            for epoch, value in points
        ]
        if number == len(series) and marked:
            best = x(marked), y(values[marked - 1])
            parts.append(f'<circle class="best s{number}" cx="{best[0]:.2f}" cy="{best[1]:.2f}" r="7"/>')
    if marked or len(series) > 1:
        parts += _legend([*series, *(["best epoch"] if marked else [])], len(series))
    return _svg(title, _WIDTH, _HEIGHT, parts)


def _legend(names: list[str], lines: int) -> list[str]:
    """The names from right to left along the top, the lines' with their colours and then the best epoch's ring."""
    parts, right = [], _WIDTH - _RIGHT
    for number, name in reversed(list(enumerate(names, start=1))):
        parts.append(f'<text class="tick" x="{right:.0f}" y="16" text-anchor="end">{escaped(name)}</text>')
        right -= 6.6 * len(name) + 10
        if number <= lines:
            parts.append(f'<path class="line s{number}" d="M{right - 14:.0f} 12h16"/>')
        else:
            parts.append(f'<circle class="best s{lines}" cx="{right - 2:.0f}" cy="12" r="5"/>')
        right -= 28
    return parts


def bar_chart(title: str, groups: dict[str, dict[str, float]]) -> str:
    """Horizontal bars from 0, in groups, each with its name and its value.

    Args:
        title: what the chart shows.
        groups: for each group the bars' names and values, the names alike in all.
    """
    finite = [value for bars in groups.values() for value in bars.values() if math.isfinite(value)]
    largest = max(finite, default=0) or 1.0
    left, right, thickness, parts, top = 118, 64, 26, [], 4
    for group, bars in groups.items():
        parts.append(f'<text class="axis" x="0" y="{top + 14}">{escaped(group)}</text>')
        top += 24
        for number, (name, value) in enumerate(bars.items(), start=1):
            length = (_WIDTH - left - right) * (min(value, largest) / largest)
            bar = f'x="{left}" y="{top}" width="{length:.2f}" height="{thickness - 6}"'
            base = top + thickness / 2 + 1  # of the letters
            parts += [
                f'<text class="tick" x="{left - 8}" y="{base}" text-anchor="end">{escaped(name)}</text>',
                f'<rect class="bar s{number}" {bar}/>',
                f'<text class="value" x="{left + length + 6:.2f}" y="{base}">{value:.2f}</text>',
            ]
            top += thickness
        top += 14
    return _svg(title, _WIDTH, top - 8, parts)


def word_chart(title: str, places: np.ndarray, words: Sequence[str], notes: Sequence[str]) -> str:
    """Words in the plane, moved apart as little as it takes to read them all.

    Args:
        title: what the chart shows.
        places: float [N, 2].
        words: N words.
        notes: for each what to say of it under the pointer.
    """
    width, height, margin = 1040, 760, 24
    shown = [word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…" for word in words]
    sizes = np.array([[_letters(word) * _LETTER + 8, _LINE] for word in shown])
    span = np.ptp(places, axis=0)
    fraction = (places - places.min(axis=0)) / np.where(span > 0, span, 1)
    box = np.array([width, height]) - 2 * margin
    centres = _apart(margin + sizes / 2 + fraction * (box - sizes), sizes)
    centres -= np.minimum((centres - sizes / 2).min(axis=0), 0)
    width, height = np.maximum((centres + sizes / 2).max(axis=0) + 8, [width, height]).round().astype(int)
    parts = [
        f'<text class="word" x="{x:.1f}" y="{y + 4:.1f}"><title>{escaped(word)}: {escaped(note)}</title>'
        f"{escaped(label)}</text>"
        for (x, y), word, label, note in zip(centres, words, shown, notes, strict=True)
    ]
    return _svg(title, width, height, parts)


def _letters(word: str) -> float:
    """How wide a word is, in letters."""
    wide = {"W": 1.9, "F": 1.9}
    return sum(wide.get(unicodedata.east_asian_width(c), 1.0) for c in word if not unicodedata.combining(c))


def _apart(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Move boxes that overlap away from each other, half each along the shorter way, until none do by a unit."""
    centres = centres + 1e-3 * np.arange(len(centres))[:, None]  # those at one place part too
    for _ in range(300):
        away = (centres[:, None] - centres).transpose(2, 0, 1)  # [2, N, N]
        x_overlap, y_overlap = ((sizes[:, None] + sizes) / 2).transpose(2, 0, 1) - np.abs(away)
        overlap = np.minimum(x_overlap, y_overlap)
        np.fill_diagonal(overlap, 0)
        if overlap.max() < 1:
            break
        overlap = np.maximum(overlap, 0)
        across = x_overlap < y_overlap
        moves = np.sign(away) * overlap * np.array([across, ~across])
        centres = centres + 0.45 * moves.sum(axis=2).T
    return centres


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, some five, that enclose a range.

    Example:

    >>> ticks(43.4, 134.3)
    [40.0, 60.0, 80.0, 100.0, 120.0, 140.0]
    """
    spread = max(high - low, 1e-4 * abs(high)) or 1.0
    power = 10.0 ** math.floor(math.log10(spread / 4))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power * 6 >= spread)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{k * step:.10g}") for k in range(first, max(last, first + 1) + 1)]


def _svg(title: str, width: int, height: int, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escaped(title)}</title>{''.join(parts)}</svg>"
    )


def stand_alone(chart: str) -> str:
    """A chart as an SVG file of its own, by day alone: what shows a picture may have no night.

    Example:

    >>> stand_alone(bar_chart("one bar", {"": {"all": 1.0}})).index("<style>") < 200
    True
    """
    start, end, rest = chart.partition(">")
    return f'{start}{end}<style>{_DAY}{_RULES}</style><rect width="100%" height="100%" fill="#fff"/>{rest}\n'
