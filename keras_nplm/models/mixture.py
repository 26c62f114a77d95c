"""Convex combinations of language models."""

from collections.abc import Iterator, Sequence

import numpy as np

from keras_nplm.data.ngram_arrays import check_ngrams, ngrams_of, predicted_ids
from keras_nplm.io.errors import InputError
from keras_nplm.models.evaluation import LogProb, log_probs
from keras_nplm.models.ngrams.interpolation import FrequencyBins, combine, fit_weights


class Uniform:
    """The zerogram: P(w | h) = 1/|V'| for each word that is ever predicted.

    Args:
        vocabulary_size: |V|.
        boundary: `"stream"`: V' is `<unk>` and the words; `"sentence"`: `</s>`, too.

    Example:

    >>> Uniform(8, "stream").log_prob(np.array([[4]]), np.array([5])).round(4)
    array([-1.6094])
    """

    order = 2

    def __init__(self, vocabulary_size: int, boundary: str):
        predicted = predicted_ids(vocabulary_size, boundary)
        self.vocabulary_size = vocabulary_size
        self._log_probs = np.full(vocabulary_size, -np.inf)
        self._log_probs[predicted] = -np.log(len(predicted))

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """ln 1/|V'|, float64 [B]; -inf for what is never predicted."""
        _, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        return self._log_probs[target_ids]

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """The same for every word, float64 [B, |V|]."""
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        return np.tile(self._log_probs, (len(context_ids), 1))


class Mixture:
    """A convex combination of language models over one vocabulary.

        P(w | h) = sum_k α_k(l(h)) P_k(w | h)

    The weights are the same everywhere, or depend on how often the context was seen in training (see `FrequencyBins`).

    Args:
        models: two or more; each sees as much of the context as its own order takes.
        weights: α, float [K], or [bins, K] with `bins`; not negative, and summing to 1 a row.
        bins: which row of `weights` a context has. Default: there is one.

    Raises:
        InputError: fewer than two models, models of different vocabularies, or weights that are none.

    Example:

    >>> mixture = Mixture([Uniform(8, "stream"), Uniform(8, "sentence")], [0.5, 0.5])
    >>> np.exp(mixture.next_log_probs(np.array([[4]])))[0].round(3)
    array([0.   , 0.183, 0.   , 0.083, 0.183, 0.183, 0.183, 0.183])

    Reference: Bengio et al. (2003), section 4.1; Jelinek & Mercer (1980).
    """

    def __init__(
        self, models: Sequence[LogProb], weights: Sequence[float] | np.ndarray, bins: FrequencyBins | None = None
    ):
        if len(models) < 2:
            raise InputError(f"A mixture needs two models or more. Received: {len(models)}.")
        sizes = [model.vocabulary_size for model in models]
        if len(set(sizes)) > 1:
            raise InputError(f"The models of a mixture must have one vocabulary. Received: {sizes} words.")
        weights = np.atleast_2d(np.asarray(weights, np.float64))
        if weights.shape != (bins.number if bins else 1, len(models)):
            wanted = f"{bins.number} rows of {len(models)}" if bins else str(len(models))
            received = f"{len(weights)} rows of {weights.shape[1]}" if bins else str(weights.size)
            raise InputError(f"The weights of this mixture must be {wanted} in number. Received: {received}.")
        if not ((weights >= 0).all() and np.allclose(weights.sum(axis=1), 1, atol=1e-6)):
            raise InputError(f"Weights must not be negative and sum to 1. Received: {weights[0].tolist()}.")
        self.models = list(models)
        self.weights = weights / weights.sum(axis=1, keepdims=True)
        self.bins = bins
        self.order = max(model.order for model in models)
        self.vocabulary_size = sizes[0]

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """ln P(target | context).

        Args:
            context_ids: int [B, n-1], oldest first.
            target_ids: int [B].

        Returns:
            float64 [B], nats.

        Raises:
            InputError: ids out of range, or another shape.
        """
        context_ids, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        parts = [model.log_prob(seen_by(model, context_ids), target_ids) for model in self.models]
        return combine(np.stack(parts, axis=1), self._weights(context_ids))

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(w | context) for every word w.

        Args:
            context_ids: int [B, n-1], oldest first.

        Returns:
            float64 [B, |V|], nats; -inf for what no model ever predicts.

        Raises:
            InputError: ids out of range, or contexts of another length.
        """
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        parts = [model.next_log_probs(seen_by(model, context_ids)) for model in self.models]
        return combine(np.stack(parts, axis=2), self._weights(context_ids)[:, None])

    def components(self, context_ids: np.ndarray) -> Iterator[tuple[np.ndarray, LogProb, np.ndarray]]:
        """Each model with its weight in each context, float64 [B], and the part of the contexts that it sees."""
        for weights, model in zip(self._weights(context_ids).T, self.models, strict=True):
            yield weights, model, seen_by(model, context_ids)

    def _weights(self, context_ids: np.ndarray) -> np.ndarray:
        """α of each context, float64 [B, K]."""
        return self.weights[self.bins.of(context_ids) if self.bins else np.zeros(len(context_ids), np.int64)]


def fit_mixture(
    models: Sequence[LogProb], held_out_ids: np.ndarray, boundary: str, bins: FrequencyBins | None = None
) -> Mixture:
    """Fit the weights of a mixture on held-out text by expectation-maximisation.

    Args:
        models: two or more.
        held_out_ids: the validation text, int32 [T], each sentence closed by `</s>`.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        bins: fit a set of weights for each bin of the context's training frequency. Default: one set.

    Raises:
        InputError: the text is empty, or a word of it has probability 0 in every model.

    Example:

    >>> from keras_nplm.models.ngrams import kneser_ney
    >>> models = [kneser_ney(np.array([4, 5, 6, 4, 5, 4, 3]), 8, 3, "stream"), Uniform(8, "stream")]
    >>> mixture = fit_mixture(models, np.array([4, 5, 6, 7, 3]), "stream")
    >>> mixture.weights.sum().round(6), bool(mixture.weights[0, 1] > 0)
    (np.float64(1.0), True)
    """
    equal = np.full((bins.number if bins else 1, len(models)), 1 / max(len(models), 1))
    mixture = Mixture(models, equal, bins)
    columns = [np.concatenate([part for part, _ in log_probs(model, held_out_ids, boundary)]) for model in models]
    held_out_bins = None
    if bins:
        held_out_bins = bins.of(ngrams_of(held_out_ids, mixture.order, boundary)[:, :-1])
    return Mixture(models, fit_weights(np.stack(columns, axis=1), held_out_bins, len(equal)), bins)


def seen_by(model: LogProb, context_ids: np.ndarray) -> np.ndarray:
    """The part of the contexts that a model of a lower order takes."""
    return context_ids[:, context_ids.shape[1] - (model.order - 1) :]
