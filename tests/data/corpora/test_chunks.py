import io
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.corpora.chunks as chunks
from keras_nplm.io.text import decode_lines

LINES = ["The cat sat.", "", "  ", "it's 猫 été", "\u2028 x", "a" * 40, "\u00a0", "the cat", "<unk> the"]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from(LINES)), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.integers(1, 40)
)
def test_chunks_have_all_lines_of_a_file_once(tmp_path_factory, lines, end, closed, mark, size):
    text = (b"\xef\xbb\xbf" if mark else b"") + (end.join(lines) + end * closed).encode()
    if not text:
        return
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text)
    whole, chunks.CHUNK_BYTES = chunks.CHUNK_BYTES, size
    try:
        cut = chunks.cut_files([path])
    finally:
        chunks.CHUNK_BYTES = whole
    found = [line for chunk in cut for line in itertools.chain(*itertools.starmap(chunks.read_range, chunk.ranges))]
    assert found == list(decode_lines(io.BytesIO(text), "text"))
    assert len(cut) <= len(text) // size + 1
    assert [line for chunk in cut for line in chunk.lines()] == [line for line in found if line.strip(" \t")]
