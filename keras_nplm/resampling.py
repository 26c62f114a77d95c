"""Several texts, of each of which an epoch shows a share: large corpora beside a small one of the right kind."""

from collections.abc import Sequence

import numpy as np

from keras_nplm.corpora.text_files import check_share
from keras_nplm.errors import InputError
from keras_nplm.shards import ShardedIds


def drawn_number(share: float, number: int) -> int:
    """How many of the n-grams of a text an epoch shows: c N, rounded.

    Args:
        share: c in (0, 1].
        number: N, of the n-grams in the text.

    Raises:
        InputError: it would be none.

    Example:

    >>> drawn_number(0.1, 1234)
    123
    """
    drawn = round(float(share) * int(number))
    if not drawn:
        raise InputError(f"A share of {share} of {number} n-grams is none: give a larger share, or leave the text out.")
    return drawn


class Resampled:
    """Texts to train on together, with the share of each that an epoch shows.

    An epoch shows round(c_k N_k) of the N_k n-grams of text k, and shuffles those of all texts together: for
    `ngram_dataset`. So a small text of the kind that is wanted is seen whole (c = 1) in each epoch, and a large one of
    another kind only in part, another part in each.

    Those parts follow one another along a random order of the text that the seed decides, and begin anew at its end:
    place i of epoch e is place (e round(c N) + i) mod N of that order. So within an epoch no n-gram comes twice, and
    none comes again before all others came: ten epochs at 0.1 show each once. Of arrays it is an order of the
    n-grams; of shards, of blocks of 2**12 ids, whose n-grams stay together, so that little more is read than is shown.

    Each text begins without words before it. Counts weigh alike: how often a word is met is its counts' sum weighted
    by the shares.

    Args:
        texts: (ids, share) for each: ids as `ngram_dataset` takes them, an array or shards, and c in (0, 1].

    Raises:
        InputError: there is no text, or a share is out of range.

    Example:

    >>> from keras_nplm import ngram_dataset
    >>> news, novels = np.arange(4, 10, dtype=np.int32), np.arange(10, 30, dtype=np.int32)
    >>> dataset = ngram_dataset(Resampled([(news, 1.0), (novels, 0.1)]), order=3, batch_size=8)
    >>> first, second = ([sorted(target.tolist()) for _, target in dataset.as_numpy_iterator()] for epoch in range(2))
    >>> first[0][:6], second[0][:6]  # the news
    ([4, 5, 6, 7, 8, 9], [4, 5, 6, 7, 8, 9])
    >>> len(first[0]), len(set(first[0] + second[0]))  # with 2 of the 20 words of the novels, then 2 others
    (8, 10)

    Reference: Schwenk (2013), CSLM - a modular open-source continuous space language modeling toolkit, Interspeech;
    Schwenk (2007), Continuous space language models, Computer Speech & Language 21.
    """

    def __init__(self, texts: Sequence[tuple[np.ndarray | ShardedIds, float]]):
        texts = list(texts)
        if not texts:
            raise InputError("There is no text to resample: give one at least.")
        self.texts = [text if isinstance(text, ShardedIds) else np.asarray(text, np.int32) for text, _ in texts]
        self.shares = [check_share(share) for _, share in texts]

    @property
    def in_memory(self) -> bool:
        """Whether all texts are arrays."""
        return not any(isinstance(text, ShardedIds) for text in self.texts)
