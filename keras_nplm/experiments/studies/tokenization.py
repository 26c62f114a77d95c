"""Study `tokenization`: words, subwords and characters in four languages: bits per character, seconds and file sizes.

The texts are Brown with the paper's split, and three translations of The Debian Administrator's Handbook (Raphaël
Hertzog and Roland Mas, GPL-2+ or CC BY-SA 3.0), one paragraph a line, split 8:1:1: `apt install debian-handbook`, or
`--pages DIR`. Networks have the default configuration, on Brown two epochs; those of characters 200 hidden units and 4
epochs, on Brown one. Bits per character are of the test text, with line ends and the spelling of `<unk>`. Words lose
the spacing of the text. Kneser-Ney has the order of the best validation perplexity on the same tokens. `xz -9` is the
difference of two compressed sizes: train and test, minus train. MB are of the LiteRT file, in 32 and in 8 bits.
"""

import functools
import html
import lzma
import re
import tempfile
import time
from pathlib import Path

from keras_nplm.data.corpora import SPLITS, open_corpus
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import evaluate, evaluate_split
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.serving import export_litert

SOURCE = "/usr/share/doc/debian-handbook/html"  # where the Debian package has its pages
TEXTS = {  # name: title, directory of the pages
    "brown": ("Brown", ""),
    "german": ("German", "de-DE"),
    "russian": ("Russian", "ru-RU"),
    "chinese": ("Chinese", "zh-CN"),
}
# a paragraph begins or ends (slash, tag); other tags; text
_SCRIPT = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_PART = re.compile(r"<(/?)(div|p|li|h[1-4]|dt|dd|pre)(?=[\s/>])[^>]*>|<[/!?a-zA-Z][^>]*>|([^<]+|<)", re.IGNORECASE)
TOKENIZERS = {  # title: flags, orders of the Kneser-Ney models
    "words": ("--tokenizer words", (2, 3, 4, 5, 6)),
    "2,000 subwords": ("--tokenizer sentencepiece --pieces 2000", (2, 3, 4, 5, 6)),
    "8,000 subwords": ("--tokenizer sentencepiece --pieces 8000", (2, 3, 4, 5, 6)),
    "16,000 subwords": ("--tokenizer sentencepiece --pieces 16000", (2, 3, 4, 5, 6)),
    "characters": ("--token character", (4, 6, 8, 10)),
}
_FIGURES = ("perplexity", "bits_per_character", "perplexity_per_word", "tokens", "unk_tokens", "characters")
COLUMNS = [
    ("text", "text", ""),
    ("tokens", "title", ""),
    ("types", "types", ","),
    ("`<unk>`", lambda model: model["test"]["unk_tokens"] / model["test"]["tokens"], ".1%"),
    ("perplexity", "test.perplexity", ".2f"),
    ("Kneser-Ney (order)", lambda model: "{perplexity:.2f} ({order})".format(**model["kneser_ney"]), ""),
    ("change", lambda model: model["test"]["perplexity"] / model["kneser_ney"]["perplexity"] - 1, "+.1%"),
    ("bits per character", "test.bits_per_character", ".3f"),
    ("Kneser-Ney", "kneser_ney.bits_per_character", ".3f"),
    ("`xz -9`", "xz", ".3f"),
    ("CPU seconds", "cpu_seconds", ".0f"),
    ("LiteRT MB", lambda model: model["bytes"] / 1e6, ".2f"),
    ("8 bits", lambda model: model["bytes_8_bits"] / 1e6, ".2f"),
]


def _build_row(text: str, tokenizer: str) -> Row:
    files = " ".join(f"--{split} {{texts}}/tokenization/{text}.{split}.txt" for split in SPLITS)
    words = ["train", "--corpus brown" if text == "brown" else files, TOKENIZERS[tokenizer][0]]
    if tokenizer == "characters":
        words.append(f"--hidden-units 200 --epochs {1 if text == 'brown' else 4}")
    elif text == "brown":
        words.append("--epochs 2")
    name = tokenizer.removesuffix(" subwords").replace(",", "")
    return Row(f"{text}-{name}", f"{TEXTS[text][0]}, {tokenizer}", " ".join(words))


def _is_usual(model: dict) -> bool:
    return model["title"] in ("words", "8,000 subwords", "characters")


def build_study(pages: str = SOURCE) -> Study:
    """Return the study with the pages of the handbook in a directory."""
    rows = [_build_row(text, tokenizer) for text in reversed(TEXTS) for tokenizer in TOKENIZERS]
    return Study(
        __doc__,
        [Table("models", COLUMNS, on_page=_is_usual)],
        rows,
        _measure,
        functools.partial(write_texts, source=pages),
    )


def write_texts(texts: Path, data_dir: str | None, source: str = SOURCE) -> None:
    """Write the texts to `tokenization/TEXT.SPLIT.txt`, unless the files exist; `source` has the pages.

    Raises:
        InputError: a directory of pages does not exist.
    """
    for text, (_, pages) in TEXTS.items():
        paths = [texts / "tokenization" / f"{text}.{split}.txt" for split in SPLITS]
        if all(path.is_file() for path in paths):
            continue
        if text == "brown":
            corpus = open_corpus("brown", data_dir=data_dir)
            parts = [[" ".join(sentence) for sentence in corpus.sentences(split)] for split in SPLITS]
        else:
            lines = read_paragraphs(Path(source) / pages)
            first, second = round(len(lines) * 0.8), round(len(lines) * 0.9)
            parts = [lines[:first], lines[first:second], lines[second:]]
        for path, part in zip(paths, parts, strict=True):
            with replace_file(path) as temporary:
                temporary.write_text("".join(f"{line}\n" for line in part), encoding="utf-8")


def read_paragraphs(directory: Path) -> list[str]:
    """Read the paragraphs, titles and list items of HTML pages in the order of their names, each different one once."""
    paths = sorted(directory.glob("*.html"))
    if not paths:
        raise InputError(
            f"{directory} must hold the HTML pages of the handbook. Received: none. Fix: `apt install "
            "debian-handbook`, or name the directory of its translations with `--pages`."
        )
    paragraphs: dict[str, None] = {}
    for path in paths:
        text, is_text = "", False
        page = _SCRIPT.sub(lambda script: "<pre>" if script[1] else "", path.read_text(encoding="utf-8"))
        for slash, block, part in _PART.findall(f"{page}<p>"):
            if not block or (slash and block.lower() == "pre"):
                text += html.unescape(part) if is_text else ""
                continue
            paragraph = " ".join(text.split())
            if len(paragraph) > 1:  # a single character is none
                paragraphs[paragraph] = None
            text, is_text = "", block.lower() != "pre" and not slash
    return list(paragraphs)


def _measure(directory: Path) -> dict:
    """Return the figures of each text and each tokenizer. Figures of a model are kept beside it for the next call."""
    models = []
    for text, (language, _) in TEXTS.items():
        train, test = (directory / "texts" / "tokenization" / f"{text}.{split}.txt" for split in ("train", "test"))
        figures = {"xz": measure_xz(train, test)}  # in the first row of a text
        for tokenizer, (_, orders) in TOKENIZERS.items():
            model = directory / "rows" / _build_row(text, tokenizer).name
            record = model / "tokenization.json"
            if not record.is_file():
                write_json(record, measure_model(model, orders))
            models.append({"text": language, "title": tokenizer} | read_json(record) | figures)
            figures = {}
    return {"models": models}


def measure_model(directory: Path, orders: tuple[int, ...]) -> dict:
    """Return the figures of a trained network, of its exported files and of Kneser-Ney on the same tokens."""
    language_model, metrics = LanguageModel.load(directory), read_json(directory / "metrics.json")
    corpus, boundary = language_model.corpus, language_model.boundary
    size = len(language_model.vocabulary)
    figures = {"types": size, "cpu_seconds": metrics["cpu_seconds"]}
    figures |= {split: {name: metrics[split][name] for name in _FIGURES} for split in ("validation", "test")}
    measured = []
    for order in orders:
        began = time.process_time()
        model = kneser_ney(corpus.ids("train"), size, order, boundary)
        seconds = time.process_time() - began
        measured.append((evaluate(model, corpus.ids("validation"))["perplexity"], order, seconds, model))
        measured = [min(measured, key=lambda one: one[0])]  # large models are freed
    ((_, order, seconds, model),) = measured
    of_test = evaluate_split(model, corpus, "test", boundary, language_model.spelling)
    figures["kneser_ney"] = {"order": order, "cpu_seconds": seconds} | {name: of_test[name] for name in _FIGURES}
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


STUDY = build_study()
