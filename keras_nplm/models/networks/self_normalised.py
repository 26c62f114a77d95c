"""Self-normalised scoring: logits as log-probabilities, a few lookups and one dot product per
n-gram.
"""

import keras
import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.hidden import NoHidden, TanhHidden
from keras_nplm.layers.ops import Tensor
from keras_nplm.models.base import Network, NextWordModel, row_blocks
from keras_nplm.models.networks.context_network import ContextNetwork

_ROWS = 512  # n-grams in a block, whose hidden units fit the cache
_FEW = 8  # contexts whose rows of all tables are gathered at once
_LEAST = np.float32(1e-37)  # as in `layers.pointer`
_CHECKED = 4  # contexts whose logits are compared with those of the network
_TOLERANCE = {"float32": 1e-3, "float64": 1e-3, "bfloat16": 0.1}  # by the dtype of the network


class SelfNormalised(NextWordModel):
    """A network whose logits are used as log-probabilities: y_w = ln P(w | context) + ln Z, with ln
    Z near 0.

        a = tanh(d + sum_k T_k[w_k]),    T_k = C H_k,    y = b + U a (+ W x)

    H_k is the block of H for position k of the context. The tables T_k, [n-1, |V|, h], are computed
    once from a copy of the weights. Then the hidden layer is n-1 lookups, and a score one dot
    product. Averaged positions share a table. The energy output looks up its target's part: y = b +
    v · tanh(z + T[w]). Use it for networks trained with `NoiseContrastive` or `self_normalisation`;
    `LogZ` reports log Z.

    Reference: Devlin et al. (2014), Fast and robust neural network joint models for statistical
    machine translation, sections 2.4 and 2.5.
    """

    is_normalised = False
    tables: np.ndarray  # T_k, [positions, |V|, h], of a network with a hidden layer
    table: np.ndarray  # the table of each position, int [n-1]
    offsets: np.ndarray  # of each position: the first row of its table in all rows, int32 [n-1]
    targets: np.ndarray  # the table of the target, [|V|, h], of an energy head
    v: np.ndarray  # [h], of an energy head
    kernel: np.ndarray  # [U W], [|V|, w], of every other head
    C: np.ndarray  # [|V|, m], of a network with x in the features

    def __init__(self, model: Network):
        if not isinstance(model, ContextNetwork):
            raise _refuse_network(type(model).__name__)
        self.is_energy = isinstance(model.prob, EnergyHead)
        hidden = model.prob if self.is_energy else model.hidden
        _check_network(model, hidden)
        self.has_hidden = hidden is not None and not isinstance(hidden, NoHidden)
        # how often x is in the features: as the input of the head, and for W
        self.times_x = 0 if self.is_energy else int(hidden is None) + int(model.direct is not None)
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size
        self.boundary = model.boundary
        self.block, self.scale = model.embed.position_spans(model.order - 1)
        self.b = _float32(model.prob.b)
        words = _float32(model.embed.C)
        words[0] = 0  # <pad> adds a zero vector
        pointer = getattr(model, "pointer", None)
        self.weigh_copies = None if pointer is None else pointer.to_array_function(words)
        if self.has_hidden:
            self._make_tables(hidden, words)
        if self.is_energy:
            self.v = _float32(model.prob.v)
        else:
            direct = [] if model.direct is None else [_float32(model.direct.W)]
            self.kernel = np.concatenate([_float32(model.prob.full_kernel()), *direct], axis=1)
        if isinstance(hidden, TanhHidden):
            self.transform = hidden.to_array_function()
        if self.times_x:
            self.C = words
        # f of the pointer: the features of the head, without x of the direct connections
        self.pointer_width = model.prob.full_kernel().shape[1] if model.prob.has_word_rows else None
        self._check_logits(model)

    def _make_tables(self, hidden: Tensor, words: np.ndarray) -> None:
        """Compute T_k of each position; positions of one block of x with one scale share a
        table.
        """
        m = words.shape[1]
        # [blocks, |V|, h]; with an energy head the last one is of the target
        products = words @ _float32(hidden.H).reshape(-1, m, hidden.hidden_units)
        if self.is_energy:
            self.targets = products[-1]
        pairs, self.table = np.unique([self.block, self.scale], axis=1, return_inverse=True)
        blocks, scales = pairs
        self.tables = products[blocks.astype(int)] * scales.astype(np.float32)[:, None, None]
        # z includes d: a share of it with each position of the last table
        is_last = self.table == self.table[-1]
        self.tables[self.table[-1]] += _float32(hidden.d) / np.count_nonzero(is_last)
        self.offsets = (self.table * self.vocabulary_size).astype(np.int32)

    def _check_logits(self, model: ContextNetwork) -> None:
        """Refuse a network whose logits are others: a layer of the user may compute what the tables
        do not know.
        """
        rng = np.random.default_rng(0)
        contexts = rng.integers(0, self.vocabulary_size, (_CHECKED, self.order - 1)).astype(
            np.int32
        )
        words = rng.integers(0, self.vocabulary_size, _CHECKED).astype(np.int32)
        wanted = np.array(model.scores(contexts).logit(words), np.float64)
        difference = np.abs(self._score(contexts, words) - wanted)
        # NaN of weights that are not finite is no difference
        if np.any(difference > _TOLERANCE[model.compute_dtype] * (1 + np.abs(wanted))):
            layers = ", ".join(type(layer).__name__ for layer in model.list_layers())
            raise _refuse_network(
                f"one of {layers}, whose logits are others than those from `position_spans`"
            )

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        result = np.empty(len(target_ids), np.float32)
        for block in row_blocks(len(target_ids), _ROWS):
            result[block] = self._score(context_ids[block], target_ids[block])
        return result

    def log_prob_of_one(self, ngram: np.ndarray) -> float:
        """As the base class.

        One n-gram needs a few rows and a dot product, and each call of NumPy costs as much. A word
        of a scorer takes 5 µs by this method, and 18 µs by `_log_prob`, which makes more calls.
        """
        if not self.has_hidden or self.times_x or self.is_energy or self.weigh_copies is not None:
            return super().log_prob_of_one(ngram)
        rows = _take_rows(self._list_rows(), ngram[:-1] + self.offsets)
        a = self.transform(np.add.reduce(rows, axis=0, keepdims=True))[0]
        target = ngram[-1]
        return float(a.dot(self.kernel[target]) + self.b[target])

    def _score(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        if self.is_energy:
            z = self._before_tanh(context_ids) + self.targets[target_ids]
            # not a matrix product, which may warn of numbers that it does not use
            return np.einsum("ij,j->i", np.tanh(z), self.v) + self.b[target_ids]
        features = self.features(context_ids)
        y = _dot_rows(features, _take_rows(self.kernel, target_ids)) + self.b[target_ids]
        if self.weigh_copies is None:
            return y
        weights = self.weigh_copies(features[:, : self.pointer_width], context_ids)
        return np.logaddexp(
            y, np.log(np.sum(weights, axis=1, where=context_ids == target_ids[:, None]) + _LEAST)
        )

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context) for every word w, normalised, since all logits are computed."""
        if self.is_energy:
            contexts = self._before_tanh(context_ids)
            logits = np.empty((len(contexts), self.vocabulary_size), np.float32)
            # |V| h tanh per pass of the loop
            for row, context in zip(logits, contexts, strict=True):
                row[:] = np.einsum("ij,j->i", np.tanh(context + self.targets), self.v)
            logits += self.b
        else:
            features = self.features(context_ids)
            logits = features @ self.kernel.T
            logits += self.b
            if self.weigh_copies is not None:
                totals = np.zeros_like(logits)
                copied = (np.arange(len(logits))[:, None], context_ids)
                np.add.at(
                    totals,
                    copied,
                    self.weigh_copies(features[:, : self.pointer_width], context_ids),
                )
                logits[copied] = np.logaddexp(logits[copied], np.log(totals[copied] + _LEAST))
        logits -= logits.max(axis=1, keepdims=True, initial=-np.inf)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def features(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the features of the output layer, float32 [B, w]."""
        features = [np.zeros((len(context_ids), 0), np.float32)]
        if self.has_hidden:
            features.append(self.transform(self._before_tanh(context_ids)))
        if self.times_x:
            x = np.zeros((len(context_ids), self.block.max() + 1, self.C.shape[1]), np.float32)
            for column, block, scale in zip(context_ids.T, self.block, self.scale, strict=True):
                x[:, block] += scale * self.C[column]
            features += [x.reshape(len(x), x.shape[1] * x.shape[2])] * self.times_x
        # one part is not copied: a lookup takes microseconds
        return features[1] if len(features) == 2 else np.concatenate(features, axis=1)

    def _before_tanh(self, context_ids: np.ndarray) -> np.ndarray:
        """Return d + H x, float32 [B, h]; for the energy output the part of the context."""
        if len(context_ids) <= _FEW:
            return _take_rows(self._list_rows(), context_ids + self.offsets).sum(axis=1)
        z = _take_rows(self.tables[self.table[0]], context_ids[:, 0])
        for table, column in zip(self.table[1:], context_ids.T[1:], strict=True):
            z += _take_rows(self.tables[table], column)
        return z

    def _list_rows(self) -> np.ndarray:
        """Return the rows of all tables, [positions * |V|, h]: a view."""
        return self.tables.reshape(-1, self.tables.shape[2])


def _check_network(model: ContextNetwork, hidden: keras.layers.Layer | None) -> None:
    """Refuse a network without logits of all words, or with layers that have no form in NumPy."""
    if model.reads_log_q:
        raise _refuse_network(type(model).__name__)
    if model.prob.num_outputs < model.vocabulary_size:
        raise _refuse_network(
            f"a head of {model.prob.num_outputs} of {model.vocabulary_size} words"
        )
    if isinstance(model.prob, EnergyHead):
        return
    if not model.prob.has_word_rows:
        raise _refuse_network(type(model.prob).__name__)
    has_arrays = hidden is None or isinstance(hidden, NoHidden | TanhHidden)
    if not has_arrays:
        raise _refuse_network(type(hidden).__name__)


def _refuse_network(received: str) -> InputError:
    return InputError(
        "`model` must be a network of TanhHidden or DeepHidden, with logits of all words, for "
        "self-normalised scores. "
        f"Received: {received}. Fix: score without them."
    )


class ArrayNetwork(SelfNormalised):
    """A network in NumPy, exactly normalised: a few contexts cost microseconds, where a graph costs
    milliseconds.
    """

    is_normalised = True
    _log_prob = NextWordModel._log_prob
    log_prob_of_one = NextWordModel.log_prob_of_one


def _take_rows(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return table[ids]. Ids are in range: without a check `take` is ten times as fast as `[]`."""
    return table.take(ids, axis=0, mode="clip")


def _dot_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the dot product of each row of `a` with that of `b`, float32 [B]."""
    # from NumPy 2: 5% more scores per second than by `einsum`
    if hasattr(np, "vecdot"):
        return np.vecdot(a, b)
    return np.einsum("ij,ij->i", a, b)


def _float32(weight: Tensor) -> np.ndarray:
    return np.array(weight, np.float32)
