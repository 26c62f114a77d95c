"""ngram_dataset: token ids, or lines of text, to batches of n-grams in one call."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import tensorflow as tf

from keras_nplm.data.epochs import Epochs
from keras_nplm.data.resampling import Resampled, TextIds
from keras_nplm.data.shards import ShardedIds, encode_lines
from keras_nplm.data.source import NgramSource
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import check_argument


def ngram_dataset(
    ids: np.ndarray | ShardedIds | Resampled | Sequence[str],
    order: int,
    batch_size: int,
    *,
    vocabulary: Vocabulary | None = None,
    tokenizer: str | Tokenizer | None = None,
    boundary: str = "sentence",
    shuffle: bool = True,
    seed: int = 0,
    drop_remainder: bool = False,
    first_epoch: int | None = None,
    first_batch: int = 0,
    targets_below: int | None = None,
    part: tuple[int, int] = (0, 1),
    most_batches: int | None = None,
    segment: int = 1,
) -> tf.data.Dataset:
    """Build a tf.data dataset of shuffled n-gram batches: (context_ids, target_ids).

    Contexts are int32 [B, n-1], oldest id first, and targets int32 [B]. Each n-gram occurs once an
    epoch. The order of an epoch is a pseudo-random permutation of all n-grams that takes no memory:
    a small cipher of i gives place i. Iterating again gives a new epoch with a new permutation, and
    the same seed the same epochs. `tf.train.Checkpoint(iterator=iter(dataset))` restores the place
    within an epoch. With `first_epoch` the next epochs follow as they would have.

    With `segment` T the batches are B/T segments: ({"segments": int32 [B/T, n-1+T-1]}, target_ids
    int32 [B/T, T]). A segment is T consecutive targets with the n-1 words before the first:
    neighbours share their context. Segments begin at other places in each of T epochs. A place
    without a target is `<pad>`: before and after the text, and where `targets_below` skips a word.
    With boundary `"sentence"` the text keeps its `</s>`, which ends the context, and with `"text"`
    the `<s>` of its documents.

    An array of ids is held in memory. Of shards about 4 million ids are in memory at a time, and
    the shuffle has two levels: blocks of 2**17 ids in random order, and a permutation of the
    n-grams of the next 32 blocks.

    Args:
        ids: int32 [T], each sentence closed by `</s>`, as `EncodedCorpus.ids` gives them; or
            `EncodedCorpus.shards`; or several of these with shares, as `Resampled`; or, with
            `vocabulary`, a list of sentences as strings.
        order: n, 2 or more.
        batch_size: B.
        vocabulary, tokenizer: what encodes strings; see
            `keras_nplm.data.tokenizers.registry.get_tokenizer`. Default of the tokenizer:
            `"words"`. Ids need neither.
        boundary: `"sentence"`, or `"text"` or `"stream"` (n-grams cross sentence ends); see
            `ngram_positions`.
        shuffle: permute the n-grams. Otherwise they are in the order of the text.
        seed: seed of the permutations, any integer.
        drop_remainder: drop the last, smaller batch of an epoch, as training under tf.distribute
            needs.
        first_epoch: return an endless dataset whose epochs are numbered from this one, to resume
            training with `fit(steps_per_epoch=…)`. Default: a dataset of one epoch.
        first_batch: number of batches to skip in the first epoch, at no cost. Needs `first_epoch`.
        targets_below: skip n-grams whose target id is this or higher (words outside a short-list).
            Default: no limit.
        part: (w, N): the part of worker w, from 0, of N workers: batches of B/N n-grams. The parts
            of all workers have each n-gram once. Of ids in memory, part w of a batch is its w-th
            N-th. Of shards a worker reads its own.
        most_batches: limit of the batches in an epoch. Default: no limit.
        segment: T, the targets of a segment. B must be a multiple of T and of the number of parts.
            Default: 1, n-grams.

    Returns:
        a dataset whose `cardinality()` is the number of batches in an epoch (infinite with
        `first_epoch`).

    Raises:
        InputError: an option is out of range, or the text is too short.

    Example:

    >>> ids = np.array([7, 8, 9, 3], np.int32)
    >>> dataset = ngram_dataset(ids, order=3, batch_size=2, shuffle=False)
    >>> [(context.tolist(), target.tolist()) for context, target in dataset.as_numpy_iterator()]
    [([[2, 2], [2, 7]], [7, 8]), ([[7, 8], [8, 9]], [9, 3])]
    >>> lines = ["The cat sat.", "The dog sat."]
    >>> vocabulary = Vocabulary.build(lines, tokenizer="words")
    >>> len(ngram_dataset(lines, order=3, batch_size=5, vocabulary=vocabulary))
    2
    """
    if vocabulary is None:
        fix = "leave it out, or give the vocabulary of the text."
        is_absent = tokenizer is None
        check_argument("tokenizer", is_absent, "left out without `vocabulary`", tokenizer, fix)
        text = cast(TextIds, ids)
    else:
        text = encode_lines(cast(Sequence[str], ids), vocabulary, tokenizer or "words", boundary)
    source = NgramSource(text, order, boundary, targets_below)
    epochs = Epochs(
        shuffle=shuffle,
        seed=seed,
        drop_remainder=drop_remainder,
        first_epoch=first_epoch,
        first_batch=first_batch,
        most_batches=most_batches,
        part=part,
    )
    if segment == 1:
        return source.windows(batch_size, epochs)
    return source.segments(segment, batch_size, epochs)
