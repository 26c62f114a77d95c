"""Weights of new words, estimated from their contexts in a text: word vectors, output rows and biases."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_nplm.data.vocabulary import PAD_ID, SPECIALS, UNK_ID
from keras_nplm.io.errors import InputError
from keras_nplm.models.growth import NewRows, renormalise
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.self_normalised import SelfNormalised

_BLOCK = 1 << 23  # numbers of a block [contexts, |V|]
_CONTEXTS = 4096  # sample of the text's contexts, for the biases
_MIN_CONTEXTS, _MAX_LOGITS = 256, 1 << 24
_PRIOR_C = 30  # weight of the vector of <unk>, in occurrences
_PRIOR_U, _STEP_U = 2, 0.1  # weight of the output row of <unk>, in occurrences; length of the step
_ITERATIONS = 100


@dataclasses.dataclass(frozen=True)
class NewWordText:
    """The n-grams of a text with new words.

    Args:
        ngrams: int32 [T, n], in ids of the larger vocabulary.
        vocabulary_size: |V| of the network. Ids from |V| on are new words.
        words: J new words, in the order of their ids.
    """

    ngrams: np.ndarray
    vocabulary_size: int
    words: list[str]

    @property
    def known_ngrams(self) -> np.ndarray:
        """The n-grams with `<unk>` in place of new words, int32 [T, n]."""
        return np.where(self.ngrams < self.vocabulary_size, self.ngrams, UNK_ID).astype(np.int32)

    def find_contexts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the contexts of the new words, int32 [K, n-1], and the index of each one's word, int [K]."""
        has_context = (self.ngrams[:, :-1] != PAD_ID).any(axis=1)
        chosen = (self.ngrams[:, -1] >= self.vocabulary_size) & has_context
        owners = self.ngrams[chosen, -1] - self.vocabulary_size
        counts = np.bincount(owners, minlength=len(self.words))
        if not counts.all():
            word = self.words[int(np.argmin(counts))]
            raise InputError(f"The new word {word!r} has no word before it in the text. Fix: give more text.")
        return self.known_ngrams[chosen, :-1], owners


def estimate_rows(model: NPLM, text: NewWordText, shares: np.ndarray, rule: str) -> NewRows:
    """Estimate the weights of new words from their contexts; see `add_words` for the formulas."""
    logits = SelfNormalised(model)
    contexts, log_z = _sample_contexts(model, logits, text)
    projected = _project(model, logits, contexts)
    if rule == "expectation":
        C, kernel = _expect_rows(model, text)
    else:
        C = model.embed.C.numpy()[UNK_ID] + _step_vectors(model, text)
        step = _step_kernel(model, logits, text, projected, log_z)
        kernel = model.prob.kernel.numpy()[UNK_ID] + step
        C = C + step if model.prob.tied else C
    kernel = C if model.prob.tied else kernel
    return NewRows(C, kernel, _fit_biases(projected @ kernel.T, log_z, shares), shares)


def _blocks(number: int, width: int) -> list[slice]:
    """Return slices of contexts, so that an array [contexts, width] takes little memory."""
    size = max(1, min(512, _BLOCK // width))
    return [slice(first, first + size) for first in range(0, number, size)]


def _sample_contexts(model: NPLM, logits: SelfNormalised, text: NewWordText) -> tuple[np.ndarray, np.ndarray]:
    """Return evenly spaced contexts of the text, int32 [R, n-1], and log Z of each, float [R]."""
    size = max(_MIN_CONTEXTS, min(_CONTEXTS, _MAX_LOGITS // len(text.words)))
    indices = np.linspace(0, len(text.ngrams) - 1, min(len(text.ngrams), size)).astype(int)
    ngrams = np.where(text.ngrams[indices] < text.vocabulary_size, text.ngrams[indices], UNK_ID).astype(np.int32)
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    return contexts, logits.log_prob(contexts, targets).astype(np.float64) - model.log_prob(contexts, targets)


def _project(model: NPLM, logits: SelfNormalised, contexts: np.ndarray) -> np.ndarray:
    """Return the features after the projection of the output layer, float32 [B, w]; kernel rows multiply them."""
    return np.asarray(model.prob.project_features(logits.features(contexts)))


def _expect_rows(model: NPLM, text: NewWordText) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected rows of C and of the output kernel under P(· | context): [J, m] and [J, w]."""
    contexts, owners = text.find_contexts()
    table = np.concatenate([model.embed.C.numpy(), model.prob.kernel.numpy()], axis=1)
    sums = np.zeros((len(text.words), table.shape[1]))
    for block in _blocks(len(contexts), text.vocabulary_size):
        probabilities = np.exp(model.next_log_probs(contexts[block]))
        probabilities[:, : len(SPECIALS)] = 0
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        np.add.at(sums, owners[block], probabilities @ table)
    means = sums / np.bincount(owners, minlength=len(sums))[:, None]
    return means[:, : model.embedding_dim], means[:, model.embedding_dim :]


def _step_vectors(model: NPLM, text: NewWordText) -> np.ndarray:
    """Return the step of the word vectors, (N F + 30 (n-1) σ² I)^-1 g, float [J, m]."""
    m, has_new = model.embedding_dim, (text.ngrams[:, :-1] >= text.vocabulary_size).any(axis=1)
    contexts, ngrams = text.ngrams[has_new, :-1], text.known_ngrams[has_new]
    gradients, fisher = np.zeros((len(text.words), m)), np.zeros((m, m))
    for block in _blocks(len(ngrams), text.vocabulary_size):
        is_new = contexts[block] >= text.vocabulary_size  # [B, n-1]
        rows = context_gradients(model, ngrams[block, :-1], ngrams[block, -1])[is_new]
        np.add.at(gradients, contexts[block][is_new] - text.vocabulary_size, rows)
        fisher += rows.T @ rows
    if not fisher.any():  # new words occur in no context
        return gradients
    occurrences = contexts[contexts >= text.vocabulary_size] - text.vocabulary_size
    numbers = np.bincount(occurrences, minlength=len(gradients))
    curvatures, axes = np.linalg.eigh(fisher / len(occurrences))
    prior = _PRIOR_C * (model.order - 1) * np.trace(fisher) / len(occurrences) / m
    return (gradients @ axes / (numbers[:, None] * curvatures + prior)) @ axes.T


def context_gradients(model: NPLM, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
    """Return the gradients of ln P(target | context) by the vectors of the context's words, float32 [B, n-1, m]."""
    vectors = tf.convert_to_tensor(model.embed.vectors(context_ids))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(vectors)
        features = model.features_of_vectors(vectors, context_ids)
        negative = model.prob.negative_log_likelihood(features, target_ids)
    return -tape.gradient(negative, vectors).numpy().astype(np.float32)


def _step_kernel(
    model: NPLM, logits: SelfNormalised, text: NewWordText, projected: np.ndarray, log_z: np.ndarray
) -> np.ndarray:
    """Return the step of the output rows, 0.1 k/(k+2) (f̄_j - f̄_<unk>) / s², float [J, w]."""
    contexts, owners = text.find_contexts()
    sums = np.zeros((len(text.words), projected.shape[1]))
    for block in _blocks(len(contexts), projected.shape[1]):
        np.add.at(sums, owners[block], _project(model, logits, contexts[block]))
    weights = np.exp(projected @ model.prob.kernel.numpy()[UNK_ID] + model.prob.b.numpy()[UNK_ID] - log_z)
    weights /= weights.sum()
    mean = weights @ projected
    variance = (weights @ (projected - mean) ** 2).mean()
    if not variance:  # the text has one context
        return np.zeros_like(sums)
    k = np.bincount(owners, minlength=len(sums))[:, None]
    return _STEP_U * k / (k + _PRIOR_U) * (sums / k - mean) / variance


def _fit_biases(logits: np.ndarray, log_z: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return biases b_j, for which the mean of P(j | context) is the frequency of j; `logits` are y_j - b_j [R, J]."""
    b, zeros = np.zeros(len(frequencies)), np.zeros(len(log_z))
    for _ in range(_ITERATIONS):
        _, log_probs = renormalise(zeros, log_z, logits + b)
        step = np.log(frequencies) - _log_mean_exp(log_probs)
        b += step
        if np.abs(step).max() < 1e-6:
            break
    return b


def _log_mean_exp(values: np.ndarray) -> np.ndarray:
    """Return ln of the mean of exp over the rows, float [J], for float [R, J]."""
    greatest = values.max(axis=0)
    return greatest + np.log(np.exp(values - greatest).mean(axis=0))
