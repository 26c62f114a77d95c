"""What each part of the modern networks contributes on Brown, one change at a time.

Each row changes one thing of `brown-nce-quick` with averages of far context (3 epochs, rate 1.8;
Sun & Iyyer 2021). A change that diverges at this rate has a lower one. Figures are means over two
or three seeds, with the range in brackets. `held_out_mass` is 0.04 unless the row says otherwise.
"""

from pathlib import Path

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
_SEEDS = {
    name: (title, f"brown-nce-quick {flags}".strip(), 2)
    for name, (title, flags) in _CHANGES.items()
} | _BEST
NETWORKS = {  # the rows of each line of the first table, one for each seed
    name: [
        Row(f"{name}-{seed}", title, f"train --config {flags} --seed {seed}")
        for seed in range(1, seeds + 1)
    ]
    for name, (title, flags, seeds) in _SEEDS.items()
}
ROWS = [row for rows in NETWORKS.values() for row in rows]


def _format_mean(figures: list[float]) -> str:
    return f"{np.mean(figures):.1f}" + (
        f" ({max(figures) - min(figures):.1f})" if len(figures) > 1 else ""
    )


_MEANS: list[Column] = [(split, split, _format_mean) for split in SPLITS]
_CHANGE = [("network", "title", ""), *_MEANS, ("validation, change", "change", "+.1f")]
_SECONDS = [
    ("CPU seconds: training", lambda row: np.mean(row["training_cpu_seconds"]), ",.0f"),
    ("with validation", lambda row: np.mean(row["cpu_seconds"]), ",.0f"),
    ("million parameters", lambda row: row["parameters"] / 1e6, ".1f"),
]
TABLES = (
    Table(
        "changes",
        [*_CHANGE, *_SECONDS],
        on_page=lambda row: row["name"] in ("far", "far-none", *_BEST),
    ),
)


def _measure(directory: Path) -> dict:
    changes = []
    for name, rows in NETWORKS.items():
        seeds = [read_row(row, directory) for row in rows]
        figures = {
            key: [row[key] for row in seeds]
            for key in (*SPLITS, "training_cpu_seconds", "cpu_seconds")
        }
        changes.append(
            {"name": name}
            | {key: seeds[0][key] for key in ("title", "command", "parameters")}
            | figures
        )
        changes[-1]["change"] = float(
            np.mean(figures["validation"]) - np.mean(changes[0]["validation"])
        )
    return {"changes": changes}


STUDY = Study(__doc__, TABLES, ROWS, _measure)
