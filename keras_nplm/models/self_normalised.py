"""Scoring without normalising: a trained network as tables, a few look-ups and one dot product an n-gram."""

from collections.abc import Callable

import numpy as np
from keras import ops

from keras_nplm.data.ngram_arrays import check_ngrams
from keras_nplm.io.errors import InputError
from keras_nplm.layers.hidden import DeepHidden
from keras_nplm.layers.outputs import EnergyOutput, LinearOutput
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.nplm import NPLM

_ROWS = 1024  # n-grams at a time: what is computed for them stays in cache


class SelfNormalised:
    """A network whose logits are taken as log-probabilities: y_w = ln P(w | context) + ln Z, with ln Z near 0.

        a = tanh(d + sum_k T_k[w_k]),    T_k = C H_k,    y = b + U a (+ W x)

    H_k is the block of H that position k of the context meets. The tables T_k, [n-1, |V|, h], are computed once, so
    that the hidden layer is n-1 look-ups and the score of an n-gram one dot product: no matrix product, no [B, |V|].
    Positions that are averaged share a table. Residual blocks and layer normalisation are computed from a.
    The weights are those that the network had when this was made. Without a hidden layer, or with direct connections, x
    is looked up in C as well. Of the energy output z = d + sum_k T_k[w_k] comes so, and so does what the target adds to
    it, from one table more: y = b + v · tanh(z + T[w]).

    It is for networks trained so that ln Z is near 0: by `NoiseContrastive`, or with `self_normalisation`.
    `evaluate_with_ln_z` says how near.

    Args:
        model: a trained network whose output is linear or an energy.

    Raises:
        InputError: the output is an adaptive softmax, which has no such scores, or predicts a short-list alone.

    Example:

    >>> model = NPLM(vocabulary_size=20, order=3, embedding_dim=2, hidden_units=4)
    >>> contexts, targets = np.array([[4, 5], [6, 7]]), np.array([8, 9])
    >>> y = SelfNormalised(model).log_prob(contexts, targets)
    >>> log_z = np.log(np.exp(model(contexts)).sum(axis=1))
    >>> bool(np.allclose(y - log_z, model.log_prob(contexts, targets), atol=1e-5))
    True

    Reference: Devlin et al. (2014), Fast and robust neural network joint models for statistical machine translation,
    sections 2.4 and 2.5.
    """

    def __init__(self, model: NPLM):
        energy = isinstance(model.prob, EnergyOutput)
        if not energy and not isinstance(model.prob, LinearOutput):
            raise InputError("The scores of an adaptive softmax are normalised cluster by cluster: leave this out.")
        if model.shortlist_size is not None:
            raise InputError("A network with a short-list has scores of its words alone: leave this out.")
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size
        self.block, self.scale = model.embed.word_blocks(model.order - 1)
        self.b = _float32(model.prob.b)
        words = _float32(model.embed.C)
        words[0] = 0  # <pad> adds a zero vector
        self.tables = self.targets = self.v = self.kernel = None
        hidden = model.prob if energy else model.hidden
        if hidden is not None:
            blocks = _float32(hidden.H).reshape(-1, model.embedding_dim, model.hidden_units)
            self.tables = words @ blocks  # [n-1, |V|, h], and for an energy that of the target
            self.d = _float32(hidden.d)
        if energy:
            self.tables, self.targets = self.tables[:-1], self.tables[-1]
            self.v = _float32(model.prob.v)
        else:
            self.kernel = _float32(model.prob.kernel)
            if model.project is not None:
                self.kernel = self.kernel @ _float32(model.project.kernel).T
        self.activate = np.tanh if model.activation == "tanh" else _on_arrays(model.hidden.activate)
        self.deepen = _on_arrays(model.hidden.deepen) if isinstance(model.hidden, DeepHidden) else None
        if self.tables is not None:  # averages share their table, each with its scale
            first = np.unique(self.block, return_index=True)[1]
            self.tables = self.tables * self.scale[first][:, None, None]
        self.C = words if model.direct_connections else None

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """y of the targets: ln P(target | context) + ln Z.

        Args:
            context_ids: int [B, n-1], oldest first.
            target_ids: int [B].

        Returns:
            float32 [B], nats.

        Raises:
            InputError: ids out of range, contexts of another length, or as many targets as there are not contexts.
        """
        context_ids, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        result = np.empty(len(target_ids), np.float32)
        for first in range(0, len(target_ids), _ROWS):
            part = slice(first, first + _ROWS)
            targets = target_ids[part]
            if self.v is not None:
                result[part] = np.tanh(self._before_tanh(context_ids[part]) + self.targets[targets]) @ self.v
            else:
                np.einsum("ij,ij->i", self.features(context_ids[part]), self.kernel[targets], out=result[part])
            result[part] += self.b[targets]
        return result

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(w | context) for every word w, float32 [B, |V|], nats: normalised, since all words are there."""
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        if self.v is not None:
            contexts = self._before_tanh(context_ids)
            logits = np.empty((len(contexts), self.vocabulary_size), np.float32)
            for row, context in zip(logits, contexts, strict=True):  # |V| h tanh each: the loop costs nothing
                row[:] = np.tanh(context + self.targets) @ self.v
            logits += self.b
        else:
            logits = self.features(context_ids) @ self.kernel.T + self.b
        greatest = logits.max(axis=1, keepdims=True, initial=-np.inf)
        return logits - greatest - np.log(np.exp(logits - greatest).sum(axis=1, keepdims=True))

    def features(self, context_ids: np.ndarray) -> np.ndarray:
        """[a; x] as far as there is each, float32 [B, h + (n-1) m], for int contexts [B, n-1] that are in range."""
        features = []
        if self.tables is not None:
            a = self.activate(self._before_tanh(context_ids))
            features.append(a if self.deepen is None else self.deepen(a))
        if self.C is not None:
            x = np.zeros((len(context_ids), self.block.max() + 1, self.C.shape[1]), np.float32)
            for column, block, scale in zip(context_ids.T, self.block, self.scale, strict=True):
                x[:, block] += scale * self.C[column]
            features.append(x.reshape(len(x), -1))
        return features[0] if len(features) == 1 else np.concatenate(features, axis=1)

    def _before_tanh(self, context_ids: np.ndarray) -> np.ndarray:
        """d + H x, float32 [B, h]; of an energy that of the context alone."""
        tables = (self.tables[block][column] for block, column in zip(self.block, context_ids.T, strict=True))
        z = next(tables)
        for table in tables:
            z += table
        z += self.d
        return z


def evaluate_with_ln_z(model: NPLM, ids: np.ndarray, boundary: str) -> dict:
    """The exact perplexity of a text, and how near to 0 a network keeps ln Z over its contexts, in one pass.

    Args:
        model: a network whose output is linear or an energy.
        ids: int32 [T], each sentence closed by `</s>`.
        boundary: `"stream"` or `"sentence"`.

    Returns:
        what `evaluate` returns, and `ln_z`: `mean`, `standard_deviation` and `mean_absolute` of ln Z, in nats.

    Raises:
        InputError, RunError: as `evaluate` and `SelfNormalised`.
    """
    watched = _Watched(model)
    figures = evaluate(watched, ids, boundary)
    log_z = np.concatenate(watched.log_z)
    return figures | {
        "ln_z": {
            "mean": float(log_z.mean()),
            "standard_deviation": float(log_z.std()),
            "mean_absolute": float(np.abs(log_z).mean()),
        }
    }


class _Watched:
    """A network that keeps ln Z, the difference of its scores and its exact log-probabilities, of what it is asked."""

    def __init__(self, model: NPLM):
        self.model = model
        self.order = model.order
        self.scores = SelfNormalised(model)
        self.log_z: list[np.ndarray] = []

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        exact = self.model.log_prob(context_ids, target_ids)
        self.log_z.append(self.scores.log_prob(context_ids, target_ids).astype(np.float64) - exact)
        return exact


def _on_arrays(function: Callable) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.asarray(ops.convert_to_numpy(function(ops.convert_to_tensor(array))), np.float32)


def _float32(weight) -> np.ndarray:
    return np.array(weight, np.float32)
