"""The formulas of networks in NumPy and float64: scores of all words, and the loss of a training
step.
"""

import itertools

import keras
import numpy as np

from keras_nplm.data.ids import BOS_ID, EOS_ID, PAD_ID
from keras_nplm.io.shapes import count_matched
from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.hidden import NoHidden, TanhHidden
from keras_nplm.layers.objectives.sampled import NoiseContrastive
from keras_nplm.layers.spelled_context import SpelledContext
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.networks.pointer_network import PointerNetwork


def wide(weight: object) -> np.ndarray:
    """Return a weight as an array, float64."""
    return np.asarray(keras.ops.convert_to_numpy(weight)).astype(np.float64)


def log_sum_exp(y: np.ndarray) -> np.ndarray:
    return np.logaddexp.reduce(y, axis=1)


def log_softmax(y: np.ndarray) -> np.ndarray:
    return y - log_sum_exp(y)[:, None]


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
    "gelu": lambda z: z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "silu": lambda z: z * sigmoid(z),
}


def list_spelled_rows(embed: SpelledContext, context: np.ndarray) -> list[int]:
    """Return the row of S of the present word and of the words before it, by hand."""
    words: list[list[int]] = [[]]  # the present one first
    for token in reversed(context.tolist()):
        if token == embed.separator or token in (PAD_ID, BOS_ID, EOS_ID):
            words.append([])
        else:
            words[-1].insert(0, token)
    words.pop()  # the context has cut it
    rows = []
    for number in range(embed.spelled_words + 1):
        spelling = 0
        for token in words[number] if number < len(words) else []:
            spelling = (spelling * 16_777_619 + token + 1) % 2**32
        rows.append(spelling * 2_654_435_769 % 2**32 >> (32 - embed.spelling_bits))
    return rows


class Formulas:
    """A network's formulas.

    `changed` maps the id() of a variable to the value that it should have.
    """

    def __init__(self, network: ContextNetwork, changed: dict[int, np.ndarray] | None = None):
        self.network = network
        self.changed = changed or {}

    def value(self, variable: keras.Variable) -> np.ndarray:
        if id(variable) in self.changed:
            return self.changed[id(variable)]
        return wide(variable)

    def values(self, layer: object, names: str) -> list[np.ndarray]:
        """Return the weights of a layer by their letters: "H d"."""
        return [self.value(getattr(layer, name)) for name in names.split()]

    # Features

    def embed_vocabulary(self) -> np.ndarray:
        """Return C with a zero vector for `<pad>`."""
        C = self.value(self.network.embed.C).copy()
        C[PAD_ID] = 0
        return C

    def word_features(self, contexts: np.ndarray) -> np.ndarray:
        """Return x, [B, w]."""
        vectors = self.embed_vocabulary()[contexts]  # [B, n-1, m]
        embed = self.network.embed
        if isinstance(embed, SpelledContext):
            near = vectors[:, -embed.near_characters :]
            places = [list_spelled_rows(embed, context) for context in contexts]
            spelled = self.value(embed.S)[places]  # [B, K+1, m]
            return np.concatenate([spelled, near], axis=1).reshape(len(contexts), -1)
        if type(embed) is ContextEmbedding:
            return vectors.reshape(len(contexts), -1)
        assert type(embed) is AveragedContext, f"write the formula of {type(embed).__name__} here"
        nearest_first = vectors[:, ::-1]
        edges = [*embed.averages_after, contexts.shape[1]]
        blocks = []
        for start, end in itertools.pairwise(edges):
            blocks.insert(0, nearest_first[:, start:end].sum(axis=1) / np.sqrt(end - start))
        for place in reversed(range(embed.averages_after[0])):
            blocks.append(nearest_first[:, place])
        return np.concatenate(blocks, axis=1)

    def features(self, x: np.ndarray) -> np.ndarray:
        """Return a, [B, h]."""
        hidden = self.network.hidden
        if hidden is None:
            return x
        if isinstance(hidden, NoHidden):
            return x[:, :0]
        if isinstance(hidden, keras.layers.Dense):
            kernel, bias = self.values(hidden, "kernel bias")
            return np.maximum(x @ kernel + bias, 0)
        H, d = self.values(hidden, "H d")
        z = x @ H + d
        if type(hidden) is TanhHidden:
            return np.tanh(z)
        assert type(hidden) is DeepHidden, f"write the formula of {type(hidden).__name__} here"
        activate = ACTIVATIONS[hidden.activation]
        a = activate(z)
        for block in hidden.blocks:
            H, d = self.values(block, "H d")
            a = a + activate(self.normalise(a, block.norm) @ H + d)
        return self.normalise(a, hidden.norm)

    def normalise(self, a: np.ndarray, norm: keras.layers.Layer | None) -> np.ndarray:
        if norm is None:
            return a
        gamma, beta = self.values(norm, "gamma beta")
        centred = a - a.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-3)
        return centred / deviation * gamma + beta

    # Scores

    def logits(self, inputs: dict) -> np.ndarray:
        """Return y of all outputs, [B, outputs]."""
        contexts = inputs["contexts"]
        network = self.network
        x = self.word_features(contexts)
        a = self.features(x)
        y = self.head_logits(a)
        if network.direct is not None:
            y = y + x @ self.value(network.direct.W).T
        if isinstance(network, HybridNetwork):
            g, v = self.values(network, "g v")
            gain = g + a @ v
            y = y + gain[:, None] * np.maximum(inputs["log_q"], -30)
        if isinstance(network, PointerNetwork):
            y = self.add_copies(y, a, contexts)
        return y

    def head_logits(self, a: np.ndarray) -> np.ndarray:
        head = self.network.prob
        if isinstance(head, EnergyHead):
            H, d, v, b = self.values(head, "H d v b")
            z = d + a @ H[: a.shape[1]]
            t = self.embed_vocabulary() @ H[a.shape[1] :]
            return np.tanh(z[:, None] + t) @ v + b
        if isinstance(head, AdaptiveHead):
            return self.adaptive_log_probs(a)
        if head.P is not None:
            a = a @ self.value(head.P)
        b = self.value(head.b)
        return b + (a @ self.value(head.U).T if head.U is not None else np.zeros((len(a), len(b))))

    def adaptive_log_probs(self, a: np.ndarray) -> np.ndarray:
        head = self.network.prob
        U, b = map(self.value, head.root)
        root = log_softmax(a @ U.T + b)
        first = head.cutoffs[0]
        parts = [root[:, :first]]
        for i, (projection, (U, b)) in enumerate(zip(head.projections, head.clusters, strict=True)):
            within = log_softmax(a @ self.value(projection) @ self.value(U).T + self.value(b))
            parts.append(root[:, first + i, None] + within)
        return np.concatenate(parts, axis=1)

    def add_copies(self, y: np.ndarray, a: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        Q, R, v, u, r = self.values(self.network.pointer, "Q R v u r")
        vectors = self.embed_vocabulary()[contexts]
        totals = np.exp(y)
        longest = count_matched(contexts.shape[1])
        for row, context in enumerate(contexts):
            for i, word in enumerate(context):
                if word in (PAD_ID, BOS_ID) or word >= y.shape[1]:
                    continue
                z = u[i] + vectors[row, i] @ (v + a[row] @ Q)
                if i > 0:
                    z += vectors[row, i - 1] @ (a[row] @ R)
                for k in range(1, longest + 1):
                    if i >= longest and (context[i - k : i] == context[-k:]).all():
                        z += r[k - 1]
                totals[row, word] += sigmoid(z)
        return np.log(totals)

    # Training

    def loss(self, inputs: dict, targets: np.ndarray, samples: np.ndarray | None) -> float:
        """Return the mean loss of a batch plus the weight decay.

        `samples`: negative words, int [k].
        """
        return self.losses(inputs, targets, samples).mean() + self.penalty()

    def losses(self, inputs: dict, targets: np.ndarray, samples: np.ndarray | None) -> np.ndarray:
        objective = self.network.objective
        alpha = objective.self_normalisation
        y = self.logits(inputs)
        of_target = y[np.arange(len(targets)), targets]
        if objective.has_likelihood:
            log_z = log_sum_exp(y)
            mass = objective.held_out_mass
            losses = (1 - mass) * (log_z - of_target) + alpha * log_z**2
            if mass:
                losses += mass * (log_z - y @ wide(objective.q))
            return losses
        log_expected = np.log(len(samples)) + wide(objective.log_q)
        s_target = of_target - log_expected[targets]
        s = y[:, samples] - log_expected[samples]
        log_z = log_sum_exp(s)
        if isinstance(objective, NoiseContrastive):
            contrast = np.logaddexp(0, -s_target) + np.logaddexp(0, s).sum(axis=1)
        else:
            contrast = np.logaddexp(s_target, log_z) - s_target
        return contrast + alpha * log_z**2

    def penalty(self) -> float:
        """Return λ/2 |θ|² of the matrices but S, and of v of a pointer, of layers with decay."""
        total = 0.0
        for layer in self.network.list_layers():
            decay = getattr(layer, "weight_decay", 0.0)
            for weight in layer.trainable_weights:
                is_own = not (weight is self.network.embed.C and layer is not self.network.embed)
                is_matrix = len(weight.shape) == 2 or weight.path.endswith("pointer/v")
                is_hashed = weight.path.endswith("embed/S")
                if is_own and is_matrix and not is_hashed:
                    total += decay / 2 * np.sum(self.value(weight) ** 2)
        return total
