"""TODO doc."""

import numpy as np
import tensorflow as tf

from keras_nplm.data.vocabulary import BOS_ID, PAD_ID
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation, FrequencyBins
from keras_nplm.models.ngrams.counts import ContextTrie
from keras_nplm.models.ngrams.mass import BackoffMass
from keras_nplm.serving.network_graph import GraphModel, combine_log_probs, constant_table


class SortedTable(tf.Module):
    """Sorted keys, context number * |V| + word, with a value each; see `BackoffModel`."""

    def __init__(self, keys: np.ndarray, values: np.ndarray, vocabulary_size: int):
        super().__init__()
        # One entry more, which no key is: a table is never empty, and every place can be looked up
        self.keys = constant_table(np.append(keys, np.iinfo(np.int64).max))
        self.values = constant_table(np.append(values, 0).astype(values.dtype))
        self.vocabulary_size = vocabulary_size

    def find(self, nodes: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Whether (context, word) is there, its place and its value."""
        wanted = nodes * self.vocabulary_size + tf.cast(words, tf.int64)
        place = tf.searchsorted(self.keys, wanted, out_type=tf.int64)
        return tf.equal(tf.gather(self.keys, place), wanted), place, tf.gather(self.values, place)

    def followers(self, alive: tf.Tensor, nodes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(row, word) int64 [M, 2] of all n-grams with the contexts that are alive, and their values [M]."""
        begin = tf.searchsorted(self.keys, nodes * self.vocabulary_size, out_type=tf.int64)
        end = tf.searchsorted(self.keys, (nodes + 1) * self.vocabulary_size, out_type=tf.int64)
        places = tf.ragged.range(begin, tf.where(alive, end, begin))
        words = tf.gather(self.keys, places.flat_values) % self.vocabulary_size
        return tf.stack([places.value_rowids(), words], axis=1), tf.gather(self.values, places.flat_values)


class TrieGraph(tf.Module):
    """The contexts that were seen; see `ContextTrie`."""

    def __init__(self, trie: ContextTrie):
        super().__init__()
        self.tables = [SortedTable(keys, np.zeros(len(keys), np.int8), trie.vocabulary_size) for keys in trie.keys]

    def walk(self, context_ids: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """For contexts of 1, 2, … words: whether each row has a known one of that length [B], and its number [B]."""
        words = tf.cast(context_ids, tf.int64)
        nodes = words[:, -1]
        alive = nodes != PAD_ID
        steps = [(alive, nodes)]
        for length, table in enumerate(self.tables[: context_ids.shape[1] - 1], start=2):
            alive &= (words[:, -length] != PAD_ID) & (words[:, 1 - length] != BOS_ID)
            known, place, _ = table.find(nodes, words[:, -length])
            alive &= known
            nodes = tf.where(alive, place, 0)
            steps.append((alive, nodes))
        return steps


class BackoffGraph(GraphModel):
    """N-gram models in back-off form; see `BackoffModel`."""

    def __init__(self, model: BackoffModel):
        super().__init__(model)
        self.contexts = TrieGraph(model.contexts)
        self.unigrams = constant_table(model.unigrams)
        pairs = zip(model.keys, model.log_probs, strict=True)
        self.listed = [SortedTable(keys, values, model.vocabulary_size) for keys, values in pairs]
        self.backoffs = [constant_table(backoffs) for backoffs in model.backoffs]

    def log_prob(self, context_ids, target_ids):
        log_prob = tf.gather(self.unigrams, target_ids)
        for (alive, nodes), backoffs, listed in self._steps(context_ids):
            found, _, value = listed.find(nodes, target_ids)
            backed_off = log_prob + tf.where(alive, tf.gather(backoffs, nodes), 0)
            log_prob = tf.where(alive & found, value, backed_off)
        return log_prob

    def next_log_probs(self, context_ids):
        log_probs = tf.tile(self.unigrams[None], [tf.shape(context_ids)[0], 1])
        for (alive, nodes), backoffs, listed in self._steps(context_ids):
            log_probs += tf.where(alive, tf.gather(backoffs, nodes), 0)[:, None]
            log_probs = tf.tensor_scatter_nd_update(log_probs, *listed.followers(alive, nodes))
        return log_probs

    def _steps(self, context_ids):
        return zip(self.contexts.walk(context_ids), self.backoffs, self.listed, strict=False)


class BinsGraph(tf.Module):
    """Which set of weights a context has; see `FrequencyBins`."""

    def __init__(self, bins: FrequencyBins):
        super().__init__()
        self.contexts = TrieGraph(bins.frequencies.contexts)
        self.counts = [constant_table(counts) for counts in bins.frequencies.counts]
        self.tokens, self.back_off = bins.frequencies.tokens, bins.back_off
        self.bins_a_length = bins.bins_a_length

    def of(self, context_ids: tf.Tensor) -> tf.Tensor:
        """The bin of each context, int64 [B]."""
        steps = zip(self.contexts.walk(context_ids), self.counts, strict=False)
        seen = [tf.where(alive, tf.gather(counts, nodes), 0) for (alive, nodes), counts in steps]
        seen += [tf.zeros_like(seen[0])] * (len(self.counts) - len(seen))
        frequency, missing = seen[-1], tf.zeros_like(seen[-1])
        if self.back_off:
            for length, shorter in enumerate(seen[-2::-1], start=1):
                missing = tf.where(frequency > 0, missing, length)
                frequency = tf.where(frequency > 0, frequency, shorter)
        level = tf.math.ceil(-tf.math.log((1 + tf.cast(frequency, tf.float64)) / self.tokens))
        return tf.cast(tf.maximum(level, 0), tf.int64) + missing * self.bins_a_length


class DeletedInterpolationGraph(GraphModel):
    """Relative frequencies of all orders; see `DeletedInterpolation`."""

    def __init__(self, model: DeletedInterpolation):
        super().__init__(model)
        self.bins = BinsGraph(model.bins)
        self.uniform, self.unigrams = constant_table(model.uniform), constant_table(model.unigrams)
        pairs = zip(model.keys, model.counts, strict=True)
        self.listed = [SortedTable(keys, counts, model.vocabulary_size) for keys, counts in pairs]
        self.weights = constant_table(model.weights)

    def log_prob(self, context_ids, target_ids):
        columns = [tf.gather(self.uniform, target_ids), tf.gather(self.unigrams, target_ids)]
        for alive, nodes, listed, totals in self._seen(context_ids):
            found, _, count = listed.find(nodes, target_ids)
            frequency = tf.where(found, tf.cast(count, tf.float64), 0) / totals
            columns.append(tf.where(alive, frequency, columns[-1]))
        columns += [columns[-1]] * (self.order + 1 - len(columns))
        weights = tf.gather(self.weights, self.bins.of(context_ids))
        return tf.math.log(tf.reduce_sum(weights * tf.stack(columns, axis=1), axis=1))

    def next_log_probs(self, context_ids):
        weights = tf.unstack(tf.gather(self.weights, self.bins.of(context_ids)), axis=1)
        seen = list(self._seen(context_ids))
        seen += [(tf.zeros_like(seen[0][0]), *seen[0][1:])] * (self.order - 1 - len(seen))
        for k in range(self.order, 1, -1):  # the weight of a context that was not seen goes to the next shorter one
            weights[k - 1] += tf.where(seen[k - 2][0], tf.zeros_like(weights[k]), weights[k])
        probability = weights[0][:, None] * self.uniform + weights[1][:, None] * self.unigrams
        for weight, (alive, nodes, listed, totals) in zip(weights[2:], seen, strict=True):
            places, counts = listed.followers(alive, nodes)
            share = tf.gather(weight / totals, places[:, 0]) * tf.cast(counts, tf.float64)
            probability = tf.tensor_scatter_nd_add(probability, places, share)
        return tf.math.log(probability)

    def _seen(self, context_ids):
        """For contexts of 1, 2, … words: whether it was seen, its number, its n-grams, c(h •)."""
        steps = zip(self.bins.contexts.walk(context_ids), self.bins.counts, self.listed, strict=False)
        for (alive, nodes), counts, listed in steps:
            totals = tf.cast(tf.gather(counts, nodes), tf.float64)
            yield alive & (totals > 0), nodes, listed, tf.maximum(totals, 1)


class ClassBasedGraph(GraphModel):
    """Classes from classes, words from their class; see `ClassBased`."""

    def __init__(self, model: ClassBased):
        super().__init__(model)
        self.class_model = BackoffGraph(model.class_model)
        self.classes = constant_table(model.classes.astype(np.int32))
        self.word_log_probs, self.uniform = constant_table(model.word_log_probs), constant_table(model.uniform)
        self.weights = np.array([1 - model.uniform_weight, model.uniform_weight])

    def log_prob(self, context_ids, target_ids):
        by_class = self.class_model.log_prob(tf.gather(self.classes, context_ids), tf.gather(self.classes, target_ids))
        by_class = tf.cast(by_class, tf.float64) + tf.gather(self.word_log_probs, target_ids)
        return combine_log_probs([by_class, tf.gather(self.uniform, target_ids)], self.weights)

    def next_log_probs(self, context_ids):
        by_class = self.class_model.next_log_probs(tf.gather(self.classes, context_ids))
        by_word = tf.cast(tf.gather(by_class, self.classes, axis=1), tf.float64) + self.word_log_probs
        return combine_log_probs([by_word, self.uniform[None]], self.weights)


class BackoffMassGraph(tf.Module):
    """The mass of a set of words under a back-off model, by its n-gram state; see `BackoffMass`."""

    def __init__(self, mass: BackoffMass, contexts: TrieGraph):
        super().__init__()
        self.contexts, self.empty = contexts, mass.empty
        self.masses = [constant_table(masses) for masses in mass.masses]

    def of(self, context_ids):
        mass = tf.fill([tf.shape(context_ids)[0]], tf.constant(self.empty, tf.float64))
        for (alive, nodes), masses in zip(self.contexts.walk(context_ids), self.masses, strict=False):
            mass = tf.where(alive, tf.gather(masses, nodes), mass)
        return mass
