"""Fixtures of the tests of count-based models: the n-grams of a text in plain Python."""

import numpy as np
import pytest
from hypothesis import strategies as st

from keras_nplm import Vocabulary, encode_corpus, open_corpus
from keras_nplm.data.ngram_arrays import ngram_positions


@pytest.fixture(scope="session")
def texts():
    """A function of the boundary: a strategy of texts over 9 ids, the last never seen, in sentences
    closed by `</s>`.

    With the boundary `"text"` every third sentence begins a document.
    """
    words = st.lists(st.sampled_from([1, *range(4, 8)]), min_size=1, max_size=9)
    ids = st.lists(words, min_size=1, max_size=12).map(_join_sentences)

    def draw_texts(boundary):
        return ids.map(_begin_documents) if boundary == "text" else ids

    return draw_texts


def _join_sentences(sentences):
    closed = [[*words, 3] for words in sentences]
    return np.concatenate(closed).astype(np.int32)


def _begin_documents(ids):
    ends = np.flatnonzero(ids == 3)
    return np.insert(ids, ends[::3] + 1, 2)


@pytest.fixture(scope="session")
def list_events():
    """Function that yields (context, word) of every target: a context has no `<pad>` and at most
    one `<s>`.
    """

    def list_events(ids, order, boundary):
        tokens, positions = ngram_positions(ids, order, boundary)
        for position in positions.tolist():
            context = []
            for id in reversed(tokens[position - order + 1 : position].tolist()):
                if id == 0:
                    break
                context.insert(0, id)
                if id == 2:
                    break
            yield tuple(context), int(tokens[position])

    return list_events


@pytest.fixture(scope="session")
def pad_contexts():
    """Function that returns contexts of any length as int32 [contexts, n-1], with `<pad>` at the
    front.
    """

    def pad_contexts(contexts, order):
        rows = [[0] * (order - 1 - len(context)) + list(context) for context in contexts]
        return np.array(rows, np.int32).reshape(len(contexts), order - 1)

    return pad_contexts


@pytest.fixture(scope="session")
def brown(brown_directory, tmp_path_factory):
    """Brown with the paper's split and vocabulary."""
    corpus = open_corpus("brown", data_dir=str(brown_directory))
    sentences = (sentence for split in corpus.splits for sentence in corpus.sentences(split))
    return encode_corpus(
        corpus, Vocabulary.build(sentences, min_count=4), tmp_path_factory.mktemp("brown")
    )
