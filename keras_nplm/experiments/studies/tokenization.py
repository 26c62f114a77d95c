"""Words, subwords and characters on Brown: bits per character and seconds.

Brown has the paper's split, and is read as sentences. Networks have the default configuration, of subwords and
characters one epoch. Kneser-Ney has the same tokens, and the order with the best validation perplexity. Figures are of
the test text. Bits per character include line ends and the spelling of `<unk>`. Words lose the spacing of the text.
Compressors (`xz -9`; PPMd of order 6, if pyppmd is installed) have read the training text: the bits are those that the
test text adds.
"""

import importlib.util
import lzma
from pathlib import Path

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.special_ids import EOS
from keras_nplm.data.tokenizers import CHARACTERS, join_tokens
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table
from keras_nplm.io.files import read_json

_SUBWORDS = "--tokenizer sentencepiece --pieces"
TOKENIZERS = {  # title: name, flags, flags of the network, order of Kneser-Ney
    "words": ("words", "--tokenizer words", "", 6),
    **{f"{n:,} subwords": (f"{n}", f"{_SUBWORDS} {n}", "--epochs 1", 6) for n in (2000, 8000)},
    "characters": ("characters", "--token character", "--epochs 1", 8),
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
        model, ngrams = (directory / "rows" / row.name for row in (network, ngram))
        metrics, types = read_json(model / "metrics.json"), EncodedCorpus.load(model / "corpus").vocabulary_size
        figures = {name: metrics[name] for name in ("cpu_seconds", "test")}
        figures["unk_share"] = metrics["test"]["unk_tokens"] / metrics["test"]["tokens"]
        kneser_ney = read_json(ngrams / "metrics.json")["test"]
        models.append({"title": title, "types": types, "kneser_ney": kneser_ney} | figures)
    letters = directory / "rows" / ROWS["characters"][0].name
    text = EncodedCorpus.load(letters / "corpus"), Vocabulary.load(letters / "vocabulary.txt")
    return {"models": models + measure_compressors(*text)}


def measure_compressors(corpus: EncodedCorpus, vocabulary: Vocabulary) -> list[dict]:
    """Return a row for each compressor, from a corpus of characters."""
    decoded = (join_tokens(vocabulary.decode(corpus.ids(split)), CHARACTERS) for split in ("train", "test"))
    train, test = (text.replace(EOS, "\n") for text in decoded)
    compressors = {"`xz -9`": lambda text: lzma.compress(text, preset=9)}
    if importlib.util.find_spec("pyppmd"):
        import pyppmd

        compressors["PPMd"] = lambda text: pyppmd.compress(text, max_order=6, mem_size=1 << 28)
    sizes = {name: [len(pack(text.encode())) for text in (train + test, train)] for name, pack in compressors.items()}
    bits = {name: 8 * (both - seen) / len(test) for name, (both, seen) in sizes.items()}
    return [{"title": name, "test": {"bits_per_character": value}} for name, value in bits.items()]


STUDY = Study(__doc__, [Table("models", COLUMNS)], [row for pair in ROWS.values() for row in pair], _measure)
