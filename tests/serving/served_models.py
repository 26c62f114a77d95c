"""Language models of every kind that can be served, by name, and contexts for them."""

import functools

import numpy as np

from keras_nplm import ContextNetwork, Hybrid, LinearHead, Mixture, Shortlist
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams import deleted_interpolation, kneser_ney
from tests import every_network
from tests.language_models import BUILDERS, METHODS, V, build, make_text
from tests.networks import compose, randomise

# each layer once: graphs do not read the objective
NETWORKS = [
    name
    for name in every_network.NETWORKS
    if "hybrid" not in name and ("/" not in name or name.endswith("/ likelihood"))
]
NGRAMS = [*METHODS, "approximation", "arpa", "uniform"]
MIXTURES = ["by frequency", "in a mixture, without weight", "interpolation of the paper"]
OTHERS = [
    *("keras model", "hybrid", "hybrid of spelled words", "mixture in a mixture"),
    *("short-list", "short-list of all words"),
]
TYPED = ["embed averaged in bfloat16", "paper in float64", "paper with great logits"]


@functools.cache
def build_model(name: str, boundary: str = "sentence") -> NextWordModel:
    """Return a model of one of the names above, or of `tests.language_models`."""
    if name in BUILDERS:
        return build(name, boundary)
    if name in NETWORKS:
        return every_network.build_network(name, boundary=boundary)
    match name:
        case "by frequency":
            binned = build("mixture with bins", boundary)
            network, n_grams, _, uniform = binned.models  # a cache has no graph
            parts = [network, n_grams, build("deleted-interpolation", boundary), uniform]
            return Mixture(parts, binned.weights, binned.bins)
        case "in a mixture, without weight":
            parts = [build(part, boundary) for part in ("nplm", "kneser-ney", "uniform")]
            inner = Mixture(parts, [0.5, 0.4, 0.1])
            return Mixture([inner, build("kneser-ney", boundary)], [1.0, 0.0])
        case "interpolation of the paper":
            texts = [make_text(seed, boundary) for seed in (1, 2)]
            return deleted_interpolation(*texts, V, 3, boundary, back_off=False)
        case "hybrid of spelled words":
            network = every_network.build_network("hybrid, spelled", boundary=boundary)
            ids = np.random.default_rng(0).integers(3, every_network.V, 900, np.int32)
            return Hybrid(network, kneser_ney(ids, every_network.V, 4, boundary))
        case "short-list of all words":
            head = LinearHead(V, num_outputs=V - 1, name="prob")
            network = randomise(compose(V, 5, 6, head=head, boundary=boundary))
            return Shortlist(network, build("deleted-interpolation", boundary))
        case "embed averaged in bfloat16":
            return every_network.build_network("embed averaged", "mixed_bfloat16", boundary)
        case "paper in float64":
            return every_network.build_network("paper", "float64", boundary)
        case "paper with great logits":
            network: ContextNetwork = every_network.build_network("paper", boundary=boundary)
            network.prob.b.assign(network.prob.b + 90)  # exp of such logits overflows
            return network
    raise KeyError(name)


def make_contexts(model: NextWordModel, number: int) -> np.ndarray:
    """Return contexts with any ids, int32 [number, n-1], some with `<s>` or `<pad>` in front."""
    random = np.random.default_rng(0)
    contexts = random.integers(0, model.vocabulary_size, (number, model.order - 1), np.int32)
    contexts[: number // 8, :-1] = 2
    contexts[number // 8 : number // 4, : model.order // 2] = 0
    contexts[-2:] = [[2], [0]]
    return contexts
