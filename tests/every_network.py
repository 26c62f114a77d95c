"""Small networks of every layer, head and objective, by name, with random weights."""

import functools

import keras
import numpy as np

from keras_nplm.data.boundary import context_end
from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.hidden import DirectConnection, NoHidden, TanhHidden
from keras_nplm.layers.objectives.base import Objective
from keras_nplm.layers.objectives.likelihood import Likelihood
from keras_nplm.layers.objectives.sampled import NoiseContrastive, SampledSoftmax
from keras_nplm.layers.pointer import Pointer
from keras_nplm.layers.spelled_context import SpelledContext
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.networks.nplm import NPLM
from keras_nplm.models.networks.pointer_network import PointerNetwork
from tests.networks import randomise

V = 30  # words
N = 8  # order
M = 3  # components of a word vector
H = 5  # hidden units
B = 12  # n-grams of a batch
SHORT_LIST = 20  # outputs of a head of the most frequent words


EMBEDS = ["concatenated", "averaged", "averaged, no near word"]


def make_embed(name: str, dtype: str, decay: float) -> ContextEmbedding:
    """Return a context layer of `EMBEDS`."""
    options = dict(weight_decay=decay, name="embed", dtype=dtype)
    match name:
        case "concatenated":
            return ContextEmbedding(V, M, **options)
        case "averaged":
            return AveragedContext(V, M, averages_after=(2, 4), **options)
        case "averaged, no near word":
            return AveragedContext(V, M, averages_after=(0,), **options)
        case "spelled":
            spelling = dict(near_characters=2, spelled_words=1, spelling_bits=4)
            return SpelledContext(V, M, **spelling, **options)
    raise KeyError(name)


def make_hidden(name: str, dtype: str, decay: float) -> keras.layers.Layer | None:
    """Return a hidden layer."""
    options = dict(weight_decay=decay, name="hidden", dtype=dtype)
    match name:
        case "tanh":
            return TanhHidden(H, **options)
        case "deep":
            return DeepHidden(H, activation="gelu", residual_blocks=2, layer_norm=True, **options)
        case "tanh block" | "silu block" | "relu block":
            return DeepHidden(H, activation=name.split()[0], residual_blocks=1, **options)
        case "relu":
            return DeepHidden(H, activation="relu", layer_norm=True, **options)
        case "of Keras":
            return keras.layers.Dense(H, activation="relu", name="hidden", dtype=dtype)
        case "without units":
            return NoHidden(name="hidden", dtype=dtype)
        case "none":
            return None
    raise KeyError(name)


HEADS = ["linear", "low rank", "tied", "short-list", "adaptive", "energy"]


def make_head(name: str, dtype: str, decay: float) -> Head:
    """Return a head of `HEADS`."""
    options = dict(weight_decay=decay, name="prob", dtype=dtype)
    match name:
        case "linear":
            return LinearHead(V, **options)
        case "low rank":
            return LinearHead(V, rank=2, **options)
        case "tied":
            return LinearHead(V, tied=True, **options)
        case "short-list":
            return LinearHead(V, num_outputs=SHORT_LIST, **options)
        case "adaptive":
            # `<s>` and `</s>` are a cluster
            return AdaptiveHead(V, cutoffs=(2, 4, 16), **options)
        case "energy":
            return EnergyHead(V, hidden_units=H, **options)
    raise KeyError(name)


SAMPLED = ["sampled", "sampled, held out", "nce", "nce, held out"]
OBJECTIVES = ["likelihood", "likelihood, held out", *SAMPLED]


def make_objective(name: str, dtype: str) -> Objective:
    """Return an objective of `OBJECTIVES`."""
    sampled = dict(num_sampled=8, seed=3, dtype=dtype)
    match name:
        case "likelihood":
            return Likelihood(dtype=dtype)
        case "likelihood, held out":
            return Likelihood(0.2, self_normalisation=0.1, dtype=dtype)
        case "sampled":
            return SampledSoftmax(self_normalisation=0.3, **sampled)
        case "sampled, held out":
            return SampledSoftmax(held_out_mass=0.2, proposal="log-uniform", **sampled)
        case "nce":
            return NoiseContrastive(**sampled)
        case "nce, held out":
            return NoiseContrastive(held_out_mass=0.2, self_normalisation=0.1, **sampled)
    raise KeyError(name)


KINDS = {"network": ContextNetwork, "pointer": PointerNetwork, "hybrid": HybridNetwork}


def list_networks() -> dict[str, dict]:
    """Return the choices of `build_network` that make each network, by its name."""
    networks = {"paper": dict(kind="paper"), "paper, no hidden layer": dict(kind="paper, h=0")}
    for embed in EMBEDS:
        networks[f"embed {embed}"] = dict(embed=embed, direct=True)
    for hidden in ("deep", "tanh block", "silu block", "relu block", "relu", "of Keras"):
        networks[f"hidden {hidden}"] = dict(hidden=hidden)
    networks["hidden without units"] = dict(hidden="without units", direct=True)
    networks["hidden none"] = dict(hidden="none")
    for head in HEADS:
        for objective in OBJECTIVES:
            hidden = "none" if head == "energy" else "tanh"
            networks[f"{head} / {objective}"] = dict(hidden=hidden, head=head, objective=objective)
    for head in ("linear", "low rank", "tied", "short-list"):
        networks[f"pointer {head}"] = dict(kind="pointer", head=head, embed="averaged")
    for objective in ("likelihood, held out", "sampled", "nce, held out"):
        networks[f"pointer / {objective}"] = dict(kind="pointer", objective=objective)
    networks["pointer, direct"] = dict(kind="pointer", direct=True, hidden="deep")
    networks["hybrid"] = dict(kind="hybrid", embed="averaged")
    networks["hybrid, spelled"] = dict(kind="hybrid", embed="spelled")
    networks["hybrid, direct / held out"] = dict(
        kind="hybrid", direct=True, objective="likelihood, held out"
    )
    networks["hybrid adaptive / nce"] = dict(kind="hybrid", head="adaptive", objective="nce")
    return networks


NETWORKS = list_networks()


def build_network(name: str, dtype: str = "float32", boundary: str = "stream") -> ContextNetwork:
    """Return a new network of `NETWORKS` with random weights, and with weight decay if it may have
    one.
    """
    return randomise(compose(dtype=dtype, boundary=boundary, **NETWORKS[name]), 0.6)


@functools.cache
def build(name: str, dtype: str = "float32", boundary: str = "stream") -> ContextNetwork:
    """Return a network of `NETWORKS` that tests share and do not change."""
    return build_network(name, dtype, boundary)


def compose(
    dtype: str,
    boundary: str,
    kind: str = "network",
    embed: str = "concatenated",
    hidden: str = "tanh",
    head: str = "linear",
    objective: str = "likelihood",
    direct: bool = False,
) -> ContextNetwork:
    """Return a network of parts by their names."""
    if kind.startswith("paper"):
        hidden_units = 0 if kind == "paper, h=0" else H
        return NPLM(
            V,
            order=N,
            embedding_dim=M,
            hidden_units=hidden_units,
            direct_connections=not hidden_units,
            weight_decay=0.1,
            boundary=boundary,
            dtype=dtype,
        )
    chosen = make_objective(objective, dtype)
    decay = 0.1 if chosen.has_likelihood else 0.0
    scorer = make_head(head, dtype, decay)
    options = {}
    if direct:
        options["direct"] = DirectConnection(
            scorer.num_outputs, weight_decay=decay, name="direct", dtype=dtype
        )
    if kind == "pointer":
        options["pointer"] = Pointer(weight_decay=decay, name="pointer", dtype=dtype)
    return KINDS[kind](
        order=N,
        embed=make_embed(embed, dtype, decay),
        hidden=make_hidden(hidden, dtype, decay),
        head=scorer,
        objective=chosen,
        boundary=boundary,
        **options,
    )


def make_contexts(number: int = B) -> np.ndarray:
    """Return contexts, int32 [number, n-1], with repeated words, `<pad>`, `<s>` and a rare word."""
    contexts = np.random.default_rng(1).integers(3, 9, (number, N - 1)).astype(np.int32)
    contexts[::4, 0] = PAD_ID
    contexts[1::4, 1] = BOS_ID
    contexts[5, 2] = V - 1
    contexts[2, :3] = contexts[2, 4:]  # a phrase that the context repeats
    return contexts


def make_segments(boundary: str, num_targets: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three segments, the targets of each, [S, T], and the same contexts, [S T, n-1]."""
    words = np.random.default_rng(3).integers(4, 9, (3, N - 1 + num_targets)).astype(np.int32)
    end = context_end(boundary)
    if end is not None:
        words[np.random.default_rng(4).random(words.shape) < 0.15] = end
        words[0, :3] = 2
    else:
        words[0, :3] = 0
    windows = np.lib.stride_tricks.sliding_window_view(words[:, :-1], N - 1, axis=1)
    contexts = windows.reshape(-1, N - 1).copy()
    if end is not None:
        for context in contexts:
            last = np.max(np.flatnonzero(context == end), initial=-1)
            context[: last + 1] = 2
    targets = words[:, N - 1 :].copy()
    targets[targets == 2] = 0
    return words[:, :-1], targets, contexts


def make_targets(network: ContextNetwork, contexts: np.ndarray) -> np.ndarray:
    """Return targets that the head scores, int32 [B]: some repeat words of their contexts."""
    targets = np.random.default_rng(2).integers(1, V, len(contexts)).astype(np.int32)
    targets[:3] = 4, 9, 20
    targets[3:7] = contexts[3:7, 2]
    return np.minimum(targets, network.prob.num_outputs - 1)


def add_log_q(network: ContextNetwork, inputs: dict) -> dict:
    """Return named inputs with ln Q of each target, if the network has an n-gram model inside."""
    if not isinstance(network, HybridNetwork):
        return inputs
    if "segments" in inputs:
        segments = inputs["segments"]
        number = len(segments) * (segments.shape[1] - N + 2)
    else:
        number = len(inputs["contexts"])
    q = np.random.default_rng(4).dirichlet(np.full(V, 0.3), number)
    q[:, [PAD_ID, BOS_ID]] = 0
    q /= q.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return {**inputs, "log_q": np.log(q)}


def make_inputs(network: ContextNetwork) -> dict:
    """Return named inputs of contexts."""
    return add_log_q(network, {"contexts": make_contexts()})
