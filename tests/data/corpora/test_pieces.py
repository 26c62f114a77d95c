import io
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.corpora.pieces as pieces
from keras_nplm.io.text import decode_lines

LINES = ["The cat sat.", "", "  ", "it's 猫 été", "\u2028 x", "a" * 40, "\u00a0", "the cat", "<unk> the"]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(LINES)), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.integers(1, 40)
)
def test_pieces_have_all_lines_of_a_file_once(tmp_path_factory, lines, end, closed, mark, size):
    text = (b"\xef\xbb\xbf" if mark else b"") + (end.join(lines) + end * closed).encode()
    if not text:
        return
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(pieces, "PIECE_BYTES", size)
        cut = pieces.cut_files([path])
    found = [line for piece in cut for line in itertools.chain(*itertools.starmap(pieces.read_range, piece.ranges))]
    assert found == list(decode_lines(io.BytesIO(text), "text"))
    assert len(cut) <= len(text) // size + 1
    sentences = [sentence for piece in cut for sentence in pieces.read_piece(piece, str.split)]
    assert sentences == [line.split() for line in found if line.strip()]
