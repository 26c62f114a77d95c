"""The language models as TensorFlow graphs: the same questions, tensors in and out."""

import functools

import numpy as np
import tensorflow as tf

from keras_nplm.errors import InputError
from keras_nplm.evaluation import LogProb
from keras_nplm.mixture import Mixture, Uniform
from keras_nplm.model import NPLM
from keras_nplm.ngrams import BackoffModel, ClassBased, DeletedInterpolation, FrequencyBins
from keras_nplm.ngrams.counts import ContextTrie
from keras_nplm.ngrams.mass import BackoffMass
from keras_nplm.operations import log_sum_exp
from keras_nplm.outputs import EnergyOutput, LinearOutput
from keras_nplm.shortlist import Shortlist
from keras_nplm.vocabulary import BOS_ID, PAD_ID

_BLOCK = 128  # numbers whose greatest is found together
_NEVER = float("-inf")  # ln P of what is never predicted
_ROWS = 512  # n-grams whose output is computed at a time: what they need of memory does not grow with a text


class GraphModel(tf.Module):
    """A language model in a graph: `log_prob` [B] and `next_log_probs` [B, |V|] of int32 tensors, in nats.

    What a model of the package answers in Python with NumPy, this answers with the same numbers in a graph.
    """

    def __init__(self, model: LogProb):
        super().__init__()
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        """ln P(target | context), float [B], for int32 [B, n-1] and int32 [B] in the vocabulary."""
        raise NotImplementedError

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        """ln P(w | context) for every word w, float [B, |V|]."""
        raise NotImplementedError

    def most_probable(self, context_ids: tf.Tensor, first: int, k: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The k most probable of the ids from `first` on, int32 [B, k], and P of each, float32 [B, k]."""
        log_probs, ids = _top_k(self.next_log_probs(context_ids)[:, first:], k)
        return ids + first, tf.cast(tf.exp(log_probs), tf.float32)


def graph_of(model: LogProb) -> GraphModel:
    """The graph of a language model of any kind that a model directory holds.

    Raises:
        InputError: there is none for it.
    """
    for kind, graph in _GRAPHS.items():
        if isinstance(model, kind):
            return graph(model)
    raise InputError(f"A {type(model).__name__} cannot be served: export an NPLM, an n-gram model or a mixture.")


class _Network(GraphModel):
    """The network's own layers; what they read is kept, and what training alone needs is left behind."""

    def __init__(self, model: NPLM):
        super().__init__(model)
        self._network = lambda: model  # were it an attribute, all of its weights would be saved
        ids = tf.TensorSpec([None, self.order - 1], tf.int32), tf.TensorSpec([None], tf.int32)
        answers = tf.function(lambda context, target: (self.next_log_probs(context), self.log_prob(context, target)))
        self.weights = list(answers.get_concrete_function(*ids).graph.variables)

    def log_prob(self, context_ids, target_ids):
        listed = self._network().listed
        log_prob = self.output_log_prob(context_ids, tf.minimum(target_ids, listed - 1))
        return log_prob if listed == self.vocabulary_size else tf.where(target_ids < listed, log_prob, _NEVER)

    def output_log_prob(self, context_ids, target_ids):
        """ln P of outputs: words that are predicted, or the short-list's outside."""
        network = self._network()

        def some(start, done):
            part = slice(start, start + _ROWS)
            if isinstance(network.prob, EnergyOutput):  # its own has parts that XLA compiles: a server may lack it
                log_prob = tf.gather(self.next_log_probs(context_ids[part]), target_ids[part], batch_dims=1)
            else:
                log_prob = network.prob.log_prob(network.features(context_ids[part]), target_ids[part])
            return start + _ROWS, tf.concat([done, log_prob], axis=0)

        shapes = [tf.TensorShape([]), tf.TensorShape([None])]
        more = functools.partial(_is_before, tf.size(target_ids))
        return tf.while_loop(more, some, [0, tf.zeros([0])], shapes, parallel_iterations=1)[1]

    def next_log_probs(self, context_ids):
        listed = self._network().listed
        log_probs = self.next_output_log_probs(context_ids)[:, :listed]
        return tf.pad(log_probs, [[0, 0], [0, self.vocabulary_size - listed]], constant_values=_NEVER)

    def next_output_log_probs(self, context_ids):
        """The same for every output, float [B, outputs]."""
        network = self._network()
        return network.prob.log_probs(network.features(context_ids))

    def most_probable(self, context_ids, first, k):
        network = self._network()
        if not isinstance(network.prob, LinearOutput) or network.shortlist_size is not None:
            return super().most_probable(context_ids, first, k)
        logits = network.prob(network.features(context_ids))  # ln Z alone is wanted, not all log-probabilities
        chosen, ids = _top_k(logits[:, first:], k)
        return ids + first, tf.exp(chosen - log_sum_exp(logits)[:, None])


class _Uniform(GraphModel):
    def __init__(self, model: Uniform):
        super().__init__(model)
        self.distribution = _table(model.next_log_probs(np.zeros((1, 1), np.int32))[0])

    def log_prob(self, context_ids, target_ids):
        return tf.gather(self.distribution, target_ids)

    def next_log_probs(self, context_ids):
        return tf.tile(self.distribution[None], [tf.shape(context_ids)[0], 1])


class _Tables(tf.Module):
    """Sorted keys, context number * |V| + word, with a value each; see `BackoffModel`."""

    def __init__(self, keys: np.ndarray, values: np.ndarray, vocabulary_size: int):
        super().__init__()
        # One entry more, which no key is: a table is never empty, and every place can be looked up
        self.keys = _table(np.append(keys, np.iinfo(np.int64).max))
        self.values = _table(np.append(values, 0).astype(values.dtype))
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


class _Trie(tf.Module):
    """The contexts that were seen; see `ContextTrie`."""

    def __init__(self, trie: ContextTrie):
        super().__init__()
        self.tables = [_Tables(keys, np.zeros(len(keys), np.int8), trie.vocabulary_size) for keys in trie.keys]

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


class _Backoff(GraphModel):
    """N-gram models in back-off form; see `BackoffModel`."""

    def __init__(self, model: BackoffModel):
        super().__init__(model)
        self.contexts = _Trie(model.contexts)
        self.unigrams = _table(model.unigrams)
        pairs = zip(model.keys, model.log_probs, strict=True)
        self.listed = [_Tables(keys, values, model.vocabulary_size) for keys, values in pairs]
        self.backoffs = [_table(backoffs) for backoffs in model.backoffs]

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


class _Bins(tf.Module):
    """Which set of weights a context has; see `FrequencyBins`."""

    def __init__(self, bins: FrequencyBins):
        super().__init__()
        self.contexts = _Trie(bins.frequencies.contexts)
        self.counts = [_table(counts) for counts in bins.frequencies.counts]
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


class _DeletedInterpolation(GraphModel):
    """Relative frequencies of all orders; see `DeletedInterpolation`."""

    def __init__(self, model: DeletedInterpolation):
        super().__init__(model)
        self.bins = _Bins(model.bins)
        self.uniform, self.unigrams = _table(model.uniform), _table(model.unigrams)
        pairs = zip(model.keys, model.counts, strict=True)
        self.listed = [_Tables(keys, counts, model.vocabulary_size) for keys, counts in pairs]
        self.weights = _table(model.weights)

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


class _ClassBased(GraphModel):
    """Classes from classes, words from their class; see `ClassBased`."""

    def __init__(self, model: ClassBased):
        super().__init__(model)
        self.class_model = _Backoff(model.class_model)
        self.classes = _table(model.classes.astype(np.int32))
        self.word_log_probs, self.uniform = _table(model.word_log_probs), _table(model.uniform)
        self.weights = np.array([1 - model.uniform_weight, model.uniform_weight])

    def log_prob(self, context_ids, target_ids):
        by_class = self.class_model.log_prob(tf.gather(self.classes, context_ids), tf.gather(self.classes, target_ids))
        by_class = tf.cast(by_class, tf.float64) + tf.gather(self.word_log_probs, target_ids)
        return _combined([by_class, tf.gather(self.uniform, target_ids)], self.weights)

    def next_log_probs(self, context_ids):
        by_class = self.class_model.next_log_probs(tf.gather(self.classes, context_ids))
        by_word = tf.cast(tf.gather(by_class, self.classes, axis=1), tf.float64) + self.word_log_probs
        return _combined([by_word, self.uniform[None]], self.weights)


class _Mixture(GraphModel):
    """A convex combination; see `Mixture`."""

    def __init__(self, model: Mixture):
        super().__init__(model)
        self.models = [graph_of(component) for component in model.models]
        self.weights = _table(model.weights)
        self.bins = _Bins(model.bins) if model.bins else None

    def log_prob(self, context_ids, target_ids):
        parts = [model.log_prob(_last(context_ids, model.order - 1), target_ids) for model in self.models]
        return _combined(parts, self._weights(context_ids))

    def next_log_probs(self, context_ids):
        parts = [model.next_log_probs(_last(context_ids, model.order - 1)) for model in self.models]
        return _combined(parts, [weight[:, None] for weight in self._weights(context_ids)])

    def _weights(self, context_ids):
        number = tf.shape(context_ids)[0]
        bins = self.bins.of(context_ids) if self.bins else tf.zeros(number, tf.int32)
        return tf.unstack(tf.gather(self.weights, bins), axis=1)


class _BackoffMass(tf.Module):
    """The mass of a set of words under a back-off model, by its n-gram state; see `BackoffMass`."""

    def __init__(self, mass: BackoffMass, contexts: _Trie):
        super().__init__()
        self.contexts, self.empty = contexts, mass.empty
        self.masses = [_table(masses) for masses in mass.masses]

    def of(self, context_ids):
        mass = tf.fill([tf.shape(context_ids)[0]], tf.constant(self.empty, tf.float64))
        for (alive, nodes), masses in zip(self.contexts.walk(context_ids), self.masses, strict=False):
            mass = tf.where(alive, tf.gather(masses, nodes), mass)
        return mass


class _SummedMass(tf.Module):
    """The mass of the words from an id on under any model; see `SummedMass`."""

    def __init__(self, model: GraphModel, first: int):
        super().__init__()
        self.model, self.first = model, first

    def of(self, context_ids):
        def some(start, done):
            log_probs = self.model.next_log_probs(context_ids[start : start + _ROWS])[:, self.first :]
            mass = tf.reduce_sum(tf.exp(tf.cast(log_probs, tf.float64)), axis=1)
            return start + _ROWS, tf.concat([done, mass], axis=0)

        shapes, nothing = [tf.TensorShape([]), tf.TensorShape([None])], tf.zeros([0], tf.float64)
        more = functools.partial(_is_before, tf.shape(context_ids)[0])
        return tf.while_loop(more, some, [0, nothing], shapes, parallel_iterations=1)[1]


class _Shortlist(GraphModel):
    """A network on its short-list, and a background; see `Shortlist`."""

    def __init__(self, model: Shortlist):
        super().__init__(model)
        self.network, self.background = _Network(model.network), graph_of(model.background)
        self.listed, self.outside_output = model.listed, model.network.outside_output
        if isinstance(model.mass, BackoffMass):
            self.mass = _BackoffMass(model.mass, self.background.contexts)
        else:
            self.mass = _SummedMass(self.background, self.listed)

    def log_prob(self, context_ids, target_ids):
        inside = target_ids < self.listed
        seen = _last(context_ids, self.background.order - 1)
        mass = tf.minimum(self.mass.of(seen), 1)
        log_prob = tf.cast(self.background.log_prob(seen, target_ids), tf.float64)
        log_prob = tf.where(inside, tf.zeros_like(log_prob), log_prob)
        if not self.outside_output:
            rows = tf.where(inside)  # [I, 1]: the network is asked for these alone
            outputs = self._outputs(tf.gather(context_ids, rows[:, 0]), tf.gather(target_ids, rows[:, 0]))
            log_share = tf.math.log1p(-tf.gather(mass, rows[:, 0]))
            return tf.tensor_scatter_nd_update(log_prob, rows, outputs + log_share)
        log_prob += self._outputs(context_ids, tf.minimum(target_ids, self.listed))
        alone = tf.where(inside & (mass == 0))
        other = self._outputs(tf.gather(context_ids, alone[:, 0]), tf.fill([tf.shape(alone)[0]], self.listed))
        log_prob = tf.tensor_scatter_nd_sub(log_prob, alone, tf.math.log(-tf.math.expm1(other)))
        return tf.where(inside | (mass == 0), log_prob, log_prob - tf.math.log(mass))

    def _outputs(self, context_ids, output_ids):
        return tf.cast(self.network.output_log_prob(_last(context_ids, self.network.order - 1), output_ids), tf.float64)

    def next_log_probs(self, context_ids):
        outputs = self.network.next_output_log_probs(_last(context_ids, self.network.order - 1))
        inside, other = tf.split(tf.cast(outputs, tf.float64), [self.listed, int(self.outside_output)], axis=1)
        outside = self.background.next_log_probs(_last(context_ids, self.background.order - 1))[:, self.listed :]
        outside = tf.cast(outside, tf.float64)
        mass = tf.minimum(tf.reduce_sum(tf.exp(outside), axis=1, keepdims=True), 1)
        if self.outside_output:
            outside += tf.where(mass == 0, tf.zeros_like(other), other - tf.math.log(mass))
            inside -= tf.where(mass == 0, tf.math.log(-tf.math.expm1(other)), tf.zeros_like(other))
        else:
            inside += tf.math.log1p(-mass)
        return tf.concat([inside, outside], axis=1)


_GRAPHS = {
    NPLM: _Network,
    Uniform: _Uniform,
    BackoffModel: _Backoff,
    DeletedInterpolation: _DeletedInterpolation,
    ClassBased: _ClassBased,
    Mixture: _Mixture,
    Shortlist: _Shortlist,
}


def _is_before(end, start, done):
    """Whether a loop over rows goes on."""
    del done
    return start < end


def _table(array: np.ndarray) -> tf.Variable:
    return tf.Variable(array, trainable=False)


def _last(context_ids, size: int):
    return context_ids[:, context_ids.shape[1] - size :]


def _top_k(values, k: int):
    """The k greatest of each row, descending, and their places; as `tf.math.top_k`, which compares all with a heap.

    Of long rows, blocks are compared by their greatest number first, and then the numbers of the k best blocks.
    """
    number = values.shape[1] // _BLOCK
    if number < 2 * k:
        return tf.math.top_k(values, k)
    blocks, rest = tf.reshape(values[:, : number * _BLOCK], [-1, number, _BLOCK]), values[:, number * _BLOCK :]
    best = tf.sort(tf.math.top_k(tf.reduce_max(blocks, axis=-1), k).indices)  # [B, k]; of equals the first, as there
    chosen = tf.reshape(tf.gather(blocks, best, batch_dims=1), [-1, k * _BLOCK])
    places = tf.reshape(best[:, :, None] * _BLOCK + tf.range(_BLOCK), [-1, k * _BLOCK])
    after = tf.broadcast_to(tf.range(number * _BLOCK, values.shape[1]), tf.shape(rest))
    greatest, which = tf.math.top_k(tf.concat([chosen, rest], axis=1), k)
    return greatest, tf.gather(tf.concat([places, after], axis=1), which, batch_dims=1)


def _combined(log_probs, weights):
    """ln sum_k weight_k P_k, float64; see `keras_nplm.ngrams.interpolation.combine`."""
    log_probs = [tf.cast(part, tf.float64) for part in log_probs]
    highest = functools.reduce(tf.maximum, log_probs)
    highest = tf.where(tf.math.is_finite(highest), highest, 0)
    terms = [weight * tf.exp(part - highest) for part, weight in zip(log_probs, weights, strict=True)]
    return tf.math.log(functools.reduce(tf.add, terms)) + highest
