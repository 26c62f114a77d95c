"""The adaptive default next to Kneser-Ney on texts of different sizes.

`keras-nplm train` without `--config` chooses its options by the number of tokens and types of the text. "To Kneser-Ney"
is the test perplexity relative to Kneser-Ney of order 5 on the same tokens.
"""

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
ROWS = {  # the network, Kneser-Ney
    Row(f"default-{name}", title, f"train {flags}"): Row(f"default-{name}-5", title, f"ngram --order 5 {flags}")
    for name, (title, flags) in _TEXTS.items()
}
_CHOSEN = "{output_layer}, n={order}, m={embedding_dim}, h={hidden_units}, {epochs} epochs"
COLUMNS = [
    ("text", "title", ""),
    ("tokens", "tokens", ","),
    ("types", "types", ","),
    *split_columns("kneser_ney.", "Kneser-Ney: ", ".2f"),
    *split_columns("network.", "default: ", ".2f"),
    ("to Kneser-Ney", lambda text: text["network"]["test"] / text["kneser_ney"]["test"] - 1, "+.1%"),
    ("CPU seconds", "network.cpu_seconds", ",.0f"),
    ("chosen options", lambda text: _CHOSEN.format(**text["options"]), ""),
]


def _measure(directory: Path) -> dict:
    texts = []
    for network, ngram in ROWS.items():
        model = directory / "rows" / network.name
        encoded, options = EncodedCorpus.load(model / "corpus"), read_json(model / "config.json")
        text = {"title": network.title, "tokens": encoded.splits["train"]["tokens"], "types": encoded.vocabulary_size}
        rows = {"network": read_row(network, directory), "kneser_ney": read_row(ngram, directory)}
        texts.append(text | rows | {"options": options})
    return {"texts": texts}


STUDY = Study(__doc__, [Table("texts", COLUMNS)], [row for pair in ROWS.items() for row in pair], _measure)
