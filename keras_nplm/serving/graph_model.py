"""Base class of language models as TensorFlow graphs, `build_graph`, and the tensor operations that
the graphs share.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.models.base import NextWordModel

BLOCK_ROWS = 512  # rows computed at a time, so that memory does not grow with the batch
_LEAST_ROWS = 16  # of a block, with the largest vocabularies
_BLOCK_NUMBERS = 1 << 24  # of a block [rows, |V|]: 64 MiB
_LEAST = -1e30  # below each ln P that is finite
TOP_K_BLOCK = 32  # columns whose maximum `find_top_k` compares first


class GraphModel(tf.Module):
    """Base class of language models as TensorFlow graphs: P(w | context) for int32 tensors.

    A subclass sets its arrays as `tf.Variable` attributes and implements `next_log_probs`, and
    `log_prob` where that costs less. They receive at most `block_rows` rows, whose ids are in the
    vocabulary. `build_graph.register(Model)` makes it the graph of a class of models.

    Example: a model of one's own that a SavedModel can hold

    >>> from keras_nplm.models.base import NextWordModel
    >>> class Unigram(NextWordModel):
    ...     order = 2
    ...
    ...     def __init__(self, log_probs, boundary="sentence"):
    ...         self.log_probs = np.asarray(log_probs)
    ...         self.vocabulary_size = len(log_probs)
    ...         self.boundary = boundary
    ...
    ...     def _next_log_probs(self, context_ids):
    ...         return np.tile(self.log_probs, (len(context_ids), 1))
    >>> @build_graph.register(Unigram)
    ... class UnigramGraph(GraphModel):
    ...     def __init__(self, model, for_devices=False):
    ...         super().__init__(model)
    ...         self.log_probs = tf.Variable(model.log_probs, trainable=False)
    ...
    ...     def next_log_probs(self, context_ids):
    ...         return tf.tile(self.log_probs[None], [tf.shape(context_ids)[0], 1])
    >>> graph = build_graph(Unigram(np.log([0.125, 0.125, 0.125, 0.125, 0.5])))
    >>> ids, probabilities = graph.most_probable(tf.constant([[4]]), first=3, k=1)
    >>> ids.numpy().tolist(), probabilities.numpy().tolist()
    ([[4]], [[0.5]])
    """

    def __init__(self, model: NextWordModel):
        super().__init__()
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size
        rows = max(_LEAST_ROWS, _BLOCK_NUMBERS // model.vocabulary_size)
        self.block_rows = min(BLOCK_ROWS, rows)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(target | context), float [B] in nats, for int32 [B, n-1] and int32 [B]."""
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(w | context) for every word w, float [B, |V|] in nats."""
        raise NotImplementedError

    def most_probable(
        self, context_ids: tf.Tensor, first: int, k: int, fits: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the k most probable ids and their probabilities, int32 and float32 [B, k].

        Args:
            first: the least id that may be returned.
            fits: which ids may be returned, bool [B, |V|]; others have the probability 0. None:
                all.
        """
        top, ids = rank_words(self.next_log_probs(context_ids), first, k, fits)
        return ids, tf.cast(tf.exp(top), tf.float32)


@functools.singledispatch
def build_graph(model: NextWordModel, for_devices: bool = False) -> GraphModel:
    """Return a language model as a TensorFlow graph.

    The class of the model, or its nearest base class with a graph, chooses the graph. The decorator
    `@build_graph.register(Model)` registers a graph class or a function for a class of your own;
    see `GraphModel`. A graph builds the graphs of the model's parts with this function.

    Args:
        for_devices: whether the graph may have only the operations of LiteRT and ONNX files: of
            float32 and int32, without loops.

    Raises:
        InputError: the class of the model, or of one of its parts, has no graph.
    """
    name = type(model).__name__
    raise InputError(
        "`model` must be of a class that has a graph, with each of its parts, to be exported. "
        f"Received: {name}. Fix: export a model without it, or register its graph with "
        f"`build_graph.register({name})`, see `keras_nplm.serving.GraphModel`."
    )


def exclude(log_probs: tf.Tensor, fits: tf.Tensor) -> tf.Tensor:
    """Return log-probabilities, float [B, C], with -inf where `fits`, bool [B, C], is false."""
    return tf.where(fits, log_probs, tf.constant(-np.inf, log_probs.dtype))


def compute_in_blocks(
    compute: Callable[[slice], tuple[tf.Tensor, ...]],
    num_rows: tf.Tensor,
    block_rows: int,
    specs: Sequence[tf.TensorSpec],
) -> tuple[tf.Tensor, ...]:
    """Concatenate the tensors of `compute(rows)`, of the given specs, over slices of at most
    `block_rows` rows.
    """
    num_blocks = (num_rows + block_rows - 1) // block_rows

    # both branches call it, so that it is traced and stored once
    @tf.function(autograph=False)
    def compute_rows(start: tf.Tensor, stop: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tuple(compute(slice(start, stop)))

    def is_left(block: tf.Tensor, *arrays: tf.TensorArray) -> tf.Tensor:
        return block < num_blocks

    def add_block(block: tf.Tensor, *arrays: tf.TensorArray) -> tuple:
        start = block * block_rows
        results = compute_rows(start, start + block_rows)
        filled = []
        for array, result in zip(arrays, results, strict=True):
            filled.append(array.write(block, result))
        return block + 1, *filled

    def compute_all_blocks() -> tuple[tf.Tensor, ...]:
        arrays = []
        for spec in specs:
            arrays.append(
                tf.TensorArray(
                    spec.dtype, size=num_blocks, element_shape=spec.shape, infer_shape=False
                )
            )
        _, *filled = tf.while_loop(is_left, add_block, [0, *arrays], parallel_iterations=1)
        return tuple(array.concat() for array in filled)

    def compute_one_block() -> tuple[tf.Tensor, ...]:
        return compute_rows(tf.constant(0), num_rows)

    # Inlined, the branch that is not taken would cost a visit to each of its operations: 0.1 ms
    apart = tf.function(
        compute_all_blocks, autograph=False, experimental_attributes={"_noinline": True}
    )
    return tf.cond(num_blocks <= 1, compute_one_block, apart)


def rank_words(
    values: tf.Tensor, first: int, k: int, fits: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the k greatest values, float [B, k], and their ids, int32 [B, k].

    `first` and `fits` are those of `GraphModel.most_probable`.
    """
    if fits is not None:
        values = exclude(values[:, : fits.shape[1]], fits)
    return find_top_k(values, k, first)


def find_top_k(values: tf.Tensor, k: int, first: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return `tf.math.top_k` of the columns from `first` on, faster in long rows.

    Only the first block of columns and the k others with the greatest maxima are compared. Whole
    blocks are not copied.
    """
    num_blocks = values.shape[1] // TOP_K_BLOCK
    if num_blocks < 2 * k or first > TOP_K_BLOCK:
        top, places = tf.math.top_k(values[:, first:], k)
        return top, places + first
    covered = num_blocks * TOP_K_BLOCK
    blocks = tf.reshape(values[:, :covered], [-1, num_blocks, TOP_K_BLOCK])
    beginning = values[:, first:TOP_K_BLOCK]
    rest = values[:, covered:]
    best = tf.math.top_k(tf.reduce_max(blocks, axis=-1)[:, 1:], k).indices + 1  # [B, k]
    best = tf.sort(best)  # so that of equal values the first is returned, as `tf.math.top_k` does
    num_candidates = k * TOP_K_BLOCK
    candidates = tf.reshape(tf.gather(blocks, best, batch_dims=1), [-1, num_candidates])
    compared = tf.concat([beginning, candidates, rest], axis=1)
    top, places = tf.math.top_k(compared, k)
    columns = best[:, :, None] * TOP_K_BLOCK + tf.range(TOP_K_BLOCK)
    columns = tf.reshape(columns, [-1, num_candidates])
    first_columns = tf.broadcast_to(tf.range(first, TOP_K_BLOCK), tf.shape(beginning))
    rest_columns = tf.broadcast_to(tf.range(covered, values.shape[1]), tf.shape(rest))
    all_columns = tf.concat([first_columns, columns, rest_columns], axis=1)
    return top, tf.gather(all_columns, places, batch_dims=1)


def combine_log_probs(
    log_probs: Sequence[tf.Tensor], log_weights: Sequence[tf.Tensor] | np.ndarray
) -> tf.Tensor:
    """Return ln sum_k weight_k P_k, float32, computed stably, from ln P_k of one shape and ln
    weight_k, which may both be -inf.
    """
    terms = []
    for log_prob, log_weight in zip(log_probs, log_weights, strict=True):
        terms.append(tf.cast(log_prob, tf.float32) + log_weight)
    # `tf.reduce_logsumexp` asks for finite numbers, and in LiteRT it gives NaN for -inf
    highest = tf.maximum(functools.reduce(tf.maximum, terms), _LEAST)
    shares = [tf.exp(term - highest) for term in terms]
    return tf.math.log(functools.reduce(tf.add, shares)) + highest


def take_logarithm(weights: np.ndarray | Sequence[float]) -> np.ndarray:
    """Return ln of weights, float32; some may be 0."""
    with np.errstate(divide="ignore"):
        return np.log(weights).astype(np.float32)
