"""MLP1 by the paper's own optimiser, to its early stop, and the learning curves.

The optimiser of section 4: stochastic gradient descent at the rate 0.001 for each example, which
decreases as 1 / (1 + 1e-8 t) with the number t of examples; weight decay of 1e-4; no dropout. It
steps on batches of examples with the sum of their gradients, which is the same to first order.
Training ends when validation has not improved for three epochs. The text has marks between
paragraphs and texts, as the paper's text has.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import Column, Table
from keras_nplm.io.files import read_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "mlp1-paper"
NO_DIRECT = "mlp1-paper-no-direct"
RATE_4 = "mlp1-paper-no-direct-rate-4"
KNESER_NEY = "marks-kneser-ney-5"
_TEXT = "--corpus brown/marks"
_COMMAND = f"train --config mlp1-paper {_TEXT} --epochs 40"
_NO_DIRECT_COMMAND = f"{_COMMAND} --no-direct-connections"
_RATE_4 = 4e-3  # for each example
_BATCH = 128  # four times the rate makes too large a step with 512 examples
_DECAY = 1e-8  # of the rate, for each example
_RATE_4_FLAGS = (
    f"--batch-size {_BATCH} --learning-rate {_RATE_4 * _BATCH:g} --decay-rate {_DECAY * _BATCH:g}"
)
ROWS = (
    Row(PAPER, "MLP1, the paper's optimiser", _COMMAND, (284, 268)),
    Row(NO_DIRECT, "the same, no direct connections", _NO_DIRECT_COMMAND),
    Row(RATE_4, "the last, four times the rate", f"{_NO_DIRECT_COMMAND} {_RATE_4_FLAGS}"),
    Row(
        KNESER_NEY,
        "Kneser-Ney, n=5, the text with marks",
        f"ngram --method kneser-ney --order 5 --config brown {_TEXT}",
        (332, 321),
    ),
    Row(
        "marks-deleted-interpolation",
        "deleted interpolation, the paper's bins, the text with marks",
        "ngram --method deleted-interpolation --order 3 --paper-bins --config brown " + _TEXT,
        (352, 336),
    ),
)
# the names of the bars in the picture, and of the curves
BARS = {
    PAPER: "MLP1, the paper's optimiser, marks",
    KNESER_NEY: "Kneser-Ney, n = 5, marks",
}
_CURVES = {
    PAPER: "with direct connections",
    NO_DIRECT: "without direct connections",
    RATE_4: "without, four times the rate",
}
_EPOCHS: list[Column] = [("epoch", "epoch", ""), *((name, name, ".1f") for name in _CURVES)]
CURVES_TABLE = Table(
    "curves", _EPOCHS, "Validation perplexity by epoch, the paper's own optimiser", None
)


def read_curves(made: Sequence[str], directory: Path) -> list[dict]:
    """Return a row for each epoch, with the validation perplexities of the made rows in it."""
    tables = []
    for name in _CURVES:
        if name not in made:
            continue
        history = read_json(directory / "rows" / name / "metrics.json")["history"]
        perplexities = [epoch["validation_perplexity"] for epoch in history]
        tables.append([{"epoch": 1 + place, name: p} for place, p in enumerate(perplexities)])
    return join_curves(*tables)


def join_curves(*tables: Sequence[Mapping[str, Any]]) -> list[dict]:
    """Return the rows of several tables of curves as one: a row for each epoch."""
    curves: dict[int, dict] = {}
    for row in itertools.chain(*tables):
        curves.setdefault(row["epoch"], {}).update(row)
    return [curves[epoch] for epoch in sorted(curves)]


def list_curve(epochs: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """Return the validation perplexities of a row, by epoch; [] if it was not made."""
    return [epoch[name] for epoch in epochs if name in epoch]


def find_best_epoch(curve: Sequence[float]) -> int:
    """Return the first epoch, from 1, with the lowest perplexity."""
    return 1 + curve.index(min(curve))


def draw_curves(axes: "Axes", epochs: Sequence[Mapping[str, float]]) -> None:
    for name, title in _CURVES.items():
        curve = list_curve(epochs, name)
        if curve:
            axes.plot(range(1, len(curve) + 1), curve, marker=".", label=title)
            axes.legend(fontsize=9)
    axes.set(xlabel="epoch", ylabel="validation perplexity")
    axes.set_title("MLP1 with the paper's own optimiser", loc="left", fontsize=10)


def write_caption(report: Mapping[str, Any]) -> str:
    """Return the text below the curves: what they show, the best epoch and its test perplexity."""
    text = (
        "the paper's own optimiser, stochastic gradient descent at the rate 0.001 for each "
        "example, without dropout, on the text with marks between paragraphs, as in the paper."
    )
    row = next((row for row in report["rows"] if row["name"] == PAPER), None)
    curve = list_curve(report["curves"], PAPER)
    if row is None or not curve:
        return text
    _, paper = row["paper"]
    return (
        f"{text} The best of {len(curve)} epochs is epoch {find_best_epoch(curve)}. Its test "
        f"perplexity is {row['test']:.0f}; the paper has {paper}."
    )
