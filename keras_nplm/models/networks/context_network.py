"""ContextNetwork: a next-word network of layers, a `keras.Model`: what it reads, how it scores,
what it minimises.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.data.boundary import BOUNDARIES
from keras_nplm.io.errors import InputError, check_argument, check_choice, check_integer
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.hidden import DirectConnection
from keras_nplm.layers.objectives.base import Objective, smooth_unigram
from keras_nplm.layers.ops import (
    NamedWeights,
    Tensor,
    list_biases,
)
from keras_nplm.layers.scores import LinearScores, Scores
from keras_nplm.layers.segments import Context, are_segments
from keras_nplm.models.base import NETWORK_FILE, SCORER_FILE, resolve_vocabulary_size
from keras_nplm.models.networks.metrics import Perplexity
from keras_nplm.models.networks.probabilities import NetworkProbabilities
from keras_nplm.models.networks.training import ObjectiveTraining


@keras.saving.register_keras_serializable("keras_nplm")
class ContextNetwork(NamedWeights, NetworkProbabilities, ObjectiveTraining, keras.Model):
    """Next-word network of a context of n-1 words, composed of layers.

        x = embed(context)                                read: the word features, [B, w]
        a = hidden(x)                                     features, of the context, [B, h]
        y = b + U a (+ W x)                               score: of the head, and of direct
        P(w | context) = exp(y_w) / sum_i exp(y_i)        call

    Training minimises `objective(y, target)` plus the weight decay of the layers. `NPLM` is the
    paper's network. A subclass overrides `score` to change what a context says of the words: see
    `PointerNetwork`, `HybridNetwork`.

    Inputs are named. Contexts are an array, int [B, n-1], oldest word first, or `{"contexts": …}`;
    `<pad>` (0) fills a shorter context. Segments are `{"segments": ids}`, int [S, n-1+T-1]: the
    words before and between T consecutive targets; see `ngram_dataset(segment=…)`.

    `compile(optimizer=…)` needs no loss: the model has its own, computed from the scores without
    storing [B, |V|] probabilities. The logs have `perplexity`, without weight decay, which
    callbacks monitor: `EarlyStopping("val_perplexity")`. A sampled objective logs its training loss
    under a name of its own, and `perplexity` in validation only. Metrics given to `compile` see the
    probabilities, at the cost of a full softmax. A loss given to `compile`, and a subclass that
    overrides `call`, use the probabilities that `call` returns, as in any Keras model. A training
    loop of your own sums the repeated rows of gradients by `sum_gradients`.

    Args:
        order: int, n, 2 or more. A context has n-1 words.
        embed: a context layer, such as `ContextEmbedding(…)` or `AveragedContext(…)`.
        head: the layer that scores the words, such as `LinearHead(…)`. It is the attribute `prob`,
            since a call of it gives probabilities.
        objective: what training minimises, such as `Likelihood()` or `NoiseContrastive()`.
        hidden: the hidden layer, such as `TanhHidden(…)`, `DeepHidden(…)` or any Keras layer from
            [B, w] to [B, h]. None: the features are x, for a head with a hidden layer of its own.
        direct: `DirectConnection(…)`, or None for no direct connections.
        boundary: `"sentence"`, `"text"` or `"stream"`, how text is cut into n-grams; see
            `ngram_dataset`. It is saved with the model, for `evaluate`.

    Returns:
        P(w | context), float [B, outputs], or of segments [S, T, outputs].

    Raises:
        InputError: the layers do not fit together.

    Example:

    >>> from keras_nplm import ContextEmbedding, DeepHidden, LinearHead, NoiseContrastive
    >>> network = ContextNetwork(
    ...     order=5,
    ...     embed=ContextEmbedding(1000, 30, name="embed"),
    ...     hidden=DeepHidden(50, residual_blocks=1, name="hidden"),
    ...     head=LinearHead(1000, name="prob"),
    ...     objective=NoiseContrastive(num_sampled=64, seed=1),
    ... )
    >>> contexts = np.array([[4, 5, 6, 7], [0, 0, 0, 4]])
    >>> network.predict(contexts, verbose=0).sum(axis=1).round(4).tolist()
    [1.0, 1.0]
    """

    # whether its inputs are contexts with the log-probabilities of an n-gram model
    reads_log_q = False
    built: bool

    def __init__(
        self,
        order: int,
        embed: ContextEmbedding,
        head: Head,
        objective: Objective,
        hidden: keras.layers.Layer | None = None,
        direct: DirectConnection | None = None,
        boundary: str = "sentence",
        name: str | None = None,
        **kwargs: Any,
    ):
        check_integer("order", order, 2, most=1023)
        check_choice("boundary", boundary, BOUNDARIES)
        kwargs.setdefault("dtype", head.dtype_policy)
        super().__init__(name=name, **kwargs)
        self.order = order
        self.vocabulary_size = resolve_vocabulary_size([embed, head])
        self.boundary = boundary
        self.embed = embed
        self.hidden = hidden
        self.direct = direct
        self.prob = head
        self.objective = objective
        self.perplexity = Perplexity()
        self.build((None, order - 1))
        self._check_layers()

    def _check_layers(self) -> None:
        if self.direct is not None:
            self.prob.check_word_rows("with direct connections")
            if self.prob.num_outputs != self.direct.units:
                raise InputError(
                    f"`direct` must have the outputs of `head`, {self.prob.num_outputs}. "
                    f"Received: {self.direct.units}. Fix: give both the same number."
                )
        for layer in (self, *self.list_layers()):
            check_argument(  # five bits of exponent lose small updates
                "dtype",
                layer.variable_dtype != "float16",
                "float32, float64, bfloat16, mixed_bfloat16 or mixed_float16",
                "float16",
                "choose mixed_float16, which has weights of float32.",
            )
            # Keras adds its penalty in a call: of the network's layers to the hidden one alone
            if layer is not self.hidden and layer.activity_regularizer is not None:
                raise InputError(
                    f"`activity_regularizer` must be None in `{layer.name}`. "
                    f"Received: {type(layer.activity_regularizer).__name__}. "
                    "Fix: give it to the hidden layer."
                )
        self.objective.check_head(self.prob)

    def build(self, input_shape: tuple) -> None:
        if self.built:
            return
        _build_once(self.embed, input_shape)
        x_shape = self.embed.compute_output_shape(input_shape)
        features_shape = x_shape
        if self.hidden is not None:
            _build_once(self.hidden, x_shape)
            spec = self.hidden.compute_output_spec(keras.KerasTensor(x_shape))
            features_shape = (None, spec.shape[-1])
        self.prob.check_untied()
        self.prob.tie(self.embed.C)
        _build_once(self.prob, features_shape)
        if self.direct is not None:
            _build_once(self.direct, x_shape)
        if not self.objective.built:
            self.objective.build((None, self.prob.num_outputs))
        self.build_parts(features_shape)
        self.built = True

    def build_parts(self, features_shape: tuple) -> None:
        """Build what a subclass adds, for features [B, h]."""

    @property
    def embedding_dim(self) -> int:
        """m, the number of components of a word vector."""
        return self.embed.embedding_dim

    # The way of a batch, equation 1: inputs -> x -> a -> y -> P(w | context)

    def read(self, inputs: Any, training: bool = False, sum_gradient: bool = True) -> Context:
        """Look up the words of contexts or segments: x = [C(w_{t-n+1}), …, C(w_{t-1})].

        `sum_gradient`: see `ContextEmbedding.read`.
        """
        if not isinstance(inputs, dict):
            return self.embed.read(inputs, training, sum_gradient)
        if "segments" in inputs:
            return self.embed.read_segments(
                inputs["segments"], self.boundary, training, sum_gradient
            )
        return self.embed.read(inputs["contexts"], training, sum_gradient)

    def features(self, context: Context, training: bool = False) -> Tensor:
        """Return a = tanh(d + H x), float [B, h], or what another hidden layer makes of x."""
        return context.x if self.hidden is None else self.hidden(context.x, training=training)

    def score(self, context: Context, features: Tensor, training: bool = False) -> Scores:
        """Return the scores of the words, y = b + U a (+ W x)."""
        scores = self.prob.scores(features, training)
        if self.direct is None:
            return scores
        # `_check_layers` refuses W beside a head of other scores
        return cast(LinearScores, scores).plus(context.x, self.direct.W)

    def scores(self, inputs: Any, training: bool = False, sum_gradient: bool = True) -> Scores:
        """Return the scores of the words for inputs."""
        context = self.read(inputs, training, sum_gradient)
        return self.score(context, self.features(context, training), training)

    def call(self, inputs: Any, training: bool = False) -> Tensor:
        """Return P(w | context) = exp(y_w) / sum_i exp(y_i)."""
        rows = ops.softmax(self.scores(inputs, training).logits())
        if not are_segments(inputs):
            return rows
        num_targets = inputs["segments"].shape[1] - self.order + 2
        return ops.reshape(rows, (-1, num_targets, self.prob.num_outputs))

    def overrides(self, *names: str) -> bool:
        """Return whether a subclass overrides one of some methods."""
        return any(getattr(type(self), name) is not getattr(ContextNetwork, name) for name in names)

    def describe_inputs(self) -> Any:
        """Return the inputs of contexts as symbols of Keras."""
        return keras.KerasTensor((None, self.order - 1), "int32", name="context_ids")

    # Facts of the layers

    def list_parts(self) -> dict[str, keras.layers.Layer | None]:
        """Return the layers by their names in the configuration."""
        return {
            "embed": self.embed,
            "hidden": self.hidden,
            "direct": self.direct,
            "head": self.prob,
            "objective": self.objective,
        }

    def list_layers(self) -> list[keras.layers.Layer]:
        """Return the layers that the network is composed of."""
        return [layer for layer in self.list_parts().values() if layer is not None]

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights without weight decay, for
        `optimizer.exclude_from_weight_decay(var_list=…)`.
        """
        return [bias for layer in self.list_layers() for bias in list_biases(layer)]

    def set_unigram(self, counts: np.ndarray, min_count: int = 1) -> None:
        """Start from the unigram model of the targets: see `smooth_unigram`.

        `counts`, int [|V|], are by id.
        """
        outputs = self.prob.num_outputs
        shape = np.shape(counts)
        if shape != (self.vocabulary_size,) or not np.sum(counts[:outputs]) > 0:
            raise InputError(
                f"`counts` must be [{self.vocabulary_size}] with a positive sum of the {outputs} "
                f"words that the head scores. Received: {list(shape)}. "
                "Fix: count the targets of the training text with this vocabulary."
            )
        mass = self.objective.held_out_mass
        unigram, held_out = smooth_unigram(counts, outputs, min_count, mass)
        self.set_head_unigram(unigram)
        self.objective.set_unigram(unigram, held_out)

    def set_head_unigram(self, unigram: np.ndarray) -> None:
        """Set the biases of the head to the unigram model."""
        self.prob.set_unigram(unigram)

    @property
    def ngram_order(self) -> int:
        """The order of an n-gram model that sees the same separate (not averaged) words of the
        context.
        """
        return max(2, self.embed.num_single_words(self.order - 1) + 1)

    # Saving: files, SavedModel, the configuration, and the states of random number generators

    def list_files(self) -> Mapping[str, Callable[[Path], object]]:
        # a network that is not saved needs none of these files
        from keras_nplm.models.networks.conversion import find_saved_arrays

        arrays = find_saved_arrays(self)
        return {NETWORK_FILE: self.save} | ({SCORER_FILE: arrays.write} if arrays else {})

    def export(
        self, filepath: str | os.PathLike, *args: Any, input_signature: Any = None, **kwargs: Any
    ) -> None:
        """Export as `keras.Model.export` does; the input is `context_ids`, int32 [B, n-1]."""
        symbols = self.describe_inputs()
        self(keras.tree.map_structure(lambda symbol: np.zeros((1, *symbol.shape[1:])), symbols))
        signature = input_signature or [keras.tree.map_structure(_make_spec, symbols)]
        super().export(filepath, *args, input_signature=signature, **kwargs)

    def quantize(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: Keras would quantise `Dense` layers alone, and leave C and U as they are."""
        raise InputError(
            "A network must be quantised as a file: its layers have no 8-bit form in Keras. "
            f"Received: {self.name}. Fix: save it as a LanguageModel and call "
            "`keras-nplm export DIR model.tflite --quantise`, or "
            "`export_litert(language_model, path, quantise=True)`; `export_onnx` has it, too."
        )

    @property
    def _default_save_signature(self) -> Any:
        """The function that `tf.saved_model.save` and `export` serve: of ids, where Keras would
        take floats.
        """
        spec = keras.tree.map_structure(_make_tensor_spec, self.describe_inputs())

        @tf.function(input_signature=[spec], autograph=False)
        def serving_default(inputs: Any) -> Tensor:
            return self(inputs)

        return serving_default

    def random_states(self) -> list[keras.Variable]:
        """Return the states of the random number generators of dropout and of negative samples."""
        weights = {id(weight) for weight in self.weights}
        return [variable for variable in self.variables if id(variable) not in weights]

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        for number, state in enumerate(self.random_states()):
            store[f"random_state_{number}"] = state.numpy()

    def load_own_variables(self, store: Any) -> None:
        for variable in self.list_own_variables():
            variable.assign(store[variable.name])
        for number, state in enumerate(self.random_states()):
            name = f"random_state_{number}"
            if name in store:  # weights saved without dropout have fewer
                state.assign(store[name])

    def get_config(self) -> dict:
        config = super().get_config()
        config["order"] = self.order
        config["boundary"] = self.boundary
        for part, layer in self.list_parts().items():
            config[part] = None if layer is None else _serialise(layer)
        return config

    @classmethod
    def from_config(cls, config: dict) -> "ContextNetwork":
        # values one by one: Keras would take the name "NPLM" for the class
        read = keras.saving.deserialize_keras_object
        return cls(**{key: read(x) if isinstance(x, dict) else x for key, x in config.items()})


def _build_once(layer: keras.layers.Layer, input_shape: tuple) -> None:
    """Build a layer, unless it is built: it may hold pretrained weights, or be shared with a
    different model.
    """
    if not layer.built:
        layer.build(input_shape)
        layer.built = True


def _serialise(layer: keras.layers.Layer) -> dict:
    """Return a layer's configuration without its input shapes, since a network builds its
    layers.
    """
    described = keras.saving.serialize_keras_object(layer)
    described.pop("build_config", None)
    return described


def _make_tensor_spec(symbol: keras.KerasTensor) -> tf.TensorSpec:
    return tf.TensorSpec(symbol.shape, symbol.dtype, name=symbol.name)


def _make_spec(symbol: keras.KerasTensor) -> keras.InputSpec:
    return keras.InputSpec(shape=symbol.shape, dtype=symbol.dtype, name=symbol.name)
