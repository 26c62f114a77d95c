"""Language models as graphs of operations that LiteRT and ONNX have: float32, int32, no loops."""

import functools
from collections.abc import Iterator
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
from keras_nplm.models.ngrams import BackoffModel
from keras_nplm.models.ngrams.tables import ContextTrie
from keras_nplm.serving.graph_model import GraphModel
from keras_nplm.serving.graphs import NetworkGraph

TILE_WORDS = 1 << 12  # whose logits are computed at a time
NGRAM_SCOPE = "ngrams"  # in the names of operations that look n-grams up


@functools.singledispatch
def build_device_graph(model: NextWordModel) -> GraphModel:
    """Return a language model as a graph for LiteRT and ONNX files.

    Raises:
        InputError: such files cannot hold models of this class.
    """
    raise refuse_model(model)


@build_device_graph.register(HybridNetwork)
def _refuse_network_with_inputs(model: HybridNetwork) -> GraphModel:
    raise refuse_model(model)


def refuse_model(model: NextWordModel) -> InputError:
    return InputError(
        "LiteRT and ONNX files can hold an NPLM, n-grams in back-off form, or a mixture of them. "
        f"Received: {type(model).__name__}. Fix: export this model as a SavedModel."
    )


@build_device_graph.register(ContextNetwork)
class DeviceNetworkGraph(NetworkGraph):
    """A network as a graph whose ln P of a target needs no branch, no loop and no second copy of
    the kernel.
    """

    def __init__(self, model: ContextNetwork):
        super().__init__(_copy_for_devices(model))

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


@build_device_graph.register(Mixture)
class DeviceMixtureGraph(GraphModel):
    """A convex combination of language models with the same weights in every context."""

    def __init__(self, model: Mixture):
        super().__init__(model)
        if model.bins is not None:
            raise InputError(
                "LiteRT and ONNX files can hold a mixture with the same weights in every context. "
                "Received: weights by the frequency of the context. "
                "Fix: export this model as a SavedModel."
            )
        self.models = [build_device_graph(part) for part in model.models]
        with np.errstate(divide="ignore"):  # a weight may be 0
            self.log_weights = np.log(model.weights[0]).astype(np.float32)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        log_probs = []
        for model in self.models:
            log_probs.append(model.log_prob(cut_contexts(model, context_ids), target_ids))
        return self._combine(log_probs)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        log_probs = []
        for model in self.models:
            log_probs.append(model.next_log_probs(cut_contexts(model, context_ids)))
        return self._combine(log_probs)

    def _combine(self, log_probs: list[tf.Tensor]) -> tf.Tensor:
        terms = []
        for log_prob, log_weight in zip(log_probs, self.log_weights, strict=True):
            terms.append(log_prob + log_weight)
        return tf.reduce_logsumexp(tf.stack(terms), axis=0)
