"""Training by penalised maximum likelihood, without storing the probabilities of all words."""

from typing import Any

import keras
from keras import ops

from keras_nplm.data.special_ids import PAD_ID
from keras_nplm.io.errors import check_argument
from keras_nplm.layers.lookup import set_width
from keras_nplm.layers.ops import Tensor
from keras_nplm.models.gradients import complete_gradients
from keras_nplm.models.metrics import LEAST_PROBABILITY, Perplexity, group_metrics
from keras_nplm.models.replicas import ReplicatedTraining


class LikelihoodTraining(ReplicatedTraining):
    """Mixin of a `keras.Model` that trains by the penalised log-likelihood.

        loss = -1/B sum_t ln P(w_t | context) + λ/2 |θ|²

    The loss is computed from the features of the contexts by the output layer, which needs no [B, |V|] probabilities.
    `perplexity` is the exponential of the mean without the penalty. Metrics given to `compile` see the probabilities,
    which are computed for them alone. With a loss of `compile`, or a subclass that overrides `call` or `compute_loss`,
    the loss is computed from the probabilities of `call`, as in any Keras model.

    A class that uses the mixin has `features(context_ids, training)`, an output layer `prob` (see
    `keras_nplm.layers.outputs`), a `hidden` layer or None, and `call_is_own()`.
    """

    def add_training_metrics(self) -> None:
        """Create the metric `perplexity` and the mean of per-example losses."""
        self.perplexity = Perplexity()
        self.mean = _Mean(name="mean", dtype=self.prob.accumulator_dtype)
        self._group = None

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """All metrics; perplexity in the container in which callbacks look for its direction, lower is better."""
        if self._group is None:  # before `compile`
            return super().metrics
        return [self._group() if metric is self.perplexity else metric for metric in super().metrics]

    def call_is_own(self) -> bool:
        """Return whether no subclass overrides `call`."""
        raise NotImplementedError

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: bool | str = "auto",
        auto_scale_loss: bool = True,
    ) -> None:
        """Compile as `keras.Model.compile` does.

        `jit_compile="auto"` is False on a CPU, where XLA's matrix products are slower than TensorFlow's, for sampled
        outputs, and under tf.distribute, where XLA fails. Of an optimiser with a weight decay of its own, the biases
        are left out by `optimizer.exclude_from_weight_decay(var_list=model.biases)`.

        Raises:
            InputError: a loss of logits, or an option that fails or is silently wrong on several replicas.
        """
        wrong = getattr(loss, "from_logits", False) and self.call_is_own()
        check_argument("from_logits", not wrong, "False", True, "leave it out: the model returns probabilities.")
        self._has_compiled_metrics = bool(metrics or weighted_metrics)
        if self._group is None:
            group = group_metrics([self.perplexity])
            self._group = lambda: group  # as an attribute Keras would save it
        replicas = False
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            replicas = tf.distribute.has_strategy() or self.distribute_strategy.num_replicas_in_sync > 1
            if jit_compile == "auto" and (replicas or not tf.config.list_logical_devices("GPU")):
                jit_compile = False
        super().compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            run_eagerly=run_eagerly,
            steps_per_execution=steps_per_execution,
            jit_compile=jit_compile,
            auto_scale_loss=auto_scale_loss,
        )
        if replicas and self.optimizer is not None:
            self.check_replicable()

    def _set_shapes(self, *args: Any) -> tuple:
        """Return a batch with the shapes that a pipeline of tf.data may not know: contexts [B, n-1], targets [B]."""
        if keras.backend.backend() != "tensorflow":
            return args
        import tensorflow as tf

        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(*args)
        if self.count_targets(x) > 1:
            fix = "leave `loss` out, or give contexts [B, n-1]."
            check_argument(
                "loss", y is None or self._trains_on_features(), "the model's own for segments", self.loss, fix
            )
            return (args,) if len(args) > 1 else args
        if isinstance(x, tuple):
            return ((x, y, sample_weight),)
        x = set_width("context_ids", x, self.order - 1)
        is_ids = tf.is_tensor(y) and (y.dtype.is_integer or self.loss is None)
        if is_ids and (y.shape.rank is None or None in y.shape[1:]):
            fix = "`y` must be [B] or [B, 1] ids. Fix: give one target for each context. Received:"
            fits = tf.equal(tf.size(y), tf.shape(x)[0])
            with tf.control_dependencies([tf.debugging.Assert(fits, [fix, tf.shape(y)])]):
                y = tf.reshape(y, [-1])
        if tf.is_tensor(sample_weight) and sample_weight.shape.rank is None:
            sample_weight = tf.reshape(sample_weight, [-1])
        return ((x, y, sample_weight),)

    def predict_step(self, *args: Any) -> Tensor:
        return super().predict_step(*self._set_shapes(*args))

    def train_step(self, *args: Any) -> dict:
        args = self._set_shapes(*args)
        if keras.backend.backend() != "tensorflow":
            return super().train_step(*args)
        import tensorflow as tf

        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(*args)
        with tf.GradientTape() as tape:
            if self._trains_on_features():
                loss, outputs = self._features_loss(x, y, sample_weight, training=True)
            else:
                outputs = self(x, training=True)
                loss = self.compute_loss(x, y, outputs, sample_weight, training=True)
            scaled = self.optimizer.scale_loss(loss)
        logs = self._update_metrics(loss, outputs, x, y, sample_weight, training=True)
        if self.trainable_weights:
            gradients = complete_gradients(self.optimizer, tape.gradient(scaled, self.trainable_weights))
            self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return self.add_worker_dimension(logs)

    def test_step(self, *args: Any) -> dict:
        args = self._set_shapes(*args)
        if not self._trains_on_features():
            return self.add_worker_dimension(super().test_step(*args))
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(*args)
        loss, features = self._features_loss(x, y, sample_weight, training=False)
        return self.add_worker_dimension(self._update_metrics(loss, features, x, y, sample_weight, training=False))

    def _trains_on_features(self) -> bool:
        """Whether the loss is the model's own, computed without the probabilities that `call` returns."""
        own = self.call_is_own() and type(self).compute_loss is LikelihoodTraining.compute_loss
        return self.loss is None and own and keras.backend.backend() == "tensorflow"

    def _measures_probabilities(self) -> bool:
        """Whether metrics of `compile` or of a subclass see the probabilities."""
        return self._has_compiled_metrics or type(self).compute_metrics is not keras.Model.compute_metrics

    def _features_loss(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None, training: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch and the features from which it is computed."""
        fix = "pass fit(contexts, targets), with contexts [B, n-1] and targets [B]."
        ids = x[0] if isinstance(x, tuple) else x
        check_argument("x", hasattr(ids, "shape"), "one array of ids", type(x).__name__, fix)
        check_argument("y", hasattr(y, "shape"), "one array of ids", type(y).__name__, fix)
        targets = self.count_targets(x)
        width = y.shape[1] // targets if len(y.shape) > 1 else 1
        fix = "give ids, or pass loss='categorical_crossentropy' to compile for one-hot targets."
        check_argument("y", width == 1, "[B] or [B, 1] ids", list(y.shape), fix)
        output_ids = ops.reshape(self.prob.output_ids(y), (-1,))
        assert_in_range("context_ids", ids, self.vocabulary_size, "encode the text with the model's vocabulary.")
        fix = "encode the text with the model's vocabulary; for a short-list use ngram_dataset(targets_below=…)."
        assert_in_range("target_ids", output_ids, self.prob.num_outputs, fix)
        features = self.features(x, training=training, sum_gradient=False)  # `complete_gradients` sums them
        if training:
            loss, negative_log_likelihood = self.prob.training_loss(features, output_ids)
        else:
            loss = negative_log_likelihood = -self.prob.log_prob(features, output_ids)
        if targets > 1:
            given = 1.0 if sample_weight is None else ops.reshape(sample_weight, (-1,))
            sample_weight = ops.where(ops.not_equal(output_ids, PAD_ID), given, 0.0)
        number = self._count_ngrams(x, y)
        return self._penalised_mean(loss, negative_log_likelihood, sample_weight, training, number), features

    def _count_ngrams(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the number of targets of a batch; a place of a segment without a target is `<pad>`."""
        if self.count_targets(x) == 1:
            return ops.shape(y)[0]
        return ops.sum(ops.cast(ops.not_equal(y, PAD_ID), "int32"))

    def compute_loss(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Return the loss of probabilities `y_pred`: the loss given to `compile`, or the penalised likelihood."""
        negative_log_likelihood = self._negative_log_likelihood(y_pred, y)
        if self.loss is not None:
            self.perplexity.update_state(negative_log_likelihood, sample_weight=sample_weight)
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        number = ops.shape(negative_log_likelihood)[0]
        return self._penalised_mean(negative_log_likelihood, negative_log_likelihood, sample_weight, training, number)

    def _negative_log_likelihood(self, probabilities: Tensor, y: Tensor) -> Tensor:
        chosen = _chosen(probabilities, self.prob.output_ids(y))
        return -ops.log(ops.maximum(chosen, LEAST_PROBABILITY))

    def _penalised_mean(
        self,
        loss: Tensor,
        negative_log_likelihood: Tensor,
        sample_weight: Tensor | None,
        training: bool,
        number: Tensor,
    ) -> Tensor:
        if negative_log_likelihood is not None:
            self.perplexity.update_state(negative_log_likelihood, sample_weight=sample_weight)
        mean = self.mean(loss, loss, sample_weight)
        mean *= ops.cast(ops.shape(loss)[0], mean.dtype) / ops.cast(ops.maximum(number, 1), mean.dtype)
        mean = self.weight_by_examples(mean, number) if training else mean
        return mean + ops.cast(super().compute_loss(training=training), mean.dtype) if self.losses else mean

    def _update_metrics(
        self, loss: Tensor, outputs: Any, x: Tensor, y: Tensor, sample_weight: Tensor | None, training: bool
    ) -> dict:
        """Add the loss of a batch to the mean of the epoch, update all metrics and return the logs.

        `outputs` are the features, or the probabilities of a model that does not train on features.
        """
        replicas = self.distribute_strategy.num_replicas_in_sync  # a loss is scaled so that replicas sum to it
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(ops.stop_gradient(loss) * replicas, sample_weight=self._count_ngrams(x, y))
        if not self._trains_on_features():
            return self.compute_metrics(x, y, outputs, sample_weight)
        is_sampled = training and self.prob.is_sampled  # its loss is no likelihood: not to compare with validation's
        if self._measures_probabilities():
            probabilities = self.prob(outputs)
            if self.count_targets(x) > 1:
                y, sample_weight = (None if part is None else ops.reshape(part, (-1,)) for part in (y, sample_weight))
            if is_sampled:
                likelihoods = self._negative_log_likelihood(probabilities, y)
                self.perplexity.update_state(likelihoods, sample_weight=sample_weight)
            logs = self.compute_metrics(x, y, probabilities, sample_weight)
        else:
            logs = self.get_metrics_result()
            if is_sampled:
                del logs["perplexity"]
        return {self.prob.loss_name: logs.pop("loss"), **logs} if is_sampled else logs

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights without weight decay, b and d, for `optimizer.exclude_from_weight_decay(var_list=…)`."""
        pointer = getattr(self, "pointer", None)
        biases = self.prob.biases + ([] if pointer is None else pointer.biases)
        if self.hidden is None:
            return biases
        return biases + [weight for weight in self.hidden.trainable_weights if len(weight.shape) < 2]

    def compile_from_config(self, config: dict) -> None:
        config = keras.saving.deserialize_keras_object(config)
        self.compile(**config | {"jit_compile": "auto"})  # another machine may be faster with another choice
        if self.optimizer.weight_decay:  # its configuration does not say which weights have none
            self.optimizer.exclude_from_weight_decay(var_list=self.biases)
        self.optimizer.build(self.trainable_variables)


def assert_in_range(argument: str, ids: Tensor, size: int, fix: str) -> None:
    """Stop a training or evaluation step on ids out of range, whose loss would be NaN. TensorFlow only.

    XLA (`jit_compile`) removes assertions: there the loss is NaN.

    Args:
        argument: name of the ids.
        ids: int tensor.
        size: int, ids must be 0 to size-1.
        fix: the remedy.
    """
    import tensorflow as tf

    ids = tf.convert_to_tensor(ids)
    ids = tf.cast(ids, tf.int64) if ids.dtype.is_integer else ids  # |V| may be beyond the range of a small type
    least, greatest = tf.reduce_min(ids), tf.reduce_max(ids)
    text = f"`{argument}` must be 0 to {size - 1}. Fix: {fix} Received:"
    in_range = tf.logical_and(least >= 0, greatest < tf.cast(size, greatest.dtype))
    tf.debugging.Assert(in_range, [text, least, "to", greatest])


class _Mean(keras.losses.Loss):
    """The (weighted) mean of per-example losses, scaled under tf.distribute as Keras scales its own losses."""

    def call(self, y_true: Tensor, y_pred: Tensor | None) -> Tensor:
        del y_true
        return y_pred


def _chosen(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Return the probability of each target, float [B], for int targets [B] or [B, 1], or one-hot [B, |V|]."""
    targets = ops.convert_to_tensor(targets)
    if len(targets.shape) == 2 and targets.shape[1] == probabilities.shape[1]:
        return ops.sum(probabilities * ops.cast(targets, probabilities.dtype), axis=-1)
    targets = ops.cast(ops.reshape(targets, (-1, 1)), "int32")
    size = probabilities.shape[1]
    known = ops.logical_and(targets >= 0, targets < size)[:, 0]
    chosen = ops.take_along_axis(probabilities, ops.clip(targets, 0, size - 1), axis=-1)[:, 0]
    return ops.where(known, chosen, float("nan"))
