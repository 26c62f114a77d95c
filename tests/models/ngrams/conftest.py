"""Brown, for tests of count-based models."""

import pytest

from keras_nplm import Vocabulary, encode_corpus, open_corpus


@pytest.fixture(scope="session")
def brown(brown_directory, tmp_path_factory):
    """Brown with the paper's split and vocabulary."""
    corpus = open_corpus("brown", data_dir=str(brown_directory))
    sentences = (sentence for split in corpus.splits for sentence in corpus.sentences(split))
    return encode_corpus(
        corpus, Vocabulary.build(sentences, min_count=4), tmp_path_factory.mktemp("brown")
    )
