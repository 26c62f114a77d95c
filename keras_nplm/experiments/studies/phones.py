"""Study `phones`: subword models in 8 bits, below 1 MB and 2 MB: bits per character next to the full-size models.

The smaller model is trained on the embedded default corpus with 2,000 subwords, the larger one on Brown with 4,000 and
the configuration `phone`, for two epochs only. `keras-nplm export --quantise` writes the files, which read the first
40,000 subwords of the test text. The full-size models have 8,000 subwords and the default configuration, on Brown for
two epochs, too. A phone also needs the SentencePiece model of the subwords.
"""

import math
from pathlib import Path

import numpy as np

from keras_nplm.data.shards import encode_text
from keras_nplm.data.tokenizers import join_tokens
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.studies.quantisation import measure_files
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel

_TOKENS = 40_000  # of each test text
_PIECES = "--tokenizer sentencepiece --pieces"
_PAIRS = (
    (
        Row("python-2000", "Python reference, 2,000 subwords", f"train --corpus python_reference {_PIECES} 2000"),
        Row("python-8000", "Python reference, 8,000 subwords", f"train --corpus python_reference {_PIECES} 8000"),
    ),
    (
        Row("brown-phone", "Brown, 4,000 subwords", f"train --corpus brown --config phone {_PIECES} 4000 --epochs 2"),
        Row("brown-8000", "Brown, 8,000 subwords", f"train --corpus brown {_PIECES} 8000 --epochs 2"),
    ),
)
ROWS = tuple(row for pair in _PAIRS for row in pair)


def measure(rows: Path) -> dict:
    """Return the figures of the files of each small model, and of the full-size model of the same text."""
    report = []
    for small, full in _PAIRS:
        language_model, larger = (LanguageModel.load(rows / row.name) for row in (small, full))
        lines = read_lines(language_model)
        figures = {"command": f"keras-nplm {small.command}"} | measure_model(small.title, language_model, lines)
        figures["full_size"] = {"title": full.title, "parameters": larger.model.count_params()}
        figures["full_size"]["bits_per_character"] = larger.evaluate(lines)["bits_per_character"]
        report.append(figures)
    return {"models": report}


def read_lines(language_model: LanguageModel) -> list[str]:
    """Read the first lines of the test split of a model of subwords, about 40,000 subwords."""
    ids = language_model.corpus.ids("test")
    ends = np.flatnonzero(ids == EOS_ID)
    sentences = np.split(ids, ends + 1)[: max(1, int((ends < _TOKENS).sum()))]
    decode, tokenizer = language_model.vocabulary.decode, language_model.tokenizer_name
    return [join_tokens(decode(sentence[:-1]), tokenizer) for sentence in sentences]


def measure_model(title: str, language_model: LanguageModel, lines: list[str]) -> dict:
    """Return the figures of the exported files of a network on a text.

    Args:
        title: name of the model and its text.
        language_model: a language model of subwords with an NPLM.
        lines: the text.
    """
    ids = np.concatenate([*encode_text(lines, language_model.vocabulary, language_model.tokenizer_name)])
    figures = measure_files(title, language_model, ids, len(ids))
    own = language_model.evaluate(lines)
    figures["parameters"] = language_model.model.count_params()
    subwords = language_model.vocabulary.subwords
    figures["subwords_bytes"] = len(subwords.model) if subwords else 0
    for of in (figures, *figures["files"]):
        of["bits_per_character"] = math.log2(of["perplexity"]) * own["tokens"] / own["characters"]
    return figures


def format_report(report: dict) -> str:
    """Return a table with a row for each file and each full-size model."""
    header = ["model and text", "parameters", "file", "MB", "bits per character", "change", "perplexity per subword"]
    rows = []
    for model in report["models"]:
        whole, full = model["bits_per_character"], model["full_size"]
        cells = [
            model["title"],
            f"{model['parameters']:,}",
            "Keras",
            "",
            f"{whole:.4f}",
            "",
            f"{model['perplexity']:.2f}",
        ]
        rows.append(cells)
        for file in model["files"]:
            bits = file["bits_per_character"]
            cells = ["", "", file["format"], f"{file['bytes'] / 1e6:.2f}", f"{bits:.4f}", f"{bits / whole - 1:+.2%}"]
            rows.append([*cells, f"{file['perplexity']:.2f}"])
        rows.append(["", "", "SentencePiece model", f"{model['subwords_bytes'] / 1e6:.2f}", "", "", ""])
        bits = full["bits_per_character"]
        cells = [f"full size: {full['title']}", f"{full['parameters']:,}", "Keras", "", f"{bits:.4f}"]
        rows.append([*cells, f"{bits / whole - 1:+.2%}", ""])
    return markdown_table(header, rows)
