import numpy as np
import pytest

from keras_nplm.io.errors import InputError


def test_ids_are_read_across_shards(tmp_path, write_shards):
    ids = np.random.default_rng(0).integers(0, 99, 100)
    shards = write_shards(tmp_path, ids, [0, 30, 30, 70])
    assert len(shards) == 100
    for start, stop in [(0, 100), (29, 31), (30, 70), (99, 100), (5, 5)]:
        np.testing.assert_array_equal(shards.read(start, stop), ids[start:stop])
    np.testing.assert_array_equal(np.concatenate(list(shards.parts(7))), ids)
    np.testing.assert_array_equal(shards.frequencies()[:99], np.bincount(ids, minlength=99))


def test_shards_that_changed_are_refused(tmp_path, write_shards):
    shards = write_shards(tmp_path, np.array([4, 5, 3]))
    (tmp_path / "00000.ids").write_bytes(b"\4\0\0\0")
    with pytest.raises(InputError, match=r"00000.ids was truncated"):
        shards.read(0, 3)
    np.array([4, 5, 1 << 20], "<i4").tofile(tmp_path / "00000.ids")
    with pytest.raises(InputError, match="Ids must be 0 to 1048575. Received: 1048576"):
        shards.read(0, 3)
