"""Refusals of n-gram models, mixtures, caches and spelling models: a call, and words of its message."""

import gzip

import numpy as np
import pytest

from keras_nplm import ContinuousCache, InputError, Mixture, NgramCache, Uniform, UnigramCache, Vocabulary
from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.ngrams import (
    FrequencyBins,
    class_based,
    exchange_classes,
    kneser_ney,
    kneser_ney_on_disk,
    load_classes,
    prune,
    read_arpa,
    write_arpa,
)
from keras_nplm.models.ngrams.approximation import approximate
from keras_nplm.models.ngrams.interpolation import fit_weights
from keras_nplm.models.spelling import SpellingModel

V = 9
TEXT = np.array([4, 5, 4, 5, 6, 3], np.int32)
EMPTY = np.array([3], np.int32)
CLASSES = np.array([0, 4, 2, 3, 4, 5, 1, 5, 5], np.int32)  # word 6 has no class
MODEL = kneser_ney(TEXT, V, 3, "stream")
UNIFORM = Uniform(V, "stream")
FACTORS = "`factors` must be a list of at most 16 numbers from 1 to 1,000,000"
SHARES = "not be negative and sum to 1"


def _cache(**options):
    return lambda path: NgramCache(V, "stream", **options)


def _read_classes(text):
    return lambda path: load_classes(_write(path, text.encode()), Vocabulary(["the", "cat"]))


def _write(path, content):
    path.write_bytes(content)
    return path


CALLS = [
    (lambda path: kneser_ney(TEXT, V, 1), "`order`"),
    (lambda path: kneser_ney(TEXT, V, 3, "book"), "`boundary`"),
    (lambda path: kneser_ney(EMPTY, V, 3, "stream"), "no word to predict"),
    (lambda path: kneser_ney_on_disk(path, lambda: iter([TEXT]), 6, V, 1), "`order`"),
    (lambda path: kneser_ney_on_disk(path, lambda: iter([EMPTY]), 1, V, 3, "stream"), "no word to predict"),
    (lambda path: class_based(TEXT, TEXT, CLASSES, 3), "1 words of the text have no class"),
    (lambda path: exchange_classes(TEXT, V, 4), "`num_classes` must be 1 to 3"),
    (lambda path: exchange_classes(TEXT, V, 1, start=CLASSES), "The initial classes must be 1 classes or fewer"),
    (_read_classes("the\t0\ncat\tone\n"), "line 2: expected a word, a tab and the number"),
    (_read_classes("the\t99999999999\n"), "line 1: expected .* class, at most 6"),
    (_read_classes("a\t0\n"), "must have classes of words in the vocabulary"),
    (lambda path: fit_weights(np.array([[0.0, 0.0], [-np.inf, -np.inf]])), "token 1 has probability 0 in every model"),
    (lambda path: fit_weights(np.zeros((0, 2))), "The held-out text"),
    (lambda path: prune(MODEL, -1e-9), "The pruning threshold must be 0 or more. Received"),
    (lambda path: prune(MODEL, float("nan")), "The pruning threshold must be 0 or more. Received"),
    (lambda path: prune(MODEL, max_ngrams=5), "`max_ngrams` must be 6 or more, the number of unigrams"),
    (lambda path: approximate(MODEL, TEXT, 4), "`order` must be 2 to 3, the order of the model. Received: 4"),
    (lambda path: approximate(MODEL, TEXT, 3, min_expected_count=0), "`min_expected_count` must be above 0. Received"),
    (lambda path: approximate(MODEL, EMPTY, 3), "no word to predict"),
    (lambda path: read_arpa(path), "Cannot read .*input"),
    (lambda path: read_arpa(_write(path, "\\data\\".encode("utf-16"))), "not UTF-8"),
    (lambda path: read_arpa(_write(path, gzip.compress(b"\\data\\" * 99)[:-20])), "is not a whole gzip archive"),
    (lambda path: write_arpa(path, MODEL, Vocabulary(["the"])), "`vocabulary` must have 9 words, .* Received: 5"),
    (lambda path: FrequencyBins.load(path), "Cannot read"),
    (lambda path: Mixture([UNIFORM], [1.0]), "two models or more"),
    (lambda path: Mixture([UNIFORM, Uniform(V)], [0.5, 0.5]), "must have one `boundary`. Received: stream, sentence"),
    (lambda path: Mixture([UNIFORM, Uniform(8, "stream")], [0.5, 0.5]), "one vocabulary"),
    (lambda path: Mixture([UNIFORM] * 2, [0.5, 0.6]), SHARES),
    (lambda path: Mixture([UNIFORM] * 2, [1.5, -0.5]), SHARES),
    (lambda path: Mixture([UNIFORM] * 2, [0.2, 0.3, 0.5]), "must be 2 in number. Received: 3"),
    (lambda path: UnigramCache(V, "book"), "`boundary` must be one of stream, sentence. Received: 'book'"),
    (_cache(decay=0.5), "`decay` must be 1 or more. Received: 0.5"),
    (_cache(length=0), "`length` must be 1 to 65,535. Received: 0"),
    (_cache(length="many"), "`length` must be an integer"),
    *((_cache(factors=f), FACTORS) for f in ((2, 0.5), ["2"], (1e200,), (10**400,), (True,), (2,) * 17)),
    (lambda path: ContinuousCache(UNIFORM), "`network` must be an NPLM. Received: Uniform"),
    (lambda path: DynamicSettings(rate=-1), "`rate` must be 0 or more"),
    (lambda path: SpellingModel({}), "needs words of 1 character or more"),
    (lambda path: SpellingModel({"": 1}), "needs words of 1 character or more"),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_wrong_arguments_are_refused(tmp_path, number):
    call, message = CALLS[number]
    with pytest.raises(InputError, match=message):
        call(tmp_path / "input")
