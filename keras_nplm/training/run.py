"""A training run that is ready for its first update."""

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import BOS_ID, EOS_ID
from keras_nplm.data.resampling import count_resampled
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.language_model.word_vectors import FoundVectors, find_word_vectors
from keras_nplm.training.options import Options, TextStatistics


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that is prepared: its options, its encoded text, and its vocabulary."""

    directory: Path
    options: Options
    config: dict[str, Any]
    """the options and the corpus, as `config.json` has them"""
    encoded: EncodedCorpus
    vocabulary: Vocabulary
    vectors_file: str | os.PathLike | None = None
    """word vectors from which C starts"""

    @functools.cached_property
    def vectors(self) -> FoundVectors | None:
        """The word vectors from which C starts, if a file has them."""
        if self.vectors_file is None:
            return None
        seed = self.options.training.seed
        return find_word_vectors(self.vectors_file, self.vocabulary, seed)

    @property
    def held_out_splits(self) -> list[str]:
        """The splits to evaluate: `"validation"`, and `"test"` where the text has one."""
        return [split for split in HELD_OUT if split in self.encoded.splits]

    @property
    def statistics(self) -> TextStatistics:
        return count_text(self.encoded, self.options.text.boundary)

    @functools.cached_property
    def target_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """How often each word is a target of K training texts, int64 [K, |V|], and the share of
        each text in an epoch.
        """
        counts, shares = self.encoded.frequencies_by_share()
        counts[:, EOS_ID] *= predicts_end(self.options.text.boundary)
        counts[:, BOS_ID] = 0
        return counts, shares

    @property
    def ngrams_per_epoch(self) -> int:
        """The targets of an epoch, without words outside a short-list."""
        counts, shares = self.target_counts
        segment = self.options.training.segment
        limit = self.options.network.target_limit
        lost = 0
        if segment > 1:  # a segment has words that are no targets; a share of them is rounded
            limit = None
            lost = segment * int(np.count_nonzero(shares < 1))
        ngrams = sum(map(count_resampled, shares, counts[:, :limit].sum(axis=1)))
        return max(1, ngrams - lost)


def count_text(encoded: EncodedCorpus, boundary: str) -> TextStatistics:
    """Return the size of an encoded text."""
    counts = encoded.frequencies()
    counts[BOS_ID] = 0
    counts[EOS_ID] *= predicts_end(boundary)
    return TextStatistics(
        tokens=encoded.count_tokens_per_epoch(boundary),
        vocabulary_size=encoded.vocabulary_size,
        unit=get_tokenizer(encoded.tokenizer).unit,
        largest_share=float(counts.max() / max(1, counts.sum())),
    )
