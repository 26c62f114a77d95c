"""Resampling: train on an in-domain text plus a share of large out-of-domain texts, a different
part each epoch.
"""

from collections.abc import Sequence

import numpy as np

from keras_nplm.data.ids import convert_ids
from keras_nplm.data.shards import ShardedIds
from keras_nplm.io.errors import InputError


def check_share(value: float) -> float:
    """Check a share for resampling and return it as a float."""
    if not 0 < value <= 1:
        raise InputError(
            f"The share of a text in an epoch must be a number in (0, 1]. Received: {value}."
        )
    return float(value)


def count_resampled(share: float, number: int) -> int:
    """Count the n-grams of a text in one epoch: round(c N)."""
    count = round(float(share) * int(number))
    if not count:
        raise InputError(
            f"A share of {share} of {number} n-grams must be at least one. Fix: give more "
            "text or a larger share."
        )
    return count


class Resampled:
    """Training texts with the share of each in an epoch, for `ngram_dataset` and `NgramSource`.

    An epoch has round(c_k N_k) of the N_k n-grams of text k, shuffled with those of all texts. A
    small in-domain text (c = 1) is whole in each epoch. Of a large out-of-domain text each epoch
    has a different part: place i of epoch e is place (e round(c N) + i) mod N of a random order of
    the text. So ten epochs at c = 0.1 use each n-gram once. The order is one of blocks: of 2**8 ids
    of an array, of 2**12 ids of shards.

    Each text begins without a context. Unigram frequencies are weighted by the shares.

    Args:
        texts: (ids, share) of each text: ids as `ngram_dataset` takes them, an array or shards, and
            c in (0, 1].

    Raises:
        InputError: a share is out of range.

    Example:

    >>> from keras_nplm import ngram_dataset
    >>> news, novels = np.arange(4, 10, dtype=np.int32), np.arange(10, 30, dtype=np.int32)
    >>> dataset = ngram_dataset(Resampled([(news, 1.0), (novels, 0.1)]), order=3, batch_size=8)
    >>> [sorted(target.tolist())[:6] for _, target in dataset.as_numpy_iterator()]
    [[4, 5, 6, 7, 8, 9]]

    Reference: Schwenk (2007), Continuous space language models, Computer Speech & Language 21.
    """

    def __init__(self, texts: Sequence[tuple[np.ndarray | ShardedIds, float]]):
        self.texts = [
            text if isinstance(text, ShardedIds) else convert_ids(text) for text, _ in texts
        ]
        self.shares = [check_share(share) for _, share in texts]


TextIds = np.ndarray | ShardedIds | Resampled  # the ids of one text, or of several


def list_arrays(ids: TextIds) -> list[np.ndarray] | None:
    """List the texts that ids are of if all are in memory, otherwise None."""
    texts = ids.texts if isinstance(ids, Resampled) else [ids]
    arrays = [text for text in texts if isinstance(text, np.ndarray)]
    return arrays if len(arrays) == len(texts) else None
