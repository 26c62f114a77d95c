"""Weights of new words, estimated from their contexts in a text: word vectors, output rows and
biases.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import PAD_ID, SPECIALS, UNK_ID
from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import NewRows
from keras_nplm.layers.pointer import CopyScores
from keras_nplm.layers.scores import LinearScores
from keras_nplm.layers.segments import Context
from keras_nplm.models.base import row_blocks
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.growth import renormalise

_BLOCK = 1 << 23  # numbers of a block [contexts, |V|]
_CONTEXTS = 4096  # sample of the text's contexts, for the biases
_MIN_CONTEXTS = 256
_MAX_LOGITS = 1 << 24
_PRIOR_C = 30  # weight of the vector of <unk>, in occurrences
_PRIOR_U, _STEP_U = 2, 0.1  # weight of the output row of <unk>, in occurrences; length of the step
_ITERATIONS = 100


@dataclasses.dataclass(frozen=True)
class NewWordText:
    """The n-grams of a text with new words.

    Attributes:
        ngrams: int32 [T, n], with `<unk>` in place of new words.
        numbers: int [T, n], the number of the new word at each place, below 0 for known words.
        words: the new words.
    """

    ngrams: np.ndarray
    numbers: np.ndarray
    words: list[str]

    def find_contexts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the contexts of the new words, int32 [K, n-1], and the index of each one's word,
        int [K].
        """
        has_context = (self.ngrams[:, :-1] != PAD_ID).any(axis=1)
        chosen = (self.numbers[:, -1] >= 0) & has_context
        owners = self.numbers[chosen, -1]
        counts = np.bincount(owners, minlength=len(self.words))
        if not counts.all():
            word = self.words[int(np.argmin(counts))]
            raise InputError(
                f"The new word {word!r} has no word before it in the text. Fix: give more text."
            )
        return self.ngrams[chosen, :-1], owners


def expect_rows(model: ContextNetwork, text: NewWordText, shares: np.ndarray) -> NewRows:
    """The paper's rule: the expected rows of C and of the output kernel under P(· | context); see
    `add_words`.
    """
    contexts, owners = text.find_contexts()
    table = np.concatenate([model.embed.C.numpy(), _stack_kernel(model)], axis=1)
    sums = np.zeros((len(text.words), table.shape[1]))
    for block in _blocks(len(contexts), model.vocabulary_size):
        probabilities = np.exp(model.next_log_probs(contexts[block]))
        probabilities[:, : len(SPECIALS)] = 0
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        np.add.at(sums, owners[block], probabilities @ table)
    C, kernel = np.split(sums / np.bincount(owners)[:, None], [model.embedding_dim], axis=1)
    projected, log_z = _sample_contexts(model, text)
    return _fit_biases(C, C if model.prob.tied else kernel, projected, log_z, shares)


def climb_rows(model: ContextNetwork, text: NewWordText, shares: np.ndarray) -> NewRows:
    """The better rule: one step up the likelihood of the text from the rows of `<unk>`; see
    `add_words`.
    """
    projected, log_z = _sample_contexts(model, text)
    step = _step_kernel(model, text, projected, log_z)
    C = model.embed.C.numpy()[UNK_ID] + _step_vectors(model, text)
    C = C + step if model.prob.tied else C
    kernel = C if model.prob.tied else _stack_kernel(model)[UNK_ID] + step
    return _fit_biases(C, kernel, projected, log_z, shares)


def _blocks(number: int, width: int) -> Iterator[slice]:
    return row_blocks(number, max(1, min(512, _BLOCK // width)))


def _sample_contexts(model: ContextNetwork, text: NewWordText) -> tuple[np.ndarray, np.ndarray]:
    """Return the projected features of evenly spaced contexts of the text, float32 [R, w], and log
    Z, float [R].
    """
    size = max(_MIN_CONTEXTS, min(_CONTEXTS, _MAX_LOGITS // len(text.words)))
    indices = np.linspace(0, len(text.ngrams) - 1, min(len(text.ngrams), size)).astype(int)
    contexts = text.ngrams[indices, :-1]
    targets = text.ngrams[indices, -1]
    logits = model.output_logits(contexts, targets).astype(np.float64)
    return _project(model, contexts), logits - model.log_prob(contexts, targets)


def _project(model: ContextNetwork, contexts: np.ndarray) -> np.ndarray:
    """Return the features after the projection of the output layer, float32 [B, w]; kernel rows
    multiply them.
    """
    context = model.read(contexts)
    scores = model.score(context, model.features(context))
    if isinstance(scores, CopyScores):
        scores = scores.scores
    assert isinstance(scores, LinearScores)  # `check_growable` refuses other heads
    return np.asarray(scores.features, np.float32)


def _stack_kernel(model: ContextNetwork) -> np.ndarray:
    """Return the kernel of the scores, [U W], float [|V|, w]."""
    kernels = [model.prob.U] if model.prob.U is not None else []
    if model.direct is not None:
        kernels.append(model.direct.W)
    return np.concatenate([kernel.numpy() for kernel in kernels], axis=1)


def _step_vectors(model: ContextNetwork, text: NewWordText) -> np.ndarray:
    """Return the step of the word vectors, (N F + 30 (n-1) σ² I)^-1 g, float [J, m]."""
    m = model.embedding_dim
    has_new = (text.numbers[:, :-1] >= 0).any(axis=1)
    ngrams = text.ngrams[has_new]
    numbers = text.numbers[has_new, :-1]
    gradients = np.zeros((len(text.words), m))
    fisher = np.zeros((m, m))
    for block in _blocks(len(ngrams), model.vocabulary_size):
        is_new = numbers[block] >= 0  # [B, n-1]
        rows = context_gradients(model, ngrams[block, :-1], ngrams[block, -1])[is_new]
        np.add.at(gradients, numbers[block][is_new], rows)
        fisher += rows.T @ rows
    if not fisher.any():  # new words occur in no context
        return gradients
    counts = np.bincount(numbers[numbers >= 0], minlength=len(gradients))
    fisher /= counts.sum()
    curvatures, axes = np.linalg.eigh(fisher)
    prior = _PRIOR_C * (model.order - 1) * np.trace(fisher) / m
    return (gradients @ axes / (counts[:, None] * curvatures + prior)) @ axes.T


def context_gradients(
    model: ContextNetwork, context_ids: np.ndarray, target_ids: np.ndarray
) -> np.ndarray:
    """Return the gradients of ln P(target | context) by the vectors of the context's words, float32
    [B, n-1, m].
    """
    vectors = tf.convert_to_tensor(model.embed.vectors(context_ids))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(vectors)
        context = Context(model.embed.join(vectors), vectors, context_ids, starts=None)
        scores = model.score(context, model.features(context))
        log_z, logit = scores.for_training(target_ids)
        negative = log_z - logit
    return -tape.gradient(negative, vectors).numpy().astype(np.float32)


def _step_kernel(
    model: ContextNetwork, text: NewWordText, projected: np.ndarray, log_z: np.ndarray
) -> np.ndarray:
    """Return the step of the output rows, 0.1 k/(k+2) (f̄_j - f̄_<unk>) / s², float [J, w]."""
    contexts, owners = text.find_contexts()
    sums = np.zeros((len(text.words), projected.shape[1]))
    for block in _blocks(len(contexts), projected.shape[1]):
        np.add.at(sums, owners[block], _project(model, contexts[block]))
    weights = np.exp(
        projected @ _stack_kernel(model)[UNK_ID] + model.prob.b.numpy()[UNK_ID] - log_z
    )
    weights /= weights.sum()
    mean = weights @ projected
    variance = (weights @ (projected - mean) ** 2).mean()
    if not variance:  # the text has one context
        return np.zeros_like(sums)
    k = np.bincount(owners, minlength=len(sums))[:, None]
    return _STEP_U * k / (k + _PRIOR_U) * (sums / k - mean) / variance


def _fit_biases(
    C: np.ndarray, kernel: np.ndarray, projected: np.ndarray, log_z: np.ndarray, shares: np.ndarray
) -> NewRows:
    """Return the rows with biases b_j, for which the mean of P(j | context) is the frequency of
    j.
    """
    logits = projected @ kernel.T
    b = np.zeros(len(shares))
    zeros = np.zeros(len(log_z))
    for _ in range(_ITERATIONS):
        _, log_probs = renormalise(zeros, log_z, logits + b)
        greatest = log_probs.max(axis=0)
        step = np.log(shares) - greatest - np.log(np.exp(log_probs - greatest).mean(axis=0))
        b += step
        if np.abs(step).max() < 1e-6:
            break
    return NewRows(C, kernel, b, shares)
