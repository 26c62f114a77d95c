"""NPLM: the neural probabilistic language model as a Keras model, composed of layers."""

import os
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.errors import check_argument
from keras_nplm.io.forks import refuse_after_fork
from keras_nplm.io.options import check_option
from keras_nplm.layers.build import build_context, build_hidden, build_output
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.outputs import Output
from keras_nplm.layers.outputs.hybrid import HybridSoftmax
from keras_nplm.layers.pointer import Features, Pointer
from keras_nplm.models.arguments import build_once, check_keyword_arguments, is_name, serialise_layer
from keras_nplm.models.likelihood import LikelihoodTraining
from keras_nplm.models.metrics import Perplexity
from keras_nplm.models.network_probabilities import NetworkProbabilities


@keras.saving.register_keras_serializable("keras_nplm")
class NPLM(LikelihoodTraining, NetworkProbabilities, keras.Model):
    """Neural probabilistic language model (NPLM) of Bengio, Ducharme, Vincent & Jauvin (2003).

        x = [C(w_{t-n+1}), …, C(w_{t-1})]                         embed: word embedding of the context
        a = tanh(d + H x)                                         hidden: tanh hidden layer
        y = b + U a (+ W x)                                       prob: output layer; W are optional direct connections
        P(w_t = i | context) = exp(y_i) / sum_j exp(y_j)

    With `pointer=True` the words of the context are outputs, too; see `keras_nplm.layers.pointer.Pointer`.

    Training maximises the penalised log-likelihood. `compile(optimizer=…)` needs no loss: the model has its own, the
    mean negative log-likelihood plus the weight decay λ/2 |θ|² on C, H, U and W. It is computed from the features
    without storing [B, |V|] probabilities. The logs have `perplexity`, without the penalty; a callback that monitors it
    needs `mode="min"`. A sampled output layer logs its training loss under a name of its own, and `perplexity` in
    validation only. Metrics given to `compile` see the probabilities, at the cost of a full softmax. A loss given to
    `compile`, and a subclass that overrides `call`, use the probabilities that `call` returns, as in any Keras model. A
    training loop of your own sums the repeated rows of gradients by `sum_gradients`.

    Free parameters: |V| (1 + n m + h) + h (1 + (n-1) m) with direct connections. A pointer adds m (1 + 2 w) + n + 2,
    with w the width of the features, for n of 7 and more.

    Args:
        vocabulary_size: int, |V|, special tokens included.
        order: int, n, 2 or more. A context has n-1 words.
        embedding_dim: int, m.
        hidden_units: int, h. 0 leaves the hidden layer out, which needs direct connections.
        direct_connections: bool, whether the output sees x directly (W).
        pointer: bool, whether the network can copy the words of the context. It needs an output layer with a row for
            each word, and suits contexts of dozens of words.
        weight_decay: float, the paper's λ, on C, H, U and W, never on the biases b and d.
        dropout: float in [0, 1), the share of hidden units that training leaves out.
        embedding_dropout: float in [0, 1), the share of the components of x that training leaves out.
        word_dropout: float in [0, 1), the share of context words that training leaves out.
        context: `"concatenated"`, the paper's `ContextEmbedding`, or a context layer such as `AveragedContext(…)`.
        hidden: `"tanh"`, the paper's `TanhHidden`, the name of a different activation, or any Keras layer from [B, w]
            to [B, h], such as `DeepHidden(…)`.
        output: `"full"`, `"sampled"`, `"nce"`, `"adaptive"`, `"energy"`, or an output layer such as
            `NoiseContrastive(…)`; see `keras_nplm.layers.outputs`.
        boundary: `"sentence"`, `"text"` or `"stream"`, how text is cut into n-grams; see `ngram_dataset`. It is saved
            with the model, for `evaluate`.

    A given layer has its own sizes, dropout and weight decay.

    Call arguments:
        context_ids: int [B, n-1], oldest word first; `<pad>` (0) where the context is shorter. Or segments, int
            [S, n-1+T-1]: the words before and between T consecutive targets; see `ngram_dataset(segment=…)`.
        training: bool, whether dropout is active.

    Returns:
        P(w | context), float [B, |V|] or [S, T, |V|]; with a short-list as many outputs instead of |V|.

    Raises:
        InputError: an argument is out of range, or arguments do not fit together.

    Example:

    >>> model = NPLM(vocabulary_size=1000, order=5, embedding_dim=30, hidden_units=50, direct_connections=True)
    >>> model.count_params() == 1000 * (1 + 5 * 30 + 50) + 50 * (1 + 4 * 30)
    True
    >>> model.compile(optimizer=keras.optimizers.SGD(1.0))
    >>> contexts, targets = np.array([[4, 5, 6, 7], [0, 0, 0, 4]]), np.array([8, 5])
    >>> history = model.fit(contexts, targets, epochs=2, verbose=0)
    >>> sorted(history.history)
    ['loss', 'perplexity']
    >>> model.predict(contexts, verbose=0).sum(axis=1).round(4).tolist()
    [1.0, 1.0]

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), A neural probabilistic language model, JMLR 3.
    """

    kind = "nplm"  # in config.json of a model directory

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
        word_dropout: float = 0.0,
        context: str | ContextEmbedding = "concatenated",
        hidden: str | keras.layers.Layer | None = "tanh",
        output: str | Output = "full",
        boundary: str = "sentence",
        pointer: bool = False,
        name: str = "NPLM",
        **kwargs: Any,
    ):
        sizes = dict(vocabulary_size=vocabulary_size, order=order, embedding_dim=embedding_dim)
        shares = dict(dropout=dropout, embedding_dropout=embedding_dropout, word_dropout=word_dropout)
        others = dict(hidden_units=hidden_units, weight_decay=weight_decay, boundary=boundary)
        for option, value in (sizes | shares | others).items():
            check_option(option, value)
        refuse_after_fork("NPLM")  # where a pickle or a file of a network is read, too
        check_keyword_arguments(kwargs)
        super().__init__(name=name, **kwargs)
        policy = self.dtype_policy.name
        half = self.compute_dtype == "float16"
        wanted = "float32, float64, bfloat16 or mixed_bfloat16"
        check_argument("dtype", not half, wanted, policy, "exponentials overflow in float16.")

        # Layers
        dtype = self.dtype_policy
        options = dict(weight_decay=weight_decay, dtype=dtype)
        self.embed = build_context(context, vocabulary_size, embedding_dim, word_dropout, embedding_dropout, **options)
        prob = build_output(output, vocabulary_size, hidden_units, dropout, **options)
        inside, kind = prob.includes_hidden_layer, type(prob).__name__
        plain = not inside or hidden in ("tanh", None)
        check_argument("hidden", plain, f"'tanh' with {kind}", hidden, f"give {kind} the options of its hidden layer.")
        self.hidden = None if inside else build_hidden(hidden, hidden_units, dropout, **options)
        self.prob = prob
        fits = not pointer or prob.has_output_vectors
        check_argument("pointer", fits, f"False with {kind}", True, "choose the output full, sampled or nce.")
        self.pointer = Pointer(weight_decay, name="pointer", dtype=dtype) if pointer else None
        self.perplexity = Perplexity()
        fits = not (inside and direct_connections)
        check_argument("direct_connections", fits, f"False with {kind}", True, "it has no W.")
        fits, wanted = inside or direct_connections or self.hidden, "1 or more without direct connections"
        check_argument("hidden_units", fits, wanted, hidden_units, "or pass `direct_connections=True`.")

        # Configuration
        self.vocabulary_size = vocabulary_size
        self.order = order
        self.embedding_dim = self.embed.embedding_dim
        self.hidden_units = hidden_units
        self.direct_connections = direct_connections
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.embedding_dropout = embedding_dropout
        self.word_dropout = word_dropout
        self.boundary = boundary
        self._names = {"context": context, "hidden": hidden, "output": output}
        self.build((None, order - 1))

    def build(self, input_shape: tuple) -> None:
        if self.built:
            return
        build_once(self.embed, input_shape)
        x_shape = self.embed.compute_output_shape(input_shape)
        width = x_shape[1] if self.prob.includes_hidden_layer or self.direct_connections else 0
        if self.hidden is not None:
            build_once(self.hidden, x_shape)
            self.hidden_units = self.hidden.compute_output_spec(keras.KerasTensor(x_shape)).shape[-1]
            width += self.hidden_units
        else:
            self.hidden_units = self.prob.hidden_units
        if self.prob.uses_embedding:
            self.prob.tie(self.embed.C)
        if self.pointer is not None:
            size = input_shape[1]
            self.pointer.build((None, width), (None, size, self.embedding_dim))
        build_once(self.prob, (None, width))
        self.built = True

    def call(self, context_ids: Tensor, training: bool = False) -> Tensor:
        probabilities, targets = self.prob(self.features(context_ids, training)), self.count_targets(context_ids)
        return probabilities if targets == 1 else ops.reshape(probabilities, (-1, targets, self.prob.num_outputs))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        targets = (input_shape[1] or 0) - self.order + 2
        return (input_shape[0], *([targets] if targets > 1 else []), self.prob.num_outputs)

    def count_targets(self, ids: Tensor) -> int:
        """Return T, the targets of each segment; 1 for contexts."""
        shape = getattr(ids, "shape", ())
        is_known = getattr(shape, "rank", 2) is not None and len(shape) == 2
        return max(1, (shape[1] or 0) - self.order + 2) if is_known else 1

    @property
    def input_dtype(self) -> str:
        """The dtype of inputs, ids; also in `tf.saved_model.save`. Of a hybrid output that of ln Q."""
        return self.prob.accumulator_dtype if isinstance(self.prob, HybridSoftmax) else "int32"

    def call_is_own(self) -> bool:
        return type(self).call is NPLM.call

    def features(self, context_ids: Tensor, training: bool = False, sum_gradient: bool = True) -> Tensor | Features:
        """Return the input of the output layer: a, or [a; x] with direct connections, float [B, w].

        A network with a pointer returns `Features`, with the words to copy. `sum_gradient`: see `ContextEmbedding`.
        """
        if isinstance(context_ids, tuple):  # ids, and ln Q of the n-gram model of a hybrid output
            context_ids, log_probs = context_ids
            return Features(self.features(context_ids, training, sum_gradient), log_probs=log_probs)
        if self.count_targets(context_ids) > 1:
            x, vectors, ids, starts = self.embed.embed_segments(context_ids, self.boundary, training, sum_gradient)
            activations = self.features_of(x, training=training)
            if self.pointer is None:
                return activations
            weights = self.pointer.weigh_segments(activations, vectors, ids, starts)
            return Features(activations, self.prob.copy_words(weights, ids))
        options = dict(training=training, sum_gradient=sum_gradient)
        if self.pointer is None:
            return self.features_of(self.embed(context_ids, **options), training=training)
        x, vectors = self.embed(context_ids, return_vectors=True, **options)
        return self._point(self.features_of(x, training=training), vectors, context_ids)

    def features_of_vectors(self, vectors: Tensor, context_ids: Tensor) -> Tensor:
        """Return the features of contexts from the vectors of their words, float [B, n-1, m]; see `features`."""
        return self._point(self.features_of(self.embed.join(vectors)), vectors, context_ids)

    def _point(self, features: Tensor, vectors: Tensor, context_ids: Tensor) -> Tensor | Features:
        """Add the copies of the context's words to the features, if the network has a pointer."""
        if self.pointer is None:
            return features
        weights = self.pointer(features, vectors, context_ids)
        return Features(features, self.prob.copy_words(weights, context_ids))

    def features_of(self, x: Tensor, training: bool = False) -> Tensor:
        """Return the features of a context from its word features x, float [B, (n-1) m], without copies."""
        if self.hidden is None:
            return x
        a = self.hidden(x, training=training)  # [B, h]
        return ops.concatenate([a, x], axis=-1) if self.direct_connections else a  # [U W] [a; x] = U a + W x

    def set_unigram(self, counts: np.ndarray, min_count: int = 1) -> None:
        """Initialise the output biases with the unigram model; see `Output.set_unigram`."""
        self.prob.set_unigram(counts, min_count)

    @property
    def ngram_order(self) -> int:
        """The order of an n-gram model that sees the same separate (not averaged) words of the context."""
        return max(2, self.embed.num_single_words(self.order - 1) + 1)

    # Saving: SavedModel, the configuration, and the states of random number generators

    def export(self, filepath: str | os.PathLike, *args: Any, input_signature: Any = None, **kwargs: Any) -> None:
        """Export as `keras.Model.export` does; the input is `context_ids`, int32 [B, n-1]."""
        if input_signature is None:
            self(np.zeros((1, self.order - 1), np.int32))  # Keras exports only models that were called
            input_signature = [keras.InputSpec(shape=(None, self.order - 1), dtype="int32", name="context_ids")]
        super().export(filepath, *args, input_signature=input_signature, **kwargs)

    def random_states(self) -> list[keras.Variable]:
        """Return the states of the random number generators of dropout and of negative samples."""
        weights = {id(weight) for weight in self.weights}
        return [variable for variable in self.variables if id(variable) not in weights]

    def save_own_variables(self, store: dict) -> None:
        super().save_own_variables(store)
        for number, state in enumerate(self.random_states()):
            store[f"random_state_{number}"] = state.numpy()

    def load_own_variables(self, store: dict) -> None:
        for number, state in enumerate(self.random_states()):
            if f"random_state_{number}" in store:  # weights saved without dropout have fewer
                state.assign(store[f"random_state_{number}"])

    def get_config(self) -> dict:
        layers = {"context": self.embed, "hidden": self.hidden, "output": self.prob}
        parts = {part: name if is_name(name) else serialise_layer(layers[part]) for part, name in self._names.items()}
        sizes = ("vocabulary_size", "order", "embedding_dim", "hidden_units", "direct_connections", "weight_decay")
        shares = ("dropout", "embedding_dropout", "word_dropout", "boundary")
        options = {name: getattr(self, name) for name in sizes + shares}
        return super().get_config() | options | {"pointer": self.pointer is not None} | parts

    @classmethod
    def from_config(cls, config: dict) -> "NPLM":
        layers = {
            part: keras.saving.deserialize_keras_object(config[part])
            for part in ("context", "hidden", "output")
            if isinstance(config.get(part), dict)
        }
        return super().from_config(config | layers)
