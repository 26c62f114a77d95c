"""Lines, sentences and ids as arguments: one rule for all public functions, whatever container
holds them.
"""

import io
import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

import keras_nplm
from keras_nplm import (
    LanguageModel,
    NBestList,
    Uniform,
    Vocabulary,
    encode_sentences,
    ngram_dataset,
    rescore,
)
from keras_nplm.models.spelling import SpellingModel

LINES = ["the cat sat on the mat", "the zebra saw the cat", "the cat saw a mat"] * 3
SENTENCES = [line.split() for line in LINES]
VOCABULARY = Vocabulary(["the", "cat", "sat", "on", "mat", "saw", "a"])
IDS = encode_sentences(SENTENCES, VOCABULARY)
NGRAM = LanguageModel(keras_nplm.kneser_ney(IDS, len(VOCABULARY), 3), VOCABULARY, "words")


@pytest.fixture(scope="module")
def network() -> LanguageModel:
    keras_nplm.NPLM  # noqa: B018  (imports Keras)
    model = keras_nplm.NPLM(len(VOCABULARY), order=3, embedding_dim=4, hidden_units=4)
    model.compile(loss="sparse_categorical_crossentropy")
    return LanguageModel(model, VOCABULARY, "words", "sentence")


def _read_batches(dataset) -> list:
    return [[part.tolist() for part in batch] for batch in dataset.as_numpy_iterator()]


# Functions of a network and of strings or ids in a container


def score(network, lines):
    return list(NGRAM.score(lines))


def evaluate(network, lines):
    return NGRAM.evaluate(lines)["perplexity"]


def adapt(network, lines):
    return network.adapt(lines, epochs=1).adaptation.before


def add_words_of_lines(network, lines):
    return keras_nplm.add_words(network, lines).vocabulary.words


def build_vocabulary(network, lines):
    return Vocabulary.build(lines, tokenizer="words").words


def train_subwords(network, lines):
    return keras_nplm.Subwords.train(lines, 300, "bpe").words


def rescore_texts(network, lines):
    return [nbest.texts for nbest in rescore(NGRAM, [NBestList("0", lines)])]


def open_dataset_of_lines(network, lines):
    return _read_batches(ngram_dataset(lines, 3, 8, vocabulary=VOCABULARY))


def add_given_words(network, words):
    return keras_nplm.add_words(network, WORDS, words).vocabulary.words


def enlarge_vocabulary(network, words):
    return VOCABULARY.with_words(words).words


def spell(network, words):
    return SpellingModel({"cat": 2, "act": 1}).log_prob(words).tolist()


def evaluate_ids(network, ids):
    return NGRAM.evaluate(ids)


def open_dataset_of_ids(network, ids):
    return _read_batches(ngram_dataset(ids, 3, 8))


def resample(network, ids):
    return [part.tolist() for part in keras_nplm.Resampled([(ids, 0.5)]).texts]


def estimate_kneser_ney(network, ids):
    return keras_nplm.kneser_ney(ids, 11, 2).next_log_probs([[4]]).tolist()


def estimate_deleted_interpolation(network, ids):
    return keras_nplm.deleted_interpolation(ids, IDS, 11, 2).next_log_probs([[4]]).tolist()


def estimate_class_based(network, ids):
    return keras_nplm.class_based(ids, ids, np.r_[0, 4, 2:11], 2).uniform_weight


def fit_mixture(network, ids):
    return keras_nplm.fit_mixture([NGRAM.model, Uniform(11)], ids).weights.tolist()


def tune_dynamic(network, ids):
    return keras_nplm.tune_dynamic(network.model, ids, "sentence", ids, 20).tried


def decode(network, ids):
    return VOCABULARY.decode(ids)


def compute_log_prob(network, ids):
    return NGRAM.model.log_prob(np.full((len(IDS), 2), 4), ids).tolist()


WORDS = ["zebra", "dog"]
TAKE_LINES = (
    *(score, evaluate, adapt, add_words_of_lines, build_vocabulary, train_subwords),
    *(rescore_texts, open_dataset_of_lines),
)
TAKE_WORDS = (add_given_words, enlarge_vocabulary, spell)
TAKE_STRINGS = (*TAKE_LINES, *TAKE_WORDS)
TAKE_IDS = (
    *(evaluate_ids, open_dataset_of_ids, resample, estimate_kneser_ney),
    *(estimate_deleted_interpolation, estimate_class_based, fit_mixture, tune_dynamic),
    *(decode, compute_log_prob),
)


def _find_values(function: Callable) -> list[str] | np.ndarray:
    """Return values in a list, or ids in an array, that a function takes."""
    if function in TAKE_IDS:
        return IDS
    return WORDS if function in TAKE_WORDS else LINES


# Containers


def make_generator(lines):
    return (line for line in lines)


def make_objects(lines):
    return np.array(lines, object)


def make_strings(lines):
    return np.array(lines, np.dtypes.StringDType())


def make_file(lines):
    return io.StringIO("".join(f"{line}\r\n" for line in lines), newline="")


def make_values(lines):
    return dict(enumerate(lines)).values()


def make_uint16(ids):
    return ids.astype(np.uint16)


GOOD = {
    "generator": make_generator,
    "array": np.array,
    "objects": make_objects,
    "StringDType": make_strings,
    "file": make_file,
    "values": make_values,
}
GOOD_IDS = {"list": np.ndarray.tolist, "uint16": make_uint16}
BAD = {
    "string": "the cat",
    "bytes": b"the cat",
    "None in a list": ["the cat", "a mat", None],
    "NaN": np.array(["the cat", math.nan], object),
    "path": Path("text.txt"),
    "dict": {"the cat": 1},
    "nested": [["the", "cat"]],
    "ids": np.array([4, 5, 3]),
    # only `build_vocabulary` takes each container, so that the file is read once
    "binary file": io.BytesIO(b"the cat\n"),
    "scalar": np.array("the cat"),
}
BAD_IDS = {
    "lines": LINES,
    "line objects": np.array(LINES, object),
    "sentences": [["the", "cat"], ["a", "mat"]],
    "ragged sentences": SENTENCES,
    "floats": np.array([4.0, 3.0]),
    "matrix": np.array([[4, 3]]),
    "64 bits": np.array([4, (1 << 32) + 3]),
    "None": None,
}


def _cross(
    functions: Iterable[Callable],
    containers: Iterable[str],
    one: Callable,
    most: str,
    slow: Callable | None = None,
) -> list:
    """Each function but a slow one with one container, and each container with one function."""
    return [
        pytest.param(function, container, id=f"{function.__name__}, {container}")
        for function, container in itertools.product(functions, containers)
        if function == one or (container == most and function != slow)
    ]


@pytest.mark.parametrize(
    "function, container",
    [
        *_cross(TAKE_STRINGS, GOOD, one=build_vocabulary, most="generator", slow=adapt),
        *_cross(TAKE_IDS, GOOD_IDS, one=decode, most="list", slow=tune_dynamic),
    ],
)
def test_lines_and_ids_come_in_any_container(network, function, container):
    values = _find_values(function)
    make = (GOOD | GOOD_IDS)[container]
    assert function(network, make(values)) == function(network, values)


@pytest.mark.parametrize(
    "function, container",
    [
        *_cross(TAKE_STRINGS, BAD, one=build_vocabulary, most="string"),
        *_cross(TAKE_IDS, BAD_IDS, one=decode, most="floats"),
    ],
)
def test_a_container_of_anything_else_is_refused(network, function, container):
    with pytest.raises((TypeError, ValueError)):  # of Python, or an InputError
        function(network, (BAD | BAD_IDS)[container])


@pytest.mark.parametrize("container", ["generator", "objects"])
def test_any_iterable_of_sentences_is_as_good_as_a_list(container):
    make = GOOD[container]
    pairs = [sentence[:2] for sentence in SENTENCES]
    words = Vocabulary.build(pairs).words
    assert Vocabulary.build(make(pairs)).words == words
    words = Vocabulary.build(SENTENCES).words
    assert Vocabulary.build([make(sentence) for sentence in SENTENCES]).words == words
    ids = encode_sentences(pairs, VOCABULARY)
    np.testing.assert_array_equal(encode_sentences(make(pairs), VOCABULARY), ids)
    made = [make(sentence) for sentence in SENTENCES]
    np.testing.assert_array_equal(encode_sentences(made, VOCABULARY), IDS)


def test_one_string_is_no_list(messages):
    for call in (
        lambda: NGRAM.evaluate("the cat"),
        lambda: NBestList("0", "the cat"),
        lambda: VOCABULARY.encode("the cat"),
        lambda: SpellingModel.from_vocabulary(VOCABULARY, {"dog": 1}),
        lambda: keras_nplm.open_corpus(train="text.txt"),
        lambda: keras_nplm.open_corpus(normalise="lower"),
        lambda: keras_nplm.mix("model", "target"),
    ):
        messages.refuse(call)
