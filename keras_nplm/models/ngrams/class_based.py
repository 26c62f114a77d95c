"""Class-based n-gram model: class n-grams, and words given their class."""

import dataclasses
import os

import numpy as np

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.data.ids import BOS_ID, EOS_ID, check_ids, convert_ids
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.io.errors import InputError, check_integer
from keras_nplm.io.files import read_arrays
from keras_nplm.models.base import saved_as
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.base import NgramModel
from keras_nplm.models.ngrams.interpolation import combine, fit_weights
from keras_nplm.models.ngrams.kneser_ney import kneser_ney


@saved_as("class-based")
@dataclasses.dataclass(repr=False, eq=False)
class ClassBased(NgramModel):
    """Class-based n-gram language model.

        P(w | h) = (1-ε) P(g(w) | g(h)) P(w | g(w)) + ε / |V'|

    P(class | classes) is a Kneser-Ney model, P(w | class) the relative frequency in training.
    `word_log_probs` are ln P(w | g(w)), `uniform` is ln 1/|V'| or -inf, [|V|] each;
    `uniform_weight` is ε.

    Reference: Brown et al. (1992), Class-based n-gram models of natural language; Kneser & Ney
    (1993).
    """

    description = "A class-based n-gram model"

    class_model: BackoffModel
    classes: np.ndarray
    word_log_probs: np.ndarray
    uniform: np.ndarray
    uniform_weight: float

    def __post_init__(self) -> None:
        self.order = self.class_model.order
        self.vocabulary_size = len(self.classes)
        self.boundary = self.class_model.boundary

    @property
    def num_ngrams(self) -> list[int]:
        """The number of listed n-grams of classes of each order."""
        return self.class_model.num_ngrams

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        return combine(self.components(context_ids, target_ids), self._weights)

    def components(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return ln P(g(w) | g(h)) P(w | g(w)) and ln 1/|V'|, which 1-ε and ε combine: float64 [B,
        2].
        """
        of_class = self.class_model.log_prob(self.classes[context_ids], self.classes[target_ids])
        by_class = of_class + self.word_log_probs[target_ids]
        return np.stack([by_class, self.uniform[target_ids]], axis=1)

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        of_classes = self.class_model.next_log_probs(self.classes[context_ids])
        by_class = of_classes[:, self.classes] + self.word_log_probs
        uniform = np.broadcast_to(self.uniform, by_class.shape)
        return combine(np.stack([by_class, uniform], axis=2), self._weights)

    @property
    def uses_whole_contexts(self) -> bool:
        return self.class_model.uses_whole_contexts

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        return self.class_model.find_used_lengths(self.classes[context_ids])

    @property
    def _weights(self) -> np.ndarray:
        return np.array([1 - self.uniform_weight, self.uniform_weight])

    def arrays(self) -> dict[str, np.ndarray | list[np.ndarray]]:
        return {
            "classes": self.classes,
            "word_log_probs": self.word_log_probs,
            "uniform": self.uniform,
            "uniform_weight": np.array(self.uniform_weight),
            **self.class_model.arrays(),
        }

    @classmethod
    def load(cls, path: str | os.PathLike, boundary: str | None = None) -> "ClassBased":
        """Read the tables that `save` wrote."""
        tables = read_arrays(path, ["classes", "word_log_probs", "uniform", "uniform_weight"])
        class_model = BackoffModel.load(path, boundary)
        tables["uniform_weight"] = float(tables["uniform_weight"])
        return cls(class_model, **tables)


def class_based(
    ids: np.ndarray,
    held_out_ids: np.ndarray,
    classes: np.ndarray,
    order: int,
    boundary: str = "sentence",
) -> ClassBased:
    """Estimate a class-based n-gram model from a text, and ε on held-out text.

    Args:
        ids: the training text, int32 [T], each sentence closed by `</s>`.
        held_out_ids: the validation text.
        classes: the class of each word, int32 [|V|], as `exchange_classes` returns them.
        order: n, 2 or more.
        boundary: `"sentence"`, `"text"` or `"stream"`; see `ngram_positions`.
    """
    check_integer("order", order, 2)
    ids = convert_ids(ids)
    classes = convert_ids(classes, "classes")
    vocabulary_size = len(classes)
    check_ids(ids, vocabulary_size)
    num_classes = int(classes.max()) + 1
    counts = np.bincount(ids[ids != BOS_ID], minlength=vocabulary_size)
    without = int(np.count_nonzero((counts > 0) & (classes < EOS_ID)))
    if without:
        raise InputError(
            "`classes` must be the class of every word of the text. Received: "
            f"{without} words of the text have no class. Fix: name the word classes of this text."
        )
    predicted = predicted_ids(vocabulary_size, boundary)
    class_ids = np.unique(classes[predicted][counts[predicted] > 0])
    class_model = kneser_ney(classes[ids], num_classes, order, boundary, class_ids)
    totals = np.bincount(classes, counts, minlength=num_classes)
    uniform = np.zeros(vocabulary_size)
    uniform[predicted] = 1 / len(predicted)
    # a class without words in the text has the total 0
    shares = counts / np.maximum(totals, 1)[classes]
    with np.errstate(divide="ignore"):
        word_log_probs = np.log(shares)
        log_uniform = np.log(uniform)
    model = ClassBased(class_model, classes, word_log_probs, log_uniform, uniform_weight=0.0)
    ngrams = extract_ngrams(held_out_ids, order, boundary)
    weights = fit_weights(model.components(ngrams[:, :-1], ngrams[:, -1]).T)
    return dataclasses.replace(model, uniform_weight=float(weights[0, 1]))
