"""Training by penalised maximum likelihood, without storing the probabilities of all words."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.data.ids import PAD_ID
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.layers.objectives.base import Objective
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.scores import compute_log_prob
from keras_nplm.layers.segments import are_segments
from keras_nplm.models.networks.gradients import complete_gradients
from keras_nplm.models.networks.metrics import negative_log_likelihoods
from keras_nplm.models.networks.replicas import average_over_replicas, has_several_workers

_FIX_TARGETS = (
    "encode the text with the model's vocabulary; for a short-list use "
    "ngram_dataset(targets_below=…)."
)


class ObjectiveTraining(keras.Model):
    """Base class of a Keras model that trains by an objective of its own, such as the penalised
    log-likelihood.

        loss = 1/B sum_t objective(y_t, w_t) + λ/2 |θ|²

    It is computed from scores, without [B, |V|] probabilities; see `ContextNetwork`. The model has
    `scores`, `objective`, `prob`, and `call_is_own()`: whether no subclass overrides `call`.
    """

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "rmsprop",
        loss: Any = None,
        *,
        metrics: Any = None,
        weighted_metrics: Any = None,
        jit_compile: bool | str = "auto",
        **options: Any,
    ) -> None:
        """Compile as `keras.Model.compile` does.

        `jit_compile="auto"` is False on a CPU, where XLA's matrix products are slower than
        TensorFlow's, for sampled outputs, and under tf.distribute. There
        `steps_per_execution` above 1 and `gradient_accumulation_steps` of an optimiser fail in
        `fit`. Of an optimiser with a weight decay of its own, the biases are left out by
        `optimizer.exclude_from_weight_decay(var_list=model.biases)`.
        """
        backend = keras.backend.backend()
        fix = "set KERAS_BACKEND=tensorflow."
        check_argument("backend", backend == "tensorflow", "tensorflow for training", backend, fix)
        wrong = getattr(loss, "from_logits", False) and self.call_is_own()
        check_argument(
            "from_logits",
            not wrong,
            "False",
            True,
            "leave it out: the model returns probabilities.",
        )
        self._has_compiled_metrics = bool(metrics or weighted_metrics)
        replicas = tf.distribute.has_strategy() or self.distribute_strategy.num_replicas_in_sync > 1
        check_argument(
            "jit_compile",
            not replicas or jit_compile is not True,
            "False under tf.distribute: XLA would not sum over the replicas",
            jit_compile,
            "leave it out.",
        )
        if jit_compile == "auto" and (replicas or not tf.config.list_logical_devices("GPU")):
            jit_compile = False
        super().compile(
            optimizer,
            loss,
            metrics=[*keras.tree.flatten(metrics or []), self.perplexity],
            # Keras takes an empty list for metrics that it has to build
            weighted_metrics=weighted_metrics or None,
            jit_compile=jit_compile,
            **options,
        )
        self.perplexity.reset_state()
        if not self._has_compiled_metrics:  # Keras builds them in an update, which no step makes
            for metric in self.metrics:
                if metric.name == "compile_metrics":
                    metric.update_state(np.zeros(1, int), np.zeros((1, 1)))

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics of `compile`, with the perplexity among them, and those of the layers."""
        return [metric for metric in super().metrics if metric is not self.perplexity]

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Build from the known shape: Keras would begin the shuffled dataset, whose next pass is
        the next epoch.
        """
        batch = self.describe_inputs(), keras.KerasTensor((None,), "int32")
        super()._maybe_symbolic_build(data_batch=batch)

    def train_step(self, data: Any) -> dict:
        with tf.GradientTape() as tape:
            loss, number, outputs = self._compute_step(data, training=True)
            scaled = self.optimizer.scale_loss(loss)
        logs = self._update_metrics(data, loss, number, outputs, training=True)
        if self.trainable_weights:
            gradients = complete_gradients(
                self.optimizer, tape.gradient(scaled, self.trainable_weights)
            )
            self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return logs

    def test_step(self, data: Any) -> dict:
        loss, number, outputs = self._compute_step(data, training=False)
        return self._update_metrics(data, loss, number, outputs, training=False)

    def _trains_on_scores(self) -> bool:
        """Whether the loss is the model's own, computed without the probabilities that `call`
        returns.
        """
        own = self.call_is_own() and type(self).compute_loss is ObjectiveTraining.compute_loss
        return self.loss is None and own

    def _compute_step(self, data: Any, training: bool) -> tuple[Tensor, Tensor, Any]:
        """Return the loss of a batch, its number of n-grams, and the scores or probabilities that
        give the loss.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        is_segments = are_segments(x)
        x = self._check_input_ids(x)
        if not self._trains_on_scores():
            return self._compute_step_of_call(x, y, sample_weight, is_segments, training)
        target_ids = self._flatten_targets(y, is_segments)
        target_ids = _check_range("target_ids", target_ids, self.prob.num_outputs, _FIX_TARGETS)
        target_ids, known = clip_ids(target_ids, self.prob.num_outputs)
        # `complete_gradients` sums them
        scores = self.scores(x, training=training, sum_gradient=False)
        if training:
            loss, negative_log_likelihood = self.objective.losses(scores, target_ids)
            _check_likelihood(self.objective, negative_log_likelihood)
        else:
            loss = negative_log_likelihood = -compute_log_prob(scores, target_ids)
        loss *= ops.cast(known, loss.dtype)
        number = ops.shape(target_ids)[0]
        if is_segments:  # a place of a segment without a target is `<pad>`
            is_target = ops.cast(ops.not_equal(target_ids, PAD_ID), "float32")
            number = ops.sum(is_target)
            given = 1
            if sample_weight is not None:
                _check_segment_weights(sample_weight, y)
                given = ops.reshape(sample_weight, (-1,))
            sample_weight = ops.multiply(is_target, given)
        if negative_log_likelihood is not None:
            self.perplexity.update_state(negative_log_likelihood, sample_weight=sample_weight)
        number = average_over_replicas(number) if training else number
        return self._penalised_mean(loss, sample_weight, number), number, scores

    def _compute_step_of_call(
        self, x: Any, y: Tensor, sample_weight: Tensor | None, is_segments: bool, training: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of the output of `call`, as in any Keras model."""
        if is_segments:
            raise InputError(
                f"`loss` must be the model's own for segments. Received: {self.loss}. "
                "Fix: leave `loss` out, or give contexts [B, n-1]."
            )
        outputs = self(x, training=training)
        if not _is_one_per_output(y, outputs):
            y = _check_range("target_ids", y, outputs.shape[-1], _FIX_TARGETS)
        loss = self.compute_loss(x, y, outputs, sample_weight, training=training)
        return loss, ops.shape(y)[0], outputs

    def _check_input_ids(self, x: Any) -> Any:
        """Return the inputs of a batch, whose ids are checked when they are used."""
        fix = "encode the text with the model's vocabulary."
        if not isinstance(x, dict):
            return _check_range("context_ids", x, self.vocabulary_size, fix)
        checked = dict(x)
        for name in ("contexts", "segments"):
            if name in x:
                checked[name] = _check_range("context_ids", x[name], self.vocabulary_size, fix)
        return checked

    def _flatten_targets(self, y: Tensor, is_segments: bool) -> Tensor:
        """Return the target ids of a batch, [B]; refuse targets that are no ids."""
        shape = tf.TensorShape(y.shape)
        is_row = shape.rank == 2 and shape[1] != 1  # of a segment, or one-hot
        if shape.rank not in (None, 1, 2) or (is_row and not is_segments):
            raise InputError(
                f"`y` must be [B] or [B, 1] ids. Received: {list(y.shape)}. Fix: give ids, as "
                "fit(contexts, target_ids), or pass loss='categorical_crossentropy' to compile "
                "for one-hot targets."
            )
        return ops.reshape(y, (-1,))

    def compute_loss(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Return the loss of probabilities `y_pred`: the loss given to `compile`, or the penalised
        likelihood.
        """
        losses = negative_log_likelihoods(y, y_pred)
        self.perplexity.update_state(losses, sample_weight=sample_weight)
        if self.loss is not None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        return self._penalised_mean(losses, sample_weight, ops.shape(losses)[0])

    def _penalised_mean(
        self, losses: Tensor, sample_weight: Tensor | None, number: Tensor
    ) -> Tensor:
        """Return the weighted sum of losses by n-gram plus the weight decay; the sum over replicas
        is the loss.
        """
        losses = ops.cast(losses, self.prob.accumulator_dtype)
        if sample_weight is not None:
            losses *= ops.cast(ops.reshape(sample_weight, (-1,)), losses.dtype)
        number = ops.cast(number, losses.dtype) * self.distribute_strategy.num_replicas_in_sync
        mean = ops.sum(losses) / ops.maximum(number, 1)
        return mean + ops.cast(super().compute_loss(), mean.dtype) if self.losses else mean

    def _update_metrics(
        self, data: Any, loss: Tensor, number: Tensor, outputs: Tensor, training: bool
    ) -> dict:
        """Add the loss of a batch to the mean of the epoch, update all metrics and return the
        logs.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        # a loss is scaled so that replicas sum to it
        replicas = self.distribute_strategy.num_replicas_in_sync
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(ops.stop_gradient(loss) * replicas, sample_weight=number)
        on_scores = self._trains_on_scores()
        if (
            on_scores
            and not self._has_compiled_metrics
            and type(self).compute_metrics is keras.Model.compute_metrics
        ):
            logs = self.get_metrics_result()
        else:
            probabilities = ops.softmax(outputs.logits()) if on_scores else outputs
            if are_segments(x):
                y, probabilities, sample_weight = _drop_places(
                    y, probabilities, sample_weight, self.jit_compile
                )
            logs = self.compute_metrics(x, y, probabilities, sample_weight)
        if training:
            logs = self.name_training_logs(logs)
        # Keras averages over them, which needs a first dimension
        if has_several_workers(self.distribute_strategy):
            logs = {name: ops.reshape(value, (1,)) for name, value in logs.items()}
        return logs

    def name_training_logs(self, logs: dict) -> dict:
        """Return logs of training in which the loss has the name that the objective gives it.

        They have no perplexity if the objective has no likelihood.
        """
        if not self._trains_on_scores():
            return logs
        named = dict(logs)
        if not self.objective.has_likelihood:
            named.pop("perplexity", None)
        if "loss" in named:
            named = {self.objective.loss_name: named.pop("loss"), **named}
        return named

    def get_compile_config(self) -> dict:
        config = super().get_compile_config()
        if config:
            config["metrics"] = config["metrics"][:-1] or None  # `compile` adds the perplexity
        if config and self.optimizer.weight_decay:
            # the configuration of an optimiser does not say which weights have no decay
            config["without_decay"] = [
                place
                for place, weight in enumerate(self.weights)
                if not self.optimizer._use_weight_decay(weight)
            ]
        return config

    def compile_from_config(self, config: dict) -> None:
        config = keras.saving.deserialize_keras_object(config)
        without_decay = config.pop("without_decay", ())
        # another machine may be faster with another choice
        self.compile(**config | {"jit_compile": "auto"})
        if self.optimizer.weight_decay:
            excluded = [self.weights[place] for place in without_decay]
            self.optimizer.exclude_from_weight_decay(var_list=excluded)
        self.optimizer.build(self.trainable_variables)


def clip_ids(ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return ids int32 [B], clipped to 0 to size - 1, and float [B]: 1, or NaN for an id that was
    out of range.

    A loss is multiplied by the second, so that training on such targets does not go unseen.
    """
    ids = ops.cast(ids, "int32")
    known = ops.logical_and(ids >= 0, ids < size)
    return ops.clip(ids, 0, size - 1), ops.where(known, 1.0, float("nan"))


def _check_range(argument: str, ids: Tensor, size: int, fix: str) -> Tensor:
    """Return ids that stop a step if they are out of range: its loss would be NaN.

    XLA removes assertions.
    """
    ids = tf.convert_to_tensor(ids)
    # |V| may be beyond the range of a small type
    wide_ids = tf.cast(ids, tf.int64) if ids.dtype.is_integer else ids
    least = tf.reduce_min(wide_ids)
    greatest = tf.reduce_max(wide_ids)
    in_range = tf.logical_and(least >= 0, greatest < tf.cast(size, wide_ids.dtype))
    text = f"`{argument}` must be 0 to {size - 1}. Fix: {fix} Received:"
    assertion = tf.debugging.Assert(in_range, [text, least, "to", greatest])
    # eagerly there is no operation to wait for
    with tf.control_dependencies([] if assertion is None else [assertion]):
        return tf.identity(ids)


def _is_one_per_output(y: Tensor, outputs: Tensor) -> bool:
    """Return whether targets are one-hot or a distribution, [B, outputs], and no ids."""
    shape = tf.TensorShape(y.shape)
    return shape.rank == 2 and shape[1] != 1 and shape[1] == outputs.shape[-1]


def _check_likelihood(objective: Objective, negative_log_likelihood: Tensor | None) -> None:
    """Refuse losses without the likelihood that an objective promises: the logs show it."""
    if objective.has_likelihood and negative_log_likelihood is None:
        raise InputError(
            "`has_likelihood` must be False in an objective whose losses have no -ln P. "
            f"Received: True in {type(objective).__name__}. "
            "Fix: define `has_likelihood = False` in its class."
        )


def _check_segment_weights(sample_weight: Tensor, y: Tensor) -> None:
    """Refuse one weight for a whole segment: Keras computes such weights from `class_weight`."""
    shape = tf.TensorShape(sample_weight.shape)
    if not shape.is_compatible_with(y.shape) and y.shape[-1] != 1:
        raise InputError(
            "`sample_weight` must be [S, T], a weight for each target of a segment. "
            f"Received: {shape.as_list()}. "
            "Fix: give such weights instead of `class_weight`, or give contexts [B, n-1]."
        )


def _drop_places(
    y: Tensor, probabilities: Tensor, sample_weight: Tensor | None, jit_compile: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the targets of segments with their rows: a place without a target is `<pad>`."""
    y = ops.reshape(y, (-1,))
    is_target = ops.not_equal(y, PAD_ID)
    if sample_weight is not None:
        sample_weight = ops.reshape(sample_weight, (-1,))
    if jit_compile:  # XLA knows no rows whose number depends on data
        given = 1 if sample_weight is None else sample_weight
        return y, probabilities, ops.multiply(ops.cast(is_target, "float32"), given)
    probabilities = ops.reshape(probabilities, (-1, probabilities.shape[-1]))
    if sample_weight is not None:
        sample_weight = tf.boolean_mask(sample_weight, is_target)
    kept = [tf.boolean_mask(rows, is_target) for rows in (y, probabilities)]
    return kept[0], kept[1], sample_weight
