"""Sampled outputs: sampled softmax and noise-contrastive estimation train on the target and negative samples."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.arguments import fold_seed
from keras_nplm.data.special_ids import BOS_ID, PAD_ID
from keras_nplm.io.errors import check_argument
from keras_nplm.io.options import check_option
from keras_nplm.layers.lookup import rows
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.outputs.base import BiasedOutput, safe_log
from keras_nplm.layers.outputs.linear import LinearOutput, append_held_out
from keras_nplm.layers.softmax import noise_loss


class SampledOutput(BiasedOutput):
    """Base class of outputs that train on the target and k negative samples, words from a proposal distribution Q.

    The samples are the same for all n-grams of a batch. A training step computes and updates the rows of the targets
    and of the samples only. With a lazy optimiser (`LazySGD`) its cost does not depend on |V|. Weight decay of the
    layer would touch every row, and is refused. The samples come from k strata of equal mass of Q, one from each, which
    lowers the variance: a word with Q(w) = 3/k comes three times. `log_probs` and `log_prob` are exactly normalised.
    A subclass has `project`, `logits_of` and `logit` as `LinearOutput`.

    Args:
        vocabulary_size: int, |V|.
        num_sampled: int, k, the number of negative samples per batch.
        proposal: `"unigram"`: Q is the unigram distribution of the training text (see `set_unigram`).
            `"log-uniform"`: Q(w) ∝ ln((r+2)/(r+1)), with r the word's rank by frequency, from 0. Before `set_unigram`
            is called Q is log-uniform by id. Words that are never predicted are never sampled.
        held_out_mass: float in [0, 1), ε. With probability ε a target is replaced by a word from the distribution over
            words that are rare in training. On average this is the loss of `FullSoftmax`.
        self_normalisation: float, α: adds α (ln Ẑ)² to the loss, with Ẑ = sum_j exp(y_j) / (k Q(w_j)) over the samples.
            Ẑ is Z on average, so the term keeps log Z near 0.
        seed: int, of the sampling. Default: a random seed.
    """

    options = ("num_sampled", "proposal", "held_out_mass", "self_normalisation", "seed")
    is_sampled = True

    def __init__(
        self,
        vocabulary_size: int,
        num_sampled: int = 256,
        proposal: str = "unigram",
        held_out_mass: float = 0.0,
        self_normalisation: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        check_option("held_out_mass", held_out_mass)
        check_option("proposal", proposal)
        decay = kwargs.get("weight_decay", 0.0)
        check_argument("num_sampled", num_sampled >= 1, "1 or more", num_sampled, "256 is a usual value.")
        check_argument("weight_decay", not decay, "0 with a sampled output", decay, "give it to LazySGD.")
        super().__init__(vocabulary_size, **kwargs)
        self.supports_jit = False  # XLA is slower here, since it makes gradients dense
        self.num_sampled = num_sampled
        self.proposal = proposal
        self.held_out_mass = held_out_mass
        self.self_normalisation = self_normalisation
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(None if seed is None else fold_seed(seed))

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        self.noise = self._distribution("noise")
        self.log_q = self.add_weight(name="log_q", shape=(self.num_outputs,), initializer="zeros", trainable=False)
        self.held_out = self._distribution("held_out") if self.held_out_mass else None
        predicted = np.ones(self.num_outputs)
        predicted[[i for i in (PAD_ID, BOS_ID) if i < self.num_outputs]] = 0
        self._propose(_log_uniform(np.arange(self.num_outputs, 0, -1) * predicted))
        if self.held_out is not None:
            self._assign(self.held_out, predicted / predicted.sum())

    def training_loss(self, features: Tensor, output_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        output_ids, known = self.clip_ids(output_ids)
        projected = self.project(features, training=True)
        if self.held_out_mass:
            output_ids = self._replace_by_held_out(output_ids)
        sampled_ids = self._sample(self.noise, self._strata(self.num_sampled))
        log_k = float(np.log(self.num_sampled))  # k Q(w): how often w is expected among the samples
        log_kq = [ops.cast(rows(self.log_q, ids), self.accumulator_dtype) + log_k for ids in (sampled_ids, output_ids)]
        sampled = self.logits_of(projected, sampled_ids, offset=-log_kq[0])  # [B, k]
        target = self.logit(projected, output_ids) - log_kq[1]
        return self.contrast(target, sampled) * known, None

    def contrast(self, target: Tensor, sampled: Tensor) -> Tensor:
        """Return the loss, [B], from s = y - ln k Q(w) of targets, [B], and samples, [B, k]: of sampled softmax."""
        log_z = ops.logsumexp(sampled, axis=-1)
        return ops.softplus(log_z - target) + self.self_normalisation * ops.square(log_z)

    def initialise_from_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        super().initialise_from_unigram(unigram, held_out)
        self._propose(_log_uniform(unigram) if self.proposal == "log-uniform" else unigram)
        if self.held_out is not None:
            self._assign(self.held_out, held_out)

    def grow_from(self, smaller: "LinearOutput", kernel: Tensor, b: np.ndarray, frequencies: np.ndarray) -> None:
        super().grow_from(smaller, kernel, b, frequencies)
        self._propose(np.append(_probabilities(smaller.noise) * (1 - frequencies.sum()), frequencies))
        if self.held_out is not None:
            self._assign(self.held_out, append_held_out(_probabilities(smaller.held_out), len(b)))

    def _strata(self, number: int) -> Tensor:
        """Return a random number from each of `number` equal parts of [0, 1)."""
        within = keras.random.uniform((number,), seed=self.seed_generator)
        return (ops.arange(number, dtype="float32") + within) / number

    def _replace_by_held_out(self, output_ids: Tensor) -> Tensor:
        shape = ops.shape(output_ids)
        words = self._sample(self.held_out, keras.random.uniform(shape, seed=self.seed_generator))
        is_held_out = keras.random.uniform(shape, seed=self.seed_generator) < self.held_out_mass
        return ops.where(is_held_out, words, output_ids)

    def _propose(self, probabilities: np.ndarray) -> None:
        probabilities = probabilities / probabilities.sum()
        self._assign(self.noise, probabilities)
        self.log_q.assign(safe_log(probabilities))

    def _distribution(self, name: str) -> tuple[keras.Variable, keras.Variable]:
        """Return weights for the cumulated probabilities of words, the rarest first as float32 is finest near 0."""
        options = dict(shape=(self.num_outputs,), trainable=False)
        return (
            self.add_weight(name=f"{name}_cumulated", initializer="ones", dtype="float32", **options),
            self.add_weight(name=f"{name}_words", initializer="zeros", dtype="int32", **options),
        )

    @staticmethod
    def _assign(distribution: tuple[keras.Variable, keras.Variable], probabilities: np.ndarray) -> None:
        words = np.argsort(probabilities, kind="stable")
        distribution[0].assign(np.cumsum(probabilities[words]))
        distribution[1].assign(words)

    def _sample(self, distribution: tuple[keras.Variable, keras.Variable], uniform: Tensor) -> Tensor:
        """Return words, int [k], of a distribution from numbers in [0, 1), [k]."""
        cumulated, words = distribution
        place = ops.searchsorted(ops.convert_to_tensor(cumulated), uniform, side="right")
        return rows(words, place)


@keras.saving.register_keras_serializable("keras_nplm")
class SampledSoftmax(SampledOutput, LinearOutput):
    """Sampled softmax over the target and k negative samples, with logits corrected for the sampling.

        loss = -ln( exp(s_t) / (exp(s_t) + sum_{j=1..k} exp(s_j)) ),    s_w = y_w - ln k Q(w)

    See `SampledOutput` and `LinearOutput` for the arguments. A sample that equals the target is kept. The loss is a
    log-likelihood: which of the k+1 words is the target? It approximates the full softmax up to
    terms of order 1/k.

    Reference: Bengio & Senécal (2008), Adaptive importance sampling; Jean, Cho, Memisevic & Bengio (2015), section 3.
    """

    loss_name = "sampled_loss"


@keras.saving.register_keras_serializable("keras_nplm")
class NoiseContrastive(SampledOutput, LinearOutput):
    """Noise-contrastive estimation (NCE): classify the target against k noise words, each by itself.

        loss = -ln σ(s_t) - sum_{j=1..k} ln σ(-s_j),    s_w = y_w - ln k Q(w),    σ(s) = 1/(1 + exp(-s))

    See `SampledOutput` and `LinearOutput` for the arguments. At the minimum exp(y_w) is P(w | context) itself. So log Z
    stays near 0, and a logit can serve as a log-probability (see `keras_nplm.models.self_normalised`).

    Reference: Gutmann & Hyvärinen (2010); Mnih & Teh (2012), A fast and simple algorithm for training neural
    probabilistic language models.
    """

    loss_name = "nce_loss"

    def contrast(self, target: Tensor, sampled: Tensor) -> Tensor:
        return ops.softplus(-target) + noise_loss(sampled, self.self_normalisation)


def _probabilities(distribution: tuple[keras.Variable, keras.Variable]) -> np.ndarray:
    cumulated, words = (ops.convert_to_numpy(weight) for weight in distribution)
    probabilities = np.zeros(len(words))
    probabilities[words] = np.diff(cumulated.astype(np.float64), prepend=0)
    return probabilities


def _log_uniform(frequencies: np.ndarray) -> np.ndarray:
    """Return ln((r+2)/(r+1)), with r the rank by frequency; 0 where the frequency is 0."""
    rank = np.argsort(np.argsort(-frequencies, kind="stable"), kind="stable")
    return np.log1p(1 / (rank + 1)) * (frequencies > 0)
