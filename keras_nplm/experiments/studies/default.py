"""The adaptive default next to Kneser-Ney on texts of different sizes and kinds.

`keras-nplm train` without `--config` chooses its options by the number of tokens and types of the
text. "To Kneser-Ney" is the test perplexity relative to Kneser-Ney on the same tokens, with the
order from 3 to 6 that is best on validation. `--texts FILE …` adds texts of your own, with a
sentence in each line.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.experiments.rows import Row, read_row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table, split_columns
from keras_nplm.io.files import read_json

_TEXTS = {  # name: title, flags
    "python": ("Python reference", "--corpus python_reference"),
    "brown": ("Brown, sentences", "--corpus brown --min-count 4"),
}
_ORDERS = range(3, 7)  # of Kneser-Ney
_CHOSEN = "{network}, {objective}, n={order}, m={embedding_dim}, h={hidden_units}, {epochs} epochs"
COLUMNS = [
    ("text", "title", ""),
    ("tokens", "tokens", ","),
    ("types", "types", ","),
    *split_columns("kneser_ney.", "Kneser-Ney: ", ".2f"),
    *split_columns("network.", "default: ", ".2f"),
    (
        "to Kneser-Ney",
        lambda text: text["network"]["test"] / text["kneser_ney"]["test"] - 1,
        "+.1%",
    ),
    ("CPU seconds", "network.cpu_seconds", ",.0f"),
    ("chosen options", lambda text: _CHOSEN.format(**text["options"]), ""),
]


def declare_study(files: Sequence[str] = ()) -> Study:
    """Return the study of the package's texts and of files, with a sentence in each line."""
    given = {
        file.replace("/", "-"): (Path(file).stem, f"--train {shlex.quote(file)}") for file in files
    }
    rows = {  # the default, Kneser-Ney
        Row(f"default-{name}", title, f"train {flags}"): [
            Row(f"default-{name}-{order}", title, f"ngram --order {order} {flags}")
            for order in _ORDERS
        ]
        for name, (title, flags) in (_TEXTS | given).items()
    }

    def measure(directory: Path) -> dict:
        texts = []
        for network, ngrams in rows.items():
            model = directory / "rows" / network.name
            encoded = EncodedCorpus.load(model / "corpus")
            options = read_json(model / "config.json")
            best = min(
                (read_row(row, directory) for row in ngrams), key=lambda row: row["validation"]
            )
            text = {"title": network.title, "tokens": encoded.splits["train"]["tokens"]}
            text |= {"types": encoded.vocabulary_size, "options": options, "kneser_ney": best}
            texts.append(text | {"network": read_row(network, directory)})
        return {"texts": texts}

    listed = [row for network, ngrams in rows.items() for row in (network, *ngrams)]
    return Study(__doc__, [Table("texts", COLUMNS)], listed, measure)


STUDY = declare_study()
