"""Study `tokenization`: words, subwords and characters on Brown: bits per character, seconds and file sizes.

Brown has the paper's split, and is read as sentences. Networks have the default configuration and two epochs; that of
characters has 200 hidden units and one epoch. Kneser-Ney has the same tokens, and the order with the best validation
perplexity. Figures are of the test text. Bits per character include line ends and the spelling of `<unk>`. Words lose
the spacing of the text. MB are of the LiteRT file, in 32 and in 8 bits.
"""

import tempfile
from pathlib import Path

from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table
from keras_nplm.io.files import read_json
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.serving import export_litert

TOKENIZERS = {  # title: name, flags, flags of the network, order of Kneser-Ney
    "words": ("words", "--tokenizer words", "--epochs 2", 6),
    "2,000 subwords": ("2000", "--tokenizer sentencepiece --pieces 2000", "--epochs 2", 6),
    "8,000 subwords": ("8000", "--tokenizer sentencepiece --pieces 8000", "--epochs 2", 6),
    "16,000 subwords": ("16000", "--tokenizer sentencepiece --pieces 16000", "--epochs 2", 6),
    "characters": ("characters", "--token character", "--hidden-units 200 --epochs 1", 8),
}
ROWS = {  # title: the network, Kneser-Ney
    title: (
        Row(f"brown-{name}", f"Brown, {title}", f"train --corpus brown {flags} {network}"),
        Row(f"brown-{name}-{n}", f"Brown, {title}, Kneser-Ney", f"ngram --corpus brown {flags} --order {n}"),
    )
    for title, (name, flags, network, n) in TOKENIZERS.items()
}
COLUMNS = [
    ("tokens", "title", ""),
    ("types", "types", ","),
    ("`<unk>`", lambda model: model["test"]["unk_tokens"] / model["test"]["tokens"], ".1%"),
    ("perplexity per word", "test.perplexity_per_word", ".1f"),
    ("Kneser-Ney", "kneser_ney.perplexity_per_word", ".1f"),
    ("bits per character", "test.bits_per_character", ".3f"),
    ("Kneser-Ney", "kneser_ney.bits_per_character", ".3f"),
    ("CPU seconds", "cpu_seconds", ".0f"),
    ("LiteRT MB", lambda model: model["bytes"] / 1e6, ".2f"),
    ("8 bits", lambda model: model["bytes_8_bits"] / 1e6, ".2f"),
]


def _measure(directory: Path) -> dict:
    models = []
    for title, (network, ngram) in ROWS.items():
        model, ngrams = (directory / "rows" / row.name for row in (network, ngram))
        metrics, language_model = read_json(model / "metrics.json"), LanguageModel.load(model)
        figures = {"title": title, "types": len(language_model.vocabulary), "cpu_seconds": metrics["cpu_seconds"]}
        figures |= {split: metrics[split] for split in ("validation", "test")}
        figures["kneser_ney"] = read_json(ngrams / "metrics.json")["test"] | {"order": TOKENIZERS[title][3]}
        with tempfile.TemporaryDirectory() as temporary:
            for name, quantise in (("bytes", False), ("bytes_8_bits", True)):
                path, *_ = export_litert(language_model, Path(temporary) / f"{name}.tflite", quantise=quantise)
                figures[name] = path.stat().st_size
        models.append(figures)
    return {"models": models}


STUDY = Study(__doc__, [Table("models", COLUMNS)], [row for pair in ROWS.values() for row in pair], _measure)
