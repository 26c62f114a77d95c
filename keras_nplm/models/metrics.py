"""Perplexity as a Keras metric, for `model.compile` and `model.fit`."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_nplm")
class Perplexity(keras.metrics.Mean):
    """Perplexity: the exponential of the mean negative log-likelihood per token, exp(-1/T sum_t ln P(w_t | context)).

    The mean is over all tokens since the last reset, not over batches, and includes no weight penalty. Every token
    passed in counts: the caller leaves out `</s>` or out-of-vocabulary tokens where they should not count.

    Call arguments:
        values: negative log-likelihoods in nats, float [B].
        sample_weight: weights of the tokens, float [B]. Default: 1 each.

    Returns:
        `result()`: float scalar, 1 or more; 1 before the first update.

    Example:

    >>> import numpy as np
    >>> perplexity = Perplexity()
    >>> perplexity.update_state(np.log([2.0, 8.0]).astype("float32"))
    >>> round(float(perplexity.result()), 4)
    4.0
    """

    def __init__(self, name: str = "perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def result(self):
        return ops.exp(super().result())
