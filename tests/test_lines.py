"""Lines, sentences and ids as arguments: one rule for all public functions, whatever container
holds them.
"""

import io
import itertools
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import keras_nplm
from keras_nplm import (
    InputError,
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


WORDS = ["zebra", "dog"]
# name: the strings in a list, and a function of a network and a container of these strings
TAKE_STRINGS = {
    "score": (LINES, lambda network, lines: list(NGRAM.score(lines))),
    "evaluate": (LINES, lambda network, lines: NGRAM.evaluate(lines)["perplexity"]),
    "adapt": (LINES, lambda network, lines: network.adapt(lines, epochs=1).adaptation.before),
    "add_words": (
        LINES,
        lambda network, lines: keras_nplm.add_words(network, lines).vocabulary.words,
    ),
    "words": (
        WORDS,
        lambda network, words: keras_nplm.add_words(network, WORDS, words).vocabulary.words,
    ),
    "build": (LINES, lambda network, lines: Vocabulary.build(lines, tokenizer="words").words),
    "with_words": (WORDS, lambda network, words: VOCABULARY.with_words(words).words),
    "train": (LINES, lambda network, lines: keras_nplm.Subwords.train(lines, 300, "bpe").words),
    "rescore": (
        LINES,
        lambda network, lines: [nbest.texts for nbest in rescore(NGRAM, [NBestList("0", lines)])],
    ),
    "spelling": (
        WORDS,
        lambda network, words: SpellingModel({"cat": 2, "act": 1}).log_prob(words).tolist(),
    ),
    "dataset": (
        LINES,
        lambda network, lines: _read_batches(ngram_dataset(lines, 3, 8, vocabulary=VOCABULARY)),
    ),
}
TAKE_IDS = {
    "evaluate ids": lambda network, ids: NGRAM.evaluate(ids),
    "dataset of ids": lambda network, ids: _read_batches(ngram_dataset(ids, 3, 8)),
    "Resampled": lambda network, ids: [
        part.tolist() for part in keras_nplm.Resampled([(ids, 0.5)]).texts
    ],
    "kneser_ney": lambda network, ids: (
        keras_nplm.kneser_ney(ids, 11, 2).next_log_probs([[4]]).tolist()
    ),
    "deleted": lambda network, ids: (
        keras_nplm.deleted_interpolation(ids, IDS, 11, 2).next_log_probs([[4]]).tolist()
    ),
    "class_based": lambda network, ids: (
        keras_nplm.class_based(ids, ids, np.r_[0, 4, 2:11], 2).uniform_weight
    ),
    "mixture": lambda network, ids: keras_nplm.fit_mixture(
        [NGRAM.model, Uniform(11)], ids
    ).weights.tolist(),
    "tune_dynamic": lambda network, ids: (
        keras_nplm.tune_dynamic(network.model, ids, "sentence", ids, 20).tried
    ),
    "decode": lambda network, ids: VOCABULARY.decode(ids),
    "log_prob": lambda network, ids: NGRAM.model.log_prob(np.full((len(IDS), 2), 4), ids).tolist(),
}
TAKE = TAKE_STRINGS | {name: (IDS, function) for name, function in TAKE_IDS.items()}


GOOD = {
    "generator": lambda lines: (line for line in lines),
    "array": np.array,
    "objects": lambda lines: np.array(lines, object),
    "StringDType": lambda lines: np.array(lines, np.dtypes.StringDType()),
    "file": lambda lines: io.StringIO("".join(f"{line}\r\n" for line in lines), newline=""),
    "values": lambda lines: dict(enumerate(lines)).values(),
}
GOOD_IDS = {"list": np.ndarray.tolist, "uint16": lambda ids: ids.astype(np.uint16)}
BAD = {
    "string": ("the cat", r"Received: 'the cat' \(str\)|Received: 'the cat'\. Fix: put one line"),
    "bytes": (b"the cat", r"Received: b'the cat' \(bytes\)\. Fix: decode"),
    "None in a list": (["the cat", "a mat", None], r"Received: None \(NoneType\) at position 2"),
    "NaN": (np.array(["the cat", math.nan], object), r"Received: nan \(float\) at position 1"),
    "path": (Path("text.txt"), r"Received: PosixPath\('text.txt'\).* Fix: open the file"),
    "dict": ({"the cat": 1}, r"Received: \{'the cat': 1\} \(dict\)\. Fix: pass its keys"),
    "nested": ([["the", "cat"]], r"Received: \['the', 'cat'\] \(list\) at position 0\. Fix: join"),
    "ids": (np.array([4, 5, 3]), "Received: token ids at position 0"),
    "binary file": (
        lambda: io.BytesIO(b"the cat\n"),
        r"Received: b'the cat\\n' \(bytes\) at position 0",
    ),
    "scalar": (np.array("the cat"), r"Received: array\('the cat'.* \(ndarray\)"),
}
BAD_IDS = {
    "lines": (LINES, "Received: strings. Fix: encode"),
    "line objects": (np.array(LINES, object), "Received: strings. Fix: encode"),
    "sentences": ([["the", "cat"], ["a", "mat"]], "Received: strings. Fix: encode"),
    "ragged sentences": (SENTENCES, r"Received: \[\['the', 'cat'.* \(list\)"),
    "floats": (np.array([4.0, 3.0]), r"(\(ndarray\), float64 \[2\]|\(float64\) at position 0)"),
    "matrix": (np.array([[4, 3]]), r"\(ndarray\), int64 \[1, 2\]"),
    "64 bits": (np.array([4, (1 << 32) + 3]), "Received: 4 to 4294967299"),
    "None": (None, r"Received: None \(NoneType\)"),
}


def _cross(
    functions: Iterable[str], containers: Iterable[str], one: str, most: str, slow: str = ""
) -> list[tuple]:
    """Each function but a slow one with one container, and each container with one function."""
    pairs = itertools.product(functions, containers)
    return [
        (name, container)
        for name, container in pairs
        if name == one or (container == most and name != slow)
    ]


_GOOD = _cross(TAKE_STRINGS, GOOD, "build", "generator", "adapt")
_GOOD += _cross(TAKE_IDS, GOOD_IDS, "decode", "list", "tune_dynamic")
_BAD = _cross(TAKE_STRINGS, BAD, "build", "string") + _cross(TAKE_IDS, BAD_IDS, "decode", "floats")


@pytest.mark.parametrize("name, container", _GOOD)
def test_lines_and_ids_come_in_any_container(network, name, container):
    values, function = TAKE[name]
    assert function(network, (GOOD | GOOD_IDS)[container](values)) == function(network, values)


@pytest.mark.parametrize("name, container", _BAD)
def test_a_container_of_anything_else_is_refused(network, name, container):
    value, message = (BAD | BAD_IDS)[container]
    value = value() if callable(value) else value
    with pytest.raises(InputError, match=f"`[a-z_]+` must be .*({message})"):
        TAKE[name][1](network, value)


@pytest.mark.parametrize("container", ["generator", "objects"])
def test_any_iterable_of_sentences_is_as_good_as_a_list(container):
    pairs = [sentence[:2] for sentence in SENTENCES]
    for take in (
        lambda some: Vocabulary.build(some).words,
        lambda some: encode_sentences(some, VOCABULARY).tolist(),
    ):
        assert take(GOOD[container](pairs)) == take(pairs)
        assert take([GOOD[container](sentence) for sentence in SENTENCES]) == take(SENTENCES)


@pytest.mark.parametrize("text", [["the cat"], b"the", None])
def test_one_text_must_be_one_string(network, text):
    arguments = {
        "next_words": "context",
        "complete_prefix": "text",
        "generate": "prompt",
        "nearest": "word",
    }
    for method, argument in arguments.items():
        with pytest.raises(InputError, match=f"`{argument}` must be one string. Received: "):
            getattr(network, method)(text)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: NGRAM.evaluate("the cat"),
            r"one of train, validation, test. Received: 'the cat'. Fix: put one line",
        ),
        (
            lambda: list(rescore(NGRAM, LINES)),
            "`lists` must be .* position 0. Fix: pass objects of the class NBestList",
        ),
        (
            lambda: keras_nplm.tune(LINES, len),
            "`lists` must be .* position 0. Fix: pass objects of the class NBest",
        ),
        (lambda: NBestList("0", "the cat"), "`texts` must be"),
        (lambda: VOCABULARY.encode("the cat"), "`tokens` must be .* Received: 'the cat'"),
        (
            lambda: VOCABULARY.encode(["the", ["cat"]]),
            r"`tokens` .* Received: \['cat'\] \(list\) at position 1",
        ),
        (lambda: SpellingModel("cat"), "A spelling model needs"),
        (lambda: SpellingModel.from_vocabulary(VOCABULARY, {"dog": 1}), "`unknown_words` must be"),
        (lambda: keras_nplm.open_corpus(train="text.txt"), "`files` must be a list of file names"),
        (lambda: keras_nplm.open_corpus(normalise="lower"), "`normalise` must be"),
        (lambda: keras_nplm.mix("model", "target"), "`directories` must be"),
    ],
)
def test_one_item_is_no_list(call, message):
    with pytest.raises(InputError, match=message):
        call()
