"""Words, subwords and characters on Brown: bits per character and seconds.

Brown has the paper's split, and is read as sentences. Networks have the default configuration, of
subwords and characters one epoch. Kneser-Ney has the same tokens, and the order with the best
validation perplexity. Figures are of the test text. Bits per character include line ends and the
spelling of `<unk>`. Words lose the spacing of the text. Compressors (`xz -9`; PPMd of order 6, if
pyppmd is installed) have read the training text: the bits are those that the test text adds.
Layouts of one text: the first 200,000 characters; Kneser-Ney is the model inside the network.
"""

import importlib.util
import itertools
import lzma
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.data.corpora.opening import open_corpus
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table
from keras_nplm.io.files import read_json
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.spelling import load_spelling
from keras_nplm.models.text_figures import evaluate_split

_SUBWORDS = "--tokenizer sentencepiece --pieces"
TOKENIZERS = {  # title: name, flags, flags of the network, order of Kneser-Ney
    "words": ("words", "--tokenizer words", "", 6),
    **{f"{n:,} subwords": (f"{n}", f"{_SUBWORDS} {n}", "--epochs 1", 6) for n in (2000, 8000)},
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
# title: number of lines; None: those of Brown
LAYOUTS = {"one line": 1, "five lines": 5, "short lines": None}
_LAYOUT_CHARACTERS = {"train": 200_000, "validation": 20_000, "test": 20_000}
_LAYOUT_FILE = "texts/{layout}-{split}.txt"


def _declare_layout(layout: str) -> Row:
    name = layout.replace(" ", "-")
    files = {split: _LAYOUT_FILE.format(layout=name, split=split) for split in SPLITS}
    options = " ".join(f"--{split} {{study}}/{file}" for split, file in files.items())
    return Row(
        f"layout-{name}", f"characters on {layout}", f"train --token character --epochs 1 {options}"
    )


LAYOUT_ROWS = [_declare_layout(layout) for layout in LAYOUTS]
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
        metrics = read_json(model / "metrics.json")
        types = EncodedCorpus.load(model / "corpus").vocabulary_size
        figures = {name: metrics[name] for name in ("cpu_seconds", "test")}
        figures["unk_share"] = metrics["test"]["unk_tokens"] / metrics["test"]["tokens"]
        kneser_ney = read_json(ngrams / "metrics.json")["test"]
        models.append({"title": title, "types": types, "kneser_ney": kneser_ney} | figures)
    models += [_measure_layout(row, directory / "rows" / row.name) for row in LAYOUT_ROWS]
    letters = directory / "rows" / ROWS["characters"][0].name
    text = EncodedCorpus.load(letters / "corpus"), Vocabulary.load(letters / "vocabulary.txt")
    return {"models": models + measure_compressors(*text)}


def write_layouts(directory: Path, data_dir: str | None) -> None:
    """Write the first characters of each split of Brown, in each layout, to `texts/`."""
    corpus = open_corpus("brown", data_dir=data_dir)
    for split, characters in _LAYOUT_CHARACTERS.items():
        lines = itertools.takewhile(_Budget(characters), corpus.splits[split].lines())
        sentences = [line.strip() for line in lines if line.strip()]
        for layout, number in LAYOUTS.items():
            path = directory / _LAYOUT_FILE.format(layout=layout.replace(" ", "-"), split=split)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(join_lines(sentences, number)) + "\n", encoding="utf-8")


def join_lines(lines: Sequence[str], number: int | None) -> list[str]:
    """Join lines with spaces to fewer lines, of about equal numbers of the given ones; None: return
    them.
    """
    if number is None:
        return list(lines)
    starts = [len(lines) * k // number for k in range(number + 1)]
    return [" ".join(lines[start:stop]) for start, stop in itertools.pairwise(starts)]


class _Budget:
    """A condition that holds for lines until they have a number of characters."""

    def __init__(self, characters: int):
        self.left = characters

    def __call__(self, line: str) -> bool:
        self.left -= len(line) + 1
        return self.left >= 0


def _measure_layout(row: Row, model: Path) -> dict:
    """Return the figures of a hybrid, and of the Kneser-Ney model inside it."""
    metrics = read_json(model / "metrics.json")
    language_model = LanguageModel.load(model)
    encoded = language_model.corpus
    alone = evaluate_split(
        language_model.model.background, encoded, "test", None, load_spelling(model), evaluate
    )
    figures = {name: metrics[name] for name in ("cpu_seconds", "test", "best_epoch")}
    figures["unk_share"] = metrics["test"]["unk_tokens"] / metrics["test"]["tokens"]
    return {"title": row.title, "types": encoded.vocabulary_size, "kneser_ney": alone} | figures


def measure_compressors(corpus: EncodedCorpus, vocabulary: Vocabulary) -> list[dict]:
    """Return a row for each compressor, from a corpus of characters."""
    decoded = (
        CharacterTokenizer().join(vocabulary.decode(corpus.ids(split)))
        for split in ("train", "test")
    )
    train, test = (text.replace(EOS, "\n") for text in decoded)
    compressors = {"`xz -9`": lambda text: lzma.compress(text, preset=9)}
    if importlib.util.find_spec("pyppmd"):
        import pyppmd

        compressors["PPMd"] = lambda text: pyppmd.compress(text, max_order=6, mem_size=1 << 28)
    sizes = {
        name: [len(pack(text.encode())) for text in (train + test, train)]
        for name, pack in compressors.items()
    }
    bits = {name: 8 * (both - seen) / len(test) for name, (both, seen) in sizes.items()}
    return [{"title": name, "test": {"bits_per_character": value}} for name, value in bits.items()]


_ALL_ROWS = [*(row for pair in ROWS.values() for row in pair), *LAYOUT_ROWS]
STUDY = Study(__doc__, [Table("models", COLUMNS)], _ALL_ROWS, _measure, write_layouts)
