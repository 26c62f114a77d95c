"""Text files are read whole, however they are cut or compressed; damage and long lines are
refused.
"""

import bz2
import functools
import gzip
import io
import itertools
import lzma
import re
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.corpora.chunks as chunks
import keras_nplm.io.text as io_text
from keras_nplm import InputError
from keras_nplm.data.corpora.text_files import cut_files, read_lines
from keras_nplm.io.text import decode_lines

LINES = [
    "The cat sat.",
    "",
    "  ",
    "it's 猫 été",
    "\u2028 x",
    "a" * 40,
    "\u00a0",
    "the cat",
    "<unk> the",
]


def _write(path: Path, text: bytes) -> Path:
    """Write a text file, compressed if its suffix says so."""
    compressors = {".txt": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
    if path.suffix == ".zst":
        zstd = pytest.importorskip("backports.zstd")
        compress = functools.partial(
            zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1}
        )
        # two frames, as parallel compressors write
        path.write_bytes(compress(text[:99]) + compress(text[99:]))
    else:
        path.write_bytes(compressors[path.suffix](text))
    return path


@settings(max_examples=50)
@given(
    lines=st.lists(st.sampled_from(LINES), min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
    closed=st.booleans(),
    mark=st.sampled_from(["", "\ufeff"]),
    size=st.integers(1, 40),
    suffix=st.sampled_from([".txt", ".txt", ".gz", ".xz", ".bz2"]),
)
def test_chunks_have_all_lines_of_a_file_once(
    tmp_path_factory, lines, end, closed, mark, size, suffix
):
    text = (mark + end.join(lines) + (end * closed or "x")).encode()
    path = _write(tmp_path_factory.mktemp("text") / f"text{suffix}", text)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(chunks, "CHUNK_BYTES", size)
        cut = cut_files([path])
    lines = list(decode_lines(io.BytesIO(text), "text"))
    found = (chunks.read_range(*place) for chunk in cut for place in chunk.ranges)
    assert [*itertools.chain.from_iterable(found)] == lines
    assert len(cut) <= len(text) // size + 1
    shown = [line if line.strip(" \t") else "" for line in lines]
    assert [line for chunk in cut for line in chunk.lines()] == shown


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".xz", ".bz2"])
def test_a_damaged_or_truncated_archive_is_refused(tmp_path, suffix):
    path = _write(tmp_path / f"text{suffix}", b"".join(b"line %d\n" % i for i in range(20_000)))
    whole = path.read_bytes()
    assert len(list(read_lines([path]))) == 20_000
    for damaged in (
        whole[:-9],
        whole[: len(whole) // 3],
        whole[:999] + b"\xff" * 50 + whole[1049:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(
            InputError, match=f"text{suffix} is not a whole (gzip|zstd|xz|bzip2) archive"
        ):
            list(read_lines([path]))
    path.write_bytes(b"")
    with pytest.raises(InputError, match=f"text{suffix} is empty"):
        list(read_lines([path]))


@pytest.mark.parametrize("suffix", [".txt", ".gz"])
def test_a_line_that_is_too_long_is_named(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(io_text, "MAX_LINE_BYTES", 20)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)  # a piece of its own for the line
    path = tmp_path / f"text{suffix}"
    _write(path, b"short\n" * 9 + b"x" * 19 + b"\nshort\n" + b"y" * 20)
    lines = itertools.chain.from_iterable(chunk.lines() for chunk in cut_files([path]))
    assert list(lines)[9:] == ["x" * 19, "short", "y" * 20]
    _write(path, b"short\n" * 9 + b"x" * 20 + b"\nshort\n")
    with pytest.raises(
        InputError, match=f"text{suffix}, byte 54: a line must have at most 20 bytes. .* Fix"
    ):
        list(read_lines([path]))


@pytest.mark.parametrize(
    "sentence",
    ["the cat sat on the mat. ", "我爱你。猫坐在垫子上！"],
    ids=["spaces", "no spaces"],
)
def test_the_advised_command_breaks_long_lines(tmp_path, monkeypatch, sentence):
    monkeypatch.setattr(io_text, "MAX_LINE_BYTES", 12_000)
    path = tmp_path / "text.txt"
    path.write_text(sentence * 3000, encoding="utf-8")
    with pytest.raises(InputError) as error:
        list(read_lines([path]))
    command = re.search(r"`(.*)`", str(error.value))[1]
    broken = subprocess.run(
        f"{command} {path}", shell=True, capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    path.write_bytes(broken.stdout)
    assert "".join(read_lines([path])) == sentence * 3000


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_memory_is_bounded_however_small_an_archive_is(tmp_path, suffix):
    path = _write(tmp_path / f"text{suffix}", b"a" * 63_999_999 + b"\n")
    assert path.stat().st_size < 70_000
    tracemalloc.start()
    with pytest.raises(InputError, match="byte 0: a line must have at most 16,777,216 bytes"):
        next(read_lines([path]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 52 * 2**20
