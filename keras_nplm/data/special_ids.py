"""The special tokens, which are the first ids of every vocabulary, and the range of ids."""

import numpy as np

from keras_nplm.io.errors import InputError

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
SPECIALS = (PAD, UNK, BOS, EOS)
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)


def check_ids(ids: np.ndarray, vocabulary_size: int) -> None:
    """Check that ids are in the range of a vocabulary."""
    if ids.size and ids.view(f"u{ids.itemsize}").max() >= vocabulary_size:  # a negative id is a large one
        outside = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(
            f"Ids must be 0 to {vocabulary_size - 1}. Received: {outside}. Fix: use the vocabulary of the model."
        )
