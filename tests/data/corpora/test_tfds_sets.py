import pytest

from keras_nplm import InputError, open_corpus
from keras_nplm.data.corpora import SPLITS


def test_a_tfds_set_gives_the_sentences_of_its_builder():
    corpus = open_corpus("tfds:python_reference", tokenizer="whitespace")
    for split in SPLITS:
        assert list(corpus.sentences(split)) == list(open_corpus().sentences(split))


def test_an_unknown_tfds_set_is_refused():
    with pytest.raises(InputError, match="TFDS has no set 'no_such_set'"):
        open_corpus("tfds:no_such_set")
