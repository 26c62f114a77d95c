"""N-gram models as TensorFlow graphs: back-off, deleted interpolation and class-based models, and
their tables.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.data.text_ops import store_array
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation, FrequencyBins
from keras_nplm.models.ngrams.tables import ContextTrie
from keras_nplm.serving.graph_model import GraphModel, build_graph, combine_log_probs


class SortedTable(tf.Module):
    """A value for each n-gram of one length, by its sorted key, int64 [M]: context number * |V| +
    word.
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray, vocabulary_size: int):
        super().__init__()
        # one key more than any n-gram has: the table is never empty, and every place of a search
        # can be gathered
        self.keys = store_array(np.append(keys, np.iinfo(np.int64).max))
        self.values = store_array(np.append(values, 0).astype(values.dtype))
        self.vocabulary_size = vocabulary_size

    def find(self, nodes: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return whether each n-gram is listed, its place and its value, [B] each."""
        keys = nodes * self.vocabulary_size + tf.cast(words, tf.int64)
        places = tf.searchsorted(self.keys, keys, out_type=tf.int64)
        is_listed = tf.equal(tf.gather(self.keys, places), keys)
        return is_listed, places, tf.gather(self.values, places)

    def find_followers(self, known: tf.Tensor, nodes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return all n-grams with the known contexts: (row, word) int64 [N, 2], and their values
        [N].
        """
        begin = tf.searchsorted(self.keys, nodes * self.vocabulary_size, out_type=tf.int64)
        end = tf.searchsorted(self.keys, (nodes + 1) * self.vocabulary_size, out_type=tf.int64)
        places = tf.ragged.range(begin, tf.where(known, end, begin))
        words = tf.gather(self.keys, places.flat_values) % self.vocabulary_size
        cells = tf.stack([places.value_rowids(), words], axis=1)
        return cells, tf.gather(self.values, places.flat_values)


class TrieGraph(tf.Module):
    """The contexts of the training text, each with a number; see `ContextTrie`."""

    def __init__(self, trie: ContextTrie):
        super().__init__()
        self.tables = []
        for keys in trie.keys:
            no_values = np.zeros(len(keys), np.int8)
            self.tables.append(SortedTable(keys, no_values, trie.vocabulary_size))

    def walk(self, context_ids: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Return for the last 1, 2, … words of each context: whether they are known [B], and their
        number [B].
        """
        num_words = context_ids.shape[1]
        if num_words == 0:
            return []
        words = tf.cast(context_ids, tf.int64)
        nodes = words[:, -1]
        known = nodes != PAD_ID
        steps = [(known, nodes)]
        for length, table in enumerate(self.tables[: num_words - 1], start=2):
            # nothing is before `<s>`
            known &= (words[:, -length] != PAD_ID) & (words[:, 1 - length] != BOS_ID)
            found, places, _ = table.find(nodes, words[:, -length])
            known &= found
            nodes = tf.where(known, places, 0)
            steps.append((known, nodes))
        return steps


@build_graph.register(BackoffModel)
class BackoffGraph(GraphModel):
    """An n-gram model in back-off form as a graph; see `BackoffModel`."""

    def __init__(self, model: BackoffModel):
        super().__init__(model)
        self.contexts = TrieGraph(model.contexts)
        self.unigrams = store_array(model.unigrams)
        self.ngrams = []
        for keys, log_probs in zip(model.keys, model.log_probs, strict=True):
            self.ngrams.append(SortedTable(keys, log_probs, model.vocabulary_size))
        # one number more than any context has, as in `SortedTable`: an order may have no contexts
        self.backoffs = [
            store_array(np.append(backoffs, np.float32(0))) for backoffs in model.backoffs
        ]

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        log_prob = tf.gather(self.unigrams, target_ids)
        for (known, nodes), backoffs, ngrams in self._steps(context_ids):
            found, _, value = ngrams.find(nodes, target_ids)
            backed_off = log_prob + tf.where(known, tf.gather(backoffs, nodes), 0)
            log_prob = tf.where(known & found, value, backed_off)
        return log_prob

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        log_probs = tf.tile(self.unigrams[None], [tf.shape(context_ids)[0], 1])
        for (known, nodes), backoffs, ngrams in self._steps(context_ids):
            log_probs += tf.where(known, tf.gather(backoffs, nodes), 0)[:, None]
            cells, listed = ngrams.find_followers(known, nodes)
            log_probs = tf.tensor_scatter_nd_update(log_probs, cells, listed)
        return log_probs

    def _steps(self, context_ids: tf.Tensor) -> Iterator[tuple]:
        """Yield for contexts of 1, 2, … words: (known, number), back-off weights, n-grams."""
        return zip(self.contexts.walk(context_ids), self.backoffs, self.ngrams, strict=False)


class FrequencyBinsGraph(tf.Module):
    """The bin of a context by its frequency in training, as a graph; see `FrequencyBins`."""

    def __init__(self, bins: FrequencyBins):
        super().__init__()
        self.contexts = TrieGraph(bins.frequencies.contexts)
        # one number more than any context has, as in `SortedTable`
        self.counts = [store_array(np.append(counts, 0)) for counts in bins.frequencies.counts]
        self.tokens = bins.frequencies.tokens
        self.back_off = bins.back_off
        self.bins_per_length = bins.bins_per_length

    def find_bins(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return the bin of each context, int64 [B]."""
        counts = []  # of the last 1, 2, … words
        for (known, nodes), table in zip(
            self.contexts.walk(context_ids), self.counts, strict=False
        ):
            counts.append(tf.where(known, tf.gather(table, nodes), 0))
        no_counts = tf.zeros(tf.shape(context_ids)[:1], tf.int64)
        counts += [no_counts] * (len(self.counts) - len(counts))
        frequency = counts[-1]
        num_dropped = tf.zeros_like(counts[-1])  # words, from the front of the context
        if self.back_off:
            for length, shorter in enumerate(counts[-2::-1], start=1):
                num_dropped = tf.where(frequency > 0, num_dropped, length)
                frequency = tf.where(frequency > 0, frequency, shorter)
        level = tf.math.ceil(-tf.math.log((1 + tf.cast(frequency, tf.float64)) / self.tokens))
        return tf.cast(tf.maximum(level, 0), tf.int64) + num_dropped * self.bins_per_length


@build_graph.register(DeletedInterpolation)
class DeletedInterpolationGraph(GraphModel):
    """Deleted interpolation, relative frequencies of all orders, as a graph; see
    `DeletedInterpolation`.
    """

    def __init__(self, model: DeletedInterpolation):
        super().__init__(model)
        self.bins = FrequencyBinsGraph(model.bins)
        self.uniform = store_array(model.uniform)
        self.unigrams = store_array(model.unigrams)
        self.ngrams = []
        for keys, counts in zip(model.keys, model.counts, strict=True):
            self.ngrams.append(SortedTable(keys, counts, model.vocabulary_size))
        self.weights = store_array(model.weights)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        columns = [tf.gather(self.uniform, target_ids), tf.gather(self.unigrams, target_ids)]
        for known, nodes, ngrams, totals in self._steps(context_ids):
            found, _, count = ngrams.find(nodes, target_ids)
            frequency = tf.where(found, tf.cast(count, tf.float64), 0) / totals
            columns.append(tf.where(known, frequency, columns[-1]))
        columns += [columns[-1]] * (self.order + 1 - len(columns))
        weights = tf.gather(self.weights, self.bins.find_bins(context_ids))
        return tf.math.log(tf.reduce_sum(weights * tf.stack(columns, axis=1), axis=1))

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        weights = tf.unstack(tf.gather(self.weights, self.bins.find_bins(context_ids)), axis=1)
        steps = list(self._steps(context_ids))
        if len(steps) < self.order - 1:
            # no context of these lengths is known: any numbers and n-grams will do
            never = tf.zeros_like(steps[0][0])
            steps += [(never, *steps[0][1:])] * (self.order - 1 - len(steps))
        # the weight of an unknown context goes to the next shorter one
        for k in range(self.order, 1, -1):
            is_known = steps[k - 2][0]
            weights[k - 1] += tf.where(is_known, tf.zeros_like(weights[k]), weights[k])
        probability = weights[0][:, None] * self.uniform + weights[1][:, None] * self.unigrams
        for weight, (known, nodes, ngrams, totals) in zip(weights[2:], steps, strict=True):
            cells, counts = ngrams.find_followers(known, nodes)
            shares = tf.gather(weight / totals, cells[:, 0]) * tf.cast(counts, tf.float64)
            probability = tf.tensor_scatter_nd_add(probability, cells, shares)
        return tf.math.log(probability)

    def _steps(self, context_ids: tf.Tensor) -> Iterator[tuple]:
        """Yield for contexts of 1, 2, … words: whether each is known, its number, its n-grams, its
        frequency c(h •).
        """
        steps = zip(
            self.bins.contexts.walk(context_ids), self.bins.counts, self.ngrams, strict=False
        )
        for (known, nodes), counts, ngrams in steps:
            totals = tf.cast(tf.gather(counts, nodes), tf.float64)
            yield known & (totals > 0), nodes, ngrams, tf.maximum(totals, 1)


@build_graph.register(ClassBased)
class ClassBasedGraph(GraphModel):
    """A class-based n-gram model as a graph; see `ClassBased`."""

    def __init__(self, model: ClassBased):
        super().__init__(model)
        self.class_model = BackoffGraph(model.class_model)
        self.classes = store_array(model.classes.astype(np.int32))
        self.word_log_probs = store_array(model.word_log_probs)
        self.uniform = store_array(model.uniform)
        self.weights = np.array([1 - model.uniform_weight, model.uniform_weight])

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        contexts = tf.gather(self.classes, context_ids)
        targets = tf.gather(self.classes, target_ids)
        of_classes = tf.cast(self.class_model.log_prob(contexts, targets), tf.float64)
        of_words = of_classes + tf.gather(self.word_log_probs, target_ids)
        return combine_log_probs([of_words, tf.gather(self.uniform, target_ids)], self.weights)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        of_classes = self.class_model.next_log_probs(tf.gather(self.classes, context_ids))
        of_their_words = tf.gather(of_classes, self.classes, axis=1)
        of_words = tf.cast(of_their_words, tf.float64) + self.word_log_probs
        return combine_log_probs([of_words, self.uniform[None]], self.weights)
