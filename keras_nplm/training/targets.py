"""Targets of training: how often each word is one, and which words are none with a short-list."""

import dataclasses

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import BOS_ID, EOS_ID, SPECIALS
from keras_nplm.data.resampling import count_resampled
from keras_nplm.training.options import NetworkOptions, Options


@dataclasses.dataclass(frozen=True)
class TrainingTargets:
    """Target counts of K training texts, int64 [K, |V|], and the share of each in an epoch."""

    counts: np.ndarray
    shares: np.ndarray
    ngrams_per_epoch: int

    @classmethod
    def of(cls, options: Options, encoded: EncodedCorpus) -> "TrainingTargets":
        """Count the targets of the training split."""
        counts, shares = encoded.frequencies_by_share()
        counts[:, EOS_ID] *= predicts_end(options.text.boundary)
        counts[:, BOS_ID] = 0
        segment = options.training.segment
        limit = find_target_limit(options.network)
        lost = 0
        if segment > 1:  # a segment has words that are no targets; a share of them is rounded
            limit = None
            lost = segment * int(np.count_nonzero(shares < 1))
        ngrams = sum(map(count_resampled, shares, counts[:, :limit].sum(axis=1)))
        return cls(counts, shares, max(1, ngrams - lost))


def find_target_limit(network: NetworkOptions) -> int | None:
    """Return the id from which on words are not training targets, or None if all words are."""
    if network.shortlist_size is None:
        return None
    return len(SPECIALS) + network.shortlist_size
