"""NPLM: the layers composed into the one model, which `fit`, `evaluate`, `predict` and `save` treat as their own."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

import keras_nplm.models.metrics as metrics  # the module: where it is imported first, it is not complete yet
from keras_nplm.data.ngram_arrays import check_ngrams, find_distinct_rows
from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.shapes import near_order
from keras_nplm.layers.context import context_layer
from keras_nplm.layers.hidden import ACTIVATIONS, DeepHidden, DirectConnection, hidden_layer
from keras_nplm.layers.ops import penalty
from keras_nplm.layers.outputs import (
    OUTPUTS,
    EnergyOutput,
    LinearOutput,
    Output,
    SampledOutput,
)
from keras_nplm.models.replicas import has_several_workers

_ROWS = 512  # contexts that `log_prob` and `next_log_probs` hand to the compiled model at a time
_IN_FIT = contextvars.ContextVar("in fit", default=None)  # the model that a step of Keras's `fit` or `evaluate` calls


@keras.saving.register_keras_serializable("keras_nplm")
class NPLM(keras.Model):
    """The neural probabilistic language model of Bengio, Ducharme, Vincent & Jauvin (2003).

        x = [C(w_{t-n+1}), …, C(w_{t-1})]
        y = b + U tanh(d + H x) (+ W x)
        P(w_t = i | context) = exp(y_i) / sum_j exp(y_j)

    It trains by maximum penalised log-likelihood: `compile(optimizer=…)` needs no loss, since the model has its own,
    the mean negative log-likelihood plus the weight decay's λ/2 |θ|² on C, H, U and W (a `loss` given to `compile` is
    taken instead, on the logits). The likelihood is computed once a step, for the loss and for `perplexity`, which
    has no penalty in it. A sampled output has another loss, under its own name, and `perplexity` in validation alone.
    Free parameters: |V| (1 + n m + h) + h (1 + (n-1) m) with direct connections.

    Args:
        vocabulary_size: int, |V|, special tokens included.
        order: int, n, 2 or more: contexts have n-1 words.
        embedding_dim: int, m.
        hidden_units: int, h; 0 leaves the hidden layer out, which needs direct connections. With the energy output
            these are its own, which context and target share.
        direct_connections: bool, whether there is W.
        weight_decay: float, the paper's λ, on weights and C, never on the biases b and d. It passes over every row, and
            so is refused with a sampled output: give it to `LazySGD` there.
        dropout: float in [0, 1), the share of hidden units left out in training.
        embedding_dropout: float in [0, 1), the same for the components of x.
        held_out_mass: float in [0, 1); see `FullSoftmax`.
        output_layer: `"full"`, `"sampled"`, `"nce"`, `"adaptive"` or `"energy"` (the paper's section 5.1; see
            `EnergyOutput`), with what each takes by default, or an output layer of `keras_nplm.layers.outputs` with
            options of
            its own, its `held_out_mass` and `weight_decay` among them.
        output_rank: int r or None: project the features to r numbers, linearly, before the output: [U W] of rank r.
        tied_output: bool, whether C is the output's kernel too, on features projected to m numbers.
        shortlist_size: int s in [1, |V|-4], or None: predict the s most frequent words and the special tokens alone,
            the ids below 4+s. C has every word's row still. What is left out has probability 0: see `Shortlist`. It is
            trained on the n-grams whose target is in the list: see `ngram_dataset(targets_below=…)`.
        outside_output: bool, whether a short-list has one more output, the last, for "a word outside the list": then
            every n-gram is trained on, and a row of P sums to 1 - P(outside | context).
        averages_after: ints, rising, or (): of a context only the words up to the first of these are concatenated, the
            others enter as averages, one for each span that begins beyond them; see `AveragedContext`. The order is
            that of the whole context still: `order=61, averages_after=(4, 20)`.
        word_dropout: float in [0, 1), the share of the context's words left out in training.
        activation: str, `"tanh"`, the paper's, `"relu"`, `"gelu"` or `"silu"`.
        residual_blocks: int, further hidden layers of h units, each added to what it is given; see `ResidualBlock`.
        layer_norm: bool, whether what each residual block and the output are given is normalised.

    Call arguments:
        context_ids: int [B, n-1], oldest first; `<pad>` (0) where the context is shorter.

    Returns:
        logits, float [B, |V|]; those of the short-list alone, and of the outside, where there is one.

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
        output_layer: str | Output = "full",
        output_rank: int | None = None,
        tied_output: bool = False,
        shortlist_size: int | None = None,
        outside_output: bool = False,
        averages_after: Sequence[int] = (),
        word_dropout: float = 0.0,
        activation: str = "tanh",
        residual_blocks: int = 0,
        layer_norm: bool = False,
        name: str = "NPLM",
        **kwargs,
    ):
        check_argument("order", order >= 2, "2 or more, since a context has n-1 words", order)
        check_argument("vocabulary_size", vocabulary_size >= 2, "2 or more", vocabulary_size)
        check_argument("embedding_dim", embedding_dim >= 1, "1 or more", embedding_dim)
        check_argument(
            "hidden_units", hidden_units >= (not direct_connections), "1 or more (0: with W only)", hidden_units
        )
        check_argument("weight_decay", weight_decay >= 0, "0 or more", weight_decay)
        shares = dict(dropout=dropout, embedding_dropout=embedding_dropout, word_dropout=word_dropout)
        for option, share in shares.items():
            check_argument(option, 0 <= share < 1, "in [0, 1)", share)
        check_argument("activation", activation in ACTIVATIONS, f"one of {', '.join(ACTIVATIONS)}", activation)
        check_argument("residual_blocks", residual_blocks >= 0, "0 or more", residual_blocks)
        check_argument("held_out_mass", 0 <= held_out_mass < 1, "in [0, 1)", held_out_mass)
        check_argument("output_rank", output_rank is None or output_rank >= 1, "1 or more, or None", output_rank)
        check_argument("output_rank", not (tied_output and output_rank), "None: a tied output has rank m", output_rank)
        whole, words = shortlist_size is None, vocabulary_size - len(SPECIALS)
        check_argument(
            "shortlist_size", whole or 1 <= shortlist_size <= words, f"1 to {words}, or None", shortlist_size
        )
        check_argument("outside_output", not (whole and outside_output), "off without a short-list", outside_output)
        check_argument("tied_output", whole or not tied_output, "off with a short-list: C has all words", tied_output)
        listed = vocabulary_size if whole else len(SPECIALS) + shortlist_size
        super().__init__(name=name, **kwargs)

        # Layers
        dtype = self.dtype_policy
        outputs = listed + bool(outside_output)
        prob = _output(output_layer, outputs, hidden_units, held_out_mass, weight_decay, dtype)
        energy = isinstance(prob, EnergyOutput)
        far = dict(averages_after=averages_after)
        self.embed = context_layer(vocabulary_size, embedding_dim, weight_decay, **far, name="embed", dtype=dtype)
        deep = dict(activation=activation, residual_blocks=residual_blocks, layer_norm=layer_norm, dropout=dropout)
        self.hidden = None
        if hidden_units and not energy:
            self.hidden = hidden_layer(hidden_units, weight_decay, **deep, name="hidden", dtype=dtype)
        self.direct = DirectConnection(name="direct", dtype=dtype) if direct_connections else None
        rank = embedding_dim if tied_output else output_rank
        self.project = None
        if rank:
            options = dict(use_bias=False, kernel_regularizer=penalty(weight_decay), dtype=dtype)
            self.project = keras.layers.Dense(rank, name="project", **options)
        self.prob = prob
        sampled, half = isinstance(self.prob, SampledOutput), self.compute_dtype == "float16"
        check_argument(
            "weight_decay", not (sampled and weight_decay), "0 with a sampled output: LazySGD has one", weight_decay
        )
        check_argument("dtype", not half, "another: exponentials overflow in float16; take mixed_bfloat16", "float16")
        one_kernel = isinstance(self.prob, LinearOutput)
        check_argument("tied_output", one_kernel or not tied_output, "off: this output has no one kernel", tied_output)
        check_argument(
            "shortlist_size", one_kernel or whole, "None: this output has no rows to leave out", shortlist_size
        )
        if energy:
            wanted = f"the output's, {prob.hidden_units}"
            check_argument("hidden_units", prob.hidden_units == hidden_units, wanted, hidden_units)
            check_argument(
                "direct_connections", not direct_connections, "off with the energy output", direct_connections
            )
            check_argument("output_rank", not output_rank, "None with the energy output", output_rank)
            check_argument("activation", activation == "tanh", "tanh with the energy output", activation)
        for option, given in dict(residual_blocks=residual_blocks, layer_norm=layer_norm).items():
            check_argument(option, self.hidden is not None or not given, "left out without a hidden layer", given)
        self.drop_words = keras.layers.Dropout(
            word_dropout, noise_shape=(None, order - 1, 1), name="drop_words", dtype=dtype
        )
        self.drop_embedding = keras.layers.Dropout(embedding_dropout, name="drop_embedding", dtype=dtype)
        self.drop_hidden = keras.layers.Dropout(dropout, name="drop_hidden", dtype=dtype)

        # Training
        self.perplexity = metrics.Perplexity()
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
        self.output_layer = output_layer
        self.output_rank = output_rank
        self.tied_output = tied_output
        self.shortlist_size = shortlist_size
        self.outside_output = outside_output
        self.averages_after = tuple(averages_after)
        self.word_dropout = word_dropout
        self.activation = activation
        self.residual_blocks = residual_blocks
        self.layer_norm = layer_norm
        self.listed = listed  # ids below this are predicted; it is the number of the output for the others
        self.build((None, order - 1))

    def compile(self, *args, jit_compile: bool | str = "auto", **kwargs):
        """As `keras.Model.compile`, but `"auto"` turns XLA off where it costs time, that is on a CPU, where its
        products are slower than TensorFlow's own; for sampled outputs; and under tf.distribute, where it fails. An
        optimiser's own weight decay, where it has one, spares the biases as the paper's does, unless it excludes others
        already.

        Raises:
            InputError: a loss or metrics on the logits for an output that is trained without them.
        """
        if jit_compile == "auto" and keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            replicas = tf.distribute.has_strategy() or self.distribute_strategy.num_replicas_in_sync > 1
            if replicas or not tf.config.list_logical_devices("GPU") or isinstance(self.prob, SampledOutput):
                jit_compile = False
        super().compile(*args, jit_compile=jit_compile, **kwargs)
        if keras.backend.backend() == "tensorflow" and self.distribute_strategy.num_replicas_in_sync > 1:
            self._check_replicable()
        if isinstance(self.prob, SampledOutput) and self._wants_logits():
            raise InputError(
                "A sampled output is trained without logits, and on TensorFlow: leave `loss` and `metrics` out."
            )
        chosen = getattr(self.optimizer, "_exclude_from_weight_decay", None)  # the user's own
        if getattr(self.optimizer, "weight_decay", None) and not self.optimizer.built and not chosen:
            self.optimizer.exclude_from_weight_decay(var_list=self._biases())

    def _check_replicable(self) -> None:
        """Refuse what fails, or is silently wrong, where several replicas train.

        Raises:
            InputError: such an option is on.
        """
        optimizer = self.optimizer
        wrong = {
            "steps_per_execution": (self.steps_per_execution > 1, "1: Keras's loop over steps fails there"),
            "jit_compile": (self.jit_compile is True, "False: XLA does not find the other replicas' variables"),
            "gradient_accumulation_steps": (optimizer.gradient_accumulation_steps, "None: the replicas do not agree"),
        }
        for clip in ("clipnorm", "global_clipnorm", "clipvalue"):
            wrong[clip] = (getattr(optimizer, clip), "None: each replica would clip its own share of the gradient")
        sparse = isinstance(self.prob, SampledOutput) and not (
            getattr(optimizer, "sums_repeated_rows", False) or isinstance(optimizer, keras.optimizers.SGD)
        )
        wrong["optimizer"] = (sparse, "a lazy one: Keras's count a row twice which two replicas touch")
        for option, (given, wanted) in wrong.items():
            check_argument(option, not given, f"{wanted} (this model is made under tf.distribute)", given)

    def compile_from_config(self, config):
        config = keras.saving.deserialize_keras_object(config)
        self.compile(**config | {"jit_compile": "auto"})  # what paid where it was saved may not pay here
        self.optimizer.build(self.trainable_variables)

    def build(self, input_shape):
        if self.built:
            return
        self.embed.build(input_shape)
        x_shape = self.embed.compute_output_shape(input_shape)
        features = 0
        if self.hidden is not None:
            self.hidden.build(x_shape)
            features += self.hidden_units
        if self.direct is not None:
            self.direct.build(x_shape)
            features += x_shape[1]
        if self.project is not None:
            self.project.build((None, features))
            features = self.project.units
        if isinstance(self.prob, EnergyOutput):
            features = x_shape[1]
        if self.tied_output or isinstance(self.prob, EnergyOutput):
            self.prob.tie(self.embed.C)
        self.prob.build((None, features))
        self.drop_words.build((*input_shape, self.embedding_dim))
        self.drop_embedding.build(x_shape)
        self.drop_hidden.build((None, self.hidden_units))
        self.built = True

    def call(self, context_ids, training=False):
        features = self.features(context_ids, training=training)
        return features if _IN_FIT.get() is self else self.prob(features)  # [B, |V|], or those of the short-list

    def features(self, context_ids, training=False):
        """What the output layer sees of a context: a, or [a; x] with direct connections, or a projection of these.

        The energy output, which has the hidden layer, sees x, followed where there is dropout by what it leaves of the
        hidden units, [B, h].
        """
        vectors = self.drop_words(self.embed.vectors(context_ids), training=training)  # [B, n-1, m]
        x = self.drop_embedding(self.embed.join(vectors), training=training)  # [B, (n-1) m]
        if isinstance(self.prob, EnergyOutput):
            if not self.dropout:
                return x
            units = ops.zeros_like(x[:, :1]) + ops.ones((self.hidden_units,), x.dtype)
            return ops.concatenate([x, self.drop_hidden(units, training=training)], axis=-1)
        features = self.body(x, training=training)
        return features if self.project is None else self.project(features)  # [B, r]

    def body(self, x, training=False):
        """a, [B, h], or [a; x] with direct connections, [B, h + (n-1) m], from x."""
        a = None
        if self.hidden is not None:
            deep = {"training": training} if isinstance(self.hidden, DeepHidden) else {}
            a = self.drop_hidden(self.hidden(x, **deep), training=training)
        return a if self.direct is None else self.direct(a, x)

    def train_step(self, *args):
        with self._in_fit():
            logs = super().train_step(*args)
        if self.prob.loss_name != "loss":  # a sampled loss: neither a likelihood nor comparable with that of validation
            logs = {self.prob.loss_name: logs["loss"]}
        return self._for_workers(logs)

    def test_step(self, *args):
        with self._in_fit():
            return self._for_workers(super().test_step(*args))

    def _for_workers(self, logs: dict) -> dict:
        """Several workers' logs are averaged over a first dimension, which scalars lack."""
        several = keras.backend.backend() == "tensorflow" and has_several_workers(self.distribute_strategy)
        return {name: ops.reshape(value, (1,)) for name, value in logs.items()} if several else logs

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Keras would draw a batch to build by, and fails where replicas have parts of it; its shape is known."""
        del iterator, data_batch
        batch = keras.KerasTensor((None, self.order - 1), "int32"), keras.KerasTensor((None,), "int32")
        super()._maybe_symbolic_build(data_batch=batch)

    @contextlib.contextmanager
    def _in_fit(self):
        """In here `call` gives the features, from which `compute_loss` finds what it needs without [B, |V|] logits.

        Not where something else wants the logits: the user's own loss or metrics, or a backend that is not TensorFlow.
        """
        token = _IN_FIT.set(None if self._wants_logits() else self)
        try:
            yield
        finally:
            _IN_FIT.reset(token)

    def _wants_logits(self) -> bool:
        return self.loss is not None or self._compile_metrics is not None or keras.backend.backend() != "tensorflow"

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The penalised mean loss of a step; its likelihoods go to `perplexity` on the way."""
        y = self.output_ids(y)
        if _IN_FIT.get() is not self:
            loss, negative_log_likelihood = self.prob.training_loss_of_logits(y_pred, y)
        elif training:
            loss, negative_log_likelihood = self.prob.training_loss(y_pred, y)
        else:
            negative_log_likelihood = -self.prob.log_prob(y_pred, y)
        if negative_log_likelihood is not None:
            self.perplexity.update_state(negative_log_likelihood, sample_weight)
        if self.loss is not None:  # the user's own
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        loss = loss if training else negative_log_likelihood
        mean = self.mean(loss, loss, sample_weight)
        loss = self._in_its_share(mean, loss) if training else mean
        if self.losses:
            loss += super().compute_loss(x, y, y_pred, sample_weight, training)  # the penalty alone
        return loss

    def _in_its_share(self, mean, losses):
        """The mean over a replica's part of a batch, whose gradient counts as much as the part has n-grams.

        Keras counts all parts alike, which is wrong for a batch that does not split evenly.
        """
        if keras.backend.backend() != "tensorflow" or self.distribute_strategy.num_replicas_in_sync == 1:
            return mean
        import tensorflow as tf

        replica, number = tf.distribute.get_replica_context(), tf.cast(tf.shape(losses)[0], mean.dtype)
        total = replica.all_reduce(tf.distribute.ReduceOp.SUM, number)
        share = mean * number * replica.num_replicas_in_sync / total
        return share + tf.stop_gradient(mean - share)

    def output_ids(self, target_ids):
        """The outputs that targets are trained on: themselves, but those outside a short-list its outside output.

        Without one they stay as they are, and their loss is NaN: such n-grams are no training data.
        """
        if not self.outside_output:
            return target_ids
        target_ids = ops.convert_to_tensor(target_ids)
        return ops.where(target_ids < self.vocabulary_size, ops.minimum(target_ids, self.listed), target_ids)

    @property
    def ngram_order(self) -> int:
        """The order of the n-gram model that sees the words which this network sees each in its place: n, or fewer
        where the far context is averaged."""
        return near_order(self.order, self.averages_after)

    def set_unigram(self, counts: np.ndarray, min_count: int = 1) -> None:
        """Begin as the unigram model, over the outputs that there are; see `Output.set_unigram`.

        Args:
            counts: how often each id is a target in training, int [|V|].
            min_count: how often a word had to be seen to join the vocabulary.

        Raises:
            InputError: `counts` is not [|V|] or holds nothing.
        """
        counts = np.asarray(counts)
        if counts.shape == (self.vocabulary_size,):
            outside = [counts[self.listed :].sum()] if self.outside_output else []
            counts = np.append(counts[: self.listed], outside)
        self.prob.set_unigram(counts, min_count)

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(w | context) for every word w.

        Args:
            context_ids: int [B, n-1], oldest first.

        Returns:
            float32 [B, |V|], nats; exp of a row sums to 1. -inf for words outside a short-list.

        Raises:
            InputError: ids out of range, or contexts of another length.
        """
        log_probs = self.next_output_log_probs(context_ids)[:, : self.listed]
        outside = np.full((len(log_probs), self.vocabulary_size - self.listed), -np.inf, np.float32)
        return np.concatenate([log_probs, outside], axis=1) if outside.shape[1] else log_probs

    def next_output_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(output | context) for every output: the words that are predicted, and the outside where it is one.

        Args:
            context_ids: int [B, n-1], oldest first.

        Returns:
            float32 [B, outputs], nats; exp of a row sums to 1.

        Raises:
            InputError: ids out of range, or contexts of another length.
        """
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        parts = [self._next_log_probs(context_ids[i : i + _ROWS]) for i in range(0, len(context_ids), _ROWS)]
        return np.concatenate(parts) if parts else np.zeros((0, self.prob.vocabulary_size), np.float32)

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """ln P(target | context), exactly normalised.

        Args:
            context_ids: int [B, n-1], oldest first.
            target_ids: int [B].

        Returns:
            float32 [B], nats; -inf for words outside a short-list.

        Raises:
            InputError: ids out of range, contexts of another length, or as many targets as there are not contexts.
        """
        context_ids, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        inside = target_ids < self.listed
        if inside.all():
            return self.output_log_prob(context_ids, target_ids)
        result = np.full(len(target_ids), -np.inf, np.float32)
        result[inside] = self.output_log_prob(context_ids[inside], target_ids[inside])
        return result

    def output_log_prob(self, context_ids: np.ndarray, output_ids: np.ndarray) -> np.ndarray:
        """ln P(output | context), one pass of the network for each distinct context.

        Args:
            context_ids: int [B, n-1], oldest first.
            output_ids: int [B], words that are predicted, or `listed` for the outside where it is an output.

        Returns:
            float32 [B], nats.

        Raises:
            InputError: ids out of range, contexts of another length, or as many outputs as there are not contexts.
        """
        outputs = self.prob.vocabulary_size
        context_ids, output_ids = check_ngrams(context_ids, output_ids, self.order, self.vocabulary_size, outputs)
        result = np.zeros(len(output_ids), np.float32)
        contexts, which = find_distinct_rows(context_ids)  # one pass for all words that are asked in a context
        order = np.argsort(which, kind="stable")
        for first in range(0, len(contexts), _ROWS):
            begin, end = np.searchsorted(which, [first, first + _ROWS], sorter=order)
            asked = order[begin:end]
            part = contexts[first : first + _ROWS], output_ids[asked], which[asked] - first
            result[asked] = self._log_prob(*part)
        return result

    @functools.cached_property
    def _next_log_probs(self) -> Callable:
        return self._compiled(lambda context_ids: self.prob.log_probs(self.features(context_ids)), 0)

    @functools.cached_property
    def _log_prob(self) -> Callable:
        return self._compiled(lambda context_ids, *asked: self.prob.log_prob(self.features(context_ids), *asked), 2)

    def _compiled(self, function: Callable, vectors: int) -> Callable:
        """`function` of contexts and so many int vectors, from arrays to a NumPy array; a graph on TensorFlow."""
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            signature = [tf.TensorSpec([None, self.order - 1], tf.int32)] + [tf.TensorSpec([None], tf.int32)] * vectors
            function = tf.function(function, input_signature=signature)
        return lambda *arrays: ops.convert_to_numpy(function(*map(ops.convert_to_tensor, arrays)))

    def _biases(self) -> list[keras.Variable]:
        return self.prob.biases + (self.hidden.biases if self.hidden is not None else [])

    def save_own_variables(self, store):
        """As Keras does, and where the random numbers of dropout and of drawn words have got to.

        So a loaded model goes on alike.
        """
        super().save_own_variables(store)
        for name, state in self.random_states().items():
            store[name] = state.numpy()

    def load_own_variables(self, store):
        for name, state in self.random_states().items():
            if name in store:  # not where it was saved without dropout
                state.assign(store[name])

    def random_states(self) -> dict[str, keras.Variable]:
        """Where the random numbers of dropout and of drawn words have got to."""
        dropouts = [self.drop_words, self.drop_embedding, self.drop_hidden]
        random = [layer for layer in dropouts if layer.rate > 0]
        random += [self.prob] if isinstance(self.prob, SampledOutput) else []
        states = {f"{layer.name}_state": layer.seed_generator.state for layer in random}
        return states | (self.hidden.random_states() if isinstance(self.hidden, DeepHidden) else {})

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
            "output_layer": self.output_layer if isinstance(self.output_layer, str) else _serialised(self.prob),
            "output_rank": self.output_rank,
            "tied_output": self.tied_output,
            "shortlist_size": self.shortlist_size,
            "outside_output": self.outside_output,
            "averages_after": self.averages_after,
            "word_dropout": self.word_dropout,
            "activation": self.activation,
            "residual_blocks": self.residual_blocks,
            "layer_norm": self.layer_norm,
            "name": self.name,
        }


class _Mean(keras.losses.Loss):
    """The (weighted) mean of the losses of single examples, scaled under tf.distribute as Keras scales its own."""

    def call(self, y_true, y_pred):
        del y_true
        return y_pred


def _serialised(output: Output) -> dict:
    """The form that `_output` takes again; how it was built is left out, since the model builds it."""
    serialised = keras.saving.serialize_keras_object(output)
    serialised.pop("build_config", None)
    return serialised


def _output(
    chosen, vocabulary_size: int, hidden_units: int, held_out_mass: float, weight_decay: float, dtype
) -> Output:
    """The output layer that `NPLM` was told to have, by name, by its serialised form, or itself."""
    if isinstance(chosen, str):
        check_argument("output_layer", chosen in OUTPUTS, f"one of {', '.join(OUTPUTS)}", chosen)
        check_argument(
            "held_out_mass", chosen != "adaptive" or not held_out_mass, "0: adaptive has none", held_out_mass
        )
        options = {"held_out_mass": held_out_mass} if chosen != "adaptive" else {}
        options |= {"hidden_units": hidden_units} if chosen == "energy" else {"weight_decay": weight_decay}
        chosen = OUTPUTS[chosen](vocabulary_size, name="prob", dtype=dtype, **options)
    elif isinstance(chosen, dict):
        chosen = keras.saving.deserialize_keras_object(chosen)
    check_argument("output_layer", isinstance(chosen, Output), "a name or an output layer", type(chosen).__name__)
    check_argument(
        "output_layer", chosen.vocabulary_size == vocabulary_size, f"of {vocabulary_size} words", chosen.name
    )
    return chosen
