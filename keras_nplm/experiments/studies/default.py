"""The adaptive default next to Kneser-Ney on texts of different sizes and kinds.

`keras-nplm train` without `--config` chooses its options by the number of tokens and types of the
text. "To Kneser-Ney" is the test perplexity relative to Kneser-Ney on the same tokens, with the
order from 3 to 6 that is best on validation. `--texts FILE …` adds texts of your own, with a
sentence in each line. `python -m keras_nplm.experiments.studies.texts` makes nine such texts from
public corpora. The ninth, the German reference, is not in the table: training on it diverged at the
measured commit. Later code mends that.
"""

import shlex
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.experiments.rows import Row, read_row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Column, Table, split_columns
from keras_nplm.io.files import read_json

_TEXTS = {  # name: title, flags
    "python": ("Python reference", "--corpus python_reference"),
    "brown": ("Brown, sentences", "--corpus brown --min-count 4"),
}
_ORDERS = range(3, 7)  # of Kneser-Ney
_CHOSEN = "{network}, {objective}, n={order}, m={embedding_dim}, h={hidden_units}, {epochs} epochs"


def _compare_with_kneser_ney(text: dict) -> float:
    return text["network"]["test"] / text["kneser_ney"]["test"] - 1


def _format_options(text: dict) -> str:
    return _CHOSEN.format(**text["options"])


COLUMNS: list[Column] = [
    ("text", "title", ""),
    ("tokens", "tokens", ","),
    ("types", "types", ","),
    *split_columns("kneser_ney.", "Kneser-Ney: ", ".2f"),
    *split_columns("network.", "default: ", ".2f"),
    ("to Kneser-Ney", _compare_with_kneser_ney, "+.1%"),
    ("CPU seconds", "network.cpu_seconds", ",.0f"),
    ("chosen options", _format_options, ""),
]


def declare_study(files: Sequence[str] = ()) -> Study:
    """Return the study of the package's texts and of files, with a sentence in each line."""
    texts = dict(_TEXTS)
    for file in files:
        texts[file.replace("/", "-")] = (Path(file).stem, f"--train {shlex.quote(file)}")
    pairs = [_declare_text(name, title, flags) for name, (title, flags) in texts.items()]

    def measure(directory: Path) -> dict:
        return {"texts": [_measure_text(*pair, directory) for pair in pairs]}

    rows = [row for network, ngrams in pairs for row in (network, *ngrams)]
    return Study(__doc__, [Table("texts", COLUMNS)], rows, measure=measure)


def _declare_text(name: str, title: str, flags: str) -> tuple[Row, list[Row]]:
    """Return the default network of a text, and the Kneser-Ney models of all orders."""
    network = Row(f"default-{name}", title, f"train {flags}")
    ngrams = [
        Row(f"default-{name}-{order}", title, f"ngram --order {order} {flags}") for order in _ORDERS
    ]
    return network, ngrams


def _measure_text(network: Row, ngrams: list[Row], directory: Path) -> dict:
    """Return the figures of the network, and of the Kneser-Ney model that validates best."""
    model = directory / "rows" / network.name
    encoded = EncodedCorpus.load(model / "corpus")
    kneser_ney = [read_row(row, directory) for row in ngrams]
    return {
        "title": network.title,
        "tokens": encoded.splits["train"]["tokens"],
        "types": encoded.vocabulary_size,
        "options": read_json(model / "config.json"),
        "kneser_ney": min(kneser_ney, key=itemgetter("validation")),
        "network": read_row(network, directory),
    }


STUDY = declare_study()
