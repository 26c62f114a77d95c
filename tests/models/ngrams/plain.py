"""Texts over 9 ids, and their n-grams in plain Python."""

from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import strategies as st

from keras_nplm.data.ngram_arrays import ngram_positions

V = 9  # <pad> <unk> <s> </s> and five words


def _join_sentences(sentences: list[list[int]]) -> np.ndarray:
    closed = [[*words, 3] for words in sentences]
    return np.concatenate(closed).astype(np.int32)


def _begin_documents(ids: np.ndarray) -> np.ndarray:
    ends = np.flatnonzero(ids == 3)
    return np.insert(ids, ends[::3] + 1, 2)


_SENTENCE = st.lists(st.sampled_from([1, *range(4, 8)]), min_size=1, max_size=9)
_SENTENCES = st.lists(_SENTENCE, min_size=1, max_size=12).map(_join_sentences)


def texts(boundary: str) -> st.SearchStrategy[np.ndarray]:
    """Texts of sentences closed by `</s>`; the last id is never seen.

    With the boundary `"text"` every third sentence begins a document.
    """
    return _SENTENCES.map(_begin_documents) if boundary == "text" else _SENTENCES


def list_events(
    ids: np.ndarray, order: int, boundary: str
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield context and word of every target: a context has no `<pad>` and at most one `<s>`."""
    tokens, positions = ngram_positions(ids, order, boundary)
    for position in positions.tolist():
        context: list[int] = []
        for id in reversed(tokens[position - order + 1 : position].tolist()):
            if id == 0:
                break
            context.insert(0, id)
            if id == 2:
                break
        yield tuple(context), int(tokens[position])


def pad_contexts(contexts: Sequence[Sequence[int]], order: int) -> np.ndarray:
    """Return contexts of any length as int32 [contexts, n-1], with `<pad>` at the front."""
    rows = [[0] * (order - 1 - len(context)) + list(context) for context in contexts]
    return np.array(rows, np.int32).reshape(len(contexts), order - 1)
