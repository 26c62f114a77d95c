import sys
from pathlib import Path

import pytest

from keras_nplm import InputError
from keras_nplm.data.corpora.text_files import read_lines


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_damaged_or_truncated_archive_is_refused(tmp_path, write_text, suffix):
    path = Path(write_text(tmp_path / f"text{suffix}", b"".join(b"line %d\n" % i for i in range(20_000))))
    whole = path.read_bytes()
    assert len(list(read_lines([path]))) == 20_000
    flipped = whole[:999] + b"\xff" * 50 + whole[1049:]
    for damaged in (whole[:-9], whole[: len(whole) // 3], b"no archive at all", flipped):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"text{suffix} is not a whole {suffix} archive"):
            list(read_lines([path]))
    path.write_bytes(b"")
    with pytest.raises(InputError, match=f"text{suffix} is empty"):
        list(read_lines([path]))


def test_zst_without_zstandard_names_the_package(tmp_path, write_text, monkeypatch):
    path = write_text(tmp_path / "text.zst", b"the cat\n")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match=r"needs the package zstandard. Fix: `pip install keras-nplm\[zstd\]`"):
        list(read_lines([Path(path)]))
