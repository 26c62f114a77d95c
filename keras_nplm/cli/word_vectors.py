"""`keras-nplm nearest`, `analogy` and `map`: nearest neighbours, analogies and a t-SNE map of word vectors."""

import argparse
from pathlib import Path

import numpy as np

from keras_nplm.cli.flags import AddCommand, Option, add_directory, add_flag
from keras_nplm.io.errors import check_argument
from keras_nplm.io.files import replace_file
from keras_nplm.io.remote import display_url, open_output_file
from keras_nplm.io.text import escape_controls, escape_formula
from keras_nplm.language_model.directory import check_output_file, read_description
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import find_rows, word_map

_MOST_MAPPED = 2000  # t-SNE takes time and memory quadratic in the number of words
_TOP_K = Option("top_k", int, 10, "number of words to print", least=1, metavar="K")
_AMONG = Option("among", int, None, "most frequent words to search", least=1, example=5000)
_HELP = "number of words on the map, the most frequent ones"
_NUM_WORDS = Option("num_words", int, 300, _HELP, least=1, below=_MOST_MAPPED + 1)


def add(command: AddCommand) -> None:
    nearest = command("nearest", _nearest, _show_words, "Print the nearest neighbours of words by cosine similarity.")
    add_directory(nearest)
    nearest.add_argument("words", metavar="WORD", nargs="+", help="words of the vocabulary")

    analogy = command("analogy", _analogy, _show_words, "Print the words that are to C as B is to A.")
    add_directory(analogy)
    for place in "abc":
        analogy.add_argument(place, metavar=place.upper(), help="word of the vocabulary")
    for parser in (nearest, analogy):
        add_flag(parser, _TOP_K)
        add_flag(parser, _AMONG, shown="all words")

    map = command("map", _map, _show_map, "Draw a t-SNE map of word vectors: similar words lie close together.")
    add_directory(map)
    help = "file to write: .svg for a picture, .tsv for words and coordinates"
    map.add_argument("target", metavar="TARGET", help=help)
    words = map.add_mutually_exclusive_group()
    help = f"words on the map, {_MOST_MAPPED:,} at most (default: the most frequent ones)"
    words.add_argument("--words", metavar="WORD", nargs="+", help=help)
    add_flag(words, _NUM_WORDS)


def _nearest(options: argparse.Namespace) -> dict:
    _find_rows(options.directory, options.words)
    language_model = LanguageModel.load(options.directory)
    return {word: dict(language_model.nearest(word, options.top_k, options.among)) for word in options.words}


def _analogy(options: argparse.Namespace) -> dict:
    a, b, c = options.a, options.b, options.c
    _find_rows(options.directory, [a, b, c])
    answers = LanguageModel.load(options.directory).analogy(a, b, c, options.top_k, options.among)
    return {f"{a} is to {b} as {c} is to": dict(answers)}


def _find_rows(directory: str, words: list[str]) -> list[int]:
    """Return the rows of words; words out of the vocabulary are refused before TensorFlow loads the model."""
    config, vocabulary = read_description(Path(directory))
    return find_rows(words, vocabulary, vocabulary.tokenizer(config["tokenizer"]))


def _show_words(result: dict) -> None:
    for question, answers in result.items():
        print(escape_controls(question))
        for word, cosine in answers.items():
            print(f"  {cosine:.4f} {escape_controls(word)}")


def _map(options: argparse.Namespace) -> dict:
    is_known, number = Path(options.target).suffix in (".svg", ".tsv"), len(options.words or [])
    check_argument("TARGET", is_known, "a file in .svg or .tsv", repr(options.target), "name a file such as words.svg.")
    check_argument("words", number <= _MOST_MAPPED, f"{_MOST_MAPPED:,} words at most", number, "give fewer words.")
    with open_output_file(options.target) as target:
        check_output_file(target)
        rows = _find_rows(options.directory, options.words or [])
        words, vectors = LanguageModel.load(options.directory).word_vectors()
        if not options.words:
            rows = [row for row, word in enumerate(words) if any(map(str.isalpha, word))][: options.num_words]
        with replace_file(target) as temporary:
            temporary.write_text(_draw_map(target.suffix, words, vectors, rows), encoding="utf-8")
        return {"written": display_url(target), "words": len(rows)}


def _draw_map(suffix: str, words: list[str], vectors: np.ndarray, rows: list[int]) -> str:
    """Return the table or the picture of the words in some rows."""
    chosen, coordinates = [words[row] for row in rows], word_map(vectors[rows])
    if suffix == ".tsv":
        lines = zip(map(escape_formula, chosen), coordinates.tolist(), strict=True)
        return "".join(f"{word}\t{x:.4f}\t{y:.4f}\n" for word, (x, y) in lines)
    from keras_nplm.training.charts import draw_words, render_svg  # imports Matplotlib

    return render_svg(draw_words(coordinates, chosen), "t-SNE map of word vectors") + "\n"


def _show_map(result: dict) -> None:
    print(f"wrote {result['words']:,} words to {result['written']}")
