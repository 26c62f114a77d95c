"""Self-normalised scoring: logits as log-probabilities, a few lookups and one dot product per n-gram."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from keras import ops

from keras_nplm.io.errors import check_argument
from keras_nplm.layers.hidden import TanhHidden
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.pointer import Copies
from keras_nplm.models.base import NextWordModel, row_blocks
from keras_nplm.models.evaluation import LogProbSums, iterate_ngrams
from keras_nplm.models.nplm import NPLM

_ROWS = 512  # n-grams in a block, whose hidden units fit the cache


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

    kind = "self-normalised"

    def __init__(self, model: NPLM):
        energy = model.prob.includes_hidden_layer
        hidden = model.prob if energy else model.hidden
        known = energy or (model.prob.has_output_vectors and isinstance(hidden, TanhHidden | None))
        wanted = "a network of TanhHidden or DeepHidden, with logits of all words, for self-normalised scores"
        parts = [type(hidden).__name__, f"{type(model.prob).__name__}(shortlist_size={model.prob.shortlist_size})"]
        fits = known and model.prob.shortlist_size is None
        check_argument("model", fits, wanted, " and ".join(parts), "score without them.")
        self.order, self.vocabulary_size, self.boundary = model.order, model.vocabulary_size, model.boundary
        self.block, self.scale = model.embed.position_spans(model.order - 1)
        self.b = _float32(model.prob.b)
        words = _float32(model.embed.C)
        words[0] = 0  # <pad> adds a zero vector
        self.find_copies = None if model.pointer is None else _copy_finder(model, words)
        self.tables = self.targets = self.v = self.kernel = None
        if hidden is not None:
            blocks = _float32(hidden.H).reshape(-1, model.embedding_dim, hidden.hidden_units)
            self.tables = words @ blocks  # [n-1, |V|, h]; with the energy output one more, of the target
        if energy:
            self.tables, self.targets = self.tables[:-1], self.tables[-1]
            self.v = _float32(model.prob.v)
        else:
            self.kernel = _float32(model.prob.full_kernel())
            self.transform = lambda z: np.tanh(z, out=z)
            if type(hidden) is not TanhHidden:
                self.transform = lambda z: _float32(hidden.transform(hidden.activate(ops.convert_to_tensor(z))))
        if self.tables is not None:  # averaged positions share a table, each with its scale
            first = np.unique(self.block, return_index=True)[1]
            self.tables = self.tables * self.scale[first][:, None, None]
            self.tables[self.block[-1]] += _float32(hidden.d) / np.sum(self.block == self.block[-1])  # z includes d
        self.C = words if model.direct_connections or hidden is None else None

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        y = np.empty(len(target_ids), np.float32)
        buffers = None
        if self.tables is not None:  # the same memory for every block: new memory costs page faults
            buffers = np.empty((2, min(_ROWS, len(target_ids)), self.tables.shape[2]), np.float32)
        for block in row_blocks(len(target_ids), _ROWS):
            y[block] = self._score(context_ids[block], target_ids[block], buffers)
        return y

    def _score(self, context_ids: np.ndarray, target_ids: np.ndarray, buffers: np.ndarray | None) -> np.ndarray:
        if self.v is not None:
            z = self._before_tanh(context_ids, buffers) + self.targets[target_ids]
            return np.tanh(z) @ self.v + self.b[target_ids]
        return self.score_features(self.features(context_ids, buffers), context_ids, target_ids, buffers)

    def score_features(
        self, features: np.ndarray, context_ids: np.ndarray, target_ids: np.ndarray, buffers: np.ndarray | None = None
    ) -> np.ndarray:
        """Return y of one target per context, float32 [B], from the features of the contexts; no energy output."""
        fits = buffers is not None and buffers.shape[2] == self.kernel.shape[1]
        rows = _take_rows(self.kernel, target_ids, buffers[1] if fits else None)
        y = np.einsum("ij,ij->i", features, rows) + self.b[target_ids]
        if self.find_copies is None:
            return y
        return _float32(self.find_copies(features, context_ids).add_to_logit(y, target_ids))

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context) for every word w, normalised, since all logits are computed."""
        if self.v is not None:
            contexts = self._before_tanh(context_ids)
            logits = np.empty((len(contexts), self.vocabulary_size), np.float32)
            for row, context in zip(logits, contexts, strict=True):  # |V| h tanh per pass of the loop
                row[:] = np.tanh(context + self.targets) @ self.v
            logits += self.b
        else:
            features = self.features(context_ids)
            logits = features @ self.kernel.T + self.b
            if self.find_copies is not None:
                logits = _float32(self.find_copies(features, context_ids).add_to_logits(logits))
        greatest = logits.max(axis=1, keepdims=True, initial=-np.inf)
        return logits - greatest - np.log(np.exp(logits - greatest).sum(axis=1, keepdims=True))

    def features(self, context_ids: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return the features of the output layer, float32 [B, w], perhaps in `buffers`, float32 [2, B or more, h]."""
        features = []
        if self.tables is not None:
            features.append(self.transform(self._before_tanh(context_ids, buffers)))
        if self.C is not None:
            x = np.zeros((len(context_ids), self.block.max() + 1, self.C.shape[1]), np.float32)
            for column, block, scale in zip(context_ids.T, self.block, self.scale, strict=True):
                x[:, block] += scale * self.C[column]
            features.append(x.reshape(len(x), x.shape[1] * x.shape[2]))
        return features[0] if len(features) == 1 else np.concatenate(features, axis=1)

    def _before_tanh(self, context_ids: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return d + H x, float32 [B, h]; for the energy output the part of the context."""
        if buffers is None:
            buffers = np.empty((2, len(context_ids), self.tables.shape[2]), np.float32)
        z = _take_rows(self.tables[self.block[0]], context_ids[:, 0], buffers[0])
        for block, column in zip(self.block[1:], context_ids.T[1:], strict=True):
            z += _take_rows(self.tables[block], column, buffers[1])
        return z


def _copy_finder(model: NPLM, words: np.ndarray) -> Callable[[np.ndarray, np.ndarray], Copies]:
    """Return a function from features and contexts to the copies of the contexts' words, with the present weights."""
    pointer = type(model.pointer).from_config(model.pointer.get_config() | {"dtype": "float32"})
    pointer.build((None, model.pointer.Q.shape[0]), (None, model.order - 1, words.shape[1]))
    pointer.set_weights(model.pointer.get_weights())

    def find(features: np.ndarray, context_ids: np.ndarray) -> Copies:
        return model.prob.copy_words(pointer(features, words[context_ids], context_ids), context_ids)

    return find


def _take_rows(table: np.ndarray, ids: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return table[ids], in `out` if given. Ids are in range: without a check `take` is ten times as fast as `[]`."""
    out = np.empty((len(ids), table.shape[1]), table.dtype) if out is None else out[: len(ids)]
    return np.take(table, ids, axis=0, out=out, mode="clip")


def evaluate_with_ln_z(model: NPLM, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None) -> dict:
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
