"""Seeds of any size for libraries that take 31 bits."""

import hashlib
from numbers import Integral

from keras_nplm.io.errors import check_argument


def fold_seed(seed: int) -> int:
    """Map a seed, any integer, to 31 bits: seeds from 0 to 2**31 - 1 are kept, and others are hashed."""
    check_argument("seed", isinstance(seed, Integral), "an integer", repr(seed), "use seed=0.")
    if 0 <= seed < 1 << 31:
        return int(seed)
    return int.from_bytes(hashlib.sha256(str(int(seed)).encode()).digest()[:4], "big") >> 1
