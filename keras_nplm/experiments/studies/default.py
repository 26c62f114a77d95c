"""Study `default`: the adaptive default next to Kneser-Ney on texts of different sizes and kinds.

`keras-nplm train` without `--config` chooses its options by the number of tokens and types of the text. "To Kneser-Ney"
is the test perplexity relative to Kneser-Ney of the same tokens: order 5 for words, and for characters the order with
the best validation perplexity. `--texts FILE…` adds text files, split 80/10/10 by lines, or directories with a file of
each split. `--character-texts FILE…` adds texts whose tokens are characters.
"""

import functools
import shlex
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.experiments.rows import Row, read_row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import SPLITS, Table, split_columns
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json

_TEXTS = {"python": ("Python reference", "--corpus python_reference")}
_TEXTS |= {"brown": ("Brown, sentences", "--corpus brown --min-count 4")}
_CHARACTER_ORDERS = (4, 5, 6, 7, 9)  # of the Kneser-Ney models
_OPTIONS = ("output_layer", "order", "embedding_dim", "hidden_units", "epochs")
_CHOSEN = "{output_layer}, n={order}, m={embedding_dim}, h={hidden_units}, {epochs} epochs"
COLUMNS = [
    ("text", "title", ""),
    ("tokens", "tokens", ","),
    ("types", "types", ","),
    ("Kneser-Ney: order", "kneser_ney_order", ""),
    *split_columns("kneser_ney.", form=".2f"),
    *split_columns("network.", "default: ", form=".2f"),
    ("to Kneser-Ney", lambda text: text["network"]["test"] / text["kneser_ney"]["test"] - 1, "+.1%"),
    ("CPU seconds", "cpu_seconds", ",.0f"),
    ("chosen options", lambda text: _CHOSEN.format(**text["options"]), ""),
]


def build_study(texts: Sequence[str] = (), character_texts: Sequence[str] = ()) -> Study:
    """Return the study on the built-in texts and on files or directories, whose tokens are words or characters.

    Raises:
        InputError: a file does not exist, or two texts have the same name.
    """
    described = [(name, *text, (5,)) for name, text in _TEXTS.items()]
    described += [(path.stem, path.name, _name_files(path), (5,)) for path in map(Path, texts)]
    for path in map(Path, character_texts):
        flags = f"{_name_files(path)} --token character"
        described.append((f"{path.stem}-characters", f"{path.name}, characters", flags, _CHARACTER_ORDERS))
    names = [name for name, *_ in described]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise InputError(f"Texts must have different names. Received: {min(doubled)} twice. Fix: rename a file.")
    networks = {}  # each with the Kneser-Ney models of its text by order
    for name, title, flags, orders in described:
        ngrams = {n: Row(f"default-{name}-{n}", f"{title}, n={n}", f"ngram --order {n} {flags}") for n in orders}
        networks[Row(f"default-{name}", title, f"train {flags}")] = ngrams
    rows = [row for network, ngrams in networks.items() for row in (*ngrams.values(), network)]
    return Study(__doc__, [Table("texts", COLUMNS)], rows, functools.partial(_measure, networks))


def _name_files(path: Path) -> str:
    """Return the flags that name the files of a text."""
    path = path.resolve()
    files = {split: path / f"{split}.txt" for split in ("train", *SPLITS)} if path.is_dir() else {"train": path}
    for file in files.values():
        if not file.is_file():
            raise InputError(f"No such text file: {file}. Fix: check the name and the directory.")
    return " ".join(f"--{split} {shlex.quote(str(file))}" for split, file in files.items())


def _measure(networks: dict[Row, dict[int, Row]], directory: Path) -> dict:
    texts = []
    for network, ngrams in networks.items():
        models = {order: read_row(row, directory) for order, row in ngrams.items()}
        order = min(models, key=lambda order: models[order]["validation"])
        figures, model = read_row(network, directory), directory / "rows" / network.name
        encoded, config = EncodedCorpus.load(model / "corpus"), read_json(model / "config.json")
        text = {"title": network.title, "tokens": encoded.splits["train"]["tokens"], "types": encoded.vocabulary_size}
        text |= {"kneser_ney_order": order, "kneser_ney": {split: models[order][split] for split in SPLITS}}
        text |= {"network": {split: figures[split] for split in SPLITS}}
        text |= {name: figures[name] for name in ("cpu_seconds", "parameters")}
        texts.append(text | {"options": {name: config[name] for name in _OPTIONS}})
    return {"texts": texts}


STUDY = build_study()
