"""Outputs that train on the target and a few words drawn at random: sampled softmax, noise-contrastive estimation."""

import keras
import numpy as np
from keras import ops

from keras_nplm.data.vocabulary import BOS_ID, PAD_ID
from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import rows
from keras_nplm.layers.outputs.base import (
    BiasedOutput,
    LinearOutput,
    check_share,
    log_probability,
    with_new_words,
)

PROPOSALS = ("unigram", "log-uniform")


class SampledOutput(BiasedOutput):
    """An output that is trained on k words drawn from a distribution Q, the proposal, once for a batch.

    A step computes and updates the rows of the targets and of the k words: with a lazy optimiser its cost is free of
    |V|. A `weight_decay` of the layer's own would pass over every row, and there is none. The words are
    drawn from k strata of equal mass of Q, one each, which keeps the estimate of a sum over words steady: a word with
    Q(w) = 3/k comes thrice. Whatever the loss, `log_probs` and `log_prob` are exactly normalised.

    Args:
        vocabulary_size: int, |V|.
        num_sampled: int, k.
        proposal: `"unigram"`: Q is the training text's, as `set_unigram` is told; `"log-uniform"`: Q(w) ∝
            ln((r+2)/(r+1)), r the word's rank by frequency, 0 for the most frequent. Before `set_unigram` is called it
            is log-uniform by id. Words that are never predicted are never drawn.
        held_out_mass: float in [0, 1), ε: each target is replaced, with probability ε, by a word drawn from the
            distribution over words that training lacks (see `FullSoftmax`, whose loss this is on average).
        self_normalisation: float, α: adds α (ln Ẑ)² to the loss, Ẑ = sum_j exp(y_j) / (k Q(w_j)) over the drawn words,
            which is Z on average: it keeps ln Z near 0.
        seed: int, of the drawing; None draws one.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_sampled: int = 256,
        proposal: str = "unigram",
        held_out_mass: float = 0.0,
        self_normalisation: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        check_share(held_out_mass)
        if num_sampled < 1:
            raise InputError(f"`num_sampled` must be 1 or more. Received: {num_sampled}.")
        if proposal not in PROPOSALS:
            raise InputError(f"`proposal` must be one of {', '.join(PROPOSALS)}. Received: {proposal!r}.")
        super().__init__(vocabulary_size, **kwargs)
        self.num_sampled = num_sampled
        self.proposal = proposal
        self.held_out_mass = held_out_mass
        self.self_normalisation = self_normalisation
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape):
        super().build(input_shape)
        self.noise = self._distribution("noise")
        self.log_q = self.add_weight(
            name="log_q", shape=(self.vocabulary_size,), initializer="zeros", trainable=False, autocast=False
        )
        self.lacking = self._distribution("lacking") if self.held_out_mass else None
        predicted = np.ones(self.vocabulary_size)
        predicted[[PAD_ID, BOS_ID]] = 0
        self._propose(_log_uniform(np.arange(self.vocabulary_size, 0, -1) * predicted))
        if self.lacking is not None:
            self._assign(self.lacking, predicted / predicted.sum())

    def training_loss(self, features, target_ids):
        target_ids, known = self.in_vocabulary(target_ids)
        features = ops.cast(features, self.variable_dtype)
        if self.held_out_mass:
            target_ids = self._some_held_out(target_ids)
        sampled_ids = self._draw(self.noise, self._strata(self.num_sampled))
        log_k = float(np.log(self.num_sampled))  # k Q(w): how often w is drawn
        sampled = self.logits_of(features, sampled_ids) - rows(self.log_q, sampled_ids) - log_k  # [B, k]
        target = self.logit(features, target_ids) - rows(self.log_q, target_ids) - log_k
        loss = self.contrast(target, sampled)
        if self.self_normalisation:
            loss += self.self_normalisation * ops.square(ops.logsumexp(sampled, axis=-1))
        return loss * known, None

    def contrast(self, target, sampled):
        """The loss, float [B], from y - ln k Q(w) of the targets, [B], and of the drawn words, [B, k]."""
        raise NotImplementedError

    def start_at(self, unigram, lacking):
        super().start_at(unigram, lacking)
        self._propose(_log_uniform(unigram) if self.proposal == "log-uniform" else unigram)
        if self.lacking is not None:
            self._assign(self.lacking, lacking)

    def grow_from(self, smaller, kernel, b, frequencies):
        super().grow_from(smaller, kernel, b, frequencies)
        self._propose(np.append(_probabilities(smaller.noise) * (1 - frequencies.sum()), frequencies))
        if self.lacking is not None:
            self._assign(self.lacking, with_new_words(_probabilities(smaller.lacking), len(b)))

    def _strata(self, number: int):
        """A number drawn from each of equal parts of [0, 1)."""
        return (
            ops.arange(number, dtype="float32") + keras.random.uniform((number,), seed=self.seed_generator)
        ) / number

    def _some_held_out(self, target_ids):
        shape = ops.shape(target_ids)
        drawn = self._draw(self.lacking, keras.random.uniform(shape, seed=self.seed_generator))
        held_out = keras.random.uniform(shape, seed=self.seed_generator) < self.held_out_mass
        return ops.where(held_out, drawn, target_ids)

    def _propose(self, probabilities: np.ndarray) -> None:
        probabilities = probabilities / probabilities.sum()
        self._assign(self.noise, probabilities)
        self.log_q.assign(log_probability(probabilities))

    def _distribution(self, name: str):
        """Weights that hold a distribution over words: its cumulated sums, the rarest word first, and those words.

        The rarest are first because float32 tells small numbers apart better than numbers near 1.
        """
        options = dict(shape=(self.vocabulary_size,), trainable=False, autocast=False)
        return (
            self.add_weight(name=f"{name}_cumulated", initializer="ones", **options),
            self.add_weight(name=f"{name}_words", initializer="zeros", dtype="int32", **options),
        )

    @staticmethod
    def _assign(distribution, probabilities: np.ndarray) -> None:
        words = np.argsort(probabilities, kind="stable")
        distribution[0].assign(np.cumsum(probabilities[words]))
        distribution[1].assign(words)

    def _draw(self, distribution, uniform):
        """Words, int [k], from numbers in [0, 1), [k]."""
        cumulated, words = distribution
        place = ops.searchsorted(ops.convert_to_tensor(cumulated), uniform, side="right")
        return rows(words, place)

    def get_config(self):
        return super().get_config() | {
            "num_sampled": self.num_sampled,
            "proposal": self.proposal,
            "held_out_mass": self.held_out_mass,
            "self_normalisation": self.self_normalisation,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable("keras_nplm")
class SampledSoftmax(SampledOutput, LinearOutput):
    """The softmax over the target and k drawn words, each logit corrected by how often its word is drawn.

        loss = -ln( exp(s_t) / (exp(s_t) + sum_{j=1..k} exp(s_j)) ),    s_w = y_w - ln k Q(w)

    See `SampledOutput` for the arguments. A drawn word that is the target stays. It is the likelihood of telling which
    of k+1 words was the target, and leads where the likelihood of the words leads, but for terms of order 1/k.

    Example:

    >>> output = SampledSoftmax(vocabulary_size=1000, num_sampled=64, seed=0)
    >>> features = np.ones((2, 3), "float32")
    >>> output(features).shape
    TensorShape([2, 1000])
    >>> output.training_loss(features, np.array([4, 5]))[0].shape
    TensorShape([2])

    Reference: Bengio & Senécal (2008), Adaptive importance sampling; Jean, Cho, Memisevic & Bengio (2015), section 3.
    """

    loss_name = "sampled_loss"

    def contrast(self, target, sampled):
        return softmax_of_drawn(target, sampled)


@keras.saving.register_keras_serializable("keras_nplm")
class NoiseContrastive(SampledOutput, LinearOutput):
    """Noise-contrastive estimation: tell the target from k words of noise, each by itself.

        loss = -ln σ(s_t) - sum_{j=1..k} ln σ(-s_j),    s_w = y_w - ln k Q(w),    σ(s) = 1/(1 + exp(-s))

    See `SampledOutput` for the arguments. At its minimum exp(y_w) is P(w | context) itself, without normalising: ln Z
    stays near 0, and y alone will do as ln P (see `keras_nplm.models.self_normalised`).

    Example:

    >>> output = NoiseContrastive(vocabulary_size=1000, num_sampled=64, seed=0)
    >>> output.build((None, 3))
    >>> output.training_loss(np.ones((2, 3), "float32"), np.array([4, 5]))[0].shape
    TensorShape([2])

    Reference: Gutmann & Hyvärinen (2010); Mnih & Teh (2012), A fast and simple algorithm for training neural
    probabilistic language models.
    """

    loss_name = "nce_loss"

    def contrast(self, target, sampled):
        return ops.softplus(-target) + ops.sum(ops.softplus(sampled), axis=-1)


def softmax_of_drawn(target, sampled):
    """-ln( exp(s_t) / (exp(s_t) + sum_j exp(s_j)) ), float [B], from s_t [B] and s_j [B, k]."""
    everything = ops.logsumexp(ops.concatenate([ops.expand_dims(target, -1), sampled], axis=-1), axis=-1)
    return everything - target


def _probabilities(distribution) -> np.ndarray:
    """What `_assign` was given, float64 [|V|]."""
    cumulated, words = (ops.convert_to_numpy(weight) for weight in distribution)
    probabilities = np.zeros(len(words))
    probabilities[words] = np.diff(cumulated.astype(np.float64), prepend=0)
    return probabilities


def _log_uniform(frequencies: np.ndarray) -> np.ndarray:
    """ln((r+2)/(r+1)), r the rank by frequency; 0 where the frequency is."""
    rank = np.argsort(np.argsort(-frequencies, kind="stable"), kind="stable")
    return np.log1p(1 / (rank + 1)) * (frequencies > 0)
