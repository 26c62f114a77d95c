"""Perplexity as a Keras metric, for `model.compile` and `model.fit`."""

import keras
from keras import ops

from keras_nplm.layers.ops import Tensor

LEAST_PROBABILITY = 1e-37  # probability whose logarithm float32 can hold


@keras.saving.register_keras_serializable("keras_nplm")
class Perplexity(keras.metrics.Mean):
    """Perplexity: the exponential of the mean negative log-likelihood per token, exp(-1/T sum_t ln
    P(w_t | context)).

    The mean is over all tokens since the last reset, not over batches, and includes no weight
    penalty. Every token passed in counts: the caller leaves out `</s>` or out-of-vocabulary tokens
    where they should not count.

    Call arguments:
        y_true: int [B], the targets. Or negative log-likelihoods in nats, float [B], if `y_pred` is
            left out. A target outside 0 to |V|-1 gives NaN.
        y_pred: float [B, |V|], probabilities, or logits if `from_logits`. All shapes may have more
            dimensions.
        sample_weight: weights of the tokens, float [B]. Default: 1 each.

    Args:
        from_logits: bool, whether `y_pred` holds logits.
        name: str, the name in the logs.
        dtype: of the sum. float64, since float32 drifts over millions of tokens.

    Returns:
        `result()`: float scalar, 1 or more; 1 before the first update.

    Example:

    >>> import numpy as np
    >>> perplexity = Perplexity()
    >>> perplexity.update_state(np.array([0, 1]), np.array([[0.5, 0.5], [0.875, 0.125]], "float32"))
    >>> round(float(perplexity.result()), 4)
    4.0
    """

    _direction = "down"  # so that Keras's callbacks know that lower is better

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "perplexity",
        dtype: str | keras.DTypePolicy | None = "float64",
    ):
        super().__init__(name=name, dtype=dtype)
        self.from_logits = from_logits

    def update_state(
        self, y_true: Tensor, y_pred: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> None:
        values = (
            y_true if y_pred is None else negative_log_likelihoods(y_true, y_pred, self.from_logits)
        )
        super().update_state(values, sample_weight)

    def result(self) -> Tensor:
        # TensorBoard takes no larger numbers, but inf
        return ops.cast(ops.exp(super().result()), "float32")

    def get_config(self) -> dict:
        return super().get_config() | {"from_logits": self.from_logits}


def negative_log_likelihoods(targets: Tensor, outputs: Tensor, from_logits: bool = False) -> Tensor:
    """Return -ln P(target), float [...], of probabilities or logits [..., |V|].

    Targets are int [...] or [..., 1], or one-hot [B, |V|]. One outside 0 to |V|-1 gives NaN.
    """
    targets = ops.convert_to_tensor(targets)
    size = outputs.shape[-1]
    values = ops.log_softmax(outputs) if from_logits else outputs
    if len(targets.shape) == len(outputs.shape) == 2 and targets.shape[1] == size:
        targets = ops.argmax(targets, axis=-1)
    targets = ops.cast(targets, "int32")
    if len(targets.shape) < len(outputs.shape):
        targets = ops.expand_dims(targets, -1)
    chosen = ops.take_along_axis(values, ops.clip(targets, 0, size - 1), axis=-1)
    known = ops.logical_and(targets >= 0, targets < size)
    chosen = ops.where(known, chosen, float("nan"))[..., 0]
    return -(chosen if from_logits else ops.log(ops.maximum(chosen, LEAST_PROBABILITY)))
