"""Jackknife of an n-gram model: log-probabilities of a training text that have not seen the n-gram
they predict.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import find_targets
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.ids import EOS_ID
from keras_nplm.data.log_q import LogQ
from keras_nplm.data.resampling import TextIds, list_arrays
from keras_nplm.data.source import NgramSource
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.models.base import resolve_boundary
from keras_nplm.models.ngrams import BackoffModel, kneser_ney

FOLDS = 5


def list_training_texts(ids: TextIds, boundary: str) -> tuple[list[np.ndarray], int]:
    """List the texts of a jackknife, which are in memory, and count their n-grams, two or more."""
    texts = list_arrays(ids)
    if texts is None:
        raise InputError(
            f"`ids` must be a text in memory for a jackknife. Received: {type(ids).__name__}. "
            "Fix: choose another network, such as --network context."
        )
    number = sum(int(np.count_nonzero(find_targets(text, boundary))) for text in texts)
    if number < 2:
        raise InputError(
            f"`ids` must have 2 n-grams or more for a jackknife. Received: {number}. Fix: add text."
        )
    return texts, number


def cut_text(ids: np.ndarray, boundary: str, folds: int) -> np.ndarray:
    """Cut a text into K consecutive parts of about equal numbers of n-grams.

    Return K-1 places in the ids, increasing.

    Cut k is the first end of a sentence with at least k N / K of the N n-grams before it. If a part
    then has no sentence, the cut is the nearest end with which each part has one. The end of a
    blank line does not count. A text with fewer sentences than parts is cut between any two
    n-grams.

    Example:

    >>> cut_text(np.array([4, 5, 3, 6, 3, 4, 5, 6, 4, 5, 3], np.int32), "sentence", folds=2)
    array([5])
    >>> cut_text(np.array([4, 5, 6, 4, 5, 3], np.int32), "sentence", folds=2)
    array([3])
    """
    is_target = find_targets(ids, boundary)
    ngrams = np.cumsum(is_target)
    number = ngrams[-1]
    words = np.cumsum(is_target & (ids != EOS_ID))
    ends = np.flatnonzero(ids == EOS_ID)
    # the first end after each number of words, without those before the first and after the last
    # word
    _, distinct = np.unique(words[ends], return_index=True)
    ends = ends[distinct]
    ends = ends[(words[ends] > 0) & (words[ends] < words[-1])]
    if len(ends) < folds - 1:
        ends = np.flatnonzero(is_target)[:-1]
    parts = np.arange(folds - 1)
    wanted = -(-(parts + 1) * number // folds)  # rounded up
    chosen = np.searchsorted(ngrams[ends], wanted)
    # each cut comes after the one before it, and leaves an end for each that follows
    chosen = np.maximum.accumulate(chosen - parts) + parts
    chosen = np.minimum(chosen, len(ends) - (folds - 1) + parts)
    return ends[chosen] + 1


class Jackknife:
    """Kneser-Ney models of a training text, each estimated without one of K parts of the text.

    The parts are consecutive, so that the topics of a part are as new to its model as those of a
    test text. They consist of whole sentences: the model that predicts an n-gram has not seen its
    sentence. A text with fewer than K sentences, such as a book on one line, is cut within
    sentences. Then the model has not seen the part of the n-gram. See `cut_text`.

    Args:
        ids: int32 [T], each sentence closed by `</s>`; or several texts, as `Resampled`, which are
            joined.
        vocabulary_size: |V|.
        order: n of the models.
        boundary: `"sentence"`, `"text"` or `"stream"`.
        folds: K, 2 or more. A text of fewer n-grams has a part for each.

    Attributes:
        models: the K models.
        fold_starts: int64 [K-1], where in the ids each part but the first begins.
        number: N, how many n-grams the text has.

    Example:

    >>> ids = np.array([4, 5, 3] * 10 + [6, 5, 3] * 10, np.int32)
    >>> jackknife = Jackknife(ids, vocabulary_size=7, order=2, folds=2)
    >>> jackknife.fold_starts
    array([30])
    >>> np.exp(jackknife.next_log_probs(np.array([[6], [6]]), np.array([0, 1])))[:, 5].round(2)
    array([0.89, 0.27], dtype=float32)

    Reference: Neubig & Dyer (2016), Generalizing and hybridizing count-based and neural language
    models.
    """

    def __init__(
        self,
        ids: TextIds,
        vocabulary_size: int,
        order: int,
        boundary: str = "sentence",
        folds: int = FOLDS,
    ):
        texts, self.number = list_training_texts(ids, boundary)
        folds = min(folds, self.number)
        joined = np.concatenate(texts)
        self.fold_starts = cut_text(joined, boundary, folds)
        self.order = order
        self.vocabulary_size = vocabulary_size
        self.boundary = boundary
        self.models: list[BackoffModel] = []
        with open_progress("Estimating n-gram models", total=folds, unit=" models") as progress:
            for first, last in itertools.pairwise([0, *self.fold_starts, len(joined)]):
                others = np.concatenate([joined[:first], joined[last:]])
                self.models.append(kneser_ney(others, vocabulary_size, order, boundary))
                progress.update(1)

    def assign_parts(self, source: NgramSource) -> NgramSource:
        """Return the source with the part of each n-gram, for `NgramSource.with_log_q`.

        Another text, or another boundary, is refused: its n-grams would be in other parts.
        """
        resolve_boundary([self], source.boundary)
        _, number = list_training_texts(source.ids, source.boundary)
        if number != self.number:
            raise InputError(
                f"`ids` must be the text of the Jackknife, {self.number} n-grams. "
                f"Received: {number}. Fix: for any other text give the n-gram model itself."
            )
        return dataclasses.replace(source, fold_starts=self.fold_starts)

    def next_log_probs(self, context_ids: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """Return ln Q(w | context), float32 [B, |V|], of contexts, each by the model without its
        fold, int [B].
        """
        result = np.empty((len(context_ids), self.vocabulary_size), np.float32)
        for fold, model in enumerate(self.models):
            chosen = np.flatnonzero(folds == fold)
            result[chosen] = model.next_log_probs(context_ids[chosen])
        return result


def hybrid_dataset(
    ids: TextIds,
    model: Jackknife | LogQ,
    order: int,
    batch_size: int,
    *,
    boundary: str = "sentence",
    targets_below: int | None = None,
    **epochs: Any,
) -> tf.data.Dataset:
    """Build n-gram batches with ln Q for a `HybridNetwork`: ({"contexts", "log_q"}, target_ids).

    Args:
        ids: int32 [T], each sentence closed by `</s>`; or several texts with shares, as
            `Resampled`.
        model: for training a `Jackknife` of the text; for any other text the n-gram model itself.
        order: n of the network.
        batch_size: B.
        boundary, targets_below: see `ngram_dataset`.
        **epochs: the order of the n-grams, as `shuffle` and `seed`; see `ngram_dataset`.

    Returns:
        a dataset of ({"contexts": int32 [B, n-1], "log_q": float32 [B, |V|]}, int32 [B]).

    Example:

    >>> ids = np.array([4, 5, 3] * 10 + [6, 5, 3] * 10, np.int32)
    >>> dataset = hybrid_dataset(ids, Jackknife(ids, 7, order=2), order=3, batch_size=6)
    >>> from keras_nplm import ContextEmbedding, HybridNetwork, Likelihood, LinearHead, TanhHidden
    >>> embed, hidden = ContextEmbedding(7, 4, name="embed"), TanhHidden(8, name="hidden")
    >>> model = HybridNetwork(3, embed, LinearHead(7, name="prob"), Likelihood(), hidden)
    >>> model.compile("adam")
    >>> history = model.fit(dataset, shuffle=False, verbose=0)
    """
    source = NgramSource(ids, order, boundary, targets_below)
    if isinstance(model, Jackknife):
        source = model.assign_parts(source)
    else:
        resolve_boundary([model], boundary)
    return source.with_log_q(model, batch_size, Epochs(**epochs))
