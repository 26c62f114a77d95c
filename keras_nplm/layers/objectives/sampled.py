"""Sampled objectives: sampled softmax and noise-contrastive estimation train on the target and
negative samples.
"""

import abc
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.arguments import fold_seed
from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.io.errors import (
    InputError,
    check_choice,
    check_share,
)
from keras_nplm.layers.heads.base import Head, safe_log
from keras_nplm.layers.lookup import rows
from keras_nplm.layers.objectives.base import Losses, Objective, append_held_out
from keras_nplm.layers.ops import NewRows, Tensor
from keras_nplm.layers.scores import Scores
from keras_nplm.layers.softmax import noise_loss

PROPOSALS = ("unigram", "log-uniform")


class SampledObjective(Objective):
    """Base class of objectives on the target and k negative samples, words from a proposal
    distribution Q.

        s_w = y_w - ln k Q(w)

    The samples are the same for all n-grams of a batch. A training step computes and updates the
    rows of the targets and of the samples only. With a lazy optimiser (`LazySGD`) its cost does not
    depend on |V|. Weight decay of the head would touch every row, and is refused. The samples come
    from k strata of equal mass of Q, one from each, which lowers the variance: a word with Q(w) =
    3/k comes three times. Validation is exactly normalised.

    Args:
        num_sampled: int, k, the number of negative samples per batch.
        proposal: `"unigram"`: Q is the unigram distribution of the training text (see
            `set_unigram`). `"log-uniform"`: Q(w) ∝ ln((r+2)/(r+1)), with r the word's rank by
            frequency, from 0. Before `set_unigram` is called Q is log-uniform by id. Words that are
            never predicted are never sampled.
        held_out_mass: float in [0, 1), ε. With probability ε a target is replaced by a word from
            the distribution over words that are rare in training. On average this is the loss of
            `Likelihood`.
        self_normalisation: float, α: adds α (ln Ẑ)² to the loss, with Ẑ = sum_j exp(s_j) over the
            samples. Ẑ is Z on average, so the term keeps log Z near 0.
        seed: int, of the sampling. Default: a random seed.
    """

    options = ("num_sampled", "proposal", "held_out_mass", "self_normalisation", "seed")
    has_likelihood = False

    def __init__(
        self,
        num_sampled: int = 256,
        proposal: str = "unigram",
        held_out_mass: float = 0.0,
        self_normalisation: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        check_choice("proposal", proposal, PROPOSALS)
        check_share("held_out_mass", held_out_mass)
        super().__init__(**kwargs)
        self.supports_jit = False  # XLA is slower here, since it makes gradients dense
        self.num_sampled = num_sampled
        self.proposal = proposal
        self.held_out_mass = held_out_mass
        self.self_normalisation = self_normalisation
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(None if seed is None else fold_seed(seed))

    def check_head(self, head: Head) -> None:
        if head.weight_decay:
            raise InputError(
                f"`weight_decay` must be 0 with {type(self).__name__}. Received: "
                f"{head.weight_decay}. "
                "Fix: give it to LazySGD."
            )

    def build(self, scores_shape: tuple) -> None:
        num_outputs = scores_shape[-1]
        self.noise = _WordSampler(self, "noise", num_outputs)
        self.log_q = self.add_weight(name="log_q", shape=(num_outputs,), initializer="zeros")
        self.held_out: _WordSampler | None = None
        if self.held_out_mass:
            self.held_out = _WordSampler(self, "held_out", num_outputs)
        is_predicted = np.ones(num_outputs)
        is_predicted[[PAD_ID, BOS_ID]] = 0
        self._propose(_log_uniform(np.arange(num_outputs, 0, -1) * is_predicted))
        if self.held_out is not None:
            self.held_out.assign(is_predicted / is_predicted.sum())

    def losses(self, scores: Scores, target_ids: Tensor) -> Losses:
        if self.held_out is not None:
            target_ids = self.replace_at_random(target_ids, self.held_out)
        sampled_ids = self.noise.draw(self.draw_strata(self.num_sampled))
        sampled = scores.logits_of(sampled_ids, offset=-self._log_expected(sampled_ids))
        target = scores.logit(target_ids) - self._log_expected(target_ids)
        return Losses(self.contrast(target, sampled), None)

    @abc.abstractmethod
    def contrast(self, target: Tensor, sampled: Tensor) -> Tensor:
        """Return the loss, float [B], from s of the targets, float [B], and of the samples, float
        [B, k].
        """

    def set_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        is_log_uniform = self.proposal == "log-uniform"
        self._propose(_log_uniform(unigram) if is_log_uniform else unigram)
        if self.held_out is not None:
            self.held_out.assign(held_out)

    def grow_from(self, smaller: "SampledObjective", rows: NewRows) -> None:
        of_old_words = smaller.noise.probabilities() * (1 - rows.frequencies.sum())
        self._propose(np.append(of_old_words, rows.frequencies))
        if self.held_out is not None and smaller.held_out is not None:
            held_out = append_held_out(smaller.held_out.probabilities(), len(rows.b))
            self.held_out.assign(held_out)

    def _log_expected(self, word_ids: Tensor) -> Tensor:
        """Return ln k Q(w): how often each word is expected among the samples."""
        return rows(self.log_q, word_ids) + float(np.log(self.num_sampled))

    def draw_strata(self, number: int) -> Tensor:
        """Return a random number from each of `number` equal parts of [0, 1)."""
        within = keras.random.uniform((number,), seed=self.seed_generator)
        return (ops.arange(number, dtype="float32") + within) / number

    def replace_at_random(self, target_ids: Tensor, held_out: "_WordSampler") -> Tensor:
        """Return the targets, with held-out words in place of a share ε of them."""
        shape = ops.shape(target_ids)
        words = held_out.draw(keras.random.uniform(shape, seed=self.seed_generator))
        draws = keras.random.uniform(shape, seed=self.seed_generator)
        return ops.where(draws < self.held_out_mass, words, target_ids)

    def _propose(self, weights: np.ndarray) -> None:
        probabilities = weights / weights.sum()
        self.noise.assign(probabilities)
        self.log_q.assign(safe_log(probabilities))


class _WordSampler:
    """A distribution over words in two weights of a layer: cumulated probabilities, and their
    words.
    """

    def __init__(self, layer: Objective, name: str, num_outputs: int):
        shape = (num_outputs,)
        # the rarest words come first, as float32 is finest near 0
        self.cumulated = layer.add_weight(
            name=f"{name}_cumulated", shape=shape, initializer="ones", dtype="float32"
        )
        self.words = layer.add_weight(
            name=f"{name}_words", shape=shape, initializer="zeros", dtype="int32"
        )

    def assign(self, probabilities: np.ndarray) -> None:
        words = np.argsort(probabilities, kind="stable")
        self.cumulated.assign(np.cumsum(probabilities[words]))
        self.words.assign(words)

    def draw(self, uniform: Tensor) -> Tensor:
        """Return words, int [k], from numbers in [0, 1), [k]."""
        places = ops.searchsorted(ops.convert_to_tensor(self.cumulated), uniform, side="right")
        return rows(self.words, places)

    def probabilities(self) -> np.ndarray:
        cumulated = ops.convert_to_numpy(self.cumulated).astype(np.float64)
        probabilities = np.zeros(len(cumulated))
        probabilities[ops.convert_to_numpy(self.words)] = np.diff(cumulated, prepend=0)
        return probabilities


@keras.saving.register_keras_serializable("keras_nplm")
class SampledSoftmax(SampledObjective):
    """Sampled softmax over the target and k negative samples, with logits corrected for the
    sampling.

        loss = -ln( exp(s_t) / (exp(s_t) + sum_{j=1..k} exp(s_j)) ),    s_w = y_w - ln k Q(w)

    See `SampledObjective` for the arguments. A sample that equals the target is kept. The loss is a
    log-likelihood: which of the k+1 words is the target? It approximates the full softmax up to
    terms of order 1/k.

    Reference: Bengio & Senécal (2008), Adaptive importance sampling; Jean, Cho, Memisevic & Bengio
    (2015), section 3.
    """

    loss_name = "sampled_loss"

    def contrast(self, target: Tensor, sampled: Tensor) -> Tensor:
        log_z = ops.logsumexp(sampled, axis=-1)
        return ops.softplus(log_z - target) + self.self_normalisation * ops.square(log_z)


@keras.saving.register_keras_serializable("keras_nplm")
class NoiseContrastive(SampledObjective):
    """Noise-contrastive estimation (NCE): classify the target against k noise words, each by
    itself.

        loss = -ln σ(s_t) - sum_{j=1..k} ln σ(-s_j),
        s_w = y_w - ln k Q(w),
        σ(s) = 1/(1 + exp(-s))

    See `SampledObjective` for the arguments. At the minimum exp(y_w) is P(w | context) itself. So
    log Z stays near 0, and a logit can serve as a log-probability (see
    `keras_nplm.models.networks.self_normalised`).

    Reference: Gutmann & Hyvärinen (2010); Mnih & Teh (2012), A fast and simple algorithm for
    training neural probabilistic language models.
    """

    loss_name = "nce_loss"

    def contrast(self, target: Tensor, sampled: Tensor) -> Tensor:
        return ops.softplus(-target) + noise_loss(sampled, self.self_normalisation)


def _log_uniform(frequencies: np.ndarray) -> np.ndarray:
    """Return ln((r+2)/(r+1)), with r the rank by frequency; 0 where the frequency is 0."""
    rank = np.argsort(np.argsort(-frequencies, kind="stable"), kind="stable")
    return np.log1p(1 / (rank + 1)) * (frequencies > 0)
