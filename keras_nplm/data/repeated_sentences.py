"""Sentences of validation and test text that a training text repeats: the overlap of two encoded
corpora.
"""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import BOS_ID, EOS_ID


def measure_repeated(held_out: EncodedCorpus, trained: EncodedCorpus) -> dict[str, float]:
    """Return for validation and test the share of their sentences that the training split of a
    corpus with the same vocabulary has, too.

    The validation and test text must fit into memory. The training text is read in parts.

    Args:
        held_out: the corpus whose validation and test splits are searched for.
        trained: the corpus whose training split is read.
    """
    sentences = {
        split: list(_list_sentences(held_out.parts(split)))
        for split in HELD_OUT
        if split in held_out.splits
    }
    if not sentences:
        return {}
    searched = set(itertools.chain(*sentences.values()))
    repeated = searched.intersection(_list_sentences(trained.parts("train")))
    # a text without the end of a sentence has none
    return {
        split: sum(map(repeated.__contains__, found)) / max(1, len(found))
        for split, found in sentences.items()
    }


def _list_sentences(parts: Iterable[np.ndarray]) -> Iterator[bytes]:
    """Yield the bytes of each sentence of a text that comes in parts, cut at any place."""
    rest = np.zeros(0, np.int32)
    for part in parts:
        ids = np.concatenate([rest, part[part != BOS_ID]])
        ends = np.flatnonzero(ids == EOS_ID) + 1
        data = ids.tobytes()
        for start, end in itertools.pairwise([0, *(ends * ids.itemsize).tolist()]):
            yield data[start:end]
        rest = ids[ends[-1] :] if len(ends) else ids
