"""Sentences of validation and test text that a training text repeats: the overlap of two encoded
corpora.
"""

from collections.abc import Iterator

import numpy as np

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import BOS_ID, EOS_ID

# odd numbers of a multiplicative hash
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


def measure_repeated(held_out: EncodedCorpus, trained: EncodedCorpus) -> dict[str, float]:
    """Return for validation and test the share of their sentences that the training split of a
    corpus with the same vocabulary has, too.

    The validation and test text must fit into memory. The training text is read in parts.

    Args:
        held_out: the corpus whose validation and test splits are searched for.
        trained: the corpus whose training split is read.
    """
    splits = [split for split in HELD_OUT if split in held_out.splits]
    if not splits:
        return {}
    wanted = {split: _read_digests(held_out, split) for split in splits}
    are_repeated = {split: np.zeros(len(digests), bool) for split, digests in wanted.items()}
    for part in _digest_sentences(trained.parts("train")):
        for split, digests in wanted.items():
            are_repeated[split] |= np.isin(digests, part)
    # a text without the end of a sentence has none
    return {
        split: float(repeated.sum() / max(1, len(repeated)))
        for split, repeated in are_repeated.items()
    }


def _read_digests(corpus: EncodedCorpus, split: str) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *_digest_sentences(corpus.parts(split))])


def _digest_sentences(parts: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield a number for each sentence, uint64 [N], of the text whose ids are given in parts.

    Equal sentences have equal numbers.
    """
    rest = np.zeros(0, np.int32)
    for part in parts:
        ids = np.concatenate([rest, part[part != BOS_ID]])
        ends = np.flatnonzero(ids == EOS_ID) + 1
        starts = np.concatenate([[0], ends])
        rest = ids[starts[-1] :]
        if len(ends):
            yield _digest_rows(ids[: ends[-1]], starts[:-1])


def _digest_rows(ids: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a number for each run of ids that begins at one of `starts`."""
    lengths = np.diff(starts, append=len(ids))
    places = np.arange(len(ids)) - np.repeat(starts, lengths)
    keys = ids.astype(np.uint64) * _FACTORS[0] + places.astype(np.uint64) * _FACTORS[1]
    keys ^= keys >> np.uint64(29)
    keys *= _FACTORS[2]
    keys ^= keys >> np.uint64(32)
    return np.add.reduceat(keys, starts)
