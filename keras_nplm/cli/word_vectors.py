"""`keras-nplm nearest`, `analogy` and `map`: nearest neighbours, analogies and a t-SNE map of word vectors."""

import argparse
from pathlib import Path

import numpy as np

from keras_nplm.cli.flags import AddCommand, add_directory, add_flag
from keras_nplm.io.errors import InputError
from keras_nplm.io.options import Option
from keras_nplm.io.text import escape_controls, escape_formula

_MOST_MAPPED = 2000  # t-SNE takes time and memory quadratic in the number of words

_TOP_K = Option(name="top_k", type=int, default=10, least=1, metavar="K", help="number of words to print")
_AMONG = Option(
    name="among",
    type=int,
    default=None,
    optional=True,
    least=1,
    example=5000,
    help="most frequent words to search",
)
_NUM_WORDS = Option(
    name="num_words",
    type=int,
    default=300,
    least=1,
    below=_MOST_MAPPED + 1,
    help="number of words on the map, the most frequent ones",
)


def add(command: AddCommand) -> None:
    """Add the commands."""
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
    from keras_nplm.language_model.language_model import LanguageModel

    _find_rows(options.directory, options.words)
    language_model = LanguageModel.load(options.directory)
    return {word: dict(language_model.nearest(word, options.top_k, options.among)) for word in options.words}


def _analogy(options: argparse.Namespace) -> dict:
    from keras_nplm.language_model.language_model import LanguageModel

    a, b, c = options.a, options.b, options.c
    _find_rows(options.directory, [a, b, c])
    answers = LanguageModel.load(options.directory).analogy(a, b, c, options.top_k, options.among)
    return {f"{a} is to {b} as {c} is to": dict(answers)}


def _find_rows(directory: str, words: list[str]) -> list[int]:
    """Return the rows of words; words out of the vocabulary are refused before TensorFlow loads the model."""
    from keras_nplm.language_model.directory import read_description
    from keras_nplm.language_model.word_vectors import find_rows

    config, vocabulary = read_description(Path(directory))
    return find_rows(words, vocabulary, vocabulary.tokenizer(config["tokenizer"]))


def _show_words(result: dict) -> None:
    for question, answers in result.items():
        print(escape_controls(question))
        for word, cosine in answers.items():
            print(f"  {cosine:.4f} {escape_controls(word)}")


def _map(options: argparse.Namespace) -> dict:
    from keras_nplm.io.remote import open_output_file

    target = Path(options.target)
    if target.suffix not in (".svg", ".tsv"):
        raise InputError(
            f"`TARGET` must end in .svg or .tsv. Received: {options.target!r}. Fix: name a file such as words.svg."
        )
    if options.words and len(options.words) > _MOST_MAPPED:
        raise InputError(
            f"`words` must be {_MOST_MAPPED:,} words at most. Received: {len(options.words):,}. Fix: give fewer words."
        )
    with open_output_file(options.target) as local:
        return _write_map(options, local)


def _write_map(options: argparse.Namespace, target: Path) -> dict:
    """Write the map to a local path."""
    from keras_nplm.io.files import replace_file
    from keras_nplm.io.remote import name_source
    from keras_nplm.language_model.directory import check_output_file

    check_output_file(target)

    from keras_nplm.language_model.language_model import LanguageModel

    rows = _find_rows(options.directory, options.words or [])
    words, vectors = LanguageModel.load(options.directory).word_vectors()

    from keras_nplm.language_model.word_vectors import word_map

    if not options.words:
        rows = [row for row, word in enumerate(words) if any(map(str.isalpha, word))][: options.num_words]
    chosen = [words[row] for row in rows]
    coordinates = word_map(vectors[rows])
    with replace_file(target) as temporary:
        rank = dict(zip(chosen, rows, strict=True))
        temporary.write_text(_draw_map(chosen, coordinates, target.suffix, rank), encoding="utf-8")
    return {"written": name_source(target), "words": len(chosen)}


def _draw_map(words: list[str], coordinates: np.ndarray, suffix: str, rank: dict[str, int]) -> str:
    """Return the contents of a map: an SVG picture, or words and coordinates separated by tabs."""
    if suffix == ".tsv":
        rows = zip(map(escape_formula, words), coordinates.tolist(), strict=True)
        return "".join(f"{word}\t{x:.4f}\t{y:.4f}\n" for word, (x, y) in rows)

    from keras_nplm.training.charts import draw_words, render_svg

    notes = {f"word{i}": f"{word}: number {rank[word] + 1:,} by frequency" for i, word in enumerate(words)}
    return render_svg(draw_words(coordinates, words), "t-SNE map of word vectors", notes) + "\n"


def _show_map(result: dict) -> None:
    print(f"wrote {result['words']:,} words to {result['written']}")
