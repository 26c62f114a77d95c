"""The boundary of a text, `"sentence"`, `"text"` or `"stream"`: what is predicted, and how far a
context reaches.
"""

import numpy as np

from keras_nplm.data.ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_nplm.io.errors import check_choice, check_integer

BOUNDARIES = ("sentence", "text", "stream")


def predicts_end(boundary: str) -> bool:
    """Return whether `</s>` is predicted."""
    return boundary != "stream"


def crosses_sentences(boundary: str) -> bool:
    """Return whether the words of earlier sentences are seen."""
    return boundary != "sentence"


def has_documents(boundary: str) -> bool:
    """Return whether `<s>` in the ids begins a document. It is never a target."""
    return boundary == "text"


def context_end(boundary: str) -> int | None:
    """Return the id up to which the earlier words are not seen, or None."""
    return {"sentence": EOS_ID, "text": BOS_ID}.get(boundary)


def padding_id(boundary: str) -> int:
    """Return the id that fills a context which has no n-1 words."""
    return BOS_ID if predicts_end(boundary) else PAD_ID


def find_targets(ids: np.ndarray, boundary: str) -> np.ndarray:
    """Return for each id whether it is predicted, bool [T]."""
    return ids != (BOS_ID if predicts_end(boundary) else EOS_ID)


def predicted_ids(vocabulary_size: int, boundary: str) -> np.ndarray:
    """List the ids that can be predicted: `<unk>`, all words, and `</s>` but in a stream."""
    ids = np.arange(vocabulary_size)
    return ids[(ids == UNK_ID) | (ids > EOS_ID) | ((ids == EOS_ID) & predicts_end(boundary))]


def check_boundary(order: int, boundary: str, least_order: int = 1) -> None:
    """Check the order of n-grams, n, and the boundary.

    A network has an order of 2 or more, an n-gram model of 1: a context has n-1 words.
    """
    check_integer("order", order, least_order)
    check_boundary_name(boundary)


def check_boundary_name(boundary: str) -> None:
    """Refuse a value other than the three boundaries."""
    check_choice("boundary", boundary, BOUNDARIES)
