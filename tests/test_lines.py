"""Lines, sentences and ids as arguments: one rule for all public functions, whatever container holds them."""

import io
import itertools
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import keras_nplm
from keras_nplm import InputError, LanguageModel, NBestList, Vocabulary, encode_sentences
from keras_nplm.models.dynamic import DynamicSettings
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
    "dynamic": (LINES, lambda network, lines: network.evaluate(lines, dynamic=DynamicSettings())["dynamic"]),
    "adapt": (LINES, lambda network, lines: network.adapt(lines, epochs=1).adaptation.before),
    "add_words": (LINES, lambda network, lines: keras_nplm.add_words(network, lines).vocabulary.words),
    "words to add": (
        WORDS,
        lambda network, words: keras_nplm.add_words(network, WORDS, words).vocabulary.words,
    ),
    "build": (LINES, lambda network, lines: Vocabulary.build(lines, tokenizer="words").words),
    "with_words": (WORDS, lambda network, words: VOCABULARY.with_words(words).words),
    "train": (LINES, lambda network, lines: keras_nplm.Subwords.train(lines, 300, "bpe").words),
    "rescore": (LINES, lambda network, lines: [nbest.texts for nbest in NGRAM.rescore([NBestList("0", lines)])]),
    "spelling": (WORDS, lambda network, words: SpellingModel({"cat": 2, "act": 1}).log_prob(words).tolist()),
    "ngram_dataset": (
        LINES,
        lambda network, lines: _read_batches(keras_nplm.ngram_dataset(lines, 3, 8, vocabulary=VOCABULARY)),
    ),
}
TAKE_IDS = {
    "evaluate": lambda network, ids: keras_nplm.evaluate(NGRAM.model, ids),
    "LanguageModel.evaluate": lambda network, ids: NGRAM.evaluate(ids),
    "ngram_dataset": lambda network, ids: _read_batches(keras_nplm.ngram_dataset(ids, 3, 8)),
    "Resampled": lambda network, ids: [part.tolist() for part in keras_nplm.Resampled([(ids, 0.5)]).texts],
    "kneser_ney": lambda network, ids: keras_nplm.kneser_ney(ids, 11, 2).next_log_probs([[4]]).tolist(),
    "deleted": lambda network, ids: keras_nplm.deleted_interpolation(ids, IDS, 11, 2).next_log_probs([[4]]).tolist(),
    "class_based": lambda network, ids: keras_nplm.class_based(ids, ids, np.r_[0, 4, 2:11], 2).uniform_weight,
    "fit_mixture": lambda network, ids: keras_nplm.fit_mixture(
        [NGRAM.model, keras_nplm.Uniform(11)], ids
    ).weights.tolist(),
    "tune_dynamic": lambda network, ids: keras_nplm.tune_dynamic(network.model, ids, "sentence", ids, 20).tried,
    "decode": lambda network, ids: VOCABULARY.decode(ids),
    "log_prob": lambda network, ids: NGRAM.model.log_prob(np.full((len(IDS), 2), 4), ids).tolist(),
}


GOOD = {
    "tuple": tuple,
    "generator": lambda lines: (line for line in lines),
    "array": np.array,
    "objects": lambda lines: np.array(lines, object),
    "StringDType": lambda lines: np.array(lines, np.dtypes.StringDType()),
    "file": lambda lines: io.StringIO("".join(f"{line}\r\n" for line in lines), newline=""),
    "values": lambda lines: dict(enumerate(lines)).values(),
}
BAD = {
    "string": ("the cat", r"Received: 'the cat' \(str\)|Received: 'the cat'\. Fix: put one line"),
    "bytes": (b"the cat", r"Received: b'the cat' \(bytes\)\. Fix: decode"),
    "bytes in a list": (["the cat", b"dog"], r"Received: b'dog' \(bytes\) at position 1\. Fix: decode"),
    "None in a list": (["the cat", "a mat", None], r"Received: None \(NoneType\) at position 2"),
    "NaN": (np.array(["the cat", math.nan], object), r"Received: nan \(float\) at position 1"),
    "path": (Path("text.txt"), r"Received: PosixPath\('text.txt'\).* Fix: open the file"),
    "dict": ({"the cat": 1}, r"Received: \{'the cat': 1\} \(dict\)\. Fix: pass its keys"),
    "nested": ([["the", "cat"]], r"Received: \['the', 'cat'\] \(list\) at position 0\. Fix: join"),
    "ids": (np.array([4, 5, 3]), "Received: token ids at position 0"),
    "binary file": (lambda: io.BytesIO(b"the cat\n"), r"Received: b'the cat\\n' \(bytes\) at position 0"),
    "scalar": (np.array("the cat"), r"Received: array\('the cat'.* \(ndarray\)"),
}


GOOD_IDS = {
    "list": lambda ids: ids.tolist(),
    "tuple": lambda ids: tuple(ids.tolist()),
    "int64": lambda ids: ids.astype(np.int64),
    "uint16": lambda ids: ids.astype(np.uint16),
}
BAD_IDS = {
    "lines": (LINES, "Received: strings. Fix: encode"),
    "objects": (np.array(LINES, object), "Received: strings. Fix: encode"),
    "sentences": ([["the", "cat"], ["a", "mat"]], "Received: strings. Fix: encode"),
    "ragged sentences": (SENTENCES, r"Received: \[\['the', 'cat'.* \(list\)"),
    "floats": (np.array([4.0, 3.0]), r"(\(ndarray\), float64 \[2\]|\(float64\) at position 0)"),
    "matrix": (np.array([[4, 3]]), r"\(ndarray\), int64 \[1, 2\]"),
    "64 bits": (np.array([4, (1 << 32) + 3]), "Received: 4 to 4294967299"),
    "None": (None, r"Received: None \(NoneType\)"),
}


def _cross(functions: Iterable[str], containers: Iterable[str], one: str, most: str, slow: str = "") -> list[tuple]:
    """Each function but a slow one with one container, and each container with one function."""
    pairs = itertools.product(functions, containers)
    return [(name, container) for name, container in pairs if name == one or (container == most and name != slow)]


@pytest.mark.parametrize("name, container", _cross(TAKE_STRINGS, GOOD, "build", "generator", "adapt"))
def test_any_iterable_of_strings_is_as_good_as_a_list(network, name, container):
    strings, function = TAKE_STRINGS[name]
    assert function(network, GOOD[container](strings)) == function(network, strings)


@pytest.mark.parametrize("name, container", _cross(TAKE_STRINGS, BAD, "build", "string"))
def test_what_holds_no_strings_is_refused(network, name, container):
    value, message = BAD[container]
    value = value() if callable(value) else value
    with pytest.raises(InputError, match=f"`[a-z]+` must be .*({message})"):
        TAKE_STRINGS[name][1](network, value)


@pytest.mark.parametrize("container", ["generator", "objects"])
@pytest.mark.parametrize(
    "take", [lambda some: Vocabulary.build(some).words, lambda some: encode_sentences(some, VOCABULARY).tolist()]
)
def test_any_iterable_of_sentences_is_as_good_as_a_list(take, container):
    pairs = [sentence[:2] for sentence in SENTENCES]
    assert take(GOOD[container](pairs)) == take(pairs)
    assert take([GOOD[container](sentence) for sentence in SENTENCES]) == take(SENTENCES)


@pytest.mark.parametrize("name, container", _cross(TAKE_IDS, GOOD_IDS, "decode", "list", "tune_dynamic"))
def test_any_array_of_ids_is_as_good_as_int32(network, name, container):
    assert TAKE_IDS[name](network, GOOD_IDS[container](IDS)) == TAKE_IDS[name](network, IDS)


@pytest.mark.parametrize("name, container", _cross(TAKE_IDS, BAD_IDS, "decode", "floats"))
def test_what_holds_no_ids_is_refused(network, name, container):
    value, message = BAD_IDS[container]
    with pytest.raises(InputError, match=f"`[a-z_]+` must be .*{message}"):
        TAKE_IDS[name](network, value)


@pytest.mark.parametrize(
    "call, argument",
    [
        (lambda model, text: model.next_words(text), "context"),
        (lambda model, text: model.complete_prefix(text), "text"),
        (lambda model, text: model.generate(text), "prompt"),
        (lambda model, text: model.nearest(text), "word"),
        (lambda model, text: model.analogy("the", text, "cat"), "word"),
    ],
)
def test_one_text_must_be_one_string(network, call, argument):
    for text in (["the cat"], b"the", None):
        with pytest.raises(InputError, match=f"`{argument}` must be one string. Received: "):
            call(network, text)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: NGRAM.evaluate("the cat"), r"one of train, validation, test. Received: 'the cat'. Fix: put one line"),
        (lambda: list(NGRAM.rescore(LINES)), "`lists` must be .* position 0. Fix: pass objects of the class NBestList"),
        (lambda: keras_nplm.tune(LINES, len), "`lists` must be .* position 0. Fix: pass objects of the class NBest"),
        (lambda: NBestList("0", "the cat"), "`texts` must be"),
        (lambda: VOCABULARY.encode("the cat"), "`tokens` must be .* Received: 'the cat'"),
        (lambda: VOCABULARY.encode(["the", None]), r"`tokens` .* Received: None \(NoneType\) at position 1"),
        (lambda: VOCABULARY.encode(["the", ["cat"]]), r"`tokens` .* Received: \['cat'\] \(list\) at position 1"),
        (lambda: SpellingModel("cat"), "A spelling model needs"),
        (lambda: SpellingModel.from_vocabulary(VOCABULARY, {"dog": 1}), "`unknown_words` must be"),
        (lambda: SpellingModel.from_vocabulary(VOCABULARY, ["dog"]), "`unknown_words` must be"),
        (lambda: keras_nplm.open_corpus(train="text.txt"), "`files` must be a list of file names"),
        (lambda: keras_nplm.open_corpus(normalise="lower"), "`normalise` must be"),
        (lambda: keras_nplm.mix("model", "target"), "`directories` must be"),
    ],
)
def test_one_item_is_no_list(call, message):
    with pytest.raises(InputError, match=message):
        call()
