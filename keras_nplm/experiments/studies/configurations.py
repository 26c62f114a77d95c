"""Named configurations on Brown: perplexity, CPU seconds and n-grams per second.

Brown with the paper's split (800,001, 200,021 and 161,170 tokens) and vocabulary: types that occur
three times or fewer in the whole corpus become `<unk>`, which leaves 17,905. Options were chosen on
validation. Seconds include validation. `held_out_mass` uses that each type of the vocabulary
occurs: compare other models with the rows without it. Of seeds: the mean (least to greatest).
"""

from pathlib import Path

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
    Row("brown", "full softmax", "train --config brown"),
    Row("brown-nce", "NCE", "train --config brown-nce"),
    _NCE,
    _MODERN,
)
SEEDS = (
    add_seeds(_NCE, 3),
    modern.find_network("modern-small"),
    modern.find_network("modern"),
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
