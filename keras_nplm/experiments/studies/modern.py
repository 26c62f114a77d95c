"""What each part of the modern networks contributes on Brown, one change at a time.

Each row changes one thing of `brown-nce-quick` with averages of far context (3 epochs, rate 1.8;
Sun & Iyyer 2021). A change that diverges at this rate has a lower one. Figures are means over two
or three seeds, in brackets from the least to the greatest. `held_out_mass` is 0.04 unless the row
says otherwise.
"""

from pathlib import Path

import numpy as np

from keras_nplm.experiments.seeds import Seeds, declare_seeds
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Column, Table, format_mean, format_seconds, split_columns

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
    "far-all": ("block, normalisation and GELU, rate 1.2", f"{_FAR} --hidden deep {_SLOW}"),
    "far-tied": ("output tied to C, rate 0.5", f"{_FAR} --tied-output --learning-rate 0.5"),
    "far-dropout": ("dropout 0.2 on hidden units", f"{_FAR} --dropout 0.2"),
    "far-vectors": ("dropout 0.1 on x", f"{_FAR} --embedding-dropout 0.1"),
    "far-words": ("dropout 0.1 on words", f"{_FAR} --word-dropout 0.1"),
    "far-average": ("averaged weights, momentum 0.998", f"{_FAR} --weight-average 0.998"),
}
_BEST = {  # name: title, options, number of seeds
    "modern-small": ("`modern-small` (3 seeds)", "modern-small", 3),
    "modern-small-held-out": (
        "`modern-small`, no `held_out_mass`",
        "modern-small --held-out-mass 0",
        1,
    ),
    "modern": ("`modern` (3 seeds)", "modern", 3),
}


# the lines of the table
NETWORKS = [
    declare_seeds(name, title, f"brown-nce-quick {flags}".strip(), 2)
    for name, (title, flags) in _CHANGES.items()
]
for _name, (_title, _flags, _seeds) in _BEST.items():
    NETWORKS.append(declare_seeds(_name, _title, _flags, _seeds))
ROWS = [row for network in NETWORKS for row in network.rows]


def find_network(name: str) -> Seeds:
    return next(network for network in NETWORKS if network.name == name)


def _count_millions(row: dict) -> float:
    return row["parameters"] / 1e6


COLUMNS: list[Column] = [
    ("network", "title", ""),
    *split_columns(form=format_mean),
    ("validation, change", "change", "+.1f"),
    ("CPU seconds: training", "training_cpu_seconds", format_seconds),
    ("with validation", "cpu_seconds", format_seconds),
    ("million parameters", _count_millions, ".1f"),
]
TABLES = (Table("changes", COLUMNS),)


def _measure(directory: Path) -> dict:
    changes = [network.read(directory) for network in NETWORKS]
    first = np.mean(changes[0]["validation"])
    for line in changes:
        line["change"] = float(np.mean(line["validation"]) - first)
    return {"changes": changes}


STUDY = Study(__doc__, TABLES, ROWS, measure=_measure)
