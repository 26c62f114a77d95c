"""Training by penalised maximum likelihood, without storing the probabilities of all words."""

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.data.ids import PAD_ID
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.scores import Scores, compute_log_prob
from keras_nplm.layers.segments import are_segments
from keras_nplm.models.networks.gradients import complete_gradients
from keras_nplm.models.networks.metrics import negative_log_likelihoods
from keras_nplm.models.networks.replicas import average_over_replicas, has_several_workers

_FIX_TARGETS = (
    "encode the text with the model's vocabulary; for a short-list use "
    "ngram_dataset(targets_below=…)."
)


class _Step(NamedTuple):
    """What a batch gives."""

    loss: Tensor
    number: Tensor  # of its n-grams
    scores: Scores
    targets: Tensor  # [B]
    sample_weight: Tensor | None  # [B]
    negative_log_likelihood: Tensor | None


class ObjectiveTraining(keras.Model):
    """Base class of a Keras model that trains by an objective of its own, such as the penalised
    log-likelihood.

        loss = 1/B sum_t objective(y_t, w_t) + λ/2 |θ|²

    It is computed from scores, without [B, |V|] probabilities; see `ContextNetwork`. The model has
    `scores`, `objective`, `prob`, and `overrides`: whether a subclass has methods of its own. With
    a loss of `compile`, or in a subclass with its own `call`, `compute_loss` or `compute_metrics`,
    the steps are those of any Keras model, on the probabilities of `call`.
    """

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "rmsprop",
        loss: Any = None,
        *,
        weighted_metrics: Any = None,
        jit_compile: bool | str = "auto",
        **options: Any,
    ) -> None:
        """Compile as `keras.Model.compile` does.

        `jit_compile="auto"` is False on a CPU, where XLA's matrix products are slower than
        TensorFlow's, for sampled outputs, with metrics, and under tf.distribute. There
        `steps_per_execution` above 1 and `gradient_accumulation_steps` of an optimiser fail in
        `fit`. Of an optimiser with a weight decay of its own, the biases are left out by
        `optimizer.exclude_from_weight_decay(var_list=model.biases)`.
        """
        backend = keras.backend.backend()
        fix = "set KERAS_BACKEND=tensorflow."
        check_argument("backend", backend == "tensorflow", "tensorflow for training", backend, fix)
        wrong = getattr(loss, "from_logits", False) and not self.overrides("call")
        check_argument(
            "from_logits",
            not wrong,
            "False",
            True,
            "leave it out: the model returns probabilities.",
        )
        weighted_metrics = keras.tree.flatten(weighted_metrics or [])
        self._has_compiled_metrics = bool(options.get("metrics") or weighted_metrics)
        replicas = tf.distribute.has_strategy() or self.distribute_strategy.num_replicas_in_sync > 1
        check_argument(
            "jit_compile",
            not replicas or jit_compile is not True,
            "False under tf.distribute: XLA would not sum over the replicas",
            jit_compile,
            "leave it out.",
        )
        is_slower = not tf.config.list_logical_devices("GPU")
        if jit_compile == "auto" and (replicas or is_slower or self._has_compiled_metrics):
            jit_compile = False
        super().compile(
            optimizer,
            loss,
            weighted_metrics=[*weighted_metrics, self.perplexity],
            jit_compile=jit_compile,
            **options,
        )
        self.perplexity.reset_state()
        if not self._has_compiled_metrics:  # Keras builds them in an update, which no step makes
            for metric in self.metrics:
                if metric.name == "compile_metrics":
                    metric.update_state(np.zeros(1, int), np.ones((1, 1)))
                    metric.reset_state()

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

    def _trains_on_scores(self, data: Any) -> bool:
        """Whether the loss is that of the objective; otherwise it has a form for contexts alone."""
        if self.loss is None and not self.overrides("call", "compute_loss", "compute_metrics"):
            return True
        if are_segments(data[0]):
            received = self.loss if isinstance(self.loss, str) else type(self.loss).__name__
            raise InputError(
                f"`loss` must be the model's own for segments. Received: {received}. "
                "Fix: leave `loss` out, or give contexts [B, n-1]."
            )
        return False

    def train_step(self, data: Any) -> dict:
        if not self._trains_on_scores(data):
            return super().train_step(data)
        with tf.GradientTape() as tape:
            step = self._compute_step(data, training=True)
            scaled = self.optimizer.scale_loss(step.loss)
        logs = self._update_metrics(data, step)
        if self.trainable_weights:
            gradients = complete_gradients(
                self.optimizer, tape.gradient(scaled, self.trainable_weights)
            )
            self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return self._share_logs(self.name_training_logs(logs))

    def test_step(self, data: Any) -> dict:
        if not self._trains_on_scores(data):
            return super().test_step(data)
        return self._share_logs(
            self._update_metrics(data, self._compute_step(data, training=False))
        )

    def _compute_step(self, data: Any, training: bool) -> _Step:
        """Return the loss of a batch, with the scores that give it."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        is_segments = are_segments(x)
        targets = self._flatten_targets(y, is_segments)
        targets = _check_range("target_ids", targets, self.prob.num_outputs, _FIX_TARGETS)
        target_ids, known = clip_ids(targets, self.prob.num_outputs)
        # `complete_gradients` sums them
        scores = self.scores(self._check_input_ids(x), training=training, sum_gradient=False)
        if training:
            loss, negative_log_likelihood = self.objective.losses(scores, target_ids)
        else:
            loss = negative_log_likelihood = -compute_log_prob(scores, target_ids)
        loss *= ops.cast(known, loss.dtype)
        number = ops.shape(target_ids)[0]
        if sample_weight is not None:  # one for each target
            sample_weight = ops.reshape(sample_weight, ops.shape(target_ids))
        if is_segments:  # a place of a segment without a target is `<pad>`
            is_target = ops.cast(ops.not_equal(target_ids, PAD_ID), "float32")
            number = ops.sum(is_target)
            given = 1 if sample_weight is None else sample_weight
            sample_weight = ops.multiply(is_target, given)
        number = average_over_replicas(number) if training else number
        loss = self._penalised_mean(loss, sample_weight, number)
        return _Step(loss, number, scores, targets, sample_weight, negative_log_likelihood)

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
        if self.loss is not None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = negative_log_likelihoods(y, y_pred)
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

    def _update_metrics(self, data: Any, step: _Step) -> dict:
        """Add the loss of a batch to the mean of the epoch, update all metrics and return the
        logs.
        """
        # a loss is scaled so that replicas sum to it
        loss = ops.stop_gradient(step.loss) * self.distribute_strategy.num_replicas_in_sync
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=step.number)
        if not self._has_compiled_metrics:
            if self.objective.has_likelihood or step.negative_log_likelihood is not None:
                self.perplexity.update_state(
                    step.negative_log_likelihood, sample_weight=step.sample_weight
                )
            return self.get_metrics_result()
        y, probabilities, weight = (
            step.targets,
            ops.softmax(step.scores.logits()),
            step.sample_weight,
        )
        if are_segments(data[0]):  # without the places that have no target
            is_target = ops.not_equal(y, PAD_ID)
            y, probabilities, weight = (
                tf.boolean_mask(rows, is_target) for rows in (y, probabilities, weight)
            )
        return self.compute_metrics(data[0], y, probabilities, weight)

    def name_training_logs(self, logs: dict) -> dict:
        """Return logs of training in which the loss has the name that the objective gives it.

        They have no perplexity if the objective has no likelihood.
        """
        named = dict(logs)
        if not self.objective.has_likelihood:
            del named["perplexity"]
        return {self.objective.loss_name: named.pop("loss"), **named}

    def _share_logs(self, logs: dict) -> dict:
        """Return logs that Keras averages over several workers, which needs a first dimension."""
        if has_several_workers(self.distribute_strategy):
            return {name: ops.reshape(value, (1,)) for name, value in logs.items()}
        return logs

    def get_compile_config(self) -> dict:
        config = super().get_compile_config()
        if config:
            # `compile` adds the perplexity
            config["weighted_metrics"] = config["weighted_metrics"][:-1] or None
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
