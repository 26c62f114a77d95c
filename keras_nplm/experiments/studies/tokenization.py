"""Words, subwords and characters on Brown: bits per character and seconds.

Brown has the paper's split, and is read as sentences. Networks have the default configuration and two epochs; that of
characters has 200 hidden units and one epoch. Kneser-Ney has the same tokens, and the order with the best validation
perplexity. Figures are of the test text. Bits per character include line ends and the spelling of `<unk>`. Words lose
the spacing of the text.
"""

from pathlib import Path

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table
from keras_nplm.io.files import read_json

_SUBWORDS = "--tokenizer sentencepiece --pieces"
TOKENIZERS = {  # title: name, flags, flags of the network, order of Kneser-Ney
    "words": ("words", "--tokenizer words", "--epochs 2", 6),
    **{f"{n:,} subwords": (f"{n}", f"{_SUBWORDS} {n}", "--epochs 2", 6) for n in (2000, 8000, 16_000)},
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
]


def _measure(directory: Path) -> dict:
    models = []
    for title, (network, ngram) in ROWS.items():
        model, ngrams = (directory / "rows" / row.name for row in (network, ngram))
        metrics, types = read_json(model / "metrics.json"), EncodedCorpus.load(model / "corpus").vocabulary_size
        figures = {name: metrics[name] for name in ("cpu_seconds", "test")}
        kneser_ney = read_json(ngrams / "metrics.json")["test"]
        models.append({"title": title, "types": types, "kneser_ney": kneser_ney} | figures)
    return {"models": models}


STUDY = Study(__doc__, [Table("models", COLUMNS)], [row for pair in ROWS.values() for row in pair], _measure)
