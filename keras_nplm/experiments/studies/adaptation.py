"""Study `adaptation`: a general model that meets a new kind of text: adapt it, mix it, or train again on both texts.

The general text is Brown's informative prose, categories A to J: of ten texts eight for training, one for validation
and one for test. The new text is its romances, category P: 23 texts to learn from and 6 for test. The vocabulary has
the words that occur 4 times or more in the general training text. All other words are `<unk>` in all texts.

The general network uses `brown-nce-quick`. `keras-nplm adapt` fine-tunes it on the new text. Kneser-Ney of order 5 is
estimated from the first 20 of the new texts, and the weights of the mixtures are fitted on the other three. "Trained
again" has the options of the general network and both training texts. Perplexities are per token, with `</s>`. CPU
seconds are those that the new text costs.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import open_corpus
from keras_nplm.data.corpora.text_files import read_lines
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.vocabulary import UNK, UNK_ID, Vocabulary
from keras_nplm.experiments.log_probs import SPLITS, Columns, compute_log_probs, compute_perplexities, measure_mixture
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.studies.resampling import split_texts
from keras_nplm.io.files import read_json, replace_file
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams import kneser_ney

_GENERAL_TEXTS = 374  # ca01 to cj80
_NEW_TEXTS = range(462, 491)  # cp01 to cp29
_LEARNED, _HELD_OUT = 20, 3  # new texts to learn from, and those that also fit the weights of mixtures
_MIN_COUNT, _ORDER = 4, 5
_TEXT, _BOUNDARY = "adaptation", "sentence"
_TRAIN = (
    f"train --config brown-nce-quick --held-out-mass 0 --vocabulary-scope train --min-count 1 --boundary {_BOUNDARY}"
)
_FILES = f"--validation {{texts}}/{_TEXT}/validation.txt --test {{texts}}/{_TEXT}/test.txt --tokenizer whitespace"


def _build_row(name: str, title: str, *texts: str) -> Row:
    files = " ".join(f"{{texts}}/{_TEXT}/{text}.txt" for text in texts)
    return Row(f"adaptation-{name}", title, f"{_TRAIN} --train {files} {_FILES}")


ROWS = (
    _build_row("general", "general network", "train"),
    _build_row("again", "trained again on both texts", "train", "learned", "held_out"),
)


def write_texts(texts: Path, data_dir: str | None) -> None:
    """Write the general and the new texts to `adaptation/NAME.txt`, unless the files exist.

    `train`, `validation` and `test` are general. `learned`, `held_out` and `new_test` are new.
    """
    names = ("train", "validation", "test", "learned", "held_out", "new_test")
    if all((texts / _TEXT / f"{name}.txt").is_file() for name in names):
        return
    corpus = open_corpus("brown/marks", data_dir=data_dir)
    sentences = (sentence for split in ("train", *SPLITS) for sentence in corpus.sentences(split))
    parts = divide_texts(list(split_texts(sentences)))
    known = set(Vocabulary.build(parts["train"], min_count=_MIN_COUNT).words)
    for name in names:
        lines = (" ".join(word if word in known else UNK for word in sentence) for sentence in parts[name])
        with replace_file(texts / _TEXT / f"{name}.txt") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def divide_texts(texts: Sequence[list[list[str]]]) -> dict[str, list[list[str]]]:
    """Return the sentences of each part of the study.

    Args:
        texts: the texts of Brown in order, each a list of sentences.
    """
    parts: dict[str, list[list[str]]] = {name: [] for name in ("train", *SPLITS, "learned", "held_out", "new_test")}
    for number, text in enumerate(texts[:_GENERAL_TEXTS]):
        parts[{8: "validation", 9: "test"}.get(number % 10, "train")] += text
    for number, place in enumerate(_NEW_TEXTS):
        is_learned, is_held_out = number < _LEARNED, number < _LEARNED + _HELD_OUT
        parts["learned" if is_learned else "held_out" if is_held_out else "new_test"] += texts[place]
    return parts


def measure(rows: Path) -> dict:
    """Return the perplexity on the new and the general text, and the CPU seconds, of each way to meet a new text."""
    general, again = (LanguageModel.load(rows / row.name) for row in ROWS)
    lines = {
        name: list(read_lines([rows.parent / "texts" / _TEXT / f"{name}.txt"])) for name in ("learned", "held_out")
    }
    adapted, seconds = _run(lambda: general.adapt(lines["learned"] + lines["held_out"]))
    learned = _encode(rows, "learned", general.vocabulary)
    ngrams, ngram_seconds = _run(lambda: kneser_ney(learned, len(general.vocabulary), _ORDER, _BOUNDARY))
    columns = {
        "general": _compute_columns(rows, general.model, general.vocabulary),
        "adapted": _compute_columns(rows, adapted.model, general.vocabulary),
        "again": _compute_columns(rows, again.model, again.vocabulary),
        "n-grams": _compute_columns(rows, ngrams, general.vocabulary),
    }
    again_seconds = read_json(rows / ROWS[1].name / "metrics.json")["cpu_seconds"]
    ways = (
        ("the general network", ["general"], 0.0),
        ("Kneser-Ney of the new text", ["n-grams"], ngram_seconds),
        ("the general network, mixed with Kneser-Ney", ["general", "n-grams"], ngram_seconds),
        ("adapted (`keras-nplm adapt`)", ["adapted"], seconds),
        ("adapted, mixed with Kneser-Ney", ["adapted", "n-grams"], seconds + ngram_seconds),
        ("trained again on both texts", ["again"], again_seconds),
    )
    tokens = {name: len(columns["general"][name]["test"]) for name in ("new", "old")}
    tokens["learned"] = int((learned >= 0).sum())
    test = _encode(rows, "new_test", general.vocabulary)
    return {
        "tokens": tokens,
        "unknown": float(np.mean(test == UNK_ID)),
        "adaptation": {"rate": adapted.adaptation.rate, "epochs": adapted.adaptation.epochs}
        | {"share": adapted.adaptation.share},
        "rows": [
            {"title": title, "cpu_seconds": cost} | {text: _measure(columns, names, text) for text in ("new", "old")}
            for title, names, cost in ways
        ],
    }


def _run(function: Callable) -> tuple:
    """Return the result of a function and its CPU seconds."""
    began = time.process_time()
    result = function()
    return result, time.process_time() - began


def _encode(rows: Path, name: str, vocabulary: Vocabulary) -> np.ndarray:
    sentences = (line.split() for line in read_lines([rows.parent / "texts" / _TEXT / f"{name}.txt"]))
    return encode_sentences(filter(None, sentences), vocabulary)


def _compute_columns(rows: Path, model: NextWordModel, vocabulary: Vocabulary) -> dict[str, Columns]:
    """Return ln P of the held-out new text with the new test text, and with the general test text."""
    names = ("held_out", "new_test", "test")
    held_out, new, old = (compute_log_probs(model, _encode(rows, name, vocabulary), _BOUNDARY) for name in names)
    return {"new": {"validation": held_out, "test": new}, "old": {"validation": held_out, "test": old}}


def _measure(columns: dict, names: list[str], text: str) -> float:
    """Return the perplexity of a text; weights of mixtures are fitted on the held-out new text."""
    if len(names) == 1:
        return compute_perplexities(columns[names[0]][text])["test"]
    return measure_mixture({name: columns[name][text] for name in names}, names)["test"]


def format_report(report: dict) -> str:
    """Return a table with a row for each way."""
    before = report["rows"][0]
    rows = [
        [
            row["title"],
            f"{row['new']:.1f}",
            f"{row['new'] / before['new'] - 1:+.1%}",
            f"{row['old']:.1f}",
            f"{row['old'] / before['old'] - 1:+.1%}",
            f"{row['cpu_seconds']:.2g}" if 0 < row["cpu_seconds"] < 1 else f"{row['cpu_seconds']:.0f}",
        ]
        for row in report["rows"]
    ]
    chosen = report["adaptation"]
    text = (
        f"{report['tokens']['learned']:,} new tokens to learn from, {report['unknown']:.1%} of the new test text is "
        f"`<unk>`. `adapt` chose the rate {chosen['rate']:.3g}, {chosen['epochs']} epochs, and "
        f"{chosen['share']:.0%} of the change of the weights."
    )
    header = ["model", "new text", "change", "general text", "change", "CPU seconds"]
    return f"{text}\n\n{markdown_table(header, rows)}"
