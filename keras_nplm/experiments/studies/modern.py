"""What each part of the modern networks contributes on Brown, one change at a time, and what the best come to."""

import dataclasses
from pathlib import Path

import numpy as np

from keras_nplm.experiments.paper import mixture_of, row_named, scores_of
from keras_nplm.experiments.rows import Row
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table

_SPLITS = ("validation", "test")
_COUNTS = ("kneser-ney-5", "trigram", "class-500-3")


@dataclasses.dataclass(frozen=True)
class Change:
    """A configuration and what is changed of it: a line of the table.

    Args:
        name: of its rows, a seed each.
        title: how the table calls it.
        config: the named configuration.
        options: flags of `keras-nplm train` over it.
        seeds: how many.
    """

    name: str
    title: str
    config: str
    options: str = ""
    seeds: int = 2

    @property
    def rows(self) -> list[Row]:
        """A row for each seed."""
        command = f"train --config {self.config} {self.options}".strip()
        return [Row(f"{self.name}-{seed}", self.title, f"{command} --seed {seed}") for seed in range(1, self.seeds + 1)]


_CONTEXT = "--order 61 --averages-after 4,10,20,40"


def _change(name: str, title: str, options: str = "", context: str = _CONTEXT) -> Change:
    return Change(f"far-{name}" if name else "far", title, "brown-nce-quick", f"{context} {options}".strip())


CHANGES = (
    _change("", "n=61, averages after 4, 10, 20, 40; m=60, h=100, tanh, no dropout"),
    _change("none", "no far context: n=5", context=""),
    _change("one", "one average, of words 5 to 60", context="--order 61 --averages-after 4"),
    _change("21", "a nearer one: n=21, averages after 4, 10", context="--order 21 --averages-after 4,10"),
    _change("wide", "wider: m=100, h=200", "--embedding-dim 100 --hidden-units 200"),
    _change("residual", "a residual block, rate 1.2", "--residual-blocks 1 --learning-rate 1.2"),
    _change("norm", "layer normalisation, rate 1.2", "--layer-norm --learning-rate 1.2"),
    _change("gelu", "GELU, rate 1.2", "--activation gelu --learning-rate 1.2"),
    _change("slow", "rate 1.2 alone", "--learning-rate 1.2"),
    _change(
        "all", "the two and GELU, rate 1.2", "--residual-blocks 1 --layer-norm --activation gelu --learning-rate 1.2"
    ),
    _change("tied", "output tied to C, rate 0.5", "--tied-output --learning-rate 0.5"),
    _change("dropout", "dropout 0.2 on hidden units", "--dropout 0.2"),
    _change("vectors", "dropout 0.1 on x", "--embedding-dropout 0.1"),
    _change("words", "dropout 0.1 on words", "--word-dropout 0.1"),
    _change("average", "averaged weights, momentum 0.998", "--weight-average 0.998"),
)
BEST = (
    Change("modern-small", "`modern-small`", "modern-small", seeds=3),
    Change("modern-small-held-out", "`modern-small`, no held-out mass", "modern-small", "--held-out-mass 0", seeds=1),
    Change("modern", "`modern`", "modern", seeds=3),
)
ROWS = (*(row for change in (*CHANGES, *BEST) for row in change.rows), *map(row_named, _COUNTS))


def run(rows: Path) -> dict:
    """Perplexities of each change, a figure a seed, with CPU seconds and sizes; and of mixtures of the best."""
    report = {"changes": [_figures(change, rows) for change in (*CHANGES, *BEST)]}
    scores = {row.name: scores_of(rows.parent, row.name) for change in BEST for row in change.rows}
    scores |= {name: scores_of(rows.parent, name) for name in _COUNTS}
    report["mixtures"] = []
    for change in BEST:
        names = [row.name for row in change.rows]
        singles = [mixture_of(scores, [name, *_COUNTS]) for name in names]
        report["mixtures"].append(_several(f"{change.title} + {' + '.join(_COUNTS)}", singles))
        if change.seeds > 1:
            title = f"{change.title}: {change.seeds} seeds"
            several = mixture_of(scores, names), mixture_of(scores, [*names, *_COUNTS])
            report["mixtures"] += [
                _several(title, several[:1]),
                _several(f"{title} + {' + '.join(_COUNTS)}", several[1:]),
            ]
    report["kneser_ney"] = {split: float(np.exp(-scores["kneser-ney-5"][split].mean())) for split in _SPLITS}
    return report


def _figures(change: Change, rows: Path) -> dict:
    metrics = [read_json(rows / row.name / "metrics.json") for row in change.rows]
    figures = {
        "name": change.name,
        "title": change.title,
        "command": f"keras-nplm {' '.join(change.rows[0].arguments)}",
    }
    figures |= {split: [one[split]["perplexity"] for one in metrics] for split in _SPLITS}
    figures |= {name: [one[name] for one in metrics] for name in ("training_cpu_seconds", "cpu_seconds")}
    return figures | {"parameters": metrics[0]["parameters"]}


def _several(title: str, mixtures: list[dict]) -> dict:
    figures = {split: [mixture[split] for mixture in mixtures] for split in _SPLITS}
    return {"title": title, "weights": [mixture["weights"] for mixture in mixtures]} | figures


def table(report: dict) -> str:
    """The changes, each with its mean over the seeds and their spread, greatest less least; then the mixtures."""
    base = np.mean(report["changes"][0]["validation"])
    rows = [
        [
            change["title"],
            *(_spread(change[split]) for split in _SPLITS),
            f"{np.mean(change['validation']) - base:+.1f}",
            f"{np.mean(change['training_cpu_seconds']):,.0f}",
            f"{np.mean(change['cpu_seconds']):,.0f}",
            f"{change['parameters'] / 1e6:.1f}",
        ]
        for change in report["changes"]
    ]
    header = ["network", "validation", "test", "validation, change", "CPU seconds: training", "with validation"]
    networks = markdown_table([*header, "million parameters"], rows)
    ratio = report["kneser_ney"]["test"]
    mixtures = [
        [
            mixture["title"],
            *(_spread(mixture[split]) for split in _SPLITS),
            f"{np.mean(mixture['test']) / ratio:.3f}",
            ", ".join(f"{weight:.2f}" for weight in np.mean(mixture["weights"], axis=0)),
        ]
        for mixture in report["mixtures"]
    ]
    header = ["mixture, weights fitted on validation", "validation", "test", "test, of Kneser-Ney's", "weights"]
    return f"{networks}\n\n{markdown_table(header, mixtures)}"


def _spread(figures: list[float]) -> str:
    """The mean, and how far the seeds lie apart."""
    return f"{np.mean(figures):.1f}" + (f" ({max(figures) - min(figures):.1f})" if len(figures) > 1 else "")
