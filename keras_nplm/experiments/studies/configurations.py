"""Named configurations on Brown: perplexity, CPU seconds and n-grams per second.

Brown with the paper's split (800,001, 200,021 and 161,170 tokens) and vocabulary: types that occur
three times or fewer in the whole corpus become `<unk>`, which leaves 17,905. Options were chosen on
validation. Seconds include validation. `held_out_mass` uses that each type of the vocabulary
occurs: compare other models with the rows without it. Of seeds: the mean (least to greatest).
"""

import dataclasses
from pathlib import Path

from keras_nplm.experiments.paper import find_row
from keras_nplm.experiments.rows import Row, read_row
from keras_nplm.experiments.seeds import add_seeds, list_rows, read_made
from keras_nplm.experiments.studies import modern
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import (
    Column,
    Table,
    format_code,
    format_mean,
    format_seconds,
    split_columns,
)

_WITHOUT = "no `held_out_mass`"
_NCE = Row(
    "brown-nce-no-held-out", f"NCE, {_WITHOUT}", "train --config brown-nce --held-out-mass 0"
)
_MODERN = modern.find_network("modern-small-held-out").rows[0]
ROWS = (
    dataclasses.replace(find_row("brown-no-held-out"), title=f"full softmax, {_WITHOUT}"),
    _NCE,
    _MODERN,
    Row("brown-nce", "NCE", "train --config brown-nce"),
    dataclasses.replace(modern.find_network("modern").rows[0], title="`modern`"),
)
SEEDS = (
    add_seeds(_NCE, 3),
    modern.find_network("modern-small"),
)
COLUMNS: list[Column] = [
    ("model", "title", ""),
    *split_columns(form=format_mean),
    ("CPU seconds", "cpu_seconds", format_seconds),
    ("n-grams/s in training", "ngrams_per_second", ","),
    ("mean abs(log Z)", "log_z", ".3f"),
    ("command", "command", format_code),
]


def _measure(directory: Path) -> dict:
    models = [read_row(row, directory) for row in ROWS]
    return {"models": models, "seeds": read_made(SEEDS, directory)}


STUDY = Study(
    __doc__, [Table("models", COLUMNS, more=["seeds"])], list_rows(ROWS, SEEDS), measure=_measure
)
