"""Self-normalised scoring: logits as log-probabilities, a few lookups and one dot product per n-gram."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import cast

import keras
import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.io.errors import InputError
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.hidden import NoHidden, TanhHidden
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.pointer import Pointer
from keras_nplm.models.base import NextWordModel, row_blocks
from keras_nplm.models.evaluation import LogProbSums, iterate_ngrams
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork

_ROWS = 512  # n-grams in a block, whose hidden units fit the cache
_FEW = 8  # contexts whose rows of all tables are gathered at once
_LEAST = np.float32(1e-37)  # as in `layers.pointer`
_LOWEST = -80.0  # exp of its negative is finite in float32
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": lambda z: np.tanh(z, out=z),
    "relu": lambda z: np.maximum(z, 0, out=z),
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(z * (0.79788456 + 0.035677408 * z * z))),
    "silu": lambda z: z / (1 + np.exp(-np.maximum(z, _LOWEST))),
}


class SelfNormalised(NextWordModel):
    """A network whose logits are used as log-probabilities: y_w = ln P(w | context) + ln Z, with ln Z near 0.

        a = tanh(d + sum_k T_k[w_k]),    T_k = C H_k,    y = b + U a (+ W x)

    H_k is the block of H for position k of the context. The tables T_k, [n-1, |V|, h], are computed once from a copy of
    the weights. Then the hidden layer is n-1 lookups, and a score one dot product. Averaged positions share a table.
    The energy output looks up its target's part: y = b + v · tanh(z + T[w]). Use it for networks trained with
    `NoiseContrastive` or `self_normalisation`; `evaluate_with_ln_z` reports log Z.

    Reference: Devlin et al. (2014), Fast and robust neural network joint models for statistical machine translation,
    sections 2.4 and 2.5.
    """

    kind: str | None = "self-normalised"
    tables: np.ndarray  # T_k, [positions, |V|, h], of a network with a hidden layer
    table: np.ndarray  # the table of each position, int [n-1]
    targets: np.ndarray  # the table of the target, [|V|, h], of an energy head
    v: np.ndarray  # [h], of an energy head
    kernel: np.ndarray  # [U W], [|V|, w], of every other head
    C: np.ndarray  # [|V|, m], of a network with x in the features

    def __init__(self, model: ContextNetwork):
        self.is_energy = isinstance(model.prob, EnergyHead)
        hidden = model.prob if self.is_energy else model.hidden
        self._check_layers(model, hidden)
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
        self.weigh_copies = None if pointer is None else _copy_pointer(pointer, words)
        if self.has_hidden:
            self._make_tables(hidden, words)
        if self.is_energy:
            self.v = _float32(model.prob.v)
        else:
            direct = [] if model.direct is None else [_float32(model.direct.W)]
            self.kernel = np.concatenate([_float32(model.prob.full_kernel()), *direct], axis=1)
            if self.has_hidden:
                self.transform = _copy_transform(cast(TanhHidden, hidden))
        if self.times_x:
            self.C = words
        # f of the pointer: the features of the head, without x of the direct connections
        self.pointer_width = model.prob.full_kernel().shape[1] if model.prob.has_word_rows else None

    def _make_tables(self, hidden: Tensor, words: np.ndarray) -> None:
        """Compute T_k of each position; positions of one block of x with one scale share a table."""
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

    @staticmethod
    def _check_layers(model: ContextNetwork, hidden: keras.layers.Layer) -> None:
        is_known = type(hidden) in (TanhHidden, DeepHidden, EnergyHead, NoHidden, type(None))
        has_logits = isinstance(model.prob, EnergyHead) or model.prob.has_word_rows
        is_whole = model.prob.num_outputs == model.vocabulary_size
        if not (is_known and has_logits and is_whole) or isinstance(model, HybridNetwork):
            raise InputError(
                "`model` must be a network of TanhHidden or DeepHidden, with logits of all words, for self-normalised "
                f"scores. Received: {type(hidden).__name__} and {type(model.prob).__name__} of "
                f"{model.prob.num_outputs} words. Fix: score without them."
            )

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        blocks = row_blocks(max(1, len(target_ids)), _ROWS)
        return np.concatenate([self._score(context_ids[block], target_ids[block]) for block in blocks])

    def _score(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        if self.is_energy:
            z = self._before_tanh(context_ids) + self.targets[target_ids]
            # not a matrix product, which may warn of numbers that it does not use
            return np.einsum("ij,j->i", np.tanh(z), self.v) + self.b[target_ids]
        features = self.features(context_ids)
        y = np.einsum("ij,ij->i", features, _take_rows(self.kernel, target_ids)) + self.b[target_ids]
        if self.weigh_copies is None:
            return y
        weights = self.weigh_copies(features[:, : self.pointer_width], context_ids)
        return np.logaddexp(y, np.log(np.sum(weights, axis=1, where=context_ids == target_ids[:, None]) + _LEAST))

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context) for every word w, normalised, since all logits are computed."""
        if self.is_energy:
            contexts = self._before_tanh(context_ids)
            logits = np.empty((len(contexts), self.vocabulary_size), np.float32)
            for row, context in zip(logits, contexts, strict=True):  # |V| h tanh per pass of the loop
                row[:] = np.einsum("ij,j->i", np.tanh(context + self.targets), self.v)
            logits += self.b
        else:
            features = self.features(context_ids)
            logits = features @ self.kernel.T
            logits += self.b
            if self.weigh_copies is not None:
                totals, copied = np.zeros_like(logits), (np.arange(len(logits))[:, None], context_ids)
                np.add.at(totals, copied, self.weigh_copies(features[:, : self.pointer_width], context_ids))
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
            rows = context_ids + self.table * self.vocabulary_size
            return self.tables.reshape(-1, self.tables.shape[2]).take(rows, axis=0, mode="clip").sum(axis=1)
        z = _take_rows(self.tables[self.table[0]], context_ids[:, 0])
        for table, column in zip(self.table[1:], context_ids.T[1:], strict=True):
            z += _take_rows(self.tables[table], column)
        return z


class ArrayNetwork(SelfNormalised):
    """A network in NumPy, exactly normalised: a few contexts cost microseconds, where a graph costs milliseconds."""

    kind = None
    _log_prob = NextWordModel._log_prob


def _copy_transform(hidden: TanhHidden) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from d + H x to the features of a hidden layer, with its present weights."""
    blocks = getattr(hidden, "blocks", ())
    blocks = [(_copy_norm(block.norm), _float32(block.H), _float32(block.d)) for block in blocks]
    # a partial function, unlike one within this function, can be pickled
    return functools.partial(_transform, hidden.activation, blocks, _copy_norm(getattr(hidden, "norm", None)))


def _transform(activation: str, blocks: list, norm: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    activate = _ACTIVATIONS[activation]
    a = activate(z)
    for normalise, H, d in blocks:
        a = a + activate(normalise(a) @ H + d)
    return norm(a)


def _copy_norm(norm: keras.layers.LayerNormalization | None) -> Callable[[np.ndarray], np.ndarray]:
    if norm is None:
        return _keep
    return functools.partial(_normalise, _float32(norm.gamma), _float32(norm.beta), norm.epsilon)


def _keep(a: np.ndarray) -> np.ndarray:
    return a


def _normalise(gamma: np.ndarray, beta: np.ndarray, epsilon: float, a: np.ndarray) -> np.ndarray:
    total, units = np.add.reduce, np.float32(len(gamma))  # a product may warn of numbers that it does not use
    centred = a - total(a, axis=1, keepdims=True) / units
    return centred / np.sqrt(total(centred * centred, axis=1, keepdims=True) / units + epsilon) * gamma + beta


def _copy_pointer(pointer: Pointer, words: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function from features and contexts to the weights of the contexts' words, float32 [B, n-1]."""
    weights = [_float32(weight) for weight in (pointer.Q, pointer.R, pointer.v, pointer.u, pointer.r)]
    return functools.partial(_weigh_copies, words, *weights)


def _weigh_copies(
    words: np.ndarray,
    Q: np.ndarray,
    R: np.ndarray,
    v: np.ndarray,
    u: np.ndarray,
    r: np.ndarray,
    features: np.ndarray,
    context_ids: np.ndarray,
) -> np.ndarray:
    vectors = words[context_ids]
    z = u + np.matmul(vectors, (v + features @ Q)[:, :, None])[:, :, 0]
    z[:, 1:] += np.matmul(vectors[:, :-1], (features @ R)[:, :, None])[:, :, 0]
    matched, first = True, len(r)
    for k, score in enumerate(r, start=1):
        matched = matched & (context_ids[:, first - k : -k] == context_ids[:, -k, None])
        z[:, first:] += score * matched
    is_copied = (context_ids != PAD_ID) & (context_ids != BOS_ID)
    return is_copied / (1 + np.exp(-np.maximum(z, _LOWEST)))


def _take_rows(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return table[ids]. Ids are in range: without a check `take` is ten times as fast as `[]`."""
    return table.take(ids, axis=0, mode="clip")


def evaluate_with_ln_z(
    model: ContextNetwork, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> dict:
    """Return the figures of `evaluate`, and mean, standard deviation and mean absolute of ln Z, in one pass."""
    scores, exact, moments = SelfNormalised(model), LogProbSums(type(model).__name__), np.zeros(4)
    for ngrams in iterate_ngrams(model, ids, boundary):
        log_prob = model.log_prob(ngrams[:, :-1], ngrams[:, -1])
        exact.add(log_prob, ngrams[:, -1])
        log_z = scores.log_prob(ngrams[:, :-1], ngrams[:, -1]).astype(np.float64) - log_prob
        with np.errstate(invalid="ignore"):  # infinite log-probabilities are refused below
            moments += [len(log_z), log_z.sum(), log_z @ log_z, np.abs(log_z).sum()]
    figures = exact.compute_figures()
    _, mean, square, absolute = (moments / moments[0]).tolist()
    deviation = math.sqrt(max(square - mean**2, 0.0))
    return figures | {"ln_z": {"mean": mean, "standard_deviation": deviation, "mean_absolute": absolute}}


def _float32(weight: Tensor) -> np.ndarray:
    return np.array(weight, np.float32)
