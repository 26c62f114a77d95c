"""Words, subwords and characters on Brown: bits per character and seconds.

Brown has the paper's split, and is read as sentences. Networks have the default configuration, of
subwords and characters one epoch. Kneser-Ney has the same tokens, and the order 6, of characters 8.
Figures are of the test text. Bits per character include line ends and the
spelling of `<unk>`. Words lose the spacing of the text. Compressors (`xz -9`; PPMd of order 6, if
pyppmd is installed) have read the training text: the bits are those that the test text adds.
"""

import functools
import importlib.util
import lzma
from collections.abc import Callable
from pathlib import Path

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Column, Table
from keras_nplm.io.files import read_json

_SUBWORDS = "--tokenizer sentencepiece --pieces"
TOKENIZERS = {  # title: name, flags, flags of the network, order of Kneser-Ney
    "words": ("words", "--tokenizer words", "", 6),
    "2,000 subwords": ("2000", f"{_SUBWORDS} 2000", "--epochs 1", 6),
    "8,000 subwords": ("8000", f"{_SUBWORDS} 8000", "--epochs 1", 6),
    "characters": ("characters", "--token character", "--epochs 1", 8),
}
ROWS = {  # title: the network, Kneser-Ney
    title: (
        Row(f"brown-{name}", f"Brown, {title}", f"train --corpus brown {flags} {network}"),
        Row(
            f"brown-{name}-{n}",
            f"Brown, {title}, Kneser-Ney",
            f"ngram --corpus brown {flags} --order {n}",
        ),
    )
    for title, (name, flags, network, n) in TOKENIZERS.items()
}
COLUMNS: list[Column] = [
    ("tokens", "title", ""),
    ("types", "types", ","),
    ("`<unk>`", "unk_share", ".1%"),
    ("perplexity per word", "test.perplexity_per_word", ".1f"),
    ("Kneser-Ney", "kneser_ney.perplexity_per_word", ".1f"),
    ("bits per character", "test.bits_per_character", ".3f"),
    ("Kneser-Ney", "kneser_ney.bits_per_character", ".3f"),
    ("CPU seconds", "cpu_seconds", ".0f"),
]


def _measure(directory: Path) -> dict:
    models = []
    for title, (network, ngram) in ROWS.items():
        model = directory / "rows" / network.name
        metrics = read_json(model / "metrics.json")
        models.append(
            {
                "title": title,
                "types": EncodedCorpus.load(model / "corpus").vocabulary_size,
                "kneser_ney": read_json(directory / "rows" / ngram.name / "metrics.json")["test"],
                "cpu_seconds": metrics["cpu_seconds"],
                "test": metrics["test"],
                "unk_share": _compute_unknown_share(metrics),
            }
        )
    characters = directory / "rows" / ROWS["characters"][0].name
    encoded = EncodedCorpus.load(characters / "corpus")
    vocabulary = Vocabulary.load(characters / "vocabulary.txt")
    return {"models": models + measure_compressors(encoded, vocabulary)}


def _compute_unknown_share(metrics: dict) -> float:
    return metrics["test"]["unk_tokens"] / metrics["test"]["tokens"]


def measure_compressors(corpus: EncodedCorpus, vocabulary: Vocabulary) -> list[dict]:
    """Return a row for each compressor, from a corpus of characters."""
    train = _read_text(corpus, vocabulary, "train")
    test = _read_text(corpus, vocabulary, "test")
    compressors: dict[str, Callable[[bytes], bytes]] = {
        "`xz -9`": functools.partial(lzma.compress, preset=9)
    }
    if importlib.util.find_spec("pyppmd"):
        import pyppmd

        compressors["PPMd"] = functools.partial(pyppmd.compress, max_order=6, mem_size=1 << 28)
    rows = []
    for name, compress in compressors.items():
        added = len(compress((train + test).encode())) - len(compress(train.encode()))
        rows.append({"title": name, "test": {"bits_per_character": 8 * added / len(test)}})
    return rows


def _read_text(corpus: EncodedCorpus, vocabulary: Vocabulary, split: str) -> str:
    """Decode a split of characters."""
    characters = vocabulary.decode(corpus.ids(split))
    return CharacterTokenizer().join(characters).replace(EOS, "\n")


_TOKENIZER_ROWS = [row for pair in ROWS.values() for row in pair]
STUDY = Study(
    __doc__,
    [Table("models", COLUMNS)],
    _TOKENIZER_ROWS,
    measure=_measure,
)
