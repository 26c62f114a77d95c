"""NPLM: the neural probabilistic language model of the paper, a Keras model of three layers and a
softmax.
"""

from typing import Any, cast

import keras

from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.hidden import DirectConnection, NoHidden, TanhHidden
from keras_nplm.layers.objectives.likelihood import Likelihood
from keras_nplm.models.networks.context_network import ContextNetwork


@keras.saving.register_keras_serializable("keras_nplm")
class NPLM(ContextNetwork):
    """Neural probabilistic language model (NPLM) of Bengio, Ducharme, Vincent & Jauvin (2003).

        x = [C(w_{t-n+1}), …, C(w_{t-1})]                   embed: word features of the context
        y = b + U tanh(d + H x) (+ W x)                     hidden, prob; direct: W is optional
        P(w_t = i | context) = exp(y_i) / sum_j exp(y_j)

    Training maximises the penalised log-likelihood: `compile(optimizer=…)` needs no loss. Weight
    decay λ/2 |θ|² is on C, H, U and W, never on the biases b and d. What goes beyond the paper is
    composed: see `ContextNetwork`, which has inputs, logs and all methods.

    Free parameters: |V| (1 + n m + h) + h (1 + (n-1) m) with direct connections.

    Args:
        vocabulary_size: int, |V|, special tokens included.
        order: int, n, 2 or more. A context has n-1 words.
        embedding_dim: int, m.
        hidden_units: int, h. 0 leaves the hidden layer out, which needs direct connections.
        direct_connections: bool, whether the output sees x directly (W).
        weight_decay: float, the paper's λ.
        dropout: float in [0, 1), the share of hidden units that training leaves out; 0 in the
            paper.
        **kwargs: `boundary`, `name` and `dtype`, as in `ContextNetwork`.

    Example:

    >>> import numpy as np
    >>> model = NPLM(1000, order=5, embedding_dim=30, hidden_units=50, direct_connections=True)
    >>> model.count_params() == 1000 * (1 + 5 * 30 + 50) + 50 * (1 + 4 * 30)
    True
    >>> model.compile(optimizer=keras.optimizers.SGD(1.0))
    >>> contexts, targets = np.array([[4, 5, 6, 7], [0, 0, 0, 4]]), np.array([8, 5])
    >>> history = model.fit(contexts, targets, epochs=2, verbose=0)
    >>> sorted(history.history)
    ['loss', 'perplexity']

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), A neural probabilistic language model,
    JMLR 3, equation 1.
    """

    hidden: keras.layers.Layer

    def __init__(
        self,
        vocabulary_size: int,
        order: int = 5,
        embedding_dim: int = 60,
        hidden_units: int = 100,
        direct_connections: bool = False,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        name: str = "NPLM",
        **kwargs: Any,
    ):
        self._sizes = dict(
            vocabulary_size=vocabulary_size,
            embedding_dim=embedding_dim,
            hidden_units=hidden_units,
            direct_connections=direct_connections,
            weight_decay=weight_decay,
            dropout=dropout,
        )
        dtype = kwargs.get("dtype")
        hidden: keras.layers.Layer = NoHidden(name="hidden", dtype=dtype)
        if hidden_units:
            hidden = TanhHidden(hidden_units, weight_decay, dropout, name="hidden", dtype=dtype)
        direct = None
        if direct_connections:
            direct = DirectConnection(vocabulary_size, weight_decay, name="direct", dtype=dtype)
        super().__init__(
            order,
            embed=ContextEmbedding(
                vocabulary_size, embedding_dim, weight_decay, name="embed", dtype=dtype
            ),
            hidden=hidden,
            direct=direct,
            head=LinearHead(vocabulary_size, weight_decay, name="prob", dtype=dtype),
            objective=Likelihood(name="objective", dtype=dtype),
            name=name,
            **kwargs,
        )

    def get_config(self) -> dict:
        """Return the sizes: the layers follow from them, but for those that are not trained."""
        config = super().get_config()
        parts = self.list_parts()
        for part in parts:
            del config[part]
        config.update(self._sizes)
        frozen = [name for name, part in parts.items() if part is not None and not part.trainable]
        return config | {"frozen": frozen} if frozen else config

    @classmethod
    def from_config(cls, config: dict) -> "NPLM":
        config = dict(config)
        frozen = config.pop("frozen", ())
        model = cast(NPLM, super().from_config(config))
        for name, part in model.list_parts().items():
            if name in frozen and part is not None:
                part.trainable = False
        return model
