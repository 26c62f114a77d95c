"""Self-normalised scoring: logits as log-probabilities, a few lookups and one dot product per
n-gram.
"""

from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.ids import find_distinct_rows
from keras_nplm.layers.arrays import LEAST
from keras_nplm.models.base import (
    NextWordModel,
    count_distribution_rows,
    row_blocks,
)
from keras_nplm.models.networks.arrays import NetworkArrays, refuse_network

_ROWS = 512  # n-grams in a block, whose hidden units fit the cache
_CACHED = 1 << 16  # logits whose exponentials fit the cache
_FEW = 8  # contexts whose rows of all tables are gathered at once
_CHECKED = 4  # contexts whose logits are compared with those of the network
_TOLERANCE = {
    "float32": 1e-3,
    "float64": 1e-3,
    "bfloat16": 0.1,
    "float16": 0.02,
}  # by the dtype of the network


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
    kernel: np.ndarray  # [U W], [|V|, w], of every other head

    def __init__(self, model: NextWordModel):
        if isinstance(model, ArrayNetwork):
            vars(self).update(vars(model))
            return
        # imported here, as it imports Keras, which a network in arrays does not need
        from keras_nplm.models.networks.conversion import convert_network

        self._set_arrays(convert_network(model))
        self._check_logits(model)

    def _set_arrays(self, arrays: NetworkArrays) -> None:
        self.arrays = arrays
        self.order = len(arrays.block) + 1
        self.vocabulary_size = len(arrays.C)
        self.boundary = arrays.boundary
        # how often x is in the features: as the input of the head, and for W
        self.times_x = int(arrays.U_sees_x) + int(arrays.W is not None)
        if arrays.H is not None:
            self._make_tables(arrays)
        if arrays.U is not None:
            self.kernel = arrays.U
            if arrays.W is not None:
                self.kernel = np.concatenate([arrays.U, arrays.W], axis=1)

    def _make_tables(self, arrays: NetworkArrays) -> None:
        """Compute T_k of each position; positions of one block of x with one scale share a
        table.
        """
        H: Any = arrays.H
        d: Any = arrays.d
        # [blocks, |V|, h]; with an energy head the last one is of the target
        products = arrays.C @ H.reshape(-1, arrays.C.shape[1], H.shape[1])
        self.targets = products[-1]
        pairs, self.table = np.unique([arrays.block, arrays.scale], axis=1, return_inverse=True)
        blocks, scales = pairs
        self.tables = products[blocks.astype(int)] * scales.astype(np.float32)[:, None, None]
        # z includes d: a share of it with each position of the last table
        is_last = self.table == self.table[-1]
        self.tables[self.table[-1]] += d / np.count_nonzero(is_last)
        self.offsets = (self.table * self.vocabulary_size).astype(np.int32)

    def _check_logits(self, model: Any) -> None:
        """Refuse a network whose logits differ from those of the tables, by a layer of the user."""
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
            raise refuse_network(
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
        arrays = self.arrays
        if arrays.transform is None or self.times_x or arrays.weigh_copies is not None:
            return super().log_prob_of_one(ngram)
        rows = _take_rows(self._list_rows(), ngram[:-1] + self.offsets)
        a = arrays.transform(np.add.reduce(rows, axis=0, keepdims=True))[0]
        target = ngram[-1]
        return float(a.dot(self.kernel[target]) + arrays.b[target])

    def _score(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        b = self.arrays.b[target_ids]
        if self.arrays.v is not None:
            z = self._before_tanh(context_ids) + self.targets[target_ids]
            # not a matrix product, which may warn of numbers that it does not use
            return np.einsum("ij,j->i", np.tanh(z), self.arrays.v) + b
        features = self.features(context_ids)
        y = _dot_rows(features, _take_rows(self.kernel, target_ids)) + b
        weights = self._weigh_copies(features, context_ids)
        if weights is None:
            return y
        return np.logaddexp(
            y, np.log(np.sum(weights, axis=1, where=context_ids == target_ids[:, None]) + LEAST)
        )

    def _weigh_copies(self, features: np.ndarray, context_ids: np.ndarray) -> np.ndarray | None:
        """Return the weights of a pointer, float32 [B, n-1]; None without a pointer."""
        if self.arrays.weigh_copies is None or self.arrays.U is None:
            return None
        # the features of the head, without x of the direct connections
        features = features[:, : self.arrays.U.shape[1]]
        return self.arrays.weigh_copies(self.arrays.C, features, context_ids)

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context) for every word w, normalised, since all logits are computed."""
        logits = self._logits(context_ids)
        logits -= _log_normaliser(logits)[:, None]
        return logits

    def _logits(self, context_ids: np.ndarray) -> np.ndarray:
        """Return y of all words, float32 [B, |V|]."""
        if self.arrays.v is not None:
            contexts = self._before_tanh(context_ids)
            logits = np.empty((len(contexts), self.vocabulary_size), np.float32)
            # |V| h tanh per pass of the loop
            for row, context in zip(logits, contexts, strict=True):
                row[:] = np.einsum("ij,j->i", np.tanh(context + self.targets), self.arrays.v)
            logits += self.arrays.b
            return logits
        features = self.features(context_ids)
        logits = features @ self.kernel.T
        logits += self.arrays.b
        weights = self._weigh_copies(features, context_ids)
        if weights is not None:
            totals = np.zeros_like(logits)
            copied = (np.arange(len(logits))[:, None], context_ids)
            np.add.at(totals, copied, weights)
            logits[copied] = np.logaddexp(logits[copied], np.log(totals[copied] + LEAST))
        return logits

    def features(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the features of the output layer, float32 [B, w]."""
        arrays = self.arrays
        features = []
        if arrays.transform is not None:
            features.append(arrays.transform(self._before_tanh(context_ids)))
        if self.times_x:
            blocks = int(arrays.block.max()) + 1
            x = np.zeros((len(context_ids), blocks, arrays.C.shape[1]), np.float32)
            for column, block, scale in zip(context_ids.T, arrays.block, arrays.scale, strict=True):
                x[:, block] += scale * arrays.C[column]
            features += [x.reshape(len(x), blocks * x.shape[2])] * self.times_x
        if len(features) == 1:  # not copied: a lookup takes microseconds
            return features[0]
        return np.concatenate([np.zeros((len(context_ids), 0), np.float32), *features], axis=1)

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


class ArrayNetwork(SelfNormalised):
    """A network in NumPy, exactly normalised: a few contexts cost microseconds, where a graph costs
    milliseconds.
    """

    is_normalised = True
    log_prob_of_one = NextWordModel.log_prob_of_one

    @classmethod
    def load(cls, path: Path) -> "ArrayNetwork":
        """Load `scorer.npz`, without Keras."""
        scores = cls.__new__(cls)
        scores._set_arrays(NetworkArrays.read(path))
        return scores

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        result = np.empty(len(target_ids))
        rows = count_distribution_rows(self.vocabulary_size)
        for block in row_blocks(len(target_ids), rows):
            contexts, which = find_distinct_rows(context_ids[block])
            logits = self._logits(contexts)
            result[block] = logits[which, target_ids[block]] - _log_normaliser(logits)[which]
        return result


def _log_normaliser(logits: np.ndarray) -> np.ndarray:
    """Return ln Z = ln sum_w exp(y_w), float32 [B], of rows that fit the cache at a time."""
    log_z = np.empty(len(logits), np.float32)
    for rows in row_blocks(len(logits), max(1, _CACHED // logits.shape[1])):
        highest = logits[rows].max(axis=1, keepdims=True)
        shares = np.exp(logits[rows] - highest)
        log_z[rows] = np.log(shares.sum(axis=1)) + highest[:, 0]
    return log_z


def _take_rows(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return table[ids]. Ids are in range: without a check `take` is ten times as fast as `[]`."""
    return table.take(ids, axis=0, mode="clip")


def _dot_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the dot product of each row of `a` with that of `b`, float32 [B]."""
    # from NumPy 2: 5% more scores per second than by `einsum`
    if hasattr(np, "vecdot"):
        return np.vecdot(a, b)
    return np.einsum("ij,ij->i", a, b)
