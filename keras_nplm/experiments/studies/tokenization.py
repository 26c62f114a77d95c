"""Study `tokenization`: words, subwords and characters in four languages: bits per character, seconds and file sizes.

The texts are Brown, its tokens joined by spaces, with the paper's split, and three translations of The Debian
Administrator's Handbook (Raphaël Hertzog and Roland Mas, GPL-2+ or CC BY-SA 3.0). `apt install debian-handbook` brings
its HTML pages; `--pages DIR` names their directory. Each different paragraph of the text is one line, without listings.
The lines are split 8:1:1 in the order of the pages.

Each network is trained with the default configuration, which fits the size of the text, but on Brown for two epochs.
Networks of characters have 200 hidden units and 4 epochs, on Brown one. Bits per character are of the test text, with
line ends and with the spelling of `<unk>`; see `keras_nplm.models.evaluation`. Words lose the spacing of the text,
which characters and subwords predict. Kneser-Ney has the order of the best validation perplexity on the same tokens.
`xz -9` is the difference of two compressed sizes: train and test together, minus train. MB are those of the LiteRT
file, with 32-bit and 8-bit weights.
"""

import dataclasses
import html.parser
import lzma
import os
import re
import tempfile
import time
from pathlib import Path

from keras_nplm.data.corpora import SPLITS, open_corpus
from keras_nplm.experiments.rows import Row
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import evaluate, evaluate_split
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.serving import export_litert

SOURCE = "/usr/share/doc/debian-handbook/html"  # where the Debian package has its pages
_TEXTS = {"brown": "Brown", "german": "German", "russian": "Russian", "chinese": "Chinese"}
_PAGES = {"german": "de-DE", "russian": "ru-RU", "chinese": "zh-CN"}
_TOKENIZERS = {
    "words": "--tokenizer words",
    "2000": "--tokenizer sentencepiece --pieces 2000",
    "8000": "--tokenizer sentencepiece --pieces 8000",
    "16000": "--tokenizer sentencepiece --pieces 16000",
    "characters": "--token character",
}
_TITLES = {name: f"{int(name):,} subwords" if name.isdecimal() else name for name in _TOKENIZERS}
_ORDERS = dict.fromkeys(_TOKENIZERS, (2, 3, 4, 5, 6)) | {"characters": (4, 6, 8, 10)}
_FRACTIONS = (0.8, 0.9)  # of the lines, where validation and test begin


def _build_row(text: str, tokenizer: str) -> Row:
    files = " ".join(f"--{split} {{texts}}/tokenization/{text}.{split}.txt" for split in SPLITS)
    source = "--corpus brown" if text == "brown" else files
    flags = [_TOKENIZERS[tokenizer]]
    if tokenizer == "characters":
        flags.append(f"--hidden-units 200 --epochs {1 if text == 'brown' else 4}")
    elif text == "brown":
        flags.append("--epochs 2")
    return Row(f"{text}-{tokenizer}", f"{_TEXTS[text]}, {_TITLES[tokenizer]}", " ".join(["train", source, *flags]))


ROWS = tuple(_build_row(text, tokenizer) for text in reversed(_TEXTS) for tokenizer in _TOKENIZERS)


def write_texts(texts: Path, data_dir: str | None, source: str = SOURCE) -> None:
    """Write the texts to `tokenization/TEXT.SPLIT.txt`, unless the files exist.

    Args:
        texts: the directory of texts.
        data_dir: directory of Brown's archive.
        source: directory of the HTML pages of the handbook, with `de-DE`, `ru-RU` and `zh-CN`.

    Raises:
        InputError: a directory of pages does not exist.
    """
    for text in _TEXTS:
        paths = {split: texts / "tokenization" / f"{text}.{split}.txt" for split in SPLITS}
        if all(path.is_file() for path in paths.values()):
            continue
        if text == "brown":
            corpus = open_corpus("brown", data_dir=data_dir)
            lines = {split: [" ".join(sentence) for sentence in corpus.sentences(split)] for split in SPLITS}
        else:
            paragraphs = read_paragraphs(Path(source) / _PAGES[text])
            first, second = (round(len(paragraphs) * fraction) for fraction in _FRACTIONS)
            parts = (paragraphs[:first], paragraphs[first:second], paragraphs[second:])
            lines = dict(zip(SPLITS, parts, strict=True))
        for split, path in paths.items():
            with replace_file(path) as temporary:
                temporary.write_text("".join(f"{line}\n" for line in lines[split]), encoding="utf-8")


def read_paragraphs(directory: str | os.PathLike) -> list[str]:
    """Read the paragraphs of HTML pages in the order of their names, each different one once.

    Raises:
        InputError: the directory has no pages.
    """
    paths = sorted(Path(directory).glob("*.html"))
    if not paths:
        raise InputError(
            f"{directory} must hold the HTML pages of the handbook. Received: none. Fix: `apt install "
            "debian-handbook`, or name the directory of its translations with `--pages`."
        )
    paragraphs: dict[str, None] = {}
    for path in paths:
        page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
        page.end()
        paragraphs.update(dict.fromkeys(page.paragraphs))
    return list(paragraphs)


class _Page(html.parser.HTMLParser):
    """Collects the paragraphs, titles and list items of a page, without listings."""

    _BLOCKS = ("div", "p", "li", "h1", "h2", "h3", "h4", "dt", "dd")

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self._parts: list[str] = []
        self._is_text = False

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag in (*self._BLOCKS, "pre", "script", "style"):
            self.end()
            self._is_text = tag in self._BLOCKS

    def handle_endtag(self, tag: str) -> None:
        if tag in self._BLOCKS:
            self.end()
            self._is_text = False

    def handle_data(self, data: str) -> None:
        if self._is_text:
            self._parts.append(data)

    def end(self) -> None:
        """End the paragraph; a single character is none."""
        paragraph = re.sub(r"\s+", " ", "".join(self._parts)).strip()
        self._parts.clear()
        if len(paragraph) > 1:
            self.paragraphs.append(paragraph)


def measure(rows: Path) -> dict:
    """Return the figures of each text and each tokenizer. Figures of a model are kept beside it for the next call."""
    texts = []
    for text, title in _TEXTS.items():
        models = []
        for tokenizer in _TOKENIZERS:
            directory = rows / _build_row(text, tokenizer).name
            record = directory / "tokenization.json"
            if not record.is_file():
                write_json(record, measure_model(directory, _ORDERS[tokenizer]))
            models.append({"title": _TITLES[tokenizer], **read_json(record)})
        files = [rows.parent / "texts" / "tokenization" / f"{text}.{split}.txt" for split in ("train", "test")]
        texts.append({"title": title, "xz": measure_xz(*files), "models": models})
    return {"texts": texts}


def measure_model(directory: Path, orders: tuple[int, ...]) -> dict:
    """Return the figures of a trained network, of its exported files and of Kneser-Ney on the same tokens."""
    language_model, metrics = LanguageModel.load(directory), read_json(directory / "metrics.json")
    corpus, boundary = language_model.corpus, language_model.boundary
    size = len(language_model.vocabulary)
    names = ("perplexity", "bits_per_character", "perplexity_per_word", "tokens", "unk_tokens", "characters")
    figures = {"types": size, "cpu_seconds": metrics["cpu_seconds"]}
    figures |= {split: {name: metrics[split][name] for name in names} for split in ("validation", "test")}
    best = None
    for order in orders:
        began = time.process_time()
        model = kneser_ney(corpus.ids("train"), size, order, boundary)
        seconds = time.process_time() - began
        perplexity = evaluate(model, corpus.ids("validation"))["perplexity"]
        if best is None or perplexity < best[0]:
            best = perplexity, order, seconds, model
    _, order, seconds, model = best
    of_test = evaluate_split(model, corpus, "test", boundary, language_model.spelling)
    figures["kneser_ney"] = {"order": order, "cpu_seconds": seconds} | {name: of_test[name] for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        for name, quantise in (("bytes", False), ("bytes_8_bits", True)):
            path, *_ = export_litert(language_model, Path(temporary) / f"{name}.tflite", quantise=quantise)
            figures[name] = path.stat().st_size
    return figures


def measure_xz(train: Path, test: Path) -> float:
    """Return the bits per character of the test text, given the training text, by `xz -9`."""
    first, second = train.read_bytes(), test.read_bytes()
    size = len(lzma.compress(first + second, preset=9)) - len(lzma.compress(first, preset=9))
    return 8 * size / len(second.decode("utf-8"))


def format_report(report: dict) -> str:
    """Return a table with a row for each text and tokenizer."""
    header = ["text", "tokens", "types", "`<unk>`", "perplexity", "Kneser-Ney (order)", "change", "bits per character"]
    header += ["Kneser-Ney", "`xz -9`", "CPU seconds", "LiteRT MB", "8 bits"]
    rows = []
    for text in report["texts"]:
        for number, model in enumerate(text["models"]):
            test, ngrams = model["test"], model["kneser_ney"]
            rows.append(
                [
                    text["title"] if not number else "",
                    model["title"],
                    f"{model['types']:,}",
                    f"{test['unk_tokens'] / test['tokens']:.1%}",
                    f"{test['perplexity']:.2f}",
                    f"{ngrams['perplexity']:.2f} ({ngrams['order']})",
                    f"{test['perplexity'] / ngrams['perplexity'] - 1:+.1%}",
                    f"{test['bits_per_character']:.3f}",
                    f"{ngrams['bits_per_character']:.3f}",
                    f"{text['xz']:.3f}" if not number else "",
                    f"{model['cpu_seconds']:.0f}",
                    f"{model['bytes'] / 1e6:.2f}",
                    f"{model['bytes_8_bits'] / 1e6:.2f}",
                ]
            )
    return markdown_table(header, rows)


@dataclasses.dataclass(frozen=True)
class HandbookStudy:
    """The study with the pages of the handbook in a directory of the user; see `Study`.

    Args:
        source: the directory; see `write_texts`.
    """

    source: str

    ROWS = ROWS
    measure = staticmethod(measure)
    format_report = staticmethod(format_report)

    def write_texts(self, texts: Path, data_dir: str | None) -> None:
        """Write the texts of the rows."""
        write_texts(texts, data_dir, self.source)
