"""A small model of every kind, by name: for what every language model keeps."""

import functools
import tempfile
from collections.abc import Callable

import keras
import numpy as np

from keras_nplm import (
    NPLM,
    ContinuousCache,
    Hybrid,
    HybridNetwork,
    KerasModel,
    LinearHead,
    Mixture,
    NgramCache,
    PointerNetwork,
    Shortlist,
    Uniform,
    UnigramCache,
    Vocabulary,
    read_arpa,
    write_arpa,
)
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.dynamic import DynamicSettings, make_dynamic
from keras_nplm.models.networks.self_normalised import SelfNormalised
from keras_nplm.models.ngrams import (
    FrequencyBins,
    class_based,
    count_ngrams,
    deleted_interpolation,
    kneser_ney,
    prune,
)
from keras_nplm.models.ngrams.approximation import approximate
from tests.networks import compose, randomise

V = 12
VOCABULARY = Vocabulary([f"w{i}" for i in range(V - 4)])
CLASSES = np.array([0, 4, 2, 3, 4, 5, 5, 6, 6, 7, 7, 7], np.int32)
BOUNDARIES = ("stream", "sentence", "text")


def make_text(seed: int, boundary: str, tokens: int = 400) -> np.ndarray:
    # 11 is never seen
    ids = np.random.default_rng(seed).choice([1, 4, 4, 5, 6, 7, 8, 9, 10], tokens).astype(np.int32)
    ids[6::7] = 3
    if boundary == "text":
        ids[[0, 7, 77, 140]] = 2  # documents
    return np.append(ids, 3).astype(np.int32)


class Table(NextWordModel):
    """A bigram model of the given probabilities: float [|V|, |V|], a row for each last word."""

    order = 2

    def __init__(self, probabilities: np.ndarray, boundary: str):
        self.vocabulary_size = len(probabilities)
        self.boundary = boundary
        with np.errstate(divide="ignore"):
            self.log_probs = np.log(probabilities)

    def _next_log_probs(self, context_ids):
        return self.log_probs[context_ids[:, -1]]


def _build_keras_model(boundary):
    ids = keras.Input((2,), dtype="int32")
    x = keras.layers.LSTM(4)(keras.layers.Embedding(V, 3)(ids))
    rows = keras.layers.Dense(V, activation="softmax")(x)
    return KerasModel(randomise(keras.Model(ids, rows)), boundary=boundary)


def _build_shortlist(boundary):
    head = LinearHead(V, num_outputs=7, name="prob")
    network = randomise(compose(V, 3, 3, 4, head=head, boundary=boundary))
    return Shortlist(network, build("kneser-ney", boundary))


def _build_hybrid(boundary):
    network = randomise(compose(V, 3, 3, 4, kind=HybridNetwork, boundary=boundary))
    return Hybrid(network, build("kneser-ney", boundary))


def _reread_arpa(boundary):
    with tempfile.TemporaryDirectory() as directory:
        write_arpa(f"{directory}/model.arpa", build("kneser-ney", boundary), VOCABULARY)
        return read_arpa(f"{directory}/model.arpa", VOCABULARY, boundary)[0]


def _build_mixture(boundary, binned=False):
    names = ["nplm", "kneser-ney", "n-gram cache", "uniform"]
    counts = count_ngrams(make_text(1, boundary), V, 3, boundary)
    bins = FrequencyBins.from_counts(counts) if binned else None
    weights = np.random.default_rng(0).dirichlet([1] * 4, bins.number if binned else 1)
    return Mixture([build(name, boundary) for name in names], weights, bins)


def _build_nested_mixture(boundary):
    inner = Mixture([build("short-list", boundary), build("hybrid", boundary)], [0.3, 0.7])
    return Mixture([inner, build("class-based", boundary)], [0.6, 0.4])


def _build_estimated(method, boundary):
    texts = [make_text(seed, boundary) for seed in (1, 2)]
    return METHODS[method](*texts, V, 4, boundary)


def _build_dynamic_mixture(boundary):
    mixture = Mixture(
        [build("deleted-interpolation", boundary), build("uniform", boundary)], [0.5, 0.5]
    )
    return make_dynamic(mixture, DynamicSettings(chunk=8, mixture_rate=0.1))


# every method of `ngram` by its kind, of ids, held-out ids, |V|, order and boundary
METHODS: dict[str, Callable] = {
    "kneser-ney": lambda ids, held_out, *shape: kneser_ney(ids, *shape),
    "deleted-interpolation": deleted_interpolation,
    "class-based": lambda ids, held_out, size, *shape: class_based(
        ids, held_out, CLASSES[:size], *shape
    ),
}
BUILDERS = {
    **{method: functools.partial(_build_estimated, method) for method in METHODS},
    "nplm": lambda boundary: randomise(
        NPLM(V, order=3, embedding_dim=3, hidden_units=4, boundary=boundary)
    ),
    "pointer": lambda boundary: randomise(
        compose(V, 3, 3, 4, kind=PointerNetwork, boundary=boundary)
    ),
    "short-list": _build_shortlist,
    "hybrid": _build_hybrid,
    "keras model": _build_keras_model,
    "arpa": _reread_arpa,
    "approximation": lambda boundary: prune(
        approximate(build("nplm", boundary), make_text(1, boundary), 3), 1e-4
    ),
    "mixture": _build_mixture,
    "mixture with bins": lambda boundary: _build_mixture(boundary, binned=True),
    "mixture in a mixture": _build_nested_mixture,
    "unigram cache": lambda boundary: UnigramCache(V, boundary, 3, 9),
    "n-gram cache": lambda boundary: NgramCache(V, boundary, 3, 9, (3, 2)),
    "continuous cache": lambda boundary: ContinuousCache(build("nplm", boundary), 1.5, 9),
    "continuous cache of a hybrid": lambda boundary: ContinuousCache(
        build("hybrid", boundary).network, 1.5, 9
    ),
    "uniform": lambda boundary: Uniform(V, boundary),
    "self-normalised": lambda boundary: SelfNormalised(build("nplm", boundary)),
    "dynamic": lambda boundary: make_dynamic(
        build("nplm", boundary), DynamicSettings(chunk=8, rate=0.5)
    ),
    "dynamic mixture": _build_dynamic_mixture,
}
DYNAMIC = {"dynamic", "dynamic mixture"}


@functools.cache
def build(name: str, boundary: str):
    return BUILDERS[name](boundary)
