"""Named configurations on Brown: perplexity, CPU seconds and n-grams per second.

Brown with the paper's split (800,001, 200,021 and 161,170 tokens) and vocabulary: types that occur
three times or fewer in the whole corpus become `<unk>`, which leaves 17,905. Options were chosen on
validation. Seconds include validation. `held_out_mass` uses that each type of the vocabulary
occurs. Compare other models with the rows without it.
"""

from keras_nplm.experiments.paper import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Column, Table, format_code, format_seconds, split_columns

_SOFTMAX = "train --config brown-nce-quick --held-out-mass 0 --self-normalisation 0"
ROWS = (
    find_row("kneser-ney-5"),
    Row("brown", "full softmax", "train --config brown"),
    Row("brown-nce", "NCE", "train --config brown-nce"),
    Row("brown-nce-no-held-out", "NCE", "train --config brown-nce --held-out-mass 0"),
    Row("brown-nce-quick", "NCE, three epochs", "train --config brown-nce-quick"),
    Row(
        "brown-nce-quick-no-held-out",
        "NCE, three epochs",
        "train --config brown-nce-quick --held-out-mass 0",
    ),
    Row("brown-sampled-quick", "sampled softmax, three epochs", f"{_SOFTMAX} --objective sampled"),
    Row(
        "brown-adaptive-quick",
        "adaptive softmax, three epochs",
        f"{_SOFTMAX} --head adaptive --objective likelihood",
    ),
    Row("modern-small-1", "modern, small", "train --config modern-small --seed 1"),
    Row("modern-1", "modern", "train --config modern --seed 1"),
)
COLUMNS: list[Column] = [
    ("model", "title", ""),
    *split_columns(),
    *split_columns("without_unk.", "without `<unk>`: "),
    ("CPU seconds", "cpu_seconds", format_seconds),
    ("n-grams/s in training", "ngrams_per_second", ","),
    ("mean abs(log Z)", "log_z", ".3f"),
    ("command", "command", format_code),
]
STUDY = Study(__doc__, [Table("models", COLUMNS)], ROWS)
