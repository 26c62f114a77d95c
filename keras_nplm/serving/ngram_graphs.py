"""N-gram models as TensorFlow graphs: back-off, deleted interpolation and class-based models, and
the two forms of their tables.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.data.text_ops import store_array
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation, FrequencyBins
from keras_nplm.models.ngrams.tables import ContextTrie
from keras_nplm.serving.graph_model import (
    GraphModel,
    build_graph,
    combine_log_probs,
    take_logarithm,
)

NGRAM_SCOPE = "ngrams"  # in the names of operations that look n-grams up


class SortedTable(tf.Module):
    """The n-grams of one length by their sorted keys: context number * |V| + word.

    A search and a list of followers are one operation each, which LiteRT and ONNX lack.
    """

    spare_columns = 0  # of a row of words, behind the vocabulary

    def __init__(self, keys: np.ndarray, num_contexts: int, vocabulary_size: int):
        super().__init__()
        self.is_empty = len(keys) == 0
        # one key more than any n-gram has: the table is never empty, and every place of a search
        # can be gathered
        self.keys = store_array(np.append(keys, np.iinfo(np.int64).max))
        self.vocabulary_size = vocabulary_size

    def find(self, nodes: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return whether each n-gram is listed, and its place, [B] each."""
        keys = self._begin(nodes) + tf.cast(words, tf.int64)
        places = tf.searchsorted(self.keys, keys)
        return tf.equal(tf.gather(self.keys, places), keys), places

    def list_followers(self, known: tf.Tensor, nodes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return all n-grams with the known contexts: (row, word) [N, 2], and their places [N]."""
        begin = tf.searchsorted(self.keys, self._begin(nodes))
        end = tf.searchsorted(self.keys, self._begin(nodes + 1))
        places = tf.ragged.range(begin, tf.where(known, end, begin))
        words = tf.gather(self.keys, places.flat_values) % self.vocabulary_size
        return tf.stack([places.value_rowids(), words], axis=1), places.flat_values

    def _begin(self, nodes: tf.Tensor) -> tf.Tensor:
        return tf.cast(nodes, tf.int64) * self.vocabulary_size

    @staticmethod
    def add(total: tf.Tensor, cells: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Add values to some cells of a tensor, in place where nothing else reads it."""
        return tf.tensor_scatter_nd_add(total, cells, values)


class RangeTable(tf.Module):
    """The n-grams of one length: those of one context lie side by side, sorted by word.

    Its operations are those that LiteRT and ONNX have: int32, and lists of one length.
    """

    spare_columns = 1  # takes what fills short lists

    def __init__(self, keys: np.ndarray, num_contexts: int, vocabulary_size: int):
        super().__init__()
        firsts = np.searchsorted(keys, np.arange(num_contexts + 1) * vocabulary_size)
        self.firsts = store_array(firsts.astype(np.int32))
        self.longest = int(np.diff(firsts).max(initial=0))
        self.is_empty = self.longest == 0
        # one more than there are n-grams, so that the table is never empty
        words = np.append(keys % vocabulary_size, vocabulary_size)
        self.words = store_array(words.astype(np.int32))
        self.vocabulary_size = vocabulary_size

    def find(self, nodes: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """As `SortedTable.find`, by binary search."""
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
        """As `SortedTable.list_followers`: cells [B, longest, 2] and places [B, longest].

        Shorter lists are filled with the id behind the vocabulary.
        """
        places = tf.gather(self.firsts, nodes)[:, None] + tf.range(self.longest)
        is_listed = known[:, None] & (places < tf.gather(self.firsts, nodes + 1)[:, None])
        places = tf.minimum(places, self.words.shape[0] - 1)
        words = tf.where(is_listed, tf.gather(self.words, places), self.vocabulary_size)
        rows = tf.range(tf.shape(nodes)[0])[:, None]
        return tf.stack([tf.broadcast_to(rows, tf.shape(words)), words], axis=2), places

    @staticmethod
    def add(total: tf.Tensor, cells: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """As `SortedTable.add`."""
        return total + tf.tensor_scatter_nd_update(tf.zeros_like(total), cells, values)


def choose_table(for_devices: bool) -> type[SortedTable] | type[RangeTable]:
    """Return the class of tables. 256 contexts take servers 1.9 ms, or 2.7 ms with `RangeTable`."""
    return RangeTable if for_devices else SortedTable


def _store_values(values: np.ndarray, more: int = 1) -> tf.Variable:
    """Store a value of each n-gram, or context, and of the one more that a table has."""
    return store_array(np.append(values, np.zeros(more, values.dtype)))


class TrieGraph(tf.Module):
    """The contexts of the training text, each with a number; see `ContextTrie`."""

    def __init__(self, trie: ContextTrie, for_devices: bool):
        super().__init__()
        table = choose_table(for_devices)
        self.tables = []
        for keys, num_parents in zip(trie.keys, trie.sizes, strict=False):
            self.tables.append(table(keys, num_parents, trie.vocabulary_size))

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


@build_graph.register(BackoffModel)
class BackoffGraph(GraphModel):
    """An n-gram model in back-off form; see `BackoffModel`."""

    def __init__(self, model: BackoffModel, for_devices: bool = False):
        super().__init__(model)
        table = choose_table(for_devices)
        self.contexts = TrieGraph(model.contexts, for_devices)
        self.unigrams = _store_values(model.unigrams, table.spare_columns)
        self.tables = []
        for keys, num_contexts in zip(model.keys, model.contexts.sizes, strict=False):
            self.tables.append(table(keys, num_contexts, model.vocabulary_size))
        self.values = [_store_values(part) for part in model.log_probs]
        self.backoffs = [_store_values(part) for part in model.backoffs]

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
            log_probs = tf.tile(self.unigrams[None], [tf.shape(context_ids)[0], 1])
            for (known, nodes), backoffs, table, values in self._steps(context_ids):
                log_probs += tf.where(known, tf.gather(backoffs, nodes), 0.0)[:, None]
                if not table.is_empty:
                    cells, places = table.list_followers(known, nodes)
                    listed = tf.gather(values, places)
                    log_probs = tf.tensor_scatter_nd_update(log_probs, cells, listed)
            return log_probs[:, : self.vocabulary_size]

    def _steps(self, context_ids: tf.Tensor) -> Iterator[tuple]:
        """Yield for contexts of 1, 2, … words: (known, number), back-off weights, n-grams, ln P."""
        return zip(
            self.contexts.walk(context_ids), self.backoffs, self.tables, self.values, strict=False
        )


class FrequencyBinsGraph(tf.Module):
    """The bin of a context by its frequency in training; see `FrequencyBins`."""

    def __init__(self, bins: FrequencyBins, for_devices: bool):
        super().__init__()
        self.contexts = TrieGraph(bins.contexts, for_devices)
        self.levels = []  # of contexts; -1: it was not seen
        for counts in bins.counts:
            levels = np.where(counts > 0, bins.find_levels(counts), -1)
            # one more than any context has, as in the tables
            self.levels.append(store_array(np.append(levels, -1).astype(np.int32)))
        self.level_of_unseen = int(bins.find_levels(np.zeros(1))[0])
        self.back_off = bins.back_off
        self.bins_per_length = bins.bins_per_length

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


@build_graph.register(DeletedInterpolation)
class InterpolationGraph(GraphModel):
    """Deleted interpolation, relative frequencies of all orders; see `DeletedInterpolation`."""

    def __init__(self, model: DeletedInterpolation, for_devices: bool = False):
        super().__init__(model)
        table = choose_table(for_devices)
        size = model.vocabulary_size
        self.bins = FrequencyBinsGraph(model.bins, for_devices)
        self.uniform = _store_values(model.uniform.astype(np.float32), table.spare_columns)
        self.unigrams = _store_values(model.unigrams.astype(np.float32), table.spare_columns)
        self.weights = store_array(model.weights.astype(np.float32))
        self.tables = []
        self.shares = []  # c(h w) / c(h • )
        for keys, counts, totals, num_contexts in zip(
            model.keys, model.counts, model.bins.counts, model.bins.contexts.sizes, strict=False
        ):
            self.tables.append(table(keys, num_contexts, size))
            shares = counts / np.maximum(totals[keys // size], 1)
            self.shares.append(_store_values(shares.astype(np.float32)))

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(NGRAM_SCOPE):
            weights, steps = self._weigh(context_ids)
            total = weights[0] * tf.gather(self.uniform, target_ids)
            total += weights[1] * tf.gather(self.unigrams, target_ids)
            for weight, (seen, nodes, table, shares) in zip(weights[2:], steps, strict=False):
                found, places = table.find(nodes, target_ids)
                total += tf.where(seen & found, weight * tf.gather(shares, places), 0.0)
            return tf.math.log(total)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(NGRAM_SCOPE):
            weights, steps = self._weigh(context_ids)
            total = weights[0][:, None] * self.uniform + weights[1][:, None] * self.unigrams
            for weight, (seen, nodes, table, shares) in zip(weights[2:], steps, strict=False):
                if not table.is_empty:
                    cells, places = table.list_followers(seen, nodes)
                    listed = tf.gather(weight, cells[..., 0]) * tf.gather(shares, places)
                    total = table.add(total, cells, listed)
            return tf.math.log(total[:, : self.vocabulary_size])

    def _weigh(self, context_ids: tf.Tensor) -> tuple[list[tf.Tensor], list[tuple]]:
        """Return the weight [B] of each order, from 0 on, and what `_steps` yields.

        The weight of an unknown context goes to the next shorter one.
        """
        weights = tf.unstack(tf.gather(self.weights, self.bins.find_bins(context_ids)), axis=1)
        steps = list(self._steps(context_ids))
        for k, (seen, *_) in reversed([*enumerate(steps, start=2)]):
            weights[k - 1] += tf.where(seen, 0.0, weights[k])
        return weights, steps

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


@build_graph.register(ClassBased)
class ClassBasedGraph(GraphModel):
    """A class-based n-gram model; see `ClassBased`."""

    def __init__(self, model: ClassBased, for_devices: bool = False):
        super().__init__(model)
        self.class_model = BackoffGraph(model.class_model, for_devices)
        self.classes = store_array(model.classes.astype(np.int32))
        self.word_log_probs = store_array(model.word_log_probs.astype(np.float32))
        self.uniform = store_array(model.uniform.astype(np.float32))
        weights = [1 - model.uniform_weight, model.uniform_weight]
        self.log_weights = take_logarithm(weights)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        contexts = tf.gather(self.classes, context_ids)
        targets = tf.gather(self.classes, target_ids)
        of_classes = self.class_model.log_prob(contexts, targets)
        of_words = of_classes + tf.gather(self.word_log_probs, target_ids)
        return combine_log_probs([of_words, tf.gather(self.uniform, target_ids)], self.log_weights)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        of_classes = self.class_model.next_log_probs(tf.gather(self.classes, context_ids))
        of_words = tf.gather(of_classes, self.classes, axis=1) + self.word_log_probs
        return combine_log_probs([of_words, self.uniform[None]], self.log_weights)
