"""Language models as graphs of operations that LiteRT and ONNX have: float32, int32, no loops."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.data.text_ops import store_array
from keras_nplm.io.errors import InputError
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.pointer import CopyScores
from keras_nplm.layers.scores import LinearScores
from keras_nplm.models.base import NextWordModel, cut_contexts
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation, FrequencyBins
from keras_nplm.models.ngrams.tables import ContextTrie
from keras_nplm.serving.graph_model import GraphModel
from keras_nplm.serving.graphs import NetworkGraph

TILE_WORDS = 1 << 12  # whose logits are computed at a time
_LEAST = -1e30  # below each ln P that is finite
NGRAM_SCOPE = "ngrams"  # in the names of operations that look n-grams up


@functools.singledispatch
def build_device_graph(model: NextWordModel) -> GraphModel:
    """Return a language model as a graph for LiteRT and ONNX files.

    Raises:
        InputError: such files cannot hold models of this class.
    """
    raise InputError(
        "LiteRT and ONNX files can hold an NPLM, an n-gram model, or a mixture of them. "
        f"Received: {type(model).__name__}. Fix: export this model as a SavedModel."
    )


# it reads more than the context
build_device_graph.register(HybridNetwork, build_device_graph.dispatch(object))


@build_device_graph.register(ContextNetwork)
class DeviceNetworkGraph(NetworkGraph):
    """A network as a graph whose ln P of a target needs no branch, no loop and no second copy of
    the kernel.
    """

    def __init__(self, model: ContextNetwork):
        super().__init__(_copy_for_devices(model))

    def store_outputs(self) -> None:
        """Leave K and b apart: 8 bits of one scale cannot hold both."""
        return

    def output_log_prob(self, context_ids: tf.Tensor, output_ids: tf.Tensor) -> tf.Tensor:
        scores = self.network.scores(context_ids)
        copies = None
        if isinstance(scores, CopyScores):
            copies = scores.copies
            scores = scores.scores
        if not isinstance(scores, LinearScores):
            return tf.gather(self.next_log_probs(context_ids), output_ids, batch_dims=1)
        logit, log_z = _compute_in_tiles(scores, output_ids)
        if copies is None:
            return logit - log_z
        return copies.add_to_logit(logit, output_ids) - copies.add_to_normaliser(log_z)


def _compute_in_tiles(scores: LinearScores, output_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return y of one output per context and ln Z, float [B] each, from tiles of the logits."""
    logit = tf.zeros_like(scores.features[:, 0])
    log_z_of_tiles = []
    for first in range(0, scores.bias.shape[0], TILE_WORDS):
        rows = slice(first, first + TILE_WORDS)
        kernel = tf.concat([block.value[rows] for block in scores.kernels], axis=1)
        bias = scores.bias.value[rows]
        logits = tf.matmul(scores.features, kernel, transpose_b=True) + bias
        log_z_of_tiles.append(tf.reduce_logsumexp(logits, axis=1, keepdims=True))
        places = tf.clip_by_value(output_ids - first, 0, bias.shape[0] - 1)
        is_in_tile = output_ids == first + places
        logit = tf.where(is_in_tile, tf.gather(logits, places, batch_dims=1), logit)
    log_z = tf.reduce_logsumexp(tf.concat(log_z_of_tiles, axis=1), axis=1, keepdims=True)
    return logit, log_z[:, 0]


def _copy_for_devices(network: ContextNetwork) -> ContextNetwork:
    """Return a copy of the network that computes in float32 and without loops, which every runtime
    supports.
    """
    copy = type(network).from_config(_replace_dtypes(network.get_config()))
    copy.set_weights(network.get_weights())
    if isinstance(copy.prob, EnergyHead):
        copy.prob.uses_loop = False
    return copy


def _replace_dtypes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a network with float32 as the dtype of each layer."""
    replaced: dict[str, Any] = {}
    for key, value in config.items():
        if key == "dtype":
            replaced[key] = "float32"
        elif isinstance(value, dict):
            replaced[key] = _replace_dtypes(value)
        else:
            replaced[key] = value
    return replaced


class RangeTable(tf.Module):
    """The n-grams of one length: those of one context lie side by side, sorted by word."""

    def __init__(self, keys: np.ndarray, num_contexts: int, vocabulary_size: int):
        super().__init__()
        firsts = np.searchsorted(keys, np.arange(num_contexts + 1) * vocabulary_size)
        self.firsts = store_array(firsts.astype(np.int32))
        self.longest = int(np.diff(firsts).max(initial=0))
        # one more than there are n-grams, so that the table is never empty
        words = np.append(keys % vocabulary_size, vocabulary_size)
        self.words = store_array(words.astype(np.int32))
        self.vocabulary_size = vocabulary_size

    def find(self, nodes: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return whether each n-gram is listed, and its place, [B] each, by binary search."""
        places = tf.gather(self.firsts, nodes) - 1  # of the last word that is known to be less
        end = tf.gather(self.firsts, nodes + 1)
        last = self.words.shape[0] - 1
        for bit in reversed(range(self.longest.bit_length())):
            tried = places + (1 << bit)
            found = tf.gather(self.words, tf.minimum(tried, last))
            places = tf.where((tried < end) & (found < words), tried, places)
        places += 1
        return (places < end) & (tf.gather(self.words, places) == words), places

    def list_followers(self, known: tf.Tensor, nodes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the words after contexts and the places of their n-grams, [B, longest] each.

        Shorter lists are filled with the id behind the vocabulary.
        """
        places = tf.gather(self.firsts, nodes)[:, None] + tf.range(self.longest)
        is_listed = known[:, None] & (places < tf.gather(self.firsts, nodes + 1)[:, None])
        places = tf.minimum(places, self.words.shape[0] - 1)
        return tf.where(is_listed, tf.gather(self.words, places), self.vocabulary_size), places


class DeviceTrieGraph(tf.Module):
    """The contexts of the training text, each with a number; see `ContextTrie`."""

    def __init__(self, trie: ContextTrie):
        super().__init__()
        self.tables = []
        for keys, num_parents in zip(trie.keys, trie.sizes, strict=False):
            self.tables.append(RangeTable(keys, num_parents, trie.vocabulary_size))

    def walk(self, context_ids: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Return for the last 1, 2, … words of each context: whether they are known [B], and their
        number [B].
        """
        num_words = context_ids.shape[1]
        if num_words == 0:
            return []
        nodes = context_ids[:, -1]
        known = nodes != PAD_ID
        steps = [(known, nodes)]
        for length, table in enumerate(self.tables[: num_words - 1], start=2):
            # nothing is before `<s>`
            known &= (context_ids[:, -length] != PAD_ID) & (context_ids[:, 1 - length] != BOS_ID)
            found, places = table.find(nodes, context_ids[:, -length])
            known &= found
            nodes = tf.where(known, places, 0)
            steps.append((known, nodes))
        return steps


@build_device_graph.register(BackoffModel)
class DeviceBackoffGraph(GraphModel):
    """An n-gram model in back-off form; see `BackoffModel`."""

    def __init__(self, model: BackoffModel):
        super().__init__(model)
        self.contexts = DeviceTrieGraph(model.contexts)
        # the last column takes what `RangeTable.list_followers` fills
        self.unigrams = store_array(np.append(model.unigrams, np.float32(0)))
        self.tables = []
        for keys, num_contexts in zip(model.keys, model.contexts.sizes, strict=True):
            self.tables.append(RangeTable(keys, num_contexts, model.vocabulary_size))
        # one more than there are, as in `RangeTable`
        self.values = [store_array(np.append(part, np.float32(0))) for part in model.log_probs]
        self.backoffs = [store_array(np.append(part, np.float32(0))) for part in model.backoffs]

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(NGRAM_SCOPE):
            log_prob = tf.gather(self.unigrams, target_ids)
            for (known, nodes), backoffs, table, values in self._steps(context_ids):
                found, places = table.find(nodes, target_ids)
                backed_off = log_prob + tf.where(known, tf.gather(backoffs, nodes), 0.0)
                log_prob = tf.where(known & found, tf.gather(values, places), backed_off)
            return log_prob

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(NGRAM_SCOPE):
            num_rows = tf.shape(context_ids)[0]
            rows = tf.range(num_rows)[:, None]
            log_probs = tf.tile(self.unigrams[None], [num_rows, 1])
            for (known, nodes), backoffs, table, values in self._steps(context_ids):
                log_probs += tf.where(known, tf.gather(backoffs, nodes), 0.0)[:, None]
                if table.longest:
                    words, places = table.list_followers(known, nodes)
                    cells = tf.stack([tf.broadcast_to(rows, tf.shape(words)), words], axis=2)
                    listed = tf.gather(values, places)
                    log_probs = tf.tensor_scatter_nd_update(log_probs, cells, listed)
            return log_probs[:, : self.vocabulary_size]

    def _steps(self, context_ids: tf.Tensor) -> Iterator[tuple]:
        """Yield for contexts of 1, 2, … words: (known, number), back-off weights, n-grams, ln P."""
        return zip(
            self.contexts.walk(context_ids), self.backoffs, self.tables, self.values, strict=False
        )


@build_device_graph.register(Uniform)
class DeviceUniformGraph(GraphModel):
    """The uniform distribution; see `Uniform`."""

    def __init__(self, model: Uniform):
        super().__init__(model)
        any_context = np.zeros((1, 1), np.int32)
        self.distribution = store_array(model.next_log_probs(any_context)[0].astype(np.float32))

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.distribution, target_ids)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        return tf.tile(self.distribution[None], [tf.shape(context_ids)[0], 1])


class DeviceBinsGraph(tf.Module):
    """The bin of a context by its frequency in training; see `FrequencyBins`."""

    def __init__(self, bins: FrequencyBins):
        super().__init__()
        frequencies = bins.frequencies
        self.contexts = DeviceTrieGraph(frequencies.contexts)
        self.tokens = frequencies.tokens
        self.levels = []  # of contexts; -1: it was not seen
        for counts in frequencies.counts:
            levels = np.where(counts > 0, self._find_levels(counts), -1)
            # one more than any context has, as in `RangeTable`
            self.levels.append(store_array(np.append(levels, -1).astype(np.int32)))
        self.level_of_unseen = int(self._find_levels(np.zeros(1))[0])
        self.back_off = bins.back_off
        self.bins_per_length = bins.bins_per_length

    def _find_levels(self, counts: np.ndarray) -> np.ndarray:
        return np.maximum(np.ceil(-np.log((1 + counts) / self.tokens)), 0)

    def find_bins(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return the bin of each context, int32 [B]."""
        never = tf.fill([tf.shape(context_ids)[0]], -1)
        levels = []  # of the last 1, 2, … words
        for (known, nodes), table in zip(
            self.contexts.walk(context_ids), self.levels, strict=False
        ):
            levels.append(tf.where(known, tf.gather(table, nodes), never))
        levels += [never] * (len(self.levels) - len(levels))
        level = levels[-1]
        num_dropped = tf.zeros_like(level)  # words, from the front of the context
        if self.back_off:
            for length, shorter in enumerate(levels[-2::-1], start=1):
                num_dropped = tf.where(level < 0, length, num_dropped)
                level = tf.where(level < 0, shorter, level)
        level = tf.where(level < 0, self.level_of_unseen, level)
        return level + num_dropped * self.bins_per_length


@build_device_graph.register(DeletedInterpolation)
class DeviceInterpolationGraph(GraphModel):
    """Deleted interpolation, relative frequencies of all orders; see `DeletedInterpolation`."""

    def __init__(self, model: DeletedInterpolation):
        super().__init__(model)
        size = model.vocabulary_size
        frequencies = model.bins.frequencies
        self.bins = DeviceBinsGraph(model.bins)
        self.uniform = store_array(np.append(model.uniform, 0).astype(np.float32))
        # the last column takes what `RangeTable.list_followers` fills
        self.unigrams = store_array(np.append(model.unigrams, 0).astype(np.float32))
        self.weights = store_array(model.weights.astype(np.float32))
        self.tables = []
        self.shares = []  # c(h w) / c(h • )
        for keys, counts, totals, num_contexts in zip(
            model.keys, model.counts, frequencies.counts, frequencies.contexts.sizes, strict=False
        ):
            self.tables.append(RangeTable(keys, num_contexts, size))
            shares = counts / np.maximum(totals[keys // size], 1)
            self.shares.append(store_array(np.append(shares, 0).astype(np.float32)))

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(NGRAM_SCOPE):
            columns = [tf.gather(self.uniform, target_ids), tf.gather(self.unigrams, target_ids)]
            for seen, nodes, table, shares in self._steps(context_ids):
                found, places = table.find(nodes, target_ids)
                share = tf.where(found, tf.gather(shares, places), 0.0)
                columns.append(tf.where(seen, share, columns[-1]))
            columns += [columns[-1]] * (self.order + 1 - len(columns))
            weights = tf.gather(self.weights, self.bins.find_bins(context_ids))
            return tf.math.log(tf.reduce_sum(weights * tf.stack(columns, axis=1), axis=1))

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(NGRAM_SCOPE):
            weights = tf.unstack(tf.gather(self.weights, self.bins.find_bins(context_ids)), axis=1)
            steps = list(self._steps(context_ids))
            # the weight of an unknown context goes to the next shorter one
            for k in range(self.order, 1, -1):
                if k - 2 < len(steps):
                    weights[k - 1] += tf.where(steps[k - 2][0], 0.0, weights[k])
                else:
                    weights[k - 1] += weights[k]
            total = weights[0][:, None] * self.uniform + weights[1][:, None] * self.unigrams
            rows = tf.range(tf.shape(context_ids)[0])[:, None]
            for weight, (seen, nodes, table, shares) in zip(weights[2:], steps, strict=False):
                if table.longest:
                    words, places = table.list_followers(seen, nodes)
                    cells = tf.stack([tf.broadcast_to(rows, tf.shape(words)), words], axis=2)
                    listed = weight[:, None] * tf.gather(shares, places)
                    total += tf.tensor_scatter_nd_update(tf.zeros_like(total), cells, listed)
            return tf.math.log(total[:, : self.vocabulary_size])

    def _steps(self, context_ids: tf.Tensor) -> Iterator[tuple]:
        """Yield for contexts of 1, 2, … words: whether each was seen, its number, its n-grams,
        their shares.
        """
        steps = zip(
            self.bins.contexts.walk(context_ids),
            self.bins.levels,
            self.tables,
            self.shares,
            strict=False,
        )
        for (known, nodes), levels, table, shares in steps:
            yield known & (tf.gather(levels, nodes) >= 0), nodes, table, shares


@build_device_graph.register(ClassBased)
class DeviceClassGraph(GraphModel):
    """A class-based n-gram model; see `ClassBased`."""

    def __init__(self, model: ClassBased):
        super().__init__(model)
        self.class_model = DeviceBackoffGraph(model.class_model)
        self.classes = store_array(model.classes.astype(np.int32))
        self.word_log_probs = store_array(model.word_log_probs.astype(np.float32))
        self.uniform = store_array(model.uniform.astype(np.float32))
        self.log_weights = _take_logarithm([1 - model.uniform_weight, model.uniform_weight])

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        contexts = tf.gather(self.classes, context_ids)
        targets = tf.gather(self.classes, target_ids)
        of_classes = self.class_model.log_prob(contexts, targets)
        of_words = of_classes + tf.gather(self.word_log_probs, target_ids)
        uniform = tf.gather(self.uniform, target_ids)
        return _combine([of_words, uniform], self.log_weights)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        of_classes = self.class_model.next_log_probs(tf.gather(self.classes, context_ids))
        of_words = tf.gather(of_classes, self.classes, axis=1) + self.word_log_probs
        uniform = tf.broadcast_to(self.uniform[None], tf.shape(of_words))
        return _combine([of_words, uniform], self.log_weights)


def _take_logarithm(weights: np.ndarray | list[float]) -> np.ndarray:
    """Return ln of weights, float32; one may be 0."""
    with np.errstate(divide="ignore"):
        return np.log(weights).astype(np.float32)


def _combine(
    log_probs: list[tf.Tensor], log_weights: Sequence[tf.Tensor] | np.ndarray
) -> tf.Tensor:
    """Return ln sum_k weight_k P_k."""
    terms = []
    for log_prob, log_weight in zip(log_probs, log_weights, strict=True):
        terms.append(log_prob + log_weight)
    stacked = tf.stack(terms)
    # `tf.reduce_logsumexp` asks for finite numbers, and in LiteRT it gives NaN for -inf
    highest = tf.maximum(tf.reduce_max(stacked, axis=0), _LEAST)
    return tf.math.log(tf.reduce_sum(tf.exp(stacked - highest), axis=0)) + highest


@build_device_graph.register(Mixture)
class DeviceMixtureGraph(GraphModel):
    """A convex combination of language models; see `Mixture`."""

    def __init__(self, model: Mixture):
        super().__init__(model)
        self.models = [build_device_graph(part) for part in model.models]
        log_weights = _take_logarithm(model.weights)
        self.bins = DeviceBinsGraph(model.bins) if model.bins else None
        self.log_weights = store_array(log_weights) if model.bins else log_weights[0]

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        log_probs = []
        for model in self.models:
            log_probs.append(model.log_prob(cut_contexts(model, context_ids), target_ids))
        return _combine(log_probs, self._find_weights(context_ids))

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        log_probs = []
        for model in self.models:
            log_probs.append(model.next_log_probs(cut_contexts(model, context_ids)))
        log_weights = self._find_weights(context_ids)
        if self.bins is not None:
            log_weights = [log_weight[:, None] for log_weight in log_weights]
        return _combine(log_probs, log_weights)

    def _find_weights(self, context_ids: tf.Tensor) -> Sequence[tf.Tensor] | np.ndarray:
        """Return ln of the weight of each model: numbers, or float32 [B] each with bins."""
        if self.bins is None:
            return self.log_weights
        bins = self.bins.find_bins(context_ids)
        return tf.unstack(tf.gather(self.log_weights, bins), axis=1)
