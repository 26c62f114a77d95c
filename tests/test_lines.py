"""Lines, sentences and ids as arguments: one rule for all public functions, whatever container
holds them.
"""

import io
from collections.abc import Callable

import numpy as np
import pytest

import keras_nplm
from keras_nplm import (
    LanguageModel,
    NBestList,
    Subwords,
    Uniform,
    Vocabulary,
    add_words,
    encode_sentences,
    fit_mixture,
    ngram_dataset,
    rescore,
    tune_dynamic,
)
from keras_nplm.models.spelling import SpellingModel
from tests.language_models import METHODS

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


# Functions of a network and of lines, words or ids, by name
TAKE_LINES: dict[str, Callable] = {
    "score": lambda network, lines: list(NGRAM.score(lines)),
    "evaluate": lambda network, lines: NGRAM.evaluate(lines)["perplexity"],
    "adapt": lambda network, lines: network.adapt(lines, epochs=1).adaptation.before,
    "add words of lines": lambda network, lines: add_words(network, lines).vocabulary.words,
    "build a vocabulary": lambda network, lines: Vocabulary.build(lines, tokenizer="words").words,
    "train subwords": lambda network, lines: Subwords.train(lines, 300, "bpe").words,
    "rescore": lambda network, lines: next(rescore(NGRAM, [NBestList("0", lines)])).texts,
    "dataset": lambda network, lines: _read(ngram_dataset(lines, 3, 8, vocabulary=VOCABULARY)),
}
TAKE_WORDS: dict[str, Callable] = {
    "add words": lambda network, words: add_words(network, WORDS, words).vocabulary.words,
    "enlarge a vocabulary": lambda network, words: VOCABULARY.with_words(words).words,
    "spell": lambda network, words: SpellingModel({"cat": 2, "act": 1}).log_prob(words).tolist(),
}
TAKE_IDS: dict[str, Callable] = {
    "evaluate ids": lambda network, ids: NGRAM.evaluate(ids),
    "dataset of ids": lambda network, ids: _read(ngram_dataset(ids, 3, 8)),
    "resample": lambda network, ids: [*map(list, keras_nplm.Resampled([(ids, 0.5)]).texts)],
    **{
        method: lambda network, ids, estimate=estimate: _list_row(
            estimate(ids, IDS, 11, 2, "sentence")
        )
        for method, estimate in METHODS.items()
    },
    "held-out ids": lambda network, ids: _list_row(METHODS["class-based"](IDS, ids, 11, 2, "text")),
    "mixture": lambda network, ids: fit_mixture([NGRAM.model, Uniform(11)], ids).weights.tolist(),
    "tune": lambda network, ids: tune_dynamic(network.model, ids, "sentence", ids, 20).tried,
    "decode": lambda network, ids: VOCABULARY.decode(ids),
    "log_prob": lambda network, ids: NGRAM.model.log_prob(CONTEXTS, ids).tolist(),
}
WORDS = ["zebra", "dog"]
CONTEXTS = np.full((len(IDS), 2), 4)
VALUES = {
    **dict.fromkeys(TAKE_LINES, LINES),
    **dict.fromkeys(TAKE_WORDS, WORDS),
    **dict.fromkeys(TAKE_IDS, IDS),
}
FUNCTIONS = TAKE_LINES | TAKE_WORDS | TAKE_IDS
SLOW = {"adapt", "tune"}


def _read(dataset) -> list:
    return [[part.tolist() for part in batch] for batch in dataset.as_numpy_iterator()]


def _list_row(model) -> list:
    return model.next_log_probs([[4]]).tolist()


def make_generator(lines):
    return (line for line in lines)


def make_objects(lines):
    return np.array(lines, object)


GOOD = {
    "generator": make_generator,
    "array": np.array,
    "objects": make_objects,
    "StringDType": lambda lines: np.array(lines, np.dtypes.StringDType()),
    "file": lambda lines: io.StringIO("".join(f"{line}\r\n" for line in lines), newline=""),
    "values": lambda lines: dict(enumerate(lines)).values(),
}
BAD = {
    "string": "the cat",
    "None in a list": ["the cat", "a mat", None],
    "dict": {"the cat": 1},
    "nested": [["the", "cat"]],
    "binary file": io.BytesIO(b"the cat\n"),
}
BAD_IDS = {
    "lines": LINES,
    "ragged sentences": SENTENCES,
    "floats": np.array([4.0, 3.0]),
    "matrix": np.array([[4, 3]]),
    "64 bits": np.array([4, (1 << 32) + 3]),
}


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in SLOW])
def test_lines_need_be_no_list_and_ids_no_array(network, name):
    function, values = FUNCTIONS[name], VALUES[name]
    others = values.tolist() if values is IDS else make_generator(values)
    assert function(network, others) == function(network, values)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_string_and_numbers_that_are_no_ids_are_refused(network, name):
    with pytest.raises((TypeError, ValueError)):  # of Python, or an InputError
        FUNCTIONS[name](network, BAD_IDS["floats"] if name in TAKE_IDS else BAD["string"])


@pytest.mark.parametrize("container", GOOD)
def test_lines_come_in_any_container(network, container):
    build = TAKE_LINES["build a vocabulary"]
    assert build(network, GOOD[container](LINES)) == build(network, LINES)


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_words_may_be_one_of_numpy(method):
    models = [METHODS[method](IDS, IDS, size, 3, "sentence") for size in (11, np.int32(11))]
    p, again = (model.next_log_probs([[4, 5]]) for model in models)
    np.testing.assert_array_equal(again, p)
    assert type(models[1].vocabulary_size) is int


def test_ids_may_have_fewer_bits(network):
    assert VOCABULARY.decode(IDS.astype(np.uint16)) == VOCABULARY.decode(IDS)


@pytest.mark.parametrize(
    "name, container",
    [
        *(("build a vocabulary", container) for container in BAD),
        *(("decode", container) for container in BAD_IDS),
    ],
)
def test_a_container_of_anything_else_is_refused(network, name, container):
    values = BAD_IDS[container] if name in TAKE_IDS else BAD[container]
    with pytest.raises((TypeError, ValueError)):
        FUNCTIONS[name](network, values)


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
        lambda: keras_nplm.open_corpus(normalise="lower"),
        lambda: keras_nplm.mix("model", "target"),
    ):
        messages.refuse(call)


def test_tokens_are_no_text(messages):
    for call in (NGRAM.next_words, NGRAM.complete_prefix, NGRAM.generate):
        messages.refuse(lambda call=call: call(["the", "cat"]))


def test_one_name_stands_for_a_list_of_files(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat\n" * 30)
    for train in (path, str(path), [path]):
        corpus = keras_nplm.open_corpus(train=train)
        assert next(corpus.sentences("train")) == ["the", "cat", "sat"]
