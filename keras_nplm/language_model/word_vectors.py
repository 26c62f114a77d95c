"""Word vectors (rows of C): nearest neighbours, analogies, a t-SNE map, and files in the format of
word2vec.
"""

import codecs
import contextlib
import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_nplm.data.ids import PAD, PAD_ID, SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, shorten_value
from keras_nplm.io.files import replace_file
from keras_nplm.io.remote import fetch
from keras_nplm.io.text import MAX_LINE_BYTES, check_is_file, open_text
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.models.base import NextWordModel, require_network

WordCosines = list[tuple[str, float]]  # the nearest first
# of t-SNE: the effective number of neighbours, if there are three times as many words
_PERPLEXITY = 15.0


def list_word_vectors(model: NextWordModel, codec: TextCodec) -> tuple[list[str], np.ndarray]:
    """Return the words without special tokens, and their word vectors: rows of C, float32 [N,
    m].
    """
    network = require_network(model, "for word vectors")
    first = len(SPECIALS)
    return codec.vocabulary.words[first:], network.embed.C.numpy()[first:]


def find_neighbours(
    model: NextWordModel,
    codec: TextCodec,
    question: Sequence[str],
    top_k: int,
    among: int | None,
) -> WordCosines:
    """Return the nearest neighbours of a word, or of u_b - u_a + u_c of an analogy of three words,
    "a is to b as c is to …", by cosine similarity; see `LanguageModel.nearest` and `analogy`.

        cos(u, v) = u·v / (|u| |v|),    0 where u or v is zero;    u = v / |v|

    The neighbours are among the `among` first words, without the given ones, the nearest first.

    Reference: Mikolov, Yih & Zweig (2013), Linguistic regularities in continuous space word
    representations.
    """
    words, vectors = list_word_vectors(model, codec)
    rows = find_rows(question, codec.vocabulary, codec.tokenizer)
    unit = _normalise(vectors)
    direction = unit[rows[0]]
    if len(rows) == 3:
        a, b, c = unit[rows]
        [direction] = _normalise((b - a + c)[None])
    cosines = unit[:among] @ direction
    cosines[[row for row in rows if row < len(cosines)]] = -np.inf
    found = np.argsort(-cosines, kind="stable")[:top_k].tolist()
    clipped = np.clip(cosines, -1, 1).tolist()
    return [(words[row], clipped[row]) for row in found if cosines[row] > -np.inf]


def find_rows(words: Sequence[str], vocabulary: Vocabulary, tokenizer: Tokenizer) -> list[int]:
    """Return the rows of words, before or after normalisation, among the word vectors."""
    first = len(SPECIALS)
    is_piece = tokenizer.is_trained
    wanted = "one subword" if is_piece else "in the vocabulary"
    rows = []
    for word in words:
        joined = " ".join(tokenizer.split(word))
        # a piece within words may be spelled as this word
        candidates = [joined, word] if is_piece else [word, joined]
        found = next(
            filter(first.__le__, (vocabulary.ids.get(text, 0) for text in candidates)), None
        )
        if found is None:
            raise InputError(
                f"`word` must be {wanted}. Received: {joined!r}. "
                "Fix: choose a line of vocabulary.txt."
            )
        rows.append(found - first)
    return rows


def write_word2vec(path: str | os.PathLike, words: Sequence[str], vectors: np.ndarray) -> None:
    """Write word vectors in the text format of word2vec, with 9 digits, which restore each float32
    exactly.
    """
    vectors = np.asarray(vectors, np.float32)
    with (
        replace_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.write(f"{len(vectors)} {vectors.shape[1]}\n")
        for word, row in zip(words, vectors.tolist(), strict=True):
            file.write(f"{word} {' '.join([f'{number:.9g}' for number in row])}\n")


class FoundVectors(NamedTuple):
    """Word vectors of a file for the words of a vocabulary.

    Attributes:
        vectors: float32 [|V|, m], by id.
        is_found: bool [|V|], whether the file has the word; other vectors are random.
    """

    vectors: np.ndarray
    is_found: np.ndarray


def read_word_vectors(path: str | os.PathLike, vocabulary: Vocabulary, seed: int = 0) -> np.ndarray:
    """Read pretrained word vectors (GloVe, word2vec, fastText) for the words of a vocabulary.

    The file is text, plain or compressed, with a line `word x_1 … x_m` for each word. A first line
    with the numbers of words and of components may precede them. The file is read as a stream:
    memory holds the words of the vocabulary alone. Of a repeated word the first line counts.

    Words that the file lacks get random vectors, whose components have the root mean square of
    those that were found. `<pad>` gets zeros.

    Args:
        path: the file, such as `glove.6B.100d.txt`, `wiki.en.vec.gz`, or a `.vec` that
            `keras-nplm export` wrote.
        vocabulary: the vocabulary, whose words are looked up as they are written.
        seed: random seed of the vectors of absent words.

    Returns:
        vectors, float32 [|V|, m], by id: for `network.embed.C.assign(vectors)`.

    Raises:
        InputError: the file is absent or binary, a line has no m numbers, or no word of the
            vocabulary is in it.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.vec")
    >>> _ = path.write_text("the 0.5 -2.0 1.5\\ndog 1.0 2.0 3.0\\n")
    >>> vectors = read_word_vectors(path, Vocabulary(["the", "cat"]))
    >>> vectors.shape, vectors[4].tolist()
    ((6, 3), [0.5, -2.0, 1.5])

    References: Mikolov et al. (2013), Efficient estimation of word representations in vector space;
    Pennington, Socher & Manning (2014), GloVe; Bojanowski et al. (2017), Enriching word vectors
    with subword information.
    """
    return find_word_vectors(path, vocabulary, seed).vectors


def find_word_vectors(
    path: str | os.PathLike, vocabulary: Vocabulary, seed: int = 0
) -> FoundVectors:
    """Read word vectors as `read_word_vectors`, and say which words were found."""
    ids = {word.encode(): i for i, word in enumerate(vocabulary.words) if word != PAD}
    is_found = np.zeros(len(vocabulary), bool)
    with _open_vectors(path) as (width, lines):
        vectors = np.zeros((len(vocabulary), width), np.float32)
        for number, line in lines:
            word, *rest = line.split(None, 1)[:2] or [b""]
            place = ids.get(word)
            if place is None or is_found[place]:
                continue
            components = b"".join(rest).split()
            # an entry of several words, as GloVe has them, is longer
            if len(components) <= width:
                vectors[place] = _parse_vector(path, number, components, width)
                is_found[place] = True
    if not is_found.any():
        shown = ", ".join(map(repr, vocabulary.words[len(SPECIALS) :][:3]))
        raise InputError(
            f"`vectors` must have words of the vocabulary, such as {shown}. Received: {path}, "
            "which has none. Fix: name vectors of this language; for vectors of words in lower "
            "case add `--normalise lower`."
        )
    absent = np.flatnonzero(~is_found)
    scale = np.sqrt(np.square(vectors[is_found], dtype=np.float64).mean())
    vectors[absent] = np.random.default_rng(seed).normal(0, scale, (len(absent), width))
    vectors[PAD_ID] = 0
    return FoundVectors(vectors, is_found)


def read_vector_width(path: str | os.PathLike) -> int:
    """Return m of a file of word vectors."""
    with _open_vectors(path) as (width, _):
        return width


@contextlib.contextmanager
def _open_vectors(
    path: str | os.PathLike,
) -> Iterator[tuple[int, Iterator[tuple[int, bytes]]]]:
    """Open a file of word vectors: yield m, and its numbered lines without the header."""
    path = fetch(path)
    check_is_file(path)  # it is read twice
    with open_text(path) as file:
        lines = enumerate(iter(functools.partial(file.readline, MAX_LINE_BYTES), b""), start=1)
        number, first = next(lines, (1, b""))
        first = first.removeprefix(codecs.BOM_UTF8)
        header = first.split()
        has_header = len(header) == 2 and all(map(bytes.isdigit, header))
        if has_header:
            number, first = next(lines, (2, b""))
        components = first.split()[1:]
        width = int(header[1]) if has_header else len(components)
        _parse_vector(path, number, components[-width:], width)
        yield width, itertools.chain([(number, first)], lines)


def _parse_vector(
    path: str | os.PathLike, number: int, components: Sequence[bytes], width: int
) -> np.ndarray:
    """Return a vector, float32 [m]; refuse what is not m finite numbers."""
    with contextlib.suppress(ValueError):
        vector = np.array([*map(float, components)], np.float32)
        if len(vector) == width > 0 and np.isfinite(vector).all():
            return vector
    received = shorten_value(b" ".join(components).decode(errors="replace"))
    fix = "restore the file."
    if number <= 2:
        fix = (
            "convert a binary file of word2vec by gensim: `KeyedVectors.load_word2vec_format("
            "FILE, binary=True).save_word2vec_format('words.vec')`. fastText writes a .vec file "
            "beside its .bin."
        )
    raise InputError(
        f"`vectors` must be text with a word and {width} finite numbers on each line. Received: "
        f"{path}, line {number}: {received}. Fix: {fix}"
    )


def word_map(vectors: np.ndarray) -> np.ndarray:
    """Return a t-SNE map, float64 [N, 2]: places in the plane where vectors with a small angle are
    close together.

    It starts from the two principal components of the vectors of length 1, without random numbers.

    Reference: van der Maaten & Hinton (2008), Visualizing data using t-SNE, JMLR 9.
    """
    from sklearn.manifold import TSNE  # imported here because its import takes a second

    unit = _normalise(vectors)
    if len(unit) == 1:
        return np.zeros((1, 2))
    perplexity = max(1.0, min(_PERPLEXITY, (len(unit) - 1) / 3))
    tsne = TSNE(
        perplexity=perplexity,
        init=_first_components(unit),
        method="exact",
        random_state=0,
        max_iter=500,
    )
    places = tsne.fit_transform(unit).astype(np.float64)
    return places - places.mean(axis=0)


def _normalise(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1, float64 [N, m]; zero vectors stay zero."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _first_components(unit: np.ndarray) -> np.ndarray:
    """Return the first two principal components, the first with standard deviation 1e-4: [N, 2]."""
    left, sizes, _ = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)
    components = np.pad(left * sizes, [(0, 0), (0, 1)])[:, :2]
    return components * 1e-4 / max(components[:, 0].std(), 1e-12)
