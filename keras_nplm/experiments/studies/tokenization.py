"""Words, subwords and characters on Brown: bits per character and seconds.

Brown has the paper's split, and is read as sentences. Networks have the default configuration, of
subwords and characters one epoch. Kneser-Ney has the same tokens, and the order with the best
validation perplexity. Figures are of the test text. Bits per character include line ends and the
spelling of `<unk>`. Words lose the spacing of the text. Compressors (`xz -9`; PPMd of order 6, if
pyppmd is installed) have read the training text: the bits are those that the test text adds.
Layouts of one text: the first 200,000 characters; Kneser-Ney is the model inside the network.
"""

import functools
import importlib.util
import itertools
import lzma
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from keras_nplm.data.corpora.opening import open_corpus
from keras_nplm.data.corpora.text_files import LineSplit
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Column, Table
from keras_nplm.io.files import read_json
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.spelling import load_spelling
from keras_nplm.models.text_figures import evaluate_split

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
    models += [_measure_layout(row, directory / "rows" / row.name) for row in LAYOUT_ROWS]
    characters = directory / "rows" / ROWS["characters"][0].name
    encoded = EncodedCorpus.load(characters / "corpus")
    vocabulary = Vocabulary.load(characters / "vocabulary.txt")
    return {"models": models + measure_compressors(encoded, vocabulary)}


def _compute_unknown_share(metrics: dict) -> float:
    return metrics["test"]["unk_tokens"] / metrics["test"]["tokens"]


def write_layouts(directory: Path, data_dir: str | None) -> None:
    """Write the first characters of each split of Brown, in each layout, to `texts/`."""
    corpus = open_corpus("brown", data_dir=data_dir)
    for split, characters in _LAYOUT_CHARACTERS.items():
        text = corpus.splits[split]
        assert isinstance(text, LineSplit)  # as the splits of every built-in corpus
        lines = _take_characters(text.lines(), characters)
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


def _take_characters(lines: Iterable[str], characters: int) -> Iterator[str]:
    """Yield the first lines, which have at most a number of characters with their line ends."""
    for line in lines:
        characters -= len(line) + 1
        if characters < 0:
            return
        yield line


def _measure_layout(row: Row, model: Path) -> dict:
    """Return the figures of a hybrid, and of the Kneser-Ney model inside it."""
    metrics = read_json(model / "metrics.json")
    encoded = EncodedCorpus.load(model / "corpus")
    hybrid = LanguageModel.load(model).model
    assert isinstance(hybrid, Hybrid)  # the default of characters
    kneser_ney = evaluate_split(hybrid.background, encoded, "test", None, load_spelling(model))
    return {
        "title": row.title,
        "types": encoded.vocabulary_size,
        "kneser_ney": kneser_ney,
        "cpu_seconds": metrics["cpu_seconds"],
        "test": metrics["test"],
        "best_epoch": metrics["best_epoch"],
        "unk_share": _compute_unknown_share(metrics),
    }


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
    [*_TOKENIZER_ROWS, *LAYOUT_ROWS],
    _measure,
    write_layouts,
)
