"""What the word vectors learned: which words lie near each other, what is to what as what, and a map of them."""

import os
from collections.abc import Sequence

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file

_NEIGHBOURS = 15.0  # the perplexity of t-SNE: how many words count as near, if there are three times as many
_STEPS = 400
_EXAGGERATED = 100  # steps in which the pull between near words is taken fourfold, so that groups form
_WIDTHS = (-30.0, 30.0)  # log2 of the precisions to choose from, for squared distances of mean 1


def nearest(
    vectors: np.ndarray, rows: np.ndarray, top_k: int, among: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The vectors nearest to some of them by the cosine of their angle, each vector itself left out.

        cos(u, v) = u·v / (|u| |v|),    0 where u or v is zero

    Args:
        vectors: float [N, m], a word's feature vector a row: C, without the rows of special tokens.
        rows: int [B], the rows to find neighbours of.
        top_k: how many at most.
        among: find the first so many rows alone, the most frequent words. Default: all, N.

    Returns:
        (neighbours int [B, K], the nearest first, ties by row; their cosines float64 [B, K]), K = min(top_k, among-1).

    Raises:
        InputError: `top_k` or `among` is less than 1, or a row is out of range.

    Example:

    >>> neighbours, cosines = nearest(np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 3.0], [-1.0, 0.0]]), [0], top_k=2)
    >>> neighbours.tolist(), cosines.round(3).tolist()
    ([[1, 2]], [[0.999, 0.0]])
    """
    rows = np.asarray(rows, dtype=np.int64)
    unit = _unit(vectors)
    _check_rows(rows, len(unit))
    return _nearest(unit, unit[rows], rows[:, None], top_k, among)


def analogies(
    vectors: np.ndarray, questions: np.ndarray, top_k: int, among: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The vectors that are to c as b is to a: those nearest to u_b - u_a + u_c, u = v / |v|; a, b and c left out.

    Args:
        vectors: float [N, m], a word's feature vector a row.
        questions: int [B, 3], rows a, b, c: "a is to b as c is to …".
        top_k: how many at most.
        among: as in `nearest`.

    Returns:
        (neighbours int [B, K], the nearest first, ties by row; their cosines float64 [B, K]), K = min(top_k, among-3).

    Raises:
        InputError: `top_k` or `among` is less than 1, or a row is out of range.

    Example:

    >>> vectors = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.1, 1.0, 1.0], [1.0, 1.0, 0.0]])
    >>> analogies(vectors, [[0, 1, 2]], top_k=1)[0].tolist()
    [[3]]

    Reference: Mikolov, Yih & Zweig (2013), Linguistic regularities in continuous space word representations.
    """
    questions = np.asarray(questions, dtype=np.int64)
    unit = _unit(vectors)
    _check_rows(questions, len(unit))
    a, b, c = unit[questions.T]
    return _nearest(unit, _unit(b - a + c), questions, top_k, among)


def _check_rows(rows: np.ndarray, number: int) -> None:
    if rows.size and (rows.min() < 0 or rows.max() >= number):
        raise InputError(f"`rows` must be 0 to {number - 1}. Received: {rows.min()} to {rows.max()}.")


def _nearest(
    unit: np.ndarray, directions: np.ndarray, left_out: np.ndarray, top_k: int, among: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The first `among` rows of `unit` nearest to directions [B, m], but for some of each, int [B, R]."""
    for name, number in (("top_k", top_k), ("among", among)):
        if number is not None and number < 1:
            raise InputError(f"`{name}` must be 1 or more. Received: {number}.")
    cosines = directions @ unit[:among].T  # [B, N]
    question, place = np.nonzero(left_out < cosines.shape[1])
    cosines[question, left_out[question, place]] = -np.inf
    number = max(0, min(top_k, cosines.shape[1] - left_out.shape[1]))
    neighbours = np.argsort(-cosines, axis=1, kind="stable")[:, :number]
    return neighbours, np.clip(np.take_along_axis(cosines, neighbours, axis=1), -1, 1)


def write_word2vec(path: str | os.PathLike, words: Sequence[str], vectors: np.ndarray) -> None:
    """Write vectors in the text format of word2vec: `N m`, then a line a word, the word and its m numbers.

    Numbers have as many digits as tell float32 apart.

    Args:
        path: the file.
        words: N words, without white space.
        vectors: float [N, m].

    Raises:
        RunError: the file cannot be written.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> write_word2vec(path, ["the", "cat"], np.array([[0.5, -1.0], [0.25, 3.0]], np.float32))
    >>> print(path.read_text(), end="")
    2 2
    the 0.5 -1
    cat 0.25 3
    """
    vectors = np.asarray(vectors, np.float32)
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(vectors)} {vectors.shape[1]}\n")
        for word, row in zip(words, vectors.tolist(), strict=True):
            file.write(f"{word} {' '.join([f'{number:.9g}' for number in row])}\n")


def word_map(vectors: np.ndarray) -> np.ndarray:
    """Places in the plane in which vectors of small angle lie together: t-SNE from the two principal components.

        p_ij = (p_j|i + p_i|j) / 2N,    p_j|i = softmax_j(-b_i |u_i - u_j|^2),    u = v / |v|
        q_ij ∝ 1 / (1 + |y_i - y_j|^2),    minimising KL(P || Q) over the places y

    b_i makes the perplexity of p_·|i 15, or (N-1)/3 where that is less. Nothing is drawn: the same vectors give the
    same map. Time and memory are quadratic: some hundreds of vectors, not all of a vocabulary.

    Args:
        vectors: float [N, m], N 1 or more.

    Returns:
        float64 [N, 2]; scale and direction mean nothing.

    Raises:
        InputError: there is no vector, or one is not finite.

    Example:

    >>> places = word_map(np.repeat(np.eye(3), 5, axis=0))  # three words, five times each
    >>> distances = np.linalg.norm(places[:, None] - places, axis=2)
    >>> bool(distances[:5, :5].max() < distances[:5, 5:].min())
    True

    Reference: van der Maaten & Hinton (2008), Visualizing data using t-SNE, JMLR 9.
    """
    if not len(vectors) or not np.isfinite(vectors).all():
        raise InputError(f"`vectors` must be finite, and 1 or more. Received: shape {np.shape(vectors)}.")
    unit = _unit(vectors)
    affinities = _affinities(unit, perplexity=max(1.0, min(_NEIGHBOURS, (len(unit) - 1) / 3)))
    places = _principal(unit)
    velocity, gains = np.zeros_like(places), np.ones_like(places)
    rate = max(len(unit) / 12, 10.0)
    for step in range(_STEPS):
        early = step < _EXAGGERATED
        pull = _gradient(affinities * (4 if early else 1), places)
        gains = np.maximum(np.where(pull * velocity > 0, gains * 0.8, gains + 0.2), 0.01)
        velocity = (0.5 if early else 0.8) * velocity - rate * gains * pull
        places = places + velocity
    return places - places.mean(axis=0)


def _unit(vectors: np.ndarray) -> np.ndarray:
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _principal(unit: np.ndarray) -> np.ndarray:
    """The first two principal components, the first of standard deviation 1e-2: [N, 2]."""
    centred = unit - unit.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    components = np.zeros((len(unit), 2))
    components[:, : min(2, len(sizes))] = (left * sizes)[:, :2]
    return components * 1e-2 / max(components[:, 0].std(), 1e-12)


def _affinities(unit: np.ndarray, perplexity: float) -> np.ndarray:
    """P, float64 [N, N], of sum 1 (0 for one vector); the precisions by bisection."""
    distances = np.maximum(2 - 2 * unit @ unit.T, 0)
    distances /= max(distances.mean(), 1e-12)
    np.fill_diagonal(distances, np.inf)
    if len(unit) == 1:
        return np.zeros((1, 1))
    excess = distances - distances.min(axis=1, keepdims=True)
    np.fill_diagonal(excess, 0)
    others = 1.0 - np.eye(len(unit))
    low, high = (np.full((len(unit), 1), width) for width in _WIDTHS)
    for _ in range(40):
        middle = (low + high) / 2
        weights = np.exp(-excess * 2**middle) * others
        total = weights.sum(axis=1, keepdims=True)
        entropy = np.log(total) + 2**middle * (weights * excess).sum(axis=1, keepdims=True) / total
        flat = entropy > np.log(perplexity)
        low, high = np.where(flat, middle, low), np.where(flat, high, middle)
    conditional = weights / total
    return (conditional + conditional.T) / (2 * len(unit))


def _gradient(affinities: np.ndarray, places: np.ndarray) -> np.ndarray:
    """dKL/dy_i = 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2)."""
    squares = (places**2).sum(axis=1)
    kernel = 1 / (1 + np.maximum(squares[:, None] + squares - 2 * places @ places.T, 0))
    np.fill_diagonal(kernel, 0)
    forces = (affinities - kernel / max(kernel.sum(), 1e-12)) * kernel
    return 4 * (forces.sum(axis=1, keepdims=True) * places - forces @ places)
