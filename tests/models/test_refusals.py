"""What models refuse: calls by their ids, in the order of their messages in `messages.json`."""

import gzip

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    AveragedContext,
    ContextEmbedding,
    DirectConnection,
    HybridNetwork,
    InputError,
    Jackknife,
    LinearHead,
    Mixture,
    NgramCache,
    NoiseContrastive,
    PointerNetwork,
    RunError,
    Shortlist,
    Uniform,
    UnigramCache,
    Vocabulary,
    evaluate,
    fit_mixture,
    hybrid_dataset,
    write_arpa,
)
from keras_nplm.models import ngrams
from keras_nplm.models.collectors import PerplexityByOrder
from keras_nplm.models.dynamic import DynamicSettings, make_dynamic
from keras_nplm.models.networks.growth import check_growable
from keras_nplm.models.networks.network_file import check_memory
from keras_nplm.models.networks.self_normalised import SelfNormalised
from keras_nplm.models.ngrams.approximation import approximate
from keras_nplm.models.ngrams.interpolation import fit_weights
from keras_nplm.models.spelling import SpellingModel
from tests.networks import compose

V = 9
TEXT = np.array([4, 5, 4, 5, 6, 3], np.int32)
EMPTY = np.array([3], np.int32)
# word 6 has no class
CLASSES = np.array([0, 4, 2, 3, 4, 5, 1, 5, 5], np.int32)
MODEL = ngrams.kneser_ney(TEXT, V, 3, "stream")
UNIFORM = Uniform(V, "stream")


def build_network(**options):
    return compose(V, embedding_dim=2, hidden_units=3, boundary="stream", **options)


class SumOfWords(ContextEmbedding):
    """A context layer whose x is not in blocks of positions."""

    def position_spans(self, context_size):
        return None


def build_listed():
    return build_network(head=LinearHead(V, num_outputs=7, name="prob"))


def train(inputs, targets, loss=None):
    network = build_network()
    network.compile("sgd", loss, run_eagerly=True)
    network.train_on_batch(inputs, targets)


def compile_for_replicas():
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        build_network().compile(jit_compile=True)


SPARSE = keras.losses.SparseCategoricalCrossentropy
SEGMENTS = {"segments": np.full((2, 4), 4, np.int32)}
TRAINING = {
    "logits": lambda: build_network().compile("sgd", SPARSE(from_logits=True)),
    "one-hot targets": lambda: train(np.full((2, 2), 4), np.eye(V)[[4, 5]]),
    "a loss for segments": lambda: train(
        SEGMENTS, np.full((2, 3), 4), "sparse_categorical_crossentropy"
    ),
    "an object as a loss for segments": lambda: train(SEGMENTS, np.full((2, 3), 4), SPARSE()),
    "short segments": lambda: build_network().scores({"segments": np.full((2, 1), 4)}),
    "XLA, which sees one replica": compile_for_replicas,
}
NETWORKS = {
    "negative weight decay": lambda: NPLM(V, weight_decay=-1e-3),
    "order 1": lambda: NPLM(V, order=1),
    "an unknown boundary": lambda: NPLM(V, boundary="line"),
    "float16": lambda: NPLM(V, dtype="float16"),
    "two vocabularies": lambda: build_network(head=LinearHead(V + 1, name="prob")),
    "fewer direct words": lambda: build_network(direct=DirectConnection(7)),
    "direct, adaptive": lambda: build_network(head=AdaptiveHead(V), direct=DirectConnection(V)),
    "pointer, adaptive": lambda: build_network(kind=PointerNetwork, head=AdaptiveHead(V)),
    "hybrid short-list": lambda: build_network(
        kind=HybridNetwork, head=LinearHead(V, num_outputs=7)
    ),
    "decay, NCE": lambda: build_network(
        head=LinearHead(V, weight_decay=0.1), objective=NoiseContrastive()
    ),
    "averages beyond": lambda: build_network(
        order=5, embed=AveragedContext(V, 2, averages_after=(4,))
    ),
    "regularised head": lambda: build_network(
        head=LinearHead(V, activity_regularizer="l2", name="prob")
    ),
    "regularised network": lambda: build_network(activity_regularizer="l2", name="network"),
    "a hybrid without ln Q": lambda: build_network(kind=HybridNetwork).log_prob([[4, 5]], [4]),
    "quantised": lambda: build_network(name="network").quantize("int8"),
    "counts of another vocabulary": lambda: build_network().set_unigram(np.ones(8)),
    "adaptive logits": lambda: SelfNormalised(build_network(head=AdaptiveHead(V))),
    "logits of a short-list": lambda: SelfNormalised(build_listed()),
    "logits of Dense": lambda: SelfNormalised(build_network(hidden=keras.layers.Dense(3))),
    "logits of a context without a form in NumPy": lambda: SelfNormalised(
        build_network(embed=SumOfWords(V, 2))
    ),
    "two networks, tied": lambda: [
        build_network(head=head) for head in [LinearHead(V, tied=True)] * 2
    ],
    "new words, adaptive": lambda: check_growable(build_network(head=AdaptiveHead(V))),
    "new words, short-list": lambda: check_growable(build_listed()),
    "chunk": lambda: DynamicSettings(chunk=0),
    "n-grams that learn": lambda: make_dynamic(MODEL, DynamicSettings()),
    "outputs of a short-list": lambda: build_listed().output_log_prob([[4, 5]], [8]),
}


def write(path, content):
    path.write_bytes(content)
    return path


NGRAMS = {
    "order 1, deleted interpolation": lambda: ngrams.deleted_interpolation(TEXT, TEXT, V, 1),
    "order 1, classes": lambda: ngrams.class_based(TEXT, TEXT, CLASSES, 1),
    "small vocabulary": lambda: ngrams.kneser_ney(TEXT, 6, 3),
    "no words": lambda: ngrams.kneser_ney(EMPTY, V, 3, "stream"),
    "no words held out": lambda: ngrams.class_based(
        TEXT, EMPTY, np.maximum(CLASSES, 4), 2, "stream"
    ),
    "no words to evaluate": lambda: evaluate(UNIFORM, iter([])),
    "a word without class": lambda: ngrams.class_based(TEXT, TEXT, CLASSES, 3),
    "classes of fewer words": lambda: ngrams.class_based(TEXT, TEXT, CLASSES[:5], 3),
    "too many classes": lambda: ngrams.exchange_classes(TEXT, V, 4),
    "classes of no words": lambda: ngrams.exchange_classes(np.array([3, 3]), V, 1),
    "probability 0": lambda: fit_weights(np.array([[0.0, -np.inf], [0.0, -np.inf]])),
    "threshold": lambda: ngrams.prune(MODEL, -1e-9),
    "order of an approximation": lambda: approximate(MODEL, TEXT, 4),
    "words of another model": lambda: write_arpa("x.arpa", MODEL, Vocabulary(["the"])),
}

JACKKNIFE = {
    "one n-gram": lambda: Jackknife(TEXT[-1:], V, 2, folds=2),
    "another text": lambda: hybrid_dataset(TEXT[3:], Jackknife(TEXT, V, 2), 3, 4),
    "another boundary": lambda: hybrid_dataset(TEXT, Jackknife(TEXT, V, 2), 3, 4, boundary="text"),
    "a model of another boundary": lambda: hybrid_dataset(TEXT, MODEL, 3, 4),
}

COMBINED = {
    "two boundaries": lambda: Mixture([UNIFORM, Uniform(V)], [0.5, 0.5]),
    "two vocabularies": lambda: Mixture([UNIFORM, Uniform(8, "stream")], [0.5, 0.5]),
    "another boundary": lambda: fit_mixture([UNIFORM, UNIFORM], TEXT, "sentence"),
    "weights above 1": lambda: Mixture([UNIFORM, UNIFORM], [0.5, 0.6]),
    "weights of NaN": lambda: Mixture([UNIFORM, UNIFORM], [np.nan, 1.0]),
    "bins of another vocabulary": lambda: Mixture(
        [Uniform(V + 1, "stream")] * 2, np.ones((BINS.number, 2)) / 2, BINS
    ),
    "short-list, two vocabularies": lambda: Shortlist(build_listed(), Uniform(8, "stream")),
    "short-list, two boundaries": lambda: Shortlist(build_listed(), Uniform(V)),
    "boundary of Uniform": lambda: Uniform(V, "book"),
    "decay": lambda: NgramCache(V, "stream", decay=0.5),
    "length": lambda: NgramCache(V, "stream", length=0),
    "no spelled words": lambda: SpellingModel({}),
}
BINS = ngrams.FrequencyBins.from_counts(ngrams.count_ngrams(TEXT, V, 2, "stream"))


@pytest.mark.parametrize(
    "calls",
    [TRAINING, NETWORKS, NGRAMS, JACKKNIFE, COMBINED],
    ids=["training", "networks", "n-grams", "jackknife", "combined"],
)
def test_models_refuse(calls, messages):
    for call in calls.values():
        messages.refuse(call)


def test_files_of_ngrams_are_refused(tmp_path, messages):
    words = Vocabulary(["the", "cat"])
    classes = [b"the\t0\ncat\tone\n", b"a\t0\n"]  # no number; other words
    arpas = ["\\data\\".encode("utf-16"), gzip.compress(b"\\data\\" * 99)[:-20]]
    for number, content in enumerate(classes):
        path = write(tmp_path / f"{number}.tsv", content)
        messages.refuse(lambda path=path: ngrams.load_classes(path, words))
    for number, content in enumerate(arpas):
        path = write(tmp_path / f"{number}.arpa", content)
        messages.refuse(lambda path=path: ngrams.read_arpa(path))


def test_a_network_larger_than_the_memory_is_refused():
    with pytest.raises(InputError, match="must fit into .* bytes of memory"):
        check_memory(10**15)


def test_a_text_of_probability_0_has_no_figures(messages):
    cache = UnigramCache(V, "stream")
    messages.refuse(lambda: evaluate(cache, TEXT, PerplexityByOrder()), RunError)
