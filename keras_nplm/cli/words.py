"""`keras-nplm nearest`, `analogy` and `map`: what the word vectors learned."""

import argparse
from pathlib import Path

import numpy as np

from keras_nplm.cli.options import AddCommand, directory
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.directory import check_output_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.training.charts import draw_words, render_svg_file

_MOST_MAPPED = 2000  # time and memory of t-SNE are quadratic


def add(command: AddCommand) -> None:
    """Add the commands."""
    nearest = command("nearest", _nearest, _show_near, "The words whose feature vectors lie nearest.")
    directory(nearest)
    nearest.add_argument("words", metavar="WORD", nargs="+", help="words of the vocabulary")
    _which(nearest)

    analogy = command("analogy", _analogy, _show_near, "The words that are to C as B is to A.")
    directory(analogy)
    for place in "abc":
        analogy.add_argument(place, metavar=place.upper(), help="a word of the vocabulary")
    _which(analogy)

    map = command("map", _map, _show_map, "Lay words out in the plane, those of like vectors together.")
    directory(map)
    map.add_argument("target", metavar="TARGET", help="the file to write: .svg, a picture; .tsv, words and places")
    which = map.add_mutually_exclusive_group()
    which.add_argument("--words", metavar="WORD", nargs="+", help="the words; default: the most frequent ones")
    which.add_argument("--num-words", type=int, default=300, help=f"how many, at most {_MOST_MAPPED}; default: 300")


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top-k", type=int, default=10, help="how many are shown; default: 10")
    parser.add_argument("--among", type=int, metavar="N", help="find the N most frequent words alone; default: all")


def _nearest(options: argparse.Namespace) -> dict:
    language_model = LanguageModel.load(options.directory)
    return {word: dict(language_model.nearest(word, options.top_k, options.among)) for word in options.words}


def _analogy(options: argparse.Namespace) -> dict:
    a, b, c = options.a, options.b, options.c
    found = LanguageModel.load(options.directory).analogy(a, b, c, options.top_k, options.among)
    return {f"{a} is to {b} as {c} is to": dict(found)}


def _show_near(result: dict) -> None:
    for asked, found in result.items():
        print(asked)
        for word, cosine in found.items():
            print(f"  {cosine:.4f} {word}")


def _map(options: argparse.Namespace) -> dict:
    target = Path(options.target)
    if target.suffix not in (".svg", ".tsv"):
        raise InputError(f"The name of a map must end in .svg or .tsv. Received: {options.target!r}.")
    if not 1 <= options.num_words <= _MOST_MAPPED:
        raise InputError(f"`num_words` must be 1 to {_MOST_MAPPED}. Received: {options.num_words}.")
    check_output_file(target)
    words, vectors = LanguageModel.load(options.directory).word_vectors()
    row = {word: number for number, word in enumerate(words)}
    chosen = options.words or [word for word in words if any(map(str.isalpha, word))][: options.num_words]
    if unknown := [word for word in chosen if word not in row]:
        raise InputError(f"The vocabulary has no word {unknown[0]!r}: write it as the text does.")
    if len(chosen) > _MOST_MAPPED:
        raise InputError(f"A map takes {_MOST_MAPPED} words at most. Received: {len(chosen)}.")
    places = word_map(vectors[[row[word] for word in chosen]])
    with replace_file(target) as temporary:
        temporary.write_text(_drawn(chosen, places, target.suffix, row), encoding="utf-8")
    return {"written": str(target), "words": len(chosen)}


def _drawn(words: list[str], places: np.ndarray, suffix: str, rank: dict[str, int]) -> str:
    if suffix == ".tsv":
        return "".join(f"{word}\t{x:.4f}\t{y:.4f}\n" for word, (x, y) in zip(words, places.tolist(), strict=True))
    notes = {f"word{i}": f"{word}: number {rank[word] + 1:,} by frequency" for i, word in enumerate(words)}
    return render_svg_file(draw_words(places, words), "map of the words", notes)


def _show_map(result: dict) -> None:
    print(f"wrote {result['words']:,} words to {result['written']}")
