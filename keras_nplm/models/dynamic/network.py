"""Dynamic evaluation of a network: it learns from the words that it has predicted."""

import functools
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.data.ids import check_ngrams
from keras_nplm.data.segments import join_contexts
from keras_nplm.io.errors import InputError
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
        θ_{c+1} = θ_c - η f s g_c,    s = 1, or s = mean(r) / max(r, ε mean(r)) with the rule "rms"

    θ_0 are the trained weights, σ is the static share, η the rate, f the factor of a group of
    weights. r is the root of the mean square of each component of the gradient in training. ε is 1,
    and 0.1 for the biases of the output. `log_prob` reads the text: its n-grams must be
    consecutive, and each call continues after the call before. The network that is given stays as
    it is.

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
        if settings.rule == "rms" and mean_squares is None:
            raise InputError(
                "`mean_squares` must be given with `rule='rms'`. Received: None. "
                "Fix: use 'sgd', or the settings of `tune_dynamic`."
            )
        self.network = copy_network(network)
        self._trained = network
        self.settings = settings
        self.order = network.order
        self.vocabulary_size = network.vocabulary_size
        self.boundary = network.boundary
        self.prob = network.prob
        self._learner = _Learner(self.network, settings, mean_squares)
        self.reset()

    def reset(self) -> None:
        """Go back to the trained weights, and to the start of a text."""
        self._learner.reset()
        # predicted n-grams of a chunk that is not whole yet
        self._pending = np.zeros((0, self.order), np.int32)

    def output_log_prob(self, context_ids: np.ndarray, output_ids: np.ndarray) -> np.ndarray:
        """Return ln P(output | context) of the next n-grams of the text, and learn from them."""
        outputs = self.prob.num_outputs
        context_ids, output_ids = check_ngrams(
            context_ids, output_ids, self.order, self.vocabulary_size, outputs
        )
        held = len(self._pending)
        chunk = self.settings.chunk
        ngrams = np.concatenate([self._pending, np.column_stack([context_ids, output_ids])])
        whole = len(ngrams) // chunk * chunk
        chunks = ngrams[:whole]
        self._pending = ngrams[whole:]
        blocks = row_blocks(whole, _CHUNKS * chunk)
        parts = [self._learner.learn(chunks[rows], chunk) for rows in blocks]
        first = max(held - whole, 0)  # pending n-grams before it were returned by an earlier call
        parts.append(self._learner.predict(self._pending[first:]))
        log_probs = np.concatenate(parts)[held - first :]
        # without steps both networks are equal
        share = self.settings.static_share if self.settings.rate else 0.0
        if not share:
            return log_probs
        return add_static(log_probs, self._trained.output_log_prob(context_ids, output_ids), share)

    def learn_rest(self) -> None:
        """Take a step on the n-grams of a chunk that is not whole: a smaller one, each n-gram
        counts 1/B.
        """
        if len(self._pending):
            self._learner.learn_part(self._pending)
            self._pending = self._pending[:0]

    _log_prob = NetworkProbabilities._log_prob
    next_output_log_probs = NextWordModel._next_log_probs  # refused: the weights have read on since


def copy_network(network: ContextNetwork) -> ContextNetwork:
    """Return a network of the same configuration and weights, not compiled."""
    copy = type(network).from_config(network.get_config())
    copy.set_weights(network.get_weights())
    return copy


def group_weights(network: ContextNetwork) -> list[str]:
    """Return the group of each of `network.trainable_weights`, a name of `DynamicSettings.factors`.

    A tied C is of the embedding.
    """
    output = list(network.prob.trainable_weights)
    if network.direct is not None:
        output += network.direct.trainable_weights
    places = {"output": output, "biases": list_biases(network.prob), "embedding": [network.embed.C]}
    groups = {id(weight): group for group, weights in places.items() for weight in weights}
    return [groups.get(id(weight), "hidden") for weight in network.trainable_weights]


def measure_mean_squares(
    network: ContextNetwork, ngrams: np.ndarray, chunk: int
) -> list[np.ndarray]:
    """Return the mean square of each component of the gradient over chunks of training text: 1/N
    sum_c g_c².

    n-grams whose target the head does not score, as beyond a short-list, are left out: they are
    never predicted.
    """
    ngrams = ngrams[ngrams[:, -1] < network.prob.num_outputs]
    sums = [
        tf.Variable(tf.zeros(weight.shape), trainable=False) for weight in network.trainable_weights
    ]

    @tf.function(autograph=False)
    def add(inputs: dict[str, tf.Tensor], outputs: tf.Tensor) -> None:
        _, gradients = _log_prob_and_gradients(network, network.trainable_weights, inputs, outputs)
        for total, gradient in zip(sums, gradients, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                squares = tf.square(tf.cast(gradient.values, total.dtype))
                total.scatter_add(tf.IndexedSlices(squares, gradient.indices))
            elif gradient is not None:
                total.assign_add(tf.square(tf.cast(gradient, total.dtype)))

    number = len(ngrams) // chunk
    inputs, outputs = _cut_chunks(network, ngrams[: number * chunk], chunk)
    [(name, ids)] = inputs.items()
    for ids_of_chunk, outputs_of_chunk in zip(ids, outputs, strict=True):
        add({name: tf.constant(ids_of_chunk, tf.int32)}, tf.constant(outputs_of_chunk, tf.int32))
    return [total.numpy() / max(number, 1) for total in sums]


class _Learner:
    """The steps of dynamic evaluation of one network, as compiled graphs."""

    def __init__(
        self,
        network: ContextNetwork,
        settings: DynamicSettings,
        mean_squares: Sequence[np.ndarray] | None,
    ):
        self._network = network
        self._settings = settings
        groups = group_weights(network)
        factors = settings.factors
        rates = [settings.rate * factors[group] for group in groups]
        moving = [place for place, rate in enumerate(rates) if rate]
        self._weights = [network.trainable_weights[i] for i in moving]
        self._rates = [rates[i] for i in moving]
        self._trained = [tf.constant(weight.numpy()) for weight in self._weights]
        self._graphs: dict[str, Callable] = {}
        # 1/s², so that s g is a step of Adagrad
        self._squares: list[tf.Variable | None] = [None] * len(self._weights)
        if settings.rule == "rms" and mean_squares is not None:
            roots = [np.sqrt(square) for square in mean_squares]
            known = np.concatenate([root[root > 0] for root in roots])
            mean = float(known.mean()) if len(known) else 1.0
            for k, i in enumerate(moving):
                epsilon = EPSILON_BIASES if groups[i] == "biases" else EPSILON
                squares = np.square(np.maximum(roots[i], epsilon * mean) / mean)
                dtype = self._weights[k].dtype
                self._squares[k] = tf.Variable(squares, trainable=False, dtype=dtype)

    def reset(self) -> None:
        for weight, trained in zip(self._weights, self._trained, strict=True):
            weight.assign(trained)

    def predict(self, ngrams: np.ndarray) -> np.ndarray:
        """Return ln P of n-grams, float32 [B], with the weights as they are."""
        return self._network.output_log_prob(ngrams[:, :-1], ngrams[:, -1])

    def learn(self, ngrams: np.ndarray, chunk: int) -> np.ndarray:
        """Return ln P of n-grams, float32 [C B]; the weights take a step after each chunk."""
        if not self._weights:
            return self.predict(ngrams)
        inputs, outputs = _cut_chunks(self._network, ngrams, chunk)
        [(name, ids)] = inputs.items()
        if name not in self._graphs:
            self._graphs[name] = self._compile(name, ids.shape[1:])
        learn = self._graphs[name]
        log_probs = learn(tf.constant(ids, tf.int32), tf.constant(outputs, tf.int32))
        return log_probs.numpy().reshape(-1)

    def _compile(self, name: str, shape: tuple[int, int]) -> Callable:
        """Compile the steps on chunks of contexts, or of one segment, of a shape."""
        chunk = self._settings.chunk
        dtype = self._network.prob.accumulator_dtype

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, *shape], tf.int32),
                tf.TensorSpec([None, chunk], tf.int32),
            ],
            autograph=False,
        )
        def learn(ids: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            number = tf.shape(outputs)[0]

            def step(i: tf.Tensor, result: tf.TensorArray) -> tuple:
                log_prob, gradients = _log_prob_and_gradients(
                    self._network, self._weights, {name: ids[i]}, outputs[i]
                )
                with tf.control_dependencies([log_prob]):
                    self._update(gradients)
                return i + 1, result.write(i, log_prob)

            results = tf.TensorArray(dtype, number, element_shape=[chunk])
            _, results = tf.while_loop(
                lambda i, _: i < number, step, (0, results), parallel_iterations=1
            )
            return results.stack()

        return learn.get_concrete_function()

    def learn_part(self, ngrams: np.ndarray) -> None:
        """Take a step on the n-grams of a part of a chunk."""
        if self._weights:
            contexts = tf.constant(ngrams[:, :-1], tf.int32)
            self._graph_of_part(contexts, tf.constant(ngrams[:, -1], tf.int32))

    @functools.cached_property
    def _graph_of_part(self) -> Callable:
        contexts = tf.TensorSpec([None, self._network.order - 1], tf.int32)
        chunk = self._settings.chunk

        outputs = tf.TensorSpec([None], tf.int32)

        @tf.function(input_signature=[contexts, outputs], autograph=False)
        def learn(contexts: tf.Tensor, outputs: tf.Tensor) -> None:
            share = tf.size(outputs) / chunk  # of the mean over a whole chunk
            _, gradients = _log_prob_and_gradients(
                self._network, self._weights, contexts, outputs, share
            )
            self._update(gradients)

        return learn.get_concrete_function()

    def _update(self, gradients: list[tf.Tensor | tf.IndexedSlices | None]) -> None:
        """Take a step along the gradients."""
        for weight, rate, squares, gradient in zip(
            self._weights, self._rates, self._squares, gradients, strict=True
        ):
            if gradient is None:
                continue
            variable = weight.value
            rate = tf.cast(rate, weight.dtype)
            if isinstance(gradient, tf.IndexedSlices):
                if squares is not None:
                    rate *= tf.math.rsqrt(tf.gather(squares, gradient.indices))
                step = rate * gradient.values
                variable.scatter_sub(tf.IndexedSlices(step, gradient.indices))
            elif squares is None:
                # one pass over the weights; `assign_sub` would take two
                tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=rate, delta=gradient
                )
            else:
                tf.raw_ops.ResourceApplyAdagradV2(
                    var=variable.handle,
                    accum=squares.handle,
                    lr=rate,
                    epsilon=tf.cast(0, weight.dtype),
                    grad=gradient,
                    update_slots=False,
                )


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
    inputs: tf.Tensor | dict[str, tf.Tensor],
    outputs: tf.Tensor,
    share: tf.Tensor | None = None,
) -> tuple[tf.Tensor, list[tf.Tensor | tf.IndexedSlices | None]]:
    """Return ln P of outputs, and the gradients of the mean of -ln P, or of a share of it.

    Sparse gradients have distinct rows.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        for weight in weights:
            tape.watch(weight.value)
        log_z, logit = network.scores(inputs).for_training(outputs)
        likelihoods = log_z - logit
        loss = ops.mean(likelihoods)
        if share is not None:
            loss *= ops.cast(share, loss.dtype)
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    # C has a sparse part from the context and a dense one from the output
    if network.prob.uses_embedding:
        gradients = [
            None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients
        ]
    return -likelihoods, gradients
