"""What each part of the modern networks contributes on Brown, one change at a time.

Each row changes one thing of `brown-nce-quick` with averages of far context (3 epochs, rate 1.8;
Sun & Iyyer 2021). A change that diverges at this rate has a lower one. Figures are means over two
or three seeds, with the range in brackets. `held_out_mass` is 0.04 unless the row says otherwise.
"""

from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.experiments.rows import Row, read_row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import SPLITS, Column, Table

_AVERAGED = "--context averaged --averages-after"
_FAR = f"--order 61 {_AVERAGED} 4,10,20,40"
_SLOW = "--learning-rate 1.2"
_TANH = "--hidden deep --activation tanh"  # of which each row changes one thing
_CHANGES = {  # name: title, flags that change `brown-nce-quick`
    "far": ("n=61, averages after 4, 10, 20, 40; m=60, h=100, tanh, no dropout", _FAR),
    "far-none": ("no far context: n=5", ""),
    "far-one": ("one average, of words 5 to 60", f"--order 61 {_AVERAGED} 4"),
    "far-21": ("a nearer one: n=21, averages after 4, 10", f"--order 21 {_AVERAGED} 4,10"),
    "far-wide": ("wider: m=100, h=200", f"{_FAR} --embedding-dim 100 --hidden-units 200"),
    "far-residual": ("a residual block, rate 1.2", f"{_FAR} {_TANH} --no-layer-norm {_SLOW}"),
    "far-norm": ("layer normalisation, rate 1.2", f"{_FAR} {_TANH} --residual-blocks 0 {_SLOW}"),
    "far-gelu": (
        "GELU, rate 1.2",
        f"{_FAR} --hidden deep --residual-blocks 0 --no-layer-norm {_SLOW}",
    ),
    "far-slow": ("rate 1.2 alone", f"{_FAR} {_SLOW}"),
    "far-all": ("the two and GELU, rate 1.2", f"{_FAR} --hidden deep {_SLOW}"),
    "far-tied": ("output tied to C, rate 0.5", f"{_FAR} --tied-output --learning-rate 0.5"),
    "far-dropout": ("dropout 0.2 on hidden units", f"{_FAR} --dropout 0.2"),
    "far-vectors": ("dropout 0.1 on x", f"{_FAR} --embedding-dropout 0.1"),
    "far-words": ("dropout 0.1 on words", f"{_FAR} --word-dropout 0.1"),
    "far-average": ("averaged weights, momentum 0.998", f"{_FAR} --weight-average 0.998"),
}
_BEST = {  # name: title, options, number of seeds
    "modern-small": ("`modern-small`", "modern-small", 3),
    "modern-small-held-out": (
        "`modern-small`, no held-out mass",
        "modern-small --held-out-mass 0",
        1,
    ),
    "modern": ("`modern`", "modern", 3),
}


def _declare_seeds(name: str, title: str, flags: str, seeds: int) -> list[Row]:
    return [
        Row(f"{name}-{seed}", title, f"train --config {flags} --seed {seed}")
        for seed in range(1, seeds + 1)
    ]


# the rows of each line of the table, one for each seed
NETWORKS = {
    name: _declare_seeds(name, title, f"brown-nce-quick {flags}".strip(), 2)
    for name, (title, flags) in _CHANGES.items()
}
for _name, (_title, _flags, _seeds) in _BEST.items():
    NETWORKS[_name] = _declare_seeds(_name, _title, _flags, _seeds)
ROWS = [row for rows in NETWORKS.values() for row in rows]


def _format_mean(figures: list[float]) -> str:
    mean = f"{np.mean(figures):.1f}"
    if len(figures) == 1:
        return mean
    return f"{mean} ({max(figures) - min(figures):.1f})"


def _format_mean_seconds(figures: list[float]) -> str:
    return f"{np.mean(figures):,.0f}"


def _count_millions(row: dict) -> float:
    return row["parameters"] / 1e6


def _is_on_page(row: dict) -> bool:
    return row["name"] in ("far", "far-none", *_BEST)


COLUMNS: list[Column] = [
    ("network", "title", ""),
    *((split, split, _format_mean) for split in SPLITS),
    ("validation, change", "change", "+.1f"),
    ("CPU seconds: training", "training_cpu_seconds", _format_mean_seconds),
    ("with validation", "cpu_seconds", _format_mean_seconds),
    ("million parameters", _count_millions, ".1f"),
]
TABLES = (Table("changes", COLUMNS, on_page=_is_on_page),)


def _measure(directory: Path) -> dict:
    changes: list[dict] = []
    for name, rows in NETWORKS.items():
        seeds = [read_row(row, directory) for row in rows]
        line: dict[str, Any] = {"name": name}
        for key in ("title", "command", "parameters"):
            line[key] = seeds[0][key]
        for key in (*SPLITS, "training_cpu_seconds", "cpu_seconds"):
            line[key] = [row[key] for row in seeds]
        changes.append(line)
        first = np.mean(changes[0]["validation"])
        line["change"] = float(np.mean(line["validation"]) - first)
    return {"changes": changes}


STUDY = Study(__doc__, TABLES, ROWS, _measure)
