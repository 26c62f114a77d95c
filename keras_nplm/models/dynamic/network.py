"""Dynamic evaluation of a network: it learns from the words that it has predicted."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.data.ids import check_ngrams
from keras_nplm.data.segments import join_contexts
from keras_nplm.layers.ops import list_biases
from keras_nplm.models.base import NextWordModel, row_blocks
from keras_nplm.models.dynamic.settings import EPSILON, EPSILON_BIASES, DynamicSettings, add_static
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.probabilities import NetworkProbabilities

_CHUNKS = 64  # chunks in a call of the compiled network: Ctrl-C is noticed between calls


class DynamicNPLM(NextWordModel):
    """Dynamic evaluation of a network: predict a chunk of the text, take a step on it, go on.

        P_c(w | h) = (1 - σ) P(w | h; θ_c) + σ P(w | h; θ_0),
        g_c = ∇ -1/B sum_{t in chunk c} ln P(w_t | h_t; θ_c)
        θ_{c+1} = θ_c - η f s g_c,    s = mean(r) / max(r, ε mean(r))

    θ_0 are the trained weights, σ is the static share, η the rate. f is the factor of the biases
    of the output, and 1 for all other weights. r is the root of the mean square of each component
    of the gradient in training. ε is 1, and 0.1 for the biases of the output. Without mean squares
    r is the same for all components, so that s is 1: plain SGD. `log_prob` reads the text: its
    n-grams must be consecutive, and each call continues after the call before. The network that is
    given stays as it is.

    Reference: Mikolov, Karafiát, Burget, Černocký & Khudanpur (2010), Recurrent neural network
    based language model; Krause, Kahembwe, Murray & Renals (2018), Dynamic evaluation of neural
    sequence models.
    """

    def __init__(
        self,
        network: ContextNetwork,
        settings: DynamicSettings,
        mean_squares: Sequence[np.ndarray] | None = None,
    ):
        self.network = copy_network(network)
        self._trained = network
        self.order = network.order
        self.vocabulary_size = network.vocabulary_size
        self.boundary = network.boundary
        self.prob = network.prob
        if mean_squares is None:
            mean_squares = [np.ones(weight.shape) for weight in network.trainable_weights]
        roots = [np.sqrt(square) for square in mean_squares]
        known = np.concatenate([root[root > 0] for root in roots])
        mean = float(known.mean()) if len(known) else 1.0
        self._steps = []
        # variables, so that a graph serves other settings
        self._rate, self._rate_of_biases = (tf.Variable(0.0, trainable=False) for _ in range(2))
        biases = set(map(id, list_biases(self.network.prob)))
        for weight, root in zip(self.network.trainable_weights, roots, strict=True):
            rate, epsilon = self._rate, EPSILON
            if id(weight) in biases:
                rate, epsilon = self._rate_of_biases, EPSILON_BIASES
            squares = np.square(np.maximum(root, epsilon * mean) / mean)
            accumulator = tf.Variable(squares, trainable=False, dtype=weight.dtype)
            self._steps.append(_Step(weight, rate, accumulator))
        self._graphs: dict[tuple[str, int], Callable] = {}
        self.restart(settings)

    def reset(self) -> None:
        """Go back to the trained weights, and to the start of a text."""
        self.restart(self.settings)

    def restart(self, settings: DynamicSettings) -> None:
        """Go back to the trained weights, and to the start of a text, with these settings."""
        self.network.set_weights(self._trained.get_weights())
        self.settings = settings
        self._rate.assign(settings.rate)
        self._rate_of_biases.assign(settings.rate * settings.biases)
        # predicted n-grams of a part of a chunk
        self._pending = np.zeros((0, self.order), np.int32)

    def output_log_prob(self, context_ids: np.ndarray, output_ids: np.ndarray) -> np.ndarray:
        """Return ln P(output | context) of the next n-grams of the text, and learn from them."""
        context_ids, output_ids = check_ngrams(
            context_ids, output_ids, self.order, self.vocabulary_size, self.prob.num_outputs
        )
        held = len(self._pending)
        chunk = self.settings.chunk
        ngrams = np.concatenate([self._pending, np.column_stack([context_ids, output_ids])])
        whole = len(ngrams) // chunk * chunk
        chunks = ngrams[:whole]
        self._pending = ngrams[whole:]
        parts = [
            self._run(*_cut_chunks(self.network, chunks[rows], chunk)).reshape(-1)
            for rows in row_blocks(whole, _CHUNKS * chunk)
        ]
        first = max(held - whole, 0)  # pending n-grams before it were returned by an earlier call
        rest = self._pending[first:]
        parts.append(self.network.output_log_prob(rest[:, :-1], rest[:, -1]))
        log_probs = np.concatenate(parts)[held - first :]
        share = self.settings.static_share
        if not share:
            return log_probs
        return add_static(log_probs, self._trained.output_log_prob(context_ids, output_ids), share)

    def learn_rest(self) -> None:
        """Take a step on the n-grams of a chunk that is not whole: a smaller one, each n-gram
        counts 1/B.
        """
        if len(self._pending):
            rest = self._pending[None]
            self._run({"contexts": rest[..., :-1]}, rest[..., -1])
            self._pending = self._pending[:0]

    def _run(self, inputs: dict[str, np.ndarray], outputs: np.ndarray) -> np.ndarray:
        """Return ln P of the outputs of each chunk; the weights take a step after each chunk."""
        [(name, ids)] = inputs.items()
        key = (name, self.settings.chunk)
        if key not in self._graphs:
            # only chunks of contexts may be smaller than B
            shape = (None, self.order - 1) if name == "contexts" else ids.shape[1:]
            self._graphs[key] = self._compile(name, shape)
        learn = self._graphs[key]
        return learn(tf.constant(ids, tf.int32), tf.constant(outputs, tf.int32)).numpy()

    def _compile(self, name: str, shape: tuple) -> Callable:
        """Compile the steps on chunks of contexts, or of one segment, of a shape."""
        chunk = self.settings.chunk
        dtype = self.prob.accumulator_dtype
        weights = [step.weight for step in self._steps]

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, *shape], tf.int32),
                tf.TensorSpec([None, None], tf.int32),
            ],
            autograph=False,
        )
        def learn(ids: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            number = tf.shape(outputs)[0]

            def learn_chunk(i: tf.Tensor, result: tf.TensorArray) -> tuple:
                log_prob, gradients = _log_prob_and_gradients(
                    self.network, weights, {name: ids[i]}, outputs[i], chunk
                )
                with tf.control_dependencies([log_prob]):
                    for step, gradient in zip(self._steps, gradients, strict=True):
                        if gradient is not None:
                            step.take(gradient)
                return i + 1, result.write(i, log_prob)

            results = tf.TensorArray(dtype, number, element_shape=[None])
            _, results = tf.while_loop(
                lambda i, _: i < number, learn_chunk, (0, results), parallel_iterations=1
            )
            return results.stack()

        return learn.get_concrete_function()

    _log_prob = NetworkProbabilities._log_prob
    next_output_log_probs = NextWordModel._next_log_probs  # refused: the weights have read on since


class _Step(NamedTuple):
    """The step of one weight: η f, and 1/s², so that s g is a step of Adagrad."""

    weight: keras.Variable
    rate: tf.Variable
    squares: tf.Variable

    def take(self, gradient: tf.Tensor | tf.IndexedSlices) -> None:
        """Take a step along the gradient."""
        variable = self.weight.value
        rate = tf.cast(self.rate, variable.dtype)
        if isinstance(gradient, tf.IndexedSlices):
            scale = tf.math.rsqrt(tf.gather(self.squares, gradient.indices))
            variable.scatter_sub(tf.IndexedSlices(rate * scale * gradient.values, gradient.indices))
            return
        # one pass over the weights; `assign_sub` would take two
        tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle,
            accum=self.squares.handle,
            lr=rate,
            epsilon=tf.cast(0, variable.dtype),
            grad=gradient,
            update_slots=False,
        )


def copy_network(network: ContextNetwork) -> ContextNetwork:
    """Return a network of the same configuration and weights, not compiled."""
    copy = type(network).from_config(network.get_config())
    copy.set_weights(network.get_weights())
    return copy


def measure_mean_squares(
    network: ContextNetwork, ngrams: np.ndarray, chunk: int
) -> list[np.ndarray]:
    """Return the mean square of each component of the gradient over chunks of training text: 1/N
    sum_c g_c².

    n-grams whose target the head does not score, as beyond a short-list, are left out: they are
    never predicted.
    """
    ngrams = ngrams[ngrams[:, -1] < network.prob.num_outputs]
    weights = network.trainable_weights
    sums = [tf.Variable(tf.zeros(weight.shape), trainable=False) for weight in weights]

    @tf.function(autograph=False)
    def add(inputs: dict[str, tf.Tensor], outputs: tf.Tensor) -> None:
        _, gradients = _log_prob_and_gradients(network, weights, inputs, outputs, chunk)
        for total, gradient in zip(sums, gradients, strict=True):
            if gradient is not None:
                dense = tf.convert_to_tensor(gradient)
                total.assign_add(tf.square(tf.cast(dense, total.dtype)))

    number = len(ngrams) // chunk
    inputs, outputs = _cut_chunks(network, ngrams[: number * chunk], chunk)
    [(name, ids)] = inputs.items()
    for ids_of_chunk, outputs_of_chunk in zip(ids, outputs, strict=True):
        add({name: tf.constant(ids_of_chunk, tf.int32)}, tf.constant(outputs_of_chunk, tf.int32))
    return [total.numpy() / max(number, 1) for total in sums]


def _cut_chunks(
    network: ContextNetwork, ngrams: np.ndarray, chunk: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the inputs of each chunk, contexts or a segment if all follow each other, and the
    outputs.
    """
    outputs = ngrams[:, -1].reshape(-1, chunk)
    segments, follows = join_contexts(ngrams[:, :-1], chunk, network.boundary)
    if follows.all() and network.embed.reads_segments:
        return {"segments": segments[:, None]}, outputs
    return {"contexts": ngrams[:, :-1].reshape(-1, chunk, network.order - 1)}, outputs


def _log_prob_and_gradients(
    network: ContextNetwork,
    weights: Sequence[keras.Variable],
    inputs: dict[str, tf.Tensor],
    outputs: tf.Tensor,
    chunk: int,
) -> tuple[tf.Tensor, list[tf.Tensor | tf.IndexedSlices | None]]:
    """Return ln P of outputs, and the gradients of the sum of -ln P divided by `chunk`.

    Sparse gradients have distinct rows.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        for weight in weights:
            tape.watch(weight.value)
        log_z, logit = network.scores(inputs).for_training(outputs)
        likelihoods = log_z - logit
        loss = ops.sum(likelihoods) / chunk
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    # C has a sparse part from the context and a dense one from the output
    if network.prob.uses_embedding:
        gradients = [
            None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients
        ]
    return -likelihoods, gradients
