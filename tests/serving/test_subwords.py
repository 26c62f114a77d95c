"""Unused pieces and user-defined symbols of subwords are those of sentencepiece, in graphs too.

For texts, their ends and every character see `test_text.py`.
"""

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from keras_nplm import Subwords, Vocabulary
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.serving.text import TextGraph
from tests.text_cases import LINES
from tests.tokenizers import train_with_the_library

SYMBOLS = ["<U+00A0>", "<mask>", "at", "<U+D800>", "<U+110000>", "x.*"]


def make_model(kind: str, random: np.random.Generator) -> bytes:
    """Train a model with user-defined symbols, and mark two fifths of its pieces as unused."""
    model = train_with_the_library(
        LINES,
        model_type=kind,
        vocab_size=380,
        normalization_rule_name="identity",
        user_defined_symbols=SYMBOLS,
        remove_extra_whitespaces=False,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    for piece in proto.pieces:
        if piece.type == piece.NORMAL and piece.piece != "▁" and random.random() < 0.4:
            piece.type = piece.UNUSED
    return proto.SerializeToString()


@pytest.mark.parametrize("kind", [pytest.param("unigram", marks=pytest.mark.long), "bpe"])
def test_unused_pieces_and_symbols_are_those_of_sentencepiece(kind):
    random = np.random.default_rng(1)
    model = make_model(kind, random)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    subwords = Subwords(model)
    texts = ["".join(random.choice([*"thecaw0 <", *SYMBOLS], 20)).strip() for _ in range(50)]
    texts += [*SYMBOLS, "<mask>" * 3, "☃at <at>"]
    graph = TextGraph(TextCodec(Vocabulary.from_subwords(subwords), "sentencepiece"))
    for text, ids in zip(texts, graph.tokens.encode(tf.constant(texts)).to_list(), strict=True):
        names = [subwords.words[i - 4] for i in ids]
        pieces = [processor.encode(word, out_type=str) or ["▁"] for word in text.split(" ")]
        shown = [name.replace("<U+003C>", "<") for name in names]
        assert shown == [piece for pieces_of_word in pieces for piece in pieces_of_word]
        assert ids == subwords.encode_ids(text).tolist()
        assert subwords.decode(names) == text
