"""A fixed vocabulary: its file, and models of it, which know words that no text has."""

import functools
import gzip
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import LanguageModel, estimate, open_corpus, train
from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.training.methods import Method

WORDS = [*(f"w{i}" for i in range(25)), "unseen", "UNSEEN"]
LIST = "\ufeffunseen\r\n\r\n<s>\n<unk>\n-pau-\nw1\t\n" + "\r\n".join(WORDS)


@pytest.fixture(scope="module")
def word_list(tmp_path_factory) -> str:
    """A list with a byte order mark, both line ends, blank lines, special and repeated words."""
    path = tmp_path_factory.mktemp("list") / "words.txt.gz"
    path.write_bytes(gzip.compress(LIST.encode()))
    return str(path)


@pytest.fixture(scope="module")
def fixed_corpus(short_text, word_list):
    return open_corpus(train=[str(short_text)], vocabulary=word_list)


def _check_model(directory) -> None:
    """Check that a model has the words of the list, and a distribution over all of them."""
    language_model = LanguageModel.load(directory)
    vocabulary = language_model.vocabulary
    assert {*vocabulary.words[4:]} == {*WORDS} and vocabulary.words[4] == "w1"  # by frequency
    contexts = np.random.default_rng(0).integers(1, len(vocabulary), (20, 20))
    model = language_model.model
    p = np.exp(model.next_log_probs(contexts[:, : model.order - 1]).astype(np.float64))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    possible = np.delete(np.arange(len(vocabulary)), [PAD_ID, BOS_ID])
    assert p[:, possible].min() > 1e-9
    unseen, seen = (p[:, vocabulary.encode(words)].mean() for words in (WORDS[-2:], WORDS[:5]))
    assert unseen < seen / 10


@pytest.mark.parametrize("method", Method.kinds)
def test_an_ngram_model_has_words_that_the_text_lacks(tmp_path, fixed_corpus, method):
    options = {"num_classes": 5} if method == "class-based" else {}
    result = estimate(method, fixed_corpus, tmp_path / "model", order=3, **options)
    assert (result["vocabulary"]["words"], result["vocabulary"]["absent"]) == (27, 2)
    _check_model(tmp_path / "model")


NETWORKS = {
    "nce": dict(objective="nce", num_sampled=9, optimizer="adam", learning_rate=0.01),
    "shortlist": dict(shortlist_size=10),
    "interpolated": dict(interpolated=True),
}


@pytest.mark.long
@pytest.mark.usefixtures("no_report", "no_logs")
@pytest.mark.parametrize("changes", NETWORKS.values(), ids=NETWORKS)
def test_a_network_has_words_that_the_text_lacks(tmp_path, fixed_corpus, short_options, changes):
    options = short_options.replace(epochs=2, **changes)
    result = train(fixed_corpus, tmp_path / "model", options)
    assert result["vocabulary"]["absent"] == 2
    _check_model(tmp_path / "model")


def test_models_with_the_ids_of_a_vocabulary_are_mixed(here, run, ask, short_text, word_list):
    Path("more.txt").write_text("w9 w8 unseen w9\n" * 20, encoding="utf-8")
    run(f"ngram --train {short_text} --order 2 --output first --vocabulary {word_list}")
    run("prepare --train more.txt --vocabulary first/vocabulary.txt --output prepared")
    second = ask("ngram --corpus prepared --output second")
    assert second["vocabulary"]["absent"] == 24
    run(f"ngram --corpus prepared --output x --vocabulary {word_list}", status=2)
    run("mix first second --output mixture")
    first, *others = (
        LanguageModel.load(name).vocabulary for name in ("first", "second", "mixture")
    )
    assert others == [first, first]


def test_words_that_no_text_can_have_are_told(here, run, short_text):
    Path("cased.txt").write_text("W1\nw2\nW3\n", encoding="utf-8")
    command = f"ngram --train {short_text} --vocabulary cased.txt --normalise lower --output model"
    message = "2 of 3 words of the vocabulary are never tokens of the tokenizer words+lower, such"
    assert message in run(command).err
    assert LanguageModel.load("model").vocabulary.words[4:] == ["w2", "W1", "W3"]


def test_files_that_are_no_word_list_are_refused(tmp_path, short_text, messages):
    path = tmp_path / "list.txt"
    for content, options in (
        ("<unk>\n", {}),
        ("ab A B\ncd\n", {}),
        ("a\n", {"tokenizer": "sentencepiece"}),
    ):
        path.write_text(content, encoding="utf-8")
        texts = [str(short_text)]
        messages.refuse(functools.partial(open_corpus, train=texts, vocabulary=path, **options))
    path.write_text("ein\nzwei\n", encoding="utf-8")
    corpus = open_corpus(train=[str(short_text)], vocabulary=path)
    messages.refuse(lambda: estimate("kneser-ney", corpus, tmp_path / "model"))
