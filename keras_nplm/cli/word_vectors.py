"""`keras-nplm nearest`, `analogy` and `map`: neighbours, analogies and a map of word vectors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from keras_nplm.cli.parameters import Directory, check_left_out, number
from keras_nplm.cli.printing import print_ranked, printed_as, printed_by
from keras_nplm.io.errors import check_argument
from keras_nplm.io.paths import find_free_path
from keras_nplm.io.text import escape_formula

if TYPE_CHECKING:
    import numpy as np

_MOST_MAPPED = 2000  # t-SNE takes time and memory quadratic in the number of words
_DEFAULT_MAPPED = 300
_WORD = "word of the vocabulary"

TopK = Annotated[int, number(int, least=1, metavar="K", help="number of words to print")]
Among = Annotated[
    int | None,
    number(
        int, least=1, example=5000, help="most frequent words to search", show_default="all words"
    ),
]


@printed_by(print_ranked)
def nearest(
    directory: Directory,
    /,
    *words: Annotated[str, Parameter(name="WORD", help="words of the vocabulary", required=True)],
    top_k: TopK = 10,
    among: Among = None,
) -> dict:
    """Print the nearest neighbours of words by cosine similarity."""
    from keras_nplm.language_model.language_model import LanguageModel

    _find_rows(directory, words)
    language_model = LanguageModel.load(directory)
    return {word: dict(language_model.nearest(word, top_k, among)) for word in words}


@printed_by(print_ranked)
def analogy(
    directory: Directory,
    a: Annotated[str, Parameter(name="A", help=_WORD)],
    b: Annotated[str, Parameter(name="B", help=_WORD)],
    c: Annotated[str, Parameter(name="C", help=_WORD)],
    /,
    *,
    top_k: TopK = 10,
    among: Among = None,
) -> dict:
    """Print the words that are to C as B is to A."""
    from keras_nplm.language_model.language_model import LanguageModel

    _find_rows(directory, (a, b, c))
    answers = LanguageModel.load(directory).analogy(a, b, c, top_k, among)
    return {f"{a} is to {b} as {c} is to": dict(answers)}


def _find_rows(directory: str, words: tuple[str, ...]) -> list[int]:
    """Return the rows of words. Others are refused before TensorFlow loads the model."""
    from keras_nplm.language_model.directory import read_description
    from keras_nplm.language_model.word_vectors import find_rows

    config, vocabulary = read_description(Path(directory))
    return find_rows(words, vocabulary, vocabulary.tokenizer(config["tokenizer"]))


@printed_as("wrote {words:,} words to {written}")
def draw_map(
    directory: Directory,
    target: Annotated[str, Parameter(name="TARGET")],
    /,
    *,
    words: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=(1, _MOST_MAPPED),
            metavar="WORD…",
            show_default="the most frequent ones",
        ),
    ] = (),
    num_words: Annotated[
        int | None,
        number(int, least=1, below=_MOST_MAPPED + 1, show_default=str(_DEFAULT_MAPPED)),
    ] = None,
) -> dict:
    """Draw a t-SNE map of word vectors: similar words lie close together.

    Args:
        target: file to write: .svg for a picture, .tsv for words and coordinates
        words: words on the map, 2,000 at most
        num_words: number of words on the map, the most frequent ones
    """
    from keras_nplm.io.files import replace_file
    from keras_nplm.io.remote import display_url, open_output_file
    from keras_nplm.io.stages import check_output_file
    from keras_nplm.language_model.language_model import LanguageModel

    is_known = Path(target).suffix in (".svg", ".tsv")
    fix = f"name a file such as {find_free_path('words.svg')}."
    check_argument("TARGET", is_known, "a file in .svg or .tsv", repr(target), fix)
    if words:
        check_left_out({"num_words": num_words}, "with `--words`", "drop one of them.")
    with open_output_file(target) as path:
        check_output_file(path)
        rows = _find_rows(directory, words)
        known, vectors = LanguageModel.load(directory).word_vectors()
        if not words:
            rows = [row for row, word in enumerate(known) if any(map(str.isalpha, word))]
            rows = rows[: num_words or _DEFAULT_MAPPED]
        with replace_file(path) as temporary:
            drawn = _draw_map(path.suffix, known, vectors, rows)
            temporary.write_text(drawn, encoding="utf-8")
        return {"written": display_url(path), "words": len(rows)}


def _draw_map(suffix: str, words: list[str], vectors: "np.ndarray", rows: list[int]) -> str:
    """Return the table or the picture of the words in some rows."""
    from keras_nplm.language_model.word_vectors import word_map

    chosen = [words[row] for row in rows]
    coordinates = word_map(vectors[rows])
    if suffix == ".tsv":
        lines = zip(map(escape_formula, chosen), coordinates.tolist(), strict=True)
        return "".join(f"{word}\t{x:.4f}\t{y:.4f}\n" for word, (x, y) in lines)
    from keras_nplm.training.charts import draw_words, render_svg  # imports Matplotlib

    return render_svg(draw_words(coordinates, chosen), "t-SNE map of word vectors") + "\n"
