"""A plain Keras model, from ids [B, n-1] to P(w | context), as a language model.

Its methods alone import Keras and TensorFlow: the class must be known to find the kind of a file.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_nplm.io.errors import check_argument, check_integer
from keras_nplm.io.files import read_json, write_json_text
from keras_nplm.models.base import NETWORK_FILE, ModelFolder, NextWordModel, saved_as

if TYPE_CHECKING:
    import keras

_SETTINGS_FILE = "keras_model.json"
_MAX_CONFIG = 1 << 20  # bytes of the configuration in a file
_MAX_ERROR = 0.01  # of the sum of a distribution, in half precision


@saved_as("keras")
class KerasModel(NextWordModel):
    """Language model of a plain Keras model, such as an LSTM, from ids to probabilities.

        ids, int [B, n-1] -> P(w | context), float [B, |V|]

    `LanguageModel(keras_model, vocabulary, tokenizer)` makes it. Contexts have the oldest word
    first; `<pad>` (0) fills a shorter context. A model directory can be loaded if all layers are of
    Keras, or registered by `keras.saving.register_keras_serializable`.

    Args:
        model: a `keras.Model` with one input, whose output is a softmax over the vocabulary.
        order: int, n. Default: the width of the input plus 1.
        boundary: `"sentence"`, `"text"` or `"stream"`, how the training text was cut into n-grams.
            None: not known.

    Raises:
        InputError: the model does not compute such probabilities.

    Example:

    >>> import keras
    >>> network = keras.Sequential([
    ...     keras.Input((4,), dtype="int32"),
    ...     keras.layers.Embedding(1000, 16),
    ...     keras.layers.LSTM(32),
    ...     keras.layers.Dense(1000, activation="softmax"),
    ... ])
    >>> KerasModel(network, boundary="sentence")
    KerasModel(order=5, |V|=1000, boundary='sentence')
    """

    description = "A Keras model"

    def __init__(self, model: "keras.Model", order: int | None = None, boundary: str | None = None):
        self.model = model
        self.order = _find_order(model, order)
        self.boundary = boundary
        ids = np.zeros((1, self.order - 1), np.int32)
        rows = np.array(model(ids, training=False), np.float32)
        fix = "let the last layer be `keras.layers.Dense(|V|, activation='softmax')`."
        check_argument("model", rows.ndim == 2, "one of outputs [B, |V|]", [*rows.shape], fix)
        is_distribution = bool((rows >= 0).all() and abs(rows.sum() - 1) < _MAX_ERROR)
        received = f"a row that sums to {rows.sum():.3g}"
        check_argument("model", is_distribution, "one of probabilities", received, fix)
        self.vocabulary_size = rows.shape[1]

    @functools.cached_property
    def _compute(self) -> Callable[[np.ndarray], np.ndarray]:
        """The model as one graph of all batch sizes, from contexts to float32 [B, |V|]."""
        import tensorflow as tf

        def call(context_ids: Any) -> Any:
            return tf.cast(self.model(context_ids, training=False), tf.float32)

        contexts = tf.TensorSpec([None, self.order - 1], tf.int32)
        graph = tf.function(call, [contexts], autograph=False).get_concrete_function()

        def compute(context_ids: np.ndarray) -> np.ndarray:
            return graph(tf.convert_to_tensor(context_ids, tf.int32)).numpy()

        return compute

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_compute"}

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):  # a probability may be 0
            return np.log(self._compute(context_ids))

    def list_changing_arrays(self) -> Iterator[np.ndarray]:
        for weight in self.model.trainable_weights:
            yield weight.numpy()

    def list_files(self) -> Mapping[str, Callable[[Path], object]]:
        settings = functools.partial(write_json_text, value={"order": self.order})
        return {NETWORK_FILE: self.model.save, _SETTINGS_FILE: settings}

    @classmethod
    def read_files(cls, folder: ModelFolder) -> "KerasModel":
        import keras

        from keras_nplm.models.networks.network_file import load_keras_model

        settings = read_json(folder.path / _SETTINGS_FILE)
        model = load_keras_model(folder.path / NETWORK_FILE, keras.Model, _MAX_CONFIG)
        return cls(model, settings["order"], folder.boundary)


def _find_order(model: "keras.Model", order: int | None) -> int:
    """Return n, of the width of the input or as given."""
    shape = model.input_shape if getattr(model, "inputs", None) else None  # a subclass has none
    width = shape[1] if shape else None
    if width is None:
        check_integer("order", order or 0, 2)
        return order or 0
    fits = order in (None, width + 1)
    check_argument("order", fits, f"the width of the input plus 1, {width} + 1", order)
    return width + 1


def wrap_keras_model(model: Any, boundary: str | None) -> NextWordModel:
    """Return a plain Keras model as a language model, and a language model as it is."""
    keras = sys.modules.get("keras")
    is_plain = keras is not None and isinstance(model, keras.Model) and not hasattr(model, "order")
    return KerasModel(model, boundary=boundary) if is_plain else model
