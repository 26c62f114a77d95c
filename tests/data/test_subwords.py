"""Subwords: every line is restored, words are encoded on their own, models of others are read."""

import pickle

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.subwords as module
from keras_nplm import Vocabulary
from keras_nplm.data.subwords import SubwordOptions, Subwords
from tests.tokenizers import train_with_the_library

LINES = [
    "the cat sat on the mat",
    "the dogs sat",
    "a cat's mats:  3, 33, 333",
    "Straße ОЙ 我们可以 我们",
    "the\xa0cat\u3000x\xa0:",
] * 9
ODD = [
    "",
    "  a  b ",
    "▁",
    "a▁b c▁ ▁▁",
    "<s> </s> <unk> <pad> <0x41> <U+00A0>",
    "\0",
    "\n\t\r\u2028\xa0",
    "\U0010ffff▅",
]


@pytest.fixture(scope="module", params=module.PIECES_KINDS)
def subwords(request) -> Subwords:
    return Subwords.train(LINES, 340, request.param)


@given(
    st.sampled_from([*ODD, *LINES[:5]]) | st.text() | st.text(" ▁▅a\u0301\xa0\u3000<0x41>Us/\0我")
)
@settings(max_examples=30)
def test_any_line_is_restored_without_unk(subwords, line):
    vocabulary = Vocabulary.from_subwords(subwords)
    pieces = subwords.encode(line)
    ids = subwords.encode_ids(line)
    assert subwords.decode(pieces) == subwords.decode(vocabulary.decode(ids)) == line
    assert all(piece.split() == [piece] for piece in pieces)
    np.testing.assert_array_equal(vocabulary.encode(pieces), ids)
    assert ids.dtype == np.int32 and (ids > 3).all()


def test_the_library_reads_the_model_and_gives_the_same_pieces(subwords, tmp_path):
    subwords.save(tmp_path / "x.model")
    read = SubwordOptions(file=str(tmp_path / "x.model")).make([])
    assert read == subwords == pickle.loads(pickle.dumps(subwords))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "x.model"))
    for line in LINES[:5]:
        pieces = [
            piece.replace("<U+00A0>", "\xa0").replace("<U+3000>", "\u3000")
            for piece in subwords.encode(line)
        ]
        assert pieces == [processor.id_to_piece(i) for i in processor.encode(line)]


@pytest.mark.parametrize("prefix", [True, False])  # a space before the line
def test_a_model_of_a_different_author_is_read(prefix):
    symbols = dict(
        user_defined_symbols=["<mask>", "\n"], control_symbols=["<cls>"], add_dummy_prefix=prefix
    )
    subwords = Subwords(train_with_the_library(LINES, **symbols))
    assert "<cls>" not in subwords.words and "<U+000A>" in subwords.words
    # its own normalisation is switched off
    for line in [*ODD, *LINES[:5], "the  cat sat\n<mask> ﬁ ①"]:
        assert subwords.decode(subwords.encode(line)) == line
    assert subwords.encode("a\n<mask>")[-2:] == ["<U+000A>", "<mask>"]
    assert subwords.encode("cat")[0].startswith("▁")


def test_ids_are_by_decreasing_frequency_and_bytes_come_last(subwords):
    counts = np.bincount(
        np.concatenate([*map(subwords.encode_ids, LINES)]), minlength=len(subwords) + 4
    )[4:]
    assert (np.diff(counts[:-256]) <= 0).all() and counts[0] > counts[-257]
    assert subwords.words[-256:] == [f"<0x{byte:02X}>" for byte in range(256)]


def test_models_that_cannot_be_used_are_refused(tmp_path, messages):
    for model in (
        b"text",
        train_with_the_library(LINES, model_type="word"),
        train_with_the_library(LINES, treat_whitespace_as_suffix=True),
        train_with_the_library(LINES, byte_fallback=False),
    ):
        (tmp_path / "x.model").write_bytes(model)
        messages.refuse(lambda: SubwordOptions(file=str(tmp_path / "x.model")).make([]))
