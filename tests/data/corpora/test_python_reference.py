import itertools
import urllib.request

from keras_nplm import open_corpus
from keras_nplm.data.corpora import SPLITS
from keras_nplm.data.tokenizers import get_tokenizer


def test_the_default_corpus_is_english_of_about_65_000_tokens():
    corpus = open_corpus()
    tokens = {split: sum(map(len, corpus.sentences(split))) for split in SPLITS}
    assert 55_000 < sum(tokens.values()) < 80_000
    assert 0.75 < tokens["train"] / sum(tokens.values()) < 0.9
    assert min(tokens.values()) > 4_000
    words = set(itertools.chain.from_iterable(corpus.sentences("train")))
    assert {"the", "expression", "raise", ".", ","} <= words


def test_no_paragraph_is_in_two_splits():
    corpus = open_corpus()
    long = {split: {" ".join(s) for s in corpus.sentences(split) if len(s) > 12} for split in SPLITS}
    for one, two in itertools.combinations(SPLITS, 2):
        assert len(long[one] & long[two]) <= 0.01 * len(long[two])


def test_it_needs_no_network_writes_nothing_and_is_silent(tmp_path, monkeypatch, capfd):
    def no_network(*args, **kwargs):
        raise AssertionError("the embedded default must not use the network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    for name in ("HOME", "TFDS_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    assert next(open_corpus().sentences("train"))
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")


def test_its_words_are_normalised_but_not_split_again():
    plain = next(open_corpus("python_reference").sentences("test"))
    corpus = open_corpus("python_reference", tokenizer="whitespace", normalise=["lower", "numbers"])
    assert corpus.tokenizer == "words+lower+numbers"
    assert next(corpus.sentences("test")) == get_tokenizer(corpus.tokenizer)(" ".join(plain)) != plain
