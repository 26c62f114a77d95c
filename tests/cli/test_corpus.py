"""The corpus that the flags of the text describe."""

import pytest

from keras_nplm.cli.app import parse
from keras_nplm.cli.configurations import get_configuration
from keras_nplm.cli.corpus import NO_TEXTS, open_given_corpus


@pytest.mark.parametrize(
    "line, tokenizer, pieces",
    [
        pytest.param("train --config names", "characters", None, id="characters"),
        pytest.param("train --config names --token word", "words", None, id="a unit"),
        pytest.param("ngram --config phone", "sentencepiece", 4000, id="subwords"),
        pytest.param("train --config phone --pieces 500", "sentencepiece", 500, id="their number"),
        pytest.param("train --config phone --token character", "characters", None, id="neither"),
        pytest.param("train", "words", None, id="the default"),
    ],
)
def test_flags_override_the_tokenizer_of_a_named_configuration(line, tokenizer, pieces):
    _, bound = parse([*line.split(), "--output", "model"])
    named = get_configuration(bound.arguments.get("config")).corpus
    corpus = open_given_corpus(bound.arguments.get("corpus", {}), NO_TEXTS, named=named)
    assert corpus.tokenizer == tokenizer
    assert pieces is None or corpus.subwords.pieces == pieces
