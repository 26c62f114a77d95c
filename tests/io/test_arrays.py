"""NumPy archives written in blocks and read through a memory map: alignment, foreign writers, damage."""

import zipfile

import numpy as np
import pytest

from keras_nplm import InputError
from keras_nplm.io.arrays import free_mapped_pages, open_archive_to_write
from keras_nplm.io.files import read_arrays, write_arrays

ARRAYS = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "number": np.array(7),
    "empty": np.zeros(0, np.int64),
    "keys": np.arange(5000, dtype=np.int64) << 32,
}


def _is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array is not None


@pytest.mark.parametrize("mapped", [False, True])
def test_arrays_are_read_as_they_were_written(tmp_path, mapped):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    read = read_arrays(tmp_path / "a.npz", [*ARRAYS], mapped=mapped)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read[name], array, strict=True)
        np.testing.assert_array_equal(np.load(tmp_path / "a.npz")[name], array, strict=True)
    assert _is_mapped(read["keys"]) == mapped
    assert not mapped or (read["keys"].ctypes.data % 64 == 0 and not read["keys"].flags.writeable)
    free_mapped_pages(read["keys"])
    np.testing.assert_array_equal(read["keys"], ARRAYS["keys"])


def test_archives_of_numpy_are_read_mapped_or_into_memory(tmp_path):
    np.savez(tmp_path / "a.npz", **ARRAYS, columns=np.asfortranarray(ARRAYS["matrix"]))
    read = read_arrays(tmp_path / "a.npz", [*ARRAYS, "columns"], mapped=True)
    for name, array in (ARRAYS | {"columns": ARRAYS["matrix"]}).items():
        np.testing.assert_array_equal(read[name], array, strict=True)


def test_damaged_archives_are_refused_before_they_are_mapped(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, ARRAYS)
    whole = path.read_bytes()
    place = whole.index(ARRAYS["keys"].tobytes())
    path.write_bytes(whole[: place + 9] + b"x" + whole[place + 10 :])
    with pytest.raises(InputError, match="not a whole NumPy archive.*CRC"):
        read_arrays(path, ["keys"], mapped=True)


@pytest.mark.parametrize("number, message", [(2, "shorter than its header"), (4, "longer than its header")])
def test_headers_that_lie_are_refused(tmp_path, number, message):
    path = tmp_path / "a.npz"
    with open_archive_to_write(path) as archive:
        archive.write("keys", np.dtype(np.int64), (3,), [np.arange(number)])
    with pytest.raises(InputError, match=message):
        read_arrays(path, ["keys"], mapped=True)


def test_values_that_are_no_numbers_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, {"p": np.array([0.5, np.nan])})
    with pytest.raises(InputError, match="must be below infinity"):
        read_arrays(path, ["p"], mapped=True)
    np.savez(path, p=np.array(["a"]))
    with pytest.raises(InputError, match="must hold numbers"):
        read_arrays(path, ["p"], mapped=True)
    np.savez(path, p=np.array([None]))
    with pytest.raises(InputError, match="not a whole NumPy archive"):
        read_arrays(path, ["p"], mapped=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.npy", bytes(100_000))
    with pytest.raises(InputError, match="must be stored uncompressed"):
        read_arrays(path, ["p"], mapped=True)
