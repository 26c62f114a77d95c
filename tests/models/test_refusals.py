"""Refusals of language models: a call, and words of its message."""

import gzip

import keras
import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AveragedContext,
    ContextEmbedding,
    ContinuousCache,
    FullSoftmax,
    InputError,
    Mixture,
    NgramCache,
    Shortlist,
    TanhHidden,
    Uniform,
    UnigramCache,
    Vocabulary,
    evaluate,
    fit_mixture,
)
from keras_nplm.models import ngrams
from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.networks.growth import check_growable
from keras_nplm.models.networks.network_file import check_memory
from keras_nplm.models.networks.self_normalised import SelfNormalised
from keras_nplm.models.ngrams.approximation import approximate
from keras_nplm.models.ngrams.interpolation import fit_weights
from keras_nplm.models.spelling import SpellingModel

V = 9
TEXT = np.array([4, 5, 4, 5, 6, 3], np.int32)
EMPTY = np.array([3], np.int32)
CLASSES = np.array([0, 4, 2, 3, 4, 5, 1, 5, 5], np.int32)  # word 6 has no class
MODEL = ngrams.kneser_ney(TEXT, V, 3, "stream")
UNIFORM = Uniform(V, "stream")
BINS = ngrams.FrequencyBins(ngrams.ContextFrequencies.from_counts(ngrams.count_ngrams(TEXT, V, 2, "stream")))
LISTED = {"output": lambda: FullSoftmax(V, shortlist_size=3)}
FACTORS = "`factors` must be a list of at most 16 numbers from 1 to 1,000,000"
CONTEXTS, TARGETS = np.full((4, 2), 5, np.int32), np.full(4, 5, np.int32)
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
SHARES = "`weights` must be 0 or more and sum to 1"


def _cache(**options):
    return lambda path: NgramCache(V, "stream", **options)


def _read_classes(text):
    return lambda path: ngrams.load_classes(_write(path, text.encode()), Vocabulary(["the", "cat"]))


def _network(size=V, hidden="tanh", output=lambda: "full"):
    return NPLM(size, 3, 2, 3, hidden=hidden, output=output(), boundary="stream")


class _Logits(NPLM):
    def call(self, context_ids, training=False):
        return keras.ops.log(super().call(context_ids, training=training))


def _fit(*data, loss=None, kind=NPLM):
    def call(path):
        model = kind(V, 3, 2, 3)
        model.compile("sgd", loss, run_eagerly=True)
        model.fit(*data, verbose=0)

    return call


def _share_layers(path):
    output = FullSoftmax(V, name="prob")
    NPLM(V, 3, 2, 8, output=output)
    NPLM(V, 3, 4, 8, output=output)  # its features have the same width
    NPLM(V, 3, 2, 9, output=output)


def _write(path, content):
    path.write_bytes(content)
    return path


OPTIONS = [
    ({"hidden_units": 0}, "`hidden_units` must be 1 or more without direct connections"),
    ({"hidden": None}, "`hidden_units` must be 1 or more without direct connections"),
    ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\)"),
    ({"weight_decay": -1e-3}, "`weight_decay` must be"),
    ({"boundary": "line"}, "`boundary` must be one of sentence, text, stream"),
    ({"dtype": "mixed_float16"}, "`dtype` must be float32, .* Received: mixed_float16"),
    ({"output": "hierarchical"}, "`output` must be one of full, sampled, nce, adaptive, energy"),
    ({"output": "nce", "weight_decay": 1e-4}, "`weight_decay` must be 0 with a sampled output"),
    ({"hidden": "sigmoid"}, "`hidden` must be one of tanh, relu, gelu, silu"),
    ({"context": "averaged"}, "`context` must be 'concatenated' or a context layer"),
    ({"order": 5, "context": AveragedContext(V, 2, averages_after=(4,))}, "`averages_after` must be below 4"),
    ({"hidden": TanhHidden(4), "dropout": 0.1}, "`dropout` must be 0 if `hidden` is a layer"),
    ({"context": ContextEmbedding(V, 2), "word_dropout": 0.1}, "`word_dropout` must be 0 if `context` is a layer"),
    ({"context": ContextEmbedding(V, 2), "embedding_dropout": 0.1}, "`embedding_dropout` must be 0 if `context`"),
    ({"averages_after": 2}, r"`averages_after` must be left out: .* Received: 2. Fix: see help\(NPLM\)"),
]
CALLS = [
    (lambda path: ngrams.kneser_ney(TEXT, V, 1), "`order`"),
    (lambda path: ngrams.kneser_ney(EMPTY, V, 3, "stream"), "no word to predict"),
    (lambda path: ngrams.kneser_ney_on_disk(path, lambda: iter([TEXT]), 6, V, 1), "`order`"),
    (lambda path: ngrams.class_based(TEXT, TEXT, CLASSES, 3), "Received: 1 words of the text have no class"),
    (lambda path: ngrams.exchange_classes(TEXT, V, 4), "`num_classes` must be 1 to 3"),
    (lambda path: ngrams.exchange_classes(TEXT, V, 1, start=CLASSES), "`start` must be 1 classes or fewer"),
    (_read_classes("the\t0\ncat\tone\n"), "line 2: expected a word, a tab and the number"),
    (_read_classes("a\t0\n"), "must have classes of words in the vocabulary"),
    (lambda path: fit_weights(np.array([[0.0, 0.0], [-np.inf, -np.inf]])), "token 1 has probability 0 in every model"),
    (lambda path: ngrams.class_based(TEXT, EMPTY, np.maximum(CLASSES, 4), 2, "stream"), "no word to predict"),
    (lambda path: ngrams.prune(MODEL, -1e-9), "`threshold` must be 0 or more. Received"),
    (lambda path: ngrams.prune(MODEL, max_ngrams=5), "`max_ngrams` must be 6 or more, the number of unigrams"),
    (lambda path: approximate(MODEL, TEXT, 4), "`order` must be 2 to 3, the order of the model. Received: 4"),
    (lambda path: approximate(MODEL, TEXT, 3, min_expected_count=0), "`min_expected_count` must be above 0. Received"),
    (lambda path: ngrams.read_arpa(_write(path, "\\data\\".encode("utf-16"))), "not UTF-8"),
    (lambda path: ngrams.read_arpa(_write(path, gzip.compress(b"\\data\\" * 99)[:-20])), "is not a whole gzip archive"),
    (lambda path: ngrams.write_arpa(path, MODEL, Vocabulary(["the"])), "`vocabulary` must be of 9 words, .*: 5"),
    (lambda path: Mixture([UNIFORM], [1.0]), "two models or more"),
    (lambda path: Mixture([UNIFORM, Uniform(V)], [0.5, 0.5]), "must have one `boundary`. Received: stream, sentence"),
    (lambda path: Mixture([UNIFORM, Uniform(8, "stream")], [0.5, 0.5]), "one vocabulary"),
    (lambda path: Mixture([UNIFORM] * 2, [0.5, 0.6]), SHARES),
    (lambda path: Mixture([UNIFORM] * 2, [0.2, 0.3, 0.5]), "`weights` must be 2 numbers. Received: 3"),
    (lambda path: Mixture([Uniform(V + 1)] * 2, np.ones((BINS.number, 2)) / 2, BINS), "`bins` must be of 10 words"),
    (lambda path: fit_mixture([UNIFORM] * 2, TEXT, "sentence"), "`boundary` must be 'stream'"),
    (lambda path: evaluate(UNIFORM, iter([])), "no word to predict"),
    (lambda path: Shortlist(_network(), MODEL), "`network` must be an NPLM with a short-list. Received: NPLM"),
    (
        lambda path: Shortlist(_network(**LISTED), Uniform(8, "stream")),
        "one vocabulary .* vocabularies of .9, 8. words",
    ),
    (lambda path: Shortlist(_network(**LISTED), Uniform(V)), "must have one `boundary`. Received: stream, sentence"),
    (lambda path: SelfNormalised(_network(output=lambda: "adaptive")), "logits of all words, .* AdaptiveSoftmax"),
    (lambda path: SelfNormalised(_network(**LISTED)), "logits of all words, .*shortlist_size=3"),
    (lambda path: SelfNormalised(_network(hidden=keras.layers.Dense(3))), "TanhHidden or DeepHidden, .*: Dense"),
    *(
        (lambda path, name=name: check_growable(_network(output=lambda: name)), f"a row for each word .*: {kind}")
        for name, kind in (("adaptive", "AdaptiveSoftmax"), ("energy", "EnergyOutput"))
    ),
    (lambda path: check_growable(_network(**LISTED)), "`shortlist_size` must be None to add words. Received: 3"),
    (lambda path: check_memory(10**15), "must fit into .* bytes of memory. Received: 1,000,000,000,000,000 weights"),
    (lambda path: UnigramCache(V, "book"), "`boundary` must be one of stream, sentence, text. Received: 'book'"),
    (_cache(decay=0.5), "`decay` must be 1 or more. Received: 0.5"),
    (_cache(length=0), "`length` must be 1 to 65,535. Received: 0"),
    *((_cache(factors=f), FACTORS) for f in ((2, 0.5), ["2"], (1e200,), (10**400,), (True,), (2,) * 17)),
    (lambda path: ContinuousCache(UNIFORM), "`network` must be an NPLM. Received: Uniform"),
    (lambda path: DynamicSettings(rate=-1), "`rate` must be 0 or more"),
    (lambda path: SpellingModel({}), "needs words of 1 character or more"),
    (_fit(CONTEXTS), r"`y` must be one array of ids .* Fix: pass fit\(contexts, targets\)"),
    (_fit({"context_ids": CONTEXTS}, TARGETS), r"`x` must be one array of ids .* Fix: pass fit"),
    (_fit(CONTEXTS, np.eye(V)[TARGETS]), r"`y` must be \[B\] or \[B, 1\] ids.*categorical_crossentropy"),
    (_fit(CONTEXTS, TARGETS, loss=LOGITS), "`from_logits` must be False. .* the model returns probabilities"),
    (_share_layers, "`layer` must be one for inputs of width 9. Received: prob, .* width 8. Fix"),
    *(
        (lambda path, shape=shape: _network()(np.zeros(shape, np.int32)), r"`context_ids` must be \[B, 2\]. Rec.* Fix")
        for shape in ((2, 1), (2,), (1, 2, 2))
    ),
    *((lambda path, options=options: NPLM(**{"vocabulary_size": V} | options), words) for options, words in OPTIONS),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_wrong_arguments_are_refused(tmp_path, number):
    call, message = CALLS[number]
    with pytest.raises(InputError, match=message):
        call(tmp_path / "input")


def test_a_subclass_that_returns_logits_may_have_a_loss_of_logits():
    _fit(CONTEXTS, TARGETS, loss=LOGITS, kind=_Logits)(None)
