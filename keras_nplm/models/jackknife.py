"""Jackknife of an n-gram model: log-probabilities of a training text that have not seen the n-gram they predict."""

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.ngram_arrays import find_targets
from keras_nplm.data.special_ids import EOS_ID
from keras_nplm.io.errors import check_argument
from keras_nplm.io.progress import open_progress
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams import BackoffModel, kneser_ney

FOLDS = 5
_ROWS = 2048  # n-grams whose log-probabilities are looked up together, at least a batch


class Jackknife:
    """Kneser-Ney models of a training text, each estimated without one of K parts of the text.

    N-gram i of N in the order of the text is in fold floor(i K / N). Part k has the sentences that begin in fold k. The
    parts are consecutive, so that the topics of a part are as new to its model as those of a test text.

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        vocabulary_size: |V|.
        order: n of the models.
        boundary: `"sentence"`, `"text"` or `"stream"`.
        folds: K, 2 or more.

    Example:

    >>> ids = np.array([4, 5, 3] * 10 + [6, 5, 3] * 10, np.int32)
    >>> jackknife = Jackknife(ids, vocabulary_size=7, order=2, folds=2)
    >>> np.exp(jackknife.next_log_probs(np.array([[6], [6]]), np.array([0, 1])))[:, 5].round(2)
    array([0.89, 0.27], dtype=float32)

    Reference: Neubig & Dyer (2016), Generalizing and hybridizing count-based and neural language models.
    """

    def __init__(
        self, ids: np.ndarray, vocabulary_size: int, order: int, boundary: str = "sentence", folds: int = FOLDS
    ):
        kind, fix = type(ids).__name__, "choose another output layer, such as --output-layer full."
        check_argument("ids", isinstance(ids, np.ndarray), "one text in memory", kind, fix)
        check_argument("folds", folds >= 2, "2 or more", folds, "each model leaves one part out.")
        is_target = find_targets(ids, boundary)
        number = int(is_target.sum())
        check_argument("ids", number >= folds, f"{folds} n-grams or more", number, "add text.")
        ends = np.append(np.flatnonzero(ids == EOS_ID) + 1, len(ids))
        starts = -(-np.arange(1, folds) * number // folds)  # n-grams before each fold
        cuts = [0, *ends[np.searchsorted(np.cumsum(is_target)[ends - 1], starts)], len(ids)]
        self.order, self.vocabulary_size = order, vocabulary_size
        self.models: list[BackoffModel] = []
        with open_progress("Estimating n-gram models", total=folds, unit=" models") as progress:
            for first, last in itertools.pairwise(cuts):
                others = np.concatenate([ids[:first], ids[last:]])
                self.models.append(kneser_ney(others if len(others) else ids, vocabulary_size, order, boundary))
                progress.update(1)

    def next_log_probs(self, context_ids: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """Return ln Q(w | context), float32 [B, |V|], of contexts, each by the model without its fold, int [B]."""
        result = np.empty((len(context_ids), self.vocabulary_size), np.float32)
        for fold, model in enumerate(self.models):
            chosen = np.flatnonzero(folds == fold)
            result[chosen] = model.next_log_probs(context_ids[chosen])
        return result


def hybrid_dataset(
    ids: np.ndarray, model: Jackknife | NextWordModel, order: int, batch_size: int, **options: Any
) -> tf.data.Dataset:
    """Build n-gram batches with ln Q for a `HybridNetwork`: ({"contexts", "log_q"}, target_ids).

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        model: for training a `Jackknife` of the text; for any other text the n-gram model itself.
        order: n of the network.
        batch_size: B.
        **options: see `ngram_dataset`.

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
    folds = len(model.models) if isinstance(model, Jackknife) else None
    widest = max(order, model.order)

    def look_up(context_ids: np.ndarray, *folds: np.ndarray) -> np.ndarray:
        return model.next_log_probs(context_ids[:, widest - model.order :], *folds).astype(np.float32)

    def add_log_probs(inputs: tf.Tensor | tuple, target_ids: tf.Tensor) -> tuple:
        context_ids, *folds = inputs if isinstance(inputs, tuple) else (inputs,)
        context_ids = tf.reshape(context_ids, [-1, widest - 1])
        log_probs = tf.numpy_function(look_up, [context_ids, *(tf.reshape(fold, [-1]) for fold in folds)], tf.float32)
        log_probs = tf.ensure_shape(log_probs, [None, model.vocabulary_size])
        inputs = {"contexts": context_ids[:, widest - order :], "log_q": log_probs}
        return inputs, tf.reshape(target_ids, [-1])

    dataset = ngram_dataset(ids, widest, batch_size, folds=folds, **options)
    if not options.get("drop_remainder"):
        return dataset.map(add_log_probs).prefetch(2)
    number, local_size = dataset.cardinality(), batch_size // options.get("part", (0, 1))[1]
    dataset = dataset.batch(max(1, _ROWS // local_size)).map(add_log_probs).rebatch(local_size, drop_remainder=True)
    dataset = dataset.prefetch(2)
    return dataset if number < 0 else dataset.apply(tf.data.experimental.assert_cardinality(number))
