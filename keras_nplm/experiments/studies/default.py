"""Study `default`: the adaptive default next to Kneser-Ney on texts of different sizes and kinds.

`keras-nplm train` without `--config` chooses its options by the number of tokens and types of the text (see
`keras_nplm.training.adaptive_default`). No row gives an option of the network. "To Kneser-Ney" is the test perplexity
relative to Kneser-Ney of the same tokens: order 5 for words, and for characters the order with the best validation
perplexity. Seconds are those of training and validation together.

The embedded default and Brown are built in. `--texts FILE…` adds text files, split 80/10/10 by lines, or directories
with `train.txt`, `validation.txt` and `test.txt`. `--character-texts FILE…` adds texts whose tokens are characters.
"""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.experiments.log_probs import SPLITS
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import SPLIT_HEADER
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table

_WORD_ORDERS = (5,)
_CHARACTER_ORDERS = (4, 5, 6, 7, 9)  # of the Kneser-Ney models, of which the best on validation counts
_OPTIONS = ("output_layer", "order", "embedding_dim", "hidden_units", "epochs")


@dataclasses.dataclass(frozen=True)
class Text:
    """A text of the study.

    Args:
        name: begins the names of its rows.
        title: its name in the table.
        flags: the flags of `train` and `ngram` that name the text and its tokens.
        orders: orders of the Kneser-Ney models.
    """

    name: str
    title: str
    flags: str
    orders: tuple[int, ...] = _WORD_ORDERS

    @property
    def network(self) -> Row:
        """The row of the adaptive default."""
        return Row(f"default-{self.name}", f"{self.title}, default", f"train {self.flags}")

    @property
    def ngram_models(self) -> list[Row]:
        """The rows of Kneser-Ney."""
        return [
            Row(f"default-{self.name}-{order}", f"{self.title}, n={order}", f"ngram --order {order} {self.flags}")
            for order in self.orders
        ]


TEXTS = (
    Text("python", "Python reference", "--corpus python_reference"),
    Text("brown", "Brown, sentences", "--corpus brown --min-count 4"),
)


def describe_files(texts: Sequence[str], character_texts: Sequence[str] = ()) -> list[Text]:
    """Return the texts of the study that lie in files.

    Args:
        texts: text files, or directories with a file of each split. Tokens are words.
        character_texts: the same. Tokens are characters.

    Raises:
        InputError: a file does not exist, or two texts have the same name.
    """
    described = []
    for files, flags, orders in ((texts, "", _WORD_ORDERS), (character_texts, " --token character", _CHARACTER_ORDERS)):
        for file in map(Path, files):
            name = file.stem + "-characters" * bool(flags)
            title = file.name + ", characters" * bool(flags)
            described.append(Text(name, title, _name_files(file.resolve()) + flags, orders))
    names = [text.name for text in (*TEXTS, *described)]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise InputError(f"Texts must have different names. Received: {min(doubled)} twice. Fix: rename a file.")
    return described


def _name_files(path: Path) -> str:
    """Return the flags that name the files of a text."""
    files = {"train": path}
    if path.is_dir():
        files = {split: path / f"{split}.txt" for split in ("train", *SPLITS)}
    for file in files.values():
        if not file.is_file():
            raise InputError(f"No such text file: {file}. Fix: check the name and the directory.")
    return " ".join(f"--{split} {shlex.quote(str(file))}" for split, file in files.items())


class TextStudy:
    """The study on the built-in texts and on text files; see `Study`.

    Args:
        texts: text files or directories whose tokens are words; see `describe_files`.
        character_texts: the same with characters.
    """

    def __init__(self, texts: Sequence[str] = (), character_texts: Sequence[str] = ()):
        self.texts = (*TEXTS, *describe_files(texts, character_texts))
        self.ROWS = [row for text in self.texts for row in (*text.ngram_models, text.network)]

    def measure(self, rows: Path) -> dict:
        """Return perplexities, seconds and the chosen options of each text."""
        return {"texts": [_report_text(text, rows) for text in self.texts]}

    def format_report(self, report: dict) -> str:
        """Return a table with a line for each text."""
        return format_report(report)


ROWS = TextStudy().ROWS


def measure(rows: Path) -> dict:
    """Return the report on the built-in texts."""
    return TextStudy().measure(rows)


def _report_text(text: Text, rows: Path) -> dict:
    directory = rows / text.network.name
    metrics, config = (read_json(directory / f"{name}.json") for name in ("metrics", "config"))
    ngram_metrics = {
        order: read_json(rows / row.name / "metrics.json")
        for order, row in zip(text.orders, text.ngram_models, strict=True)
    }
    order = min(ngram_metrics, key=lambda order: ngram_metrics[order]["validation"]["perplexity"])
    encoded = EncodedCorpus.load(directory / "corpus")
    return {
        "title": text.title,
        "tokens": encoded.splits["train"]["tokens"],
        "types": encoded.vocabulary_size,
        "kneser_ney_order": order,
        "kneser_ney": {split: ngram_metrics[order][split]["perplexity"] for split in SPLITS},
        "network": {split: metrics[split]["perplexity"] for split in SPLITS},
        "cpu_seconds": metrics["cpu_seconds"],
        "parameters": metrics["parameters"],
        "options": {name: config[name] for name in _OPTIONS},
    }


def format_report(report: dict) -> str:
    """Return a table with a line for each text."""
    rows = []
    for text in report["texts"]:
        network, kneser_ney, options = text["network"], text["kneser_ney"], text["options"]
        chosen = "{output_layer}, n={order}, m={embedding_dim}, h={hidden_units}, {epochs} epochs".format(**options)
        row = [text["title"], f"{text['tokens']:,}", f"{text['types']:,}", str(text["kneser_ney_order"])]
        row += [f"{model[split]:.2f}" for model in (kneser_ney, network) for split in SPLITS]
        row += [f"{network['test'] / kneser_ney['test'] - 1:+.1%}", f"{text['cpu_seconds']:,.0f}", chosen]
        rows.append(row)
    header = ["text", "tokens", "types", "Kneser-Ney: order", *SPLIT_HEADER]
    header += [f"default: {SPLIT_HEADER[0]}", SPLIT_HEADER[1], "to Kneser-Ney", "CPU seconds", "chosen options"]
    return markdown_table(header, rows)
