"""Reproduction of the paper's Table 1 on Brown: its rows, their mixtures, and learning curves.

The text is not quite the paper's: |V| is 17,905 here and 16,383 there. So compare rows, not
columns. No network has `held_out_mass`. "Our bins" of deleted interpolation distinguish contexts
that never occurred by their last word. Weights of mixtures are 0.5, as in the paper, or fitted on
validation. `trigram` in a mixture is deleted interpolation with our bins; the paper mixes that with
the paper's bins, whose perplexity is higher. Class-based models have a uniform component. Rows with
the paper's own optimiser and with marks read the text with marks between paragraphs and texts, as
the paper's: stochastic gradient descent at the rate 0.001 for each example, without dropout.
"""

import dataclasses
import hashlib
import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments.log_probs import load_log_probs, measure_mixture
from keras_nplm.experiments.rows import Row, is_made, make_rows, read_origins, read_row
from keras_nplm.io.errors import check_argument
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.markdown import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class PaperRow(Row):
    """A model beside a row of Table 1, as `paper.json` has it."""

    paper: Sequence[int] | None = None  # the paper's perplexity on validation and test
    mixture: str = ""  # title of its mixture with the trigram
    mixture_paper: Sequence[int] | None = None
    bar: str = ""  # title of its bar in the picture
    curve: str = ""  # title of its learning curve in the picture


ROWS = [PaperRow(**row) for row in read_json(Path(__file__).with_name("paper.json"))["rows"]]
_TRIGRAM = "trigram"  # the row that others are mixed with
_HEADER = ["row", "paper: validation", "test", "ours: validation", "test"]
_HEADER += ["epochs", "CPU seconds", "command, or weights of a mixture"]
_LEAST_PERPLEXITY = 200  # at the left of the bars
_CAPTION_WIDTH = 165  # letters of a line
_BARS = """Bars: rows of Table 1 of Bengio et al. (2003). The networks of keras_nplm have the
paper's sizes, with a higher learning rate and dropout. “+\N{NO-BREAK SPACE}trigram” is the mean of
the probabilities of the network and of a trigram model: MLP2, MLP4, … in the paper. The vocabulary
has 16,383 words in the paper and 17,905 here."""
_CURVES = """Curves: the paper's own optimiser, stochastic gradient descent at the rate 0.001 for
each example, without dropout, on the text with marks between paragraphs, as in the paper."""


def load_record() -> dict[str, Any]:
    """Load the recorded report of Table 1, with further figures of notebook 02."""
    return read_json(Path(__file__).with_name("record.json"))


def make_paper(
    directory: Path, jobs: int | None = None, data_dir: str | None = None, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Make the rows of Table 1 that do not exist yet, by default all. Return the report of those
    that exist, and write it as `paper.json`, `paper.md` and `paper.png`.
    """
    declared = [row.name for row in ROWS]
    for name in names:
        check_argument("rows", name in declared, f"names of {', '.join(declared)}", repr(name))
    with lock_directory(directory):
        make_rows(
            [row for row in ROWS if not names or row.name in names], directory, jobs, data_dir
        )
        report = _measure(directory)
        write_json(directory / "paper.json", report)
        with replace_file(directory / "paper.md") as temporary:
            temporary.write_text(f"{format_report(report)}\n", encoding="utf-8")
        write_figure(directory / "paper.png", report)
    return report


def _measure(directory: Path) -> dict[str, Any]:
    """Return the figures of the rows that exist, their mixtures, their learning curves by name,
    and their origins by path.
    """
    made = [row for row in ROWS if is_made(row, directory)]
    names = [row.name for row in made]
    mixtures: list[dict] = []
    curves = {}
    for row in made:
        if row.mixture and _TRIGRAM in names:
            mixtures += _mix(row, directory)
        if row.curve:
            history = read_json(directory / "rows" / row.name / "metrics.json")["history"]
            curves[row.name] = [epoch["validation_perplexity"] for epoch in history]
    rows = []
    for row in made:
        beside = {"paper": row.paper} if row.paper else {}
        rows.append({**read_row(row, directory), **beside})
    origins = read_origins(made, directory)
    return {"rows": rows, "mixtures": mixtures, "curves": curves, "origins": origins}


def _mix(row: PaperRow, directory: Path) -> list[dict]:
    """Mix a network with the trigram: with equal weights, and with weights that are fitted."""
    columns = {name: load_log_probs(directory, name) for name in (row.name, _TRIGRAM)}
    equal = measure_mixture(columns, [*columns], [0.5, 0.5])
    beside = {"paper": row.mixture_paper} if row.mixture_paper else {}
    return [
        {"title": f"{row.mixture}, 0.5", **beside, **equal},
        {"title": f"{row.mixture}, fitted", **measure_mixture(columns, [*columns])},
    ]


def format_report(report: Mapping[str, Any]) -> str:
    """Return the rows and mixtures of a report as a table in Markdown."""
    return markdown_table(_HEADER, [*map(_list_cells, [*report["rows"], *report["mixtures"]])])


def _list_cells(row: Mapping[str, Any]) -> list:
    seconds = row.get("cpu_seconds")
    made = f"`{row['command']}`" if "command" in row else _format_weights(row)
    return [
        row["title"],
        *row.get("paper", ["", ""]),
        *(f"{row[split]:.1f}" for split in HELD_OUT),
        row.get("epochs", ""),
        "" if seconds is None else f"{seconds:,.{0 if seconds >= 10 else 1}f}",
        made,
    ]


def _format_weights(mixture: Mapping[str, Any]) -> str:
    pairs = zip(mixture["weights"], mixture["components"], strict=True)
    return ", ".join(f"{weight:.3f} {component}" for weight, component in pairs)


def write_figure(path: str | os.PathLike, report: Mapping[str, Any]) -> None:
    """Write a picture of the paper's test perplexities beside ours, and of the learning curves with
    the paper's optimiser.

    The file says of which figures it is, as the entry `Comment`: see `digest_figures`.
    """
    with replace_file(path) as temporary:
        comment = {"Comment": digest_figures(report)}
        draw_figure(report).savefig(temporary, dpi=120, metadata=comment)


def digest_figures(report: Mapping[str, Any]) -> str:
    """Return a digest of the figures of a report that the picture shows."""
    shown = [report["rows"], report["mixtures"], report["curves"]]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def draw_figure(report: Mapping[str, Any]) -> "Figure":
    """Draw the bars of MLP1 to MLP10 and Kneser-Ney, the curves, and the caption below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.6), layout="constrained")
    caption = [_BARS]
    if report["curves"]:
        bars, curves = figure.subplots(1, 2, width_ratios=[3, 2])
        _draw_curves(curves, report["curves"])
        caption.append(_CURVES)
    else:
        bars = figure.subplots()
    _draw_bars(bars, report)
    lines = [textwrap.fill(" ".join(part.split("\n")), _CAPTION_WIDTH) for part in caption]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=9)
    return figure


def _draw_bars(axes: "Axes", report: Mapping[str, Any]) -> None:
    """Draw test perplexities of the paper and ours: of rows, and of their mixtures with equal
    weights.
    """
    figures = {row.get("name", row["title"]): row for row in [*report["rows"], *report["mixtures"]]}
    bars = []
    for row in ROWS:
        if row.bar:
            bars.append((row.bar, figures.get(row.name)))
            bars.append((f"{row.bar} + trigram", figures.get(f"{row.mixture}, 0.5")))
    titles = [title for title, found in bars if found]
    found = [figures for _, figures in bars if figures]
    for label, shift, heights in (
        ("paper", -0.2, [row["paper"][1] for row in found]),
        ("keras_nplm", 0.2, [row["test"] for row in found]),
    ):
        places = [place + shift for place in range(len(titles))]
        drawn = axes.barh(places, heights, 0.4, label=label)
        axes.bar_label(drawn, fmt="%.0f", fontsize=7, padding=2)
    axes.set_yticks(range(len(titles)), titles, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(left=_LEAST_PERPLEXITY)
    axes.set_xlabel(f"perplexity, from {_LEAST_PERPLEXITY}")
    axes.set_title("Test perplexity on Brown: lower is better", loc="left", fontsize=10)
    axes.legend(loc="upper right", fontsize=9)


def _draw_curves(axes: "Axes", curves: Mapping[str, Sequence[float]]) -> None:
    for row in ROWS:
        if curve := curves.get(row.name):
            axes.plot(range(1, len(curve) + 1), curve, marker=".", label=row.curve)
    axes.legend(fontsize=9)
    axes.set(xlabel="epoch", ylabel="validation perplexity")
    axes.set_title("MLP1 with the paper's own optimiser", loc="left", fontsize=10)
