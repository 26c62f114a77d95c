"""What the output layers share: the questions that each answers, where it starts, and the linear ones' weights."""

import keras
import numpy as np
from keras import ops

from keras_nplm.data.vocabulary import EOS_ID, UNK_ID
from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import linear_log_prob, linear_logit, penalty, rows

_NEVER = 1e-12  # the probability of an id that is never a target


class Output(keras.layers.Layer):
    """An output layer turns features f of a context into P(w | context), and answers three questions.

    All log-probabilities: `log_probs(features)`, float [B, |V|]. Those of given targets: `log_prob(features, ids)`,
    float [B]. What training minimises: `training_loss(features, ids)`. Calling it gives logits [B, |V|]: ln P up to
    a constant of the context. Probabilities are exactly normalised whatever the training loss.

    Args:
        vocabulary_size: int, |V|.
    """

    loss_name = "loss"  # in the logs of training; another where it is no likelihood
    held_out_mass = 0.0  # ε of `set_unigram`; some have a share of their own

    def __init__(self, vocabulary_size: int, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size

    def log_probs(self, features):
        """ln P(w | context) for every word w, float [B, |V|], in nats."""
        return ops.log_softmax(self(features))

    def log_prob(self, features, target_ids, which=None):
        """ln P(target | context), float [B], in nats, for int targets [B].

        `which`, int [B], says which row of the features is the context of each target; None: target i has row i.
        """
        raise NotImplementedError

    def training_loss(self, features, target_ids):
        """The loss of each target, float [B], and its exact -ln P(target | context), float [B] or None."""
        raise NotImplementedError

    def logits_of(self, features, word_ids):
        """The logits of few words, the same in all contexts: float [B, k], for int [k] in the vocabulary."""
        raise NotImplementedError

    def logit(self, features, target_ids):
        """The logit of one word a context, float [B], for int [B] in the vocabulary."""
        raise NotImplementedError

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights that weight decay spares."""
        raise NotImplementedError

    def negative_log_likelihood(self, logits, target_ids):
        """-ln P(target | context) in nats and ln Z, float [B] each, from logits [B, |V|] and int targets [B]."""
        target_ids, known = self.in_vocabulary(target_ids)
        chosen = ops.take_along_axis(logits, ops.expand_dims(target_ids, -1), axis=-1)[:, 0]
        log_z = ops.logsumexp(logits, axis=-1)
        return (log_z - chosen) * known, log_z

    def training_loss_of_logits(self, logits, target_ids):
        """`training_loss` where the logits [B, |V|] are there already."""
        negative_log_likelihood, _ = self.negative_log_likelihood(logits, target_ids)
        return negative_log_likelihood, negative_log_likelihood

    def in_vocabulary(self, target_ids):
        """Targets int [B], moved into the vocabulary, and float [B]: 1, or NaN for one that lies outside.

        A loss times the latter is NaN for a target that is no id, so that training on such targets does not go unseen.
        """
        target_ids = ops.cast(ops.reshape(target_ids, (-1,)), "int32")
        known = ops.logical_and(target_ids >= 0, target_ids < self.vocabulary_size)
        inside = ops.clip(target_ids, 0, self.vocabulary_size - 1)
        return inside, ops.where(known, 1.0, float("nan"))

    def set_unigram(self, counts: np.ndarray, min_count: int = 1) -> None:
        """Begin as the unigram model, so that the network need only learn what the context adds.

            P(w | context) = p(w) = (1-ε) c(w)/N + ε q(w),    q(w) ∝ max(min_count - c(w), 0),    ε = `held_out_mass`

        q goes to words seen in training less often than the vocabulary asks of a word: one counted over the whole
        corpus promises that each occurs `min_count` times, so what training lacks of that lies in the other splits.
        Where no word lacks anything q is uniform; without ε a word never seen counts as if seen once. `<pad>` and
        `<s>`, which are never predicted, get a probability too small to matter; so does `</s>` if training lacks it.

        Args:
            counts: how often each id is a target in training, int [|V|].
            min_count: how often a word had to be seen to join the vocabulary.

        Raises:
            InputError: `counts` is not [|V|] or holds nothing.
        """
        counts = np.asarray(counts, np.float64)
        if counts.shape != (self.vocabulary_size,) or counts.sum() <= 0:
            raise InputError(
                f"`counts` must be [{self.vocabulary_size}] with a positive sum. Received: {counts.shape}."
            )
        predicted = counts > 0
        predicted[UNK_ID] = True  # it may always be met
        predicted[EOS_ID + 1 :] = True
        q = np.where(predicted, np.maximum(min_count - counts, 0), 0)
        q = q if q.any() else predicted.astype(np.float64)
        mass = self.held_out_mass
        smoothed = counts if mass else np.where(predicted, np.maximum(counts, 1), 0)
        p = (1 - mass) * smoothed / smoothed.sum() + mass * q / q.sum()
        self.start_at(np.where(predicted, np.maximum(p, _NEVER), 0), q / q.sum())

    def start_at(self, unigram: np.ndarray, lacking: np.ndarray) -> None:
        """Set the weights so that P(w | context) is `unigram`; `lacking` is q of `set_unigram`. Both float [|V|].

        `unigram` is 0 for words that are never predicted, and 1e-12 or more for the others.
        """
        raise NotImplementedError

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.vocabulary_size)

    def get_config(self):
        return super().get_config() | {"vocabulary_size": self.vocabulary_size}


def check_share(held_out_mass: float) -> None:
    """Refuse a `held_out_mass` that is no share."""
    if not 0 <= held_out_mass < 1:
        raise InputError(f"`held_out_mass` must be in [0, 1). Received: {held_out_mass}.")


def log_probability(probability: np.ndarray) -> np.ndarray:
    """ln p, that of a word which is never predicted being ln 1e-12."""
    return np.log(np.maximum(probability, _NEVER))


class BiasedOutput(Output):
    """An output whose logits have a bias a word, b, which begins at ln P of the unigram model."""

    def build(self, input_shape):
        self.b = self.add_weight(name="b", shape=(self.vocabulary_size,), initializer="zeros", autocast=False)

    @property
    def biases(self):
        return [self.b]

    def start_at(self, unigram, lacking):
        self.b.assign(log_probability(unigram))


class LinearOutput(BiasedOutput):
    """Logits that are linear in the features: y = b + [U W] f.

    The kernel [U W] is kept a row a word, [|V|, w], as in the paper, so that few words cost few rows.

    Args:
        vocabulary_size: int, |V|.
        weight_decay: float, the paper's weight decay on U and W; b has none.
    """

    def __init__(self, vocabulary_size: int, weight_decay: float = 0.0, **kwargs):
        super().__init__(vocabulary_size, **kwargs)
        self.weight_decay = weight_decay
        self.kernel = None

    def tie(self, matrix: keras.Variable) -> None:
        """Take a matrix [|V|, w] of another layer for the kernel; to be called before `build`."""
        self.kernel = matrix

    def build(self, input_shape):
        if self.kernel is None:
            self.kernel = self._new_kernel(input_shape)
        super().build(input_shape)

    def _new_kernel(self, input_shape):
        return self.add_weight(
            name="UW",
            shape=(self.vocabulary_size, input_shape[-1]),
            initializer="glorot_uniform",
            regularizer=penalty(self.weight_decay),
            autocast=False,
        )

    def call(self, features):
        logits = ops.matmul(features, ops.transpose(ops.cast(self.kernel, features.dtype)))
        return ops.cast(logits, self.variable_dtype) + self.b  # a softmax in half precision would not sum to 1

    def log_prob(self, features, target_ids, which=None):
        target_ids, known = self.in_vocabulary(target_ids)
        features = ops.cast(features, self.variable_dtype)
        return linear_log_prob(features, self.kernel, self.b, target_ids, which) * known

    def logits_of(self, features, word_ids):
        return ops.matmul(features, ops.transpose(rows(self.kernel, word_ids))) + rows(self.b, word_ids)

    def logit(self, features, target_ids):
        return linear_logit(features, self.kernel, self.b, target_ids)

    def grow_from(self, smaller: "LinearOutput", kernel: np.ndarray, b: np.ndarray, frequencies: np.ndarray) -> None:
        """Take over the weights of the same output of fewer words, and rows for those that have joined.

        Args:
            smaller: the output as it was, of |V| - J words.
            kernel: rows of [U W] for the new words, float [J, w].
            b: their biases, float [J].
            frequencies: how often each is met, as a share of all tokens, float [J].
        """
        del frequencies
        self.kernel.assign(_beside(smaller.kernel, kernel))
        self.b.assign(_beside(smaller.b, b))

    def get_config(self):
        return super().get_config() | {"weight_decay": self.weight_decay}


def _beside(weight: keras.Variable, rows: np.ndarray) -> np.ndarray:
    return np.concatenate([ops.convert_to_numpy(weight), rows])


def with_new_words(lacking: np.ndarray, number: int) -> np.ndarray:
    """q of `set_unigram` where words have joined: training lacks them as much as any, so they get the greatest share.

    Args:
        lacking: q before, float [|V|].
        number: how many words have joined.
    """
    lacking = np.append(lacking, np.full(number, lacking.max()))
    return lacking / lacking.sum()
