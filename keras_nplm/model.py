"""NPLM: the layers composed into the one model, which `fit`, `evaluate`, `predict` and `save` treat as their own."""

import functools
import math
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from keras_nplm.errors import InputError
from keras_nplm.layers import ContextEmbedding, DirectConnection, TanhHidden
from keras_nplm.metrics import Perplexity
from keras_nplm.outputs import FullSoftmax
from keras_nplm.windows import check_ngrams

_ROWS = 1024  # n-grams that `log_prob` and `next_log_probs` hand to the compiled model at a time


@keras.saving.register_keras_serializable("keras_nplm")
class NPLM(keras.Model):
    """The neural probabilistic language model of Bengio, Ducharme, Vincent & Jauvin (2003).

        x = [C(w_{t-n+1}), …, C(w_{t-1})]
        y = b + U tanh(d + H x) (+ W x)
        P(w_t = i | context) = exp(y_i) / sum_j exp(y_j)

    It trains by maximum penalised log-likelihood: `compile(optimizer=…)` needs no loss, since the model has its own,
    the mean negative log-likelihood plus the weight decay's λ/2 |θ|² on C, H, U and W (a `loss` given to `compile` is
    taken instead, on the logits). The likelihood is computed once a step, for the loss and for `perplexity`, which
    has no penalty in it. Free parameters: |V| (1 + n m + h) + h (1 + (n-1) m) with direct connections.

    Args:
        vocabulary_size: int, |V|, special tokens included.
        order: int, n, 2 or more: contexts have n-1 words.
        embedding_dim: int, m.
        hidden_units: int, h; 0 leaves the hidden layer out, which needs direct connections.
        direct_connections: bool, whether there is W.
        weight_decay: float, the paper's λ, on weights and C, never on the biases b and d.
        dropout: float in [0, 1), the share of hidden units left out in training.
        embedding_dropout: float in [0, 1), the same for the components of x.
        held_out_mass: float in [0, 1); see `FullSoftmax.loss`.

    Call arguments:
        context_ids: int [B, n-1], oldest first; `<pad>` (0) where the context is shorter.

    Returns:
        logits, float [B, |V|].

    Raises:
        InputError: an argument is out of range.

    Example:

    >>> model = NPLM(vocabulary_size=1000, order=5, embedding_dim=30, hidden_units=50, direct_connections=True)
    >>> model.count_params() == 1000 * (1 + 5 * 30 + 50) + 50 * (1 + 4 * 30)
    True
    >>> model.compile(optimizer=keras.optimizers.SGD(1.0))
    >>> contexts, targets = np.array([[4, 5, 6, 7], [0, 0, 0, 4]]), np.array([8, 5])
    >>> history = model.fit(contexts, targets, epochs=2, verbose=0)
    >>> sorted(history.history)
    ['loss', 'perplexity']

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), A neural probabilistic language model, JMLR 3.
    """

    def __init__(
        self,
        vocabulary_size: int,
        order: int = 5,
        embedding_dim: int = 60,
        hidden_units: int = 100,
        direct_connections: bool = False,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        held_out_mass: float = 0.0,
        name: str = "NPLM",
        **kwargs,
    ):
        _check("order", order >= 2, "2 or more, since a context has n-1 words", order)
        _check("vocabulary_size", vocabulary_size >= 2, "2 or more", vocabulary_size)
        _check("embedding_dim", embedding_dim >= 1, "1 or more", embedding_dim)
        _check("hidden_units", hidden_units >= (not direct_connections), "1 or more (0: with W only)", hidden_units)
        _check("weight_decay", weight_decay >= 0, "0 or more", weight_decay)
        for option, share in (("dropout", dropout), ("embedding_dropout", embedding_dropout)):
            _check(option, 0 <= share < 1, "in [0, 1)", share)
        _check("held_out_mass", 0 <= held_out_mass < 1, "in [0, 1)", held_out_mass)
        super().__init__(name=name, **kwargs)

        # Layers
        self.embed = ContextEmbedding(vocabulary_size, embedding_dim, weight_decay, name="embed")
        self.hidden = TanhHidden(hidden_units, weight_decay, name="hidden") if hidden_units else None
        self.direct = DirectConnection(name="direct") if direct_connections else None
        self.prob = FullSoftmax(vocabulary_size, held_out_mass, weight_decay, name="prob")
        self.drop_embedding = _Dropout(embedding_dropout, name="drop_embedding")
        self.drop_hidden = _Dropout(dropout, name="drop_hidden")

        # Training
        self.perplexity = Perplexity()
        self.mean = _Mean(name="mean")

        # Configuration
        self.vocabulary_size = vocabulary_size
        self.order = order
        self.embedding_dim = embedding_dim
        self.hidden_units = hidden_units
        self.direct_connections = direct_connections
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.embedding_dropout = embedding_dropout
        self.held_out_mass = held_out_mass
        self.build((None, order - 1))

    def compile(self, *args, jit_compile: bool | str = "auto", **kwargs):
        """As `keras.Model.compile`, but `"auto"` turns XLA on for a single CPU too, where it pays 1.4-fold.

        Under a tf.distribute strategy `"auto"` stays off: there XLA fails. An optimiser's own weight decay, where it
        has one, spares the biases b and d as the paper's does.
        """
        if jit_compile == "auto" and keras.backend.backend() == "tensorflow" and not kwargs.get("run_eagerly"):
            import tensorflow as tf

            jit_compile = not tf.distribute.has_strategy() and self.distribute_strategy.num_replicas_in_sync == 1
        super().compile(*args, jit_compile=jit_compile, **kwargs)
        if getattr(self.optimizer, "weight_decay", None) and not self.optimizer.built:
            biases = [self.prob.b] + ([self.hidden.d] if self.hidden is not None else [])
            self.optimizer.exclude_from_weight_decay(var_list=biases)

    def compile_from_config(self, config):
        config = keras.saving.deserialize_keras_object(config)
        self.compile(**config | {"jit_compile": "auto"})  # what paid where it was saved may not pay here
        self.optimizer.build(self.trainable_variables)

    def build(self, input_shape):
        if self.built:
            return
        x_shape = (None, (self.order - 1) * self.embedding_dim)
        self.embed.build(input_shape)
        features = 0
        if self.hidden is not None:
            self.hidden.build(x_shape)
            features += self.hidden_units
        if self.direct is not None:
            self.direct.build(x_shape)
            features += x_shape[1]
        self.prob.build((None, features))
        self.drop_embedding.build(x_shape)
        self.drop_hidden.build((None, self.hidden_units))
        self.built = True

    def call(self, context_ids, training=False):
        return self.prob(self.features(context_ids, training=training))  # [B, |V|]

    def features(self, context_ids, training=False):
        """What the output layer sees of a context: a, or [a; x] with direct connections."""
        x = self.drop_embedding(self.embed(context_ids), training=training)  # [B, (n-1) m]
        a = None
        if self.hidden is not None:
            a = self.drop_hidden(self.hidden(x), training=training)  # [B, h]
        return a if self.direct is None else self.direct(a, x)  # [B, h + (n-1) m]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The penalised mean loss of a step; its likelihoods go to `perplexity` on the way."""
        negative_log_likelihood = self.prob.negative_log_likelihood(y_pred, y)
        self.perplexity.update_state(negative_log_likelihood, sample_weight)
        if self.loss is not None:  # the user's own
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        loss = self.prob.loss(y_pred, negative_log_likelihood) if training else negative_log_likelihood
        loss = self.mean(loss, loss, sample_weight)
        if self.losses:
            loss += super().compute_loss(x, y, y_pred, sample_weight, training)  # the penalty alone
        return loss

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(w | context) for every word w.

        Args:
            context_ids: int [B, n-1], oldest first.

        Returns:
            float32 [B, |V|], nats; exp of a row sums to 1.

        Raises:
            InputError: ids out of range, or contexts of another length.
        """
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        rows = [self._next_log_probs(part)[:size] for size, (part,) in _padded_parts(context_ids)]
        return np.concatenate(rows) if rows else np.zeros((0, self.vocabulary_size), np.float32)

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """ln P(target | context), exactly normalised.

        Args:
            context_ids: int [B, n-1], oldest first.
            target_ids: int [B].

        Returns:
            float32 [B], nats.

        Raises:
            InputError: ids out of range, contexts of another length, or as many targets as there are not contexts.
        """
        context_ids, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        parts = [self._log_prob(*part)[:size] for size, part in _padded_parts(context_ids, target_ids)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    @functools.cached_property
    def _next_log_probs(self) -> Callable:
        return self._compiled(lambda context_ids: self.prob.log_probs(self.features(context_ids)))

    @functools.cached_property
    def _log_prob(self) -> Callable:
        return self._compiled(
            lambda context_ids, target_ids: self.prob.log_prob(self.features(context_ids), target_ids), targets=True
        )

    def _compiled(self, function: Callable, targets: bool = False) -> Callable:
        """`function` from arrays to a NumPy array, compiled by XLA on TensorFlow."""
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            signature = [tf.TensorSpec([None, self.order - 1], tf.int32)] + [tf.TensorSpec([None], tf.int32)] * targets
            function = tf.function(function, input_signature=signature, jit_compile=True)
        return lambda *arrays: ops.convert_to_numpy(function(*map(ops.convert_to_tensor, arrays)))

    def save_own_variables(self, store):
        """As Keras does, and where dropout's random numbers have got to, so that a loaded model goes on alike."""
        super().save_own_variables(store)
        for name, state in self._random_states().items():
            store[name] = state.numpy()

    def load_own_variables(self, store):
        for name, state in self._random_states().items():
            if name in store:  # not where it was saved without dropout
                state.assign(store[name])

    def _random_states(self) -> dict[str, keras.Variable]:
        dropouts = [layer for layer in (self.drop_embedding, self.drop_hidden) if layer.rate > 0]
        return {f"{layer.name}_state": layer.seed_generator.state for layer in dropouts}

    def get_config(self):
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "order": self.order,
            "embedding_dim": self.embedding_dim,
            "hidden_units": self.hidden_units,
            "direct_connections": self.direct_connections,
            "weight_decay": self.weight_decay,
            "dropout": self.dropout,
            "embedding_dropout": self.embedding_dropout,
            "held_out_mass": self.held_out_mass,
            "name": self.name,
        }


class _Dropout(keras.layers.Dropout):
    """Keras's dropout, with the generator named: left to choose one, TensorFlow takes 20 times as long under XLA."""

    def call(self, inputs, training=False):
        if not (training and self.rate > 0 and keras.backend.backend() == "tensorflow"):
            return super().call(inputs, training=training)
        import tensorflow as tf

        seed = ops.cast(self.seed_generator.next(), "int32")
        return tf.nn.experimental.stateless_dropout(inputs, self.rate, seed, rng_alg="threefry")


class _Mean(keras.losses.Loss):
    """The (weighted) mean of the losses of single examples, scaled under tf.distribute as Keras scales its own."""

    def call(self, y_true, y_pred):
        del y_true
        return y_pred


def _check(argument: str, holds: bool, wanted: str, received: object) -> None:
    if not holds:
        raise InputError(f"`{argument}` must be {wanted}. Received: {received}.")


def _padded_parts(*arrays: np.ndarray):
    """Cut arrays into parts of `_ROWS`, the last padded to a power of four: few shapes, so few compilations."""
    for start in range(0, len(arrays[0]), _ROWS):
        part = [array[start : start + _ROWS] for array in arrays]
        size = len(part[0])
        rows = 4 ** math.ceil(math.log(size, 4))
        yield size, [np.pad(array, [(0, rows - size)] + [(0, 0)] * (array.ndim - 1)) for array in part]
