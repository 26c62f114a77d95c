"""The base class of objectives: what training minimises, from the scores of a batch and its
targets.
"""

import abc
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_nplm.data.ids import EOS_ID, UNK_ID
from keras_nplm.layers.heads.base import LEAST_PROBABILITY, Head
from keras_nplm.layers.ops import ConfiguredLayer, Tensor
from keras_nplm.layers.scores import Scores


class Losses(NamedTuple):
    """The losses of a batch: the training loss of each target, float [B], and its exact -ln P where
    this costs nothing more; None if the objective has `has_likelihood` False.
    """

    loss: Tensor
    negative_log_likelihood: Tensor | None


class Objective(ConfiguredLayer, abc.ABC):
    """Base class of training objectives: the loss of a batch from its scores and targets.

    A subclass implements `losses`, and names its arguments in `options`. It knows `Scores` only:
    any head, pointer or n-gram model.

    Example, targets that are predicted well count less:

    >>> class Focal(Objective):
    ...     def losses(self, scores, target_ids):
    ...         log_z, logit = scores.for_training(target_ids)
    ...         nll = log_z - logit
    ...         return Losses((1 - keras.ops.exp(-nll)) * nll, nll)
    >>> from keras_nplm import ContextEmbedding, ContextNetwork, LinearHead
    >>> network = ContextNetwork(3, ContextEmbedding(9, 4), LinearHead(9), Focal())
    >>> network.compile("sgd")
    >>> sorted(network.fit(np.array([[4, 5]]), np.array([6]), verbose=0).history)
    ['loss', 'perplexity']
    """

    loss_name = "loss"  # of the training loss in the logs
    has_likelihood = True  # whether `losses` returns -ln P; False: training logs no perplexity
    held_out_mass = 0.0  # ε of `smooth_unigram`

    @abc.abstractmethod
    def losses(self, scores: Scores, target_ids: Tensor) -> Losses:
        """Return the losses of targets in range, int [B], one for each context."""

    def check_head(self, head: Head) -> None:
        """Refuse a head that this objective cannot train."""

    def set_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        """Take p and q of `smooth_unigram`, float [outputs] each."""

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Add a weight that is not trained, of `accumulator_dtype` unless a dtype is given."""
        kwargs.setdefault("dtype", self.accumulator_dtype)
        return super().add_weight(*args, trainable=False, autocast=False, **kwargs)


def smooth_unigram(
    counts: np.ndarray, num_outputs: int, min_count: int = 1, held_out_mass: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the unigram model p that a network starts from, and q, of words rare in training.

        p(w) = (1-ε) c(w)/N + ε q(w),    q(w) ∝ max(min_count - c(w), 0),    ε = `held_out_mass`

    A vocabulary counted over the whole corpus promises `min_count` occurrences of each word.
    Occurrences that training does not have lie in the other splits. If no word is short of its
    promise, q is uniform. If ε is 0, a word never seen counts as seen once. `<pad>` and `<s>` are
    never predicted: their probability is 0. So is that of `</s>` if training does not predict it.

    `counts`, int [|V|], says how often each id is a target in training. p and q are float
    [outputs], of the ids below `num_outputs`.
    """
    counts = np.asarray(counts[:num_outputs], np.float64)
    predicted = counts > 0
    predicted[UNK_ID] = True  # any text may have unknown words
    predicted[EOS_ID + 1 :] = True
    q = np.where(predicted, np.maximum(min_count - counts, 0), 0)
    if not q.any():
        q = predicted.astype(np.float64)
    q /= q.sum()
    smoothed = counts if held_out_mass else np.where(predicted, np.maximum(counts, 1), 0)
    p = (1 - held_out_mass) * smoothed / smoothed.sum() + held_out_mass * q
    return np.where(predicted, np.maximum(p, LEAST_PROBABILITY), 0), q


def append_held_out(held_out: np.ndarray, number: int) -> np.ndarray:
    """Return q with a number of new words, each with the greatest share in q."""
    held_out = np.append(held_out, np.full(number, held_out.max()))
    return held_out / held_out.sum()
