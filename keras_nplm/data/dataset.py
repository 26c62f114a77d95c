"""The tf.data pipeline: token ids to shuffled batches of (context_ids [B, n-1], target_ids [B])."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_nplm.data.arguments import fold_seed
from keras_nplm.data.boundary import check_boundary, find_targets
from keras_nplm.data.gathering import build_chunks, build_pool_chunks, draw_offset, gather_segments, make_key
from keras_nplm.data.ids import convert_ids
from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.resampling import Resampled
from keras_nplm.data.segments import segment_positions
from keras_nplm.data.shards import ShardedIds, encode_lines
from keras_nplm.data.shuffling import Pools
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError

_CHUNK = 1 << 14  # n-grams gathered at a time, then cut into batches, to make operations cheap per n-gram


def ngram_dataset(
    ids: np.ndarray | ShardedIds | Resampled | Sequence[str],
    order: int,
    batch_size: int,
    *,
    vocabulary: Vocabulary | None = None,
    tokenizer: str = "words",
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
    folds: np.ndarray | Sequence[int] | None = None,
) -> tf.data.Dataset:
    """Build a tf.data dataset of shuffled n-gram batches: (context_ids int32 [B, n-1], target_ids int32 [B]).

    Context ids are oldest first. Each n-gram occurs once an epoch. The order of an epoch is a pseudo-random permutation
    of all n-grams that takes no memory: a small cipher of i gives place i. Iterating again gives a new epoch with a new
    permutation, and the same seed the same epochs. `tf.train.Checkpoint(iterator=iter(dataset))` restores the place
    within an epoch. With `first_epoch` the next epochs follow as they would have.

    With `segment` T the batches are B/T segments: ({"segments": int32 [B/T, n-1+T-1]}, target_ids int32 [B/T, T]).
    A segment is T consecutive targets with the n-1 words before the first: neighbours share their context. Segments
    begin at other places in each of T epochs. A place without a target is `<pad>`: before and after the text, and where
    `targets_below` skips a word. With boundary `"sentence"` the text keeps its `</s>`, which ends the context, and with
    `"text"` the `<s>` of its documents.

    An array of ids is held in memory. Of shards about 4 million ids are in memory at a time, and the shuffle has two
    levels: blocks of 2**17 ids in random order, and a permutation of the n-grams of the next 32 blocks.

    Args:
        ids: int32 [T], each sentence closed by `</s>`, as `EncodedCorpus.ids` gives them; or `EncodedCorpus.shards`; or
            several of these with shares, as `Resampled`; or, with `vocabulary`, a list of sentences as strings.
        order: n, 2 or more.
        batch_size: B.
        vocabulary, tokenizer: what encodes strings; see `keras_nplm.data.tokenizers.get_tokenizer`.
        boundary: `"sentence"`, or `"text"` or `"stream"` (n-grams cross sentence ends); see `ngram_positions`.
        shuffle: permute the n-grams. Otherwise they are in the order of the text.
        seed: seed of the permutations, any integer.
        drop_remainder: drop the last, smaller batch of an epoch, as training under tf.distribute needs.
        first_epoch: return an endless dataset whose epochs are numbered from this one, to resume training with
            `fit(steps_per_epoch=…)`. Default: a dataset of one epoch.
        first_batch: number of batches to skip in the first epoch, at no cost. Needs `first_epoch`.
        targets_below: skip n-grams whose target id is this or higher (words outside a short-list). Default: no limit.
        part: (w, N): the part of worker w, from 0, of N workers: batches of B/N n-grams. The parts of all workers have
            each n-gram once. Of ids in memory, part w of a batch is its w-th N-th. Of shards a worker reads its own.
        most_batches: limit of the batches in an epoch, with `drop_remainder`. Default: no limit.
        segment: T, the targets of a segment. B must be a multiple of T and of the number of parts. Default: 1, n-grams.
        folds: int [K-1], increasing: how many n-grams of the text come before each part but the first; see
            `Jackknife.starts`. Add the part of each n-gram: ((context_ids, folds int32 [B]), target_ids). All n-grams
            of the text count, also those that `targets_below` skips. For ids in memory, without segments.

    Returns:
        a dataset whose `cardinality()` is the number of batches in an epoch (infinite with `first_epoch`).

    Raises:
        InputError: an option is out of range, or the text is too short.

    Example:

    >>> dataset = ngram_dataset(np.array([7, 8, 9, 3], np.int32), order=3, batch_size=2, shuffle=False)
    >>> [(context.tolist(), target.tolist()) for context, target in dataset.as_numpy_iterator()]
    [([[2, 2], [2, 7]], [7, 8]), ([[7, 8], [8, 9]], [9, 3])]
    >>> lines = ["The cat sat.", "The dog sat."]
    >>> vocabulary = Vocabulary.build(lines, tokenizer="words")
    >>> len(ngram_dataset(lines, order=3, batch_size=5, vocabulary=vocabulary))
    2
    """
    check_boundary(order, boundary, least_order=2)
    if vocabulary is not None:
        ids = encode_lines(ids, vocabulary, tokenizer, boundary)
    elif not isinstance(ids, ShardedIds | Resampled):
        ids = convert_ids(ids)
    seed = fold_seed(seed)
    if batch_size < 1:
        raise InputError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
    if isinstance(ids, Resampled) and not shuffle:
        raise InputError("`shuffle` must be True for Resampled texts. Received: shuffle=False.")
    worker, workers = part
    if not 0 <= worker < workers or segment < 1 or batch_size % (workers * segment):
        raise InputError(
            "`part` must be (w, N) with 0 <= w < N, and `batch_size` a multiple of N times `segment`. "
            f"Received: {part}, {batch_size}, {segment}."
        )
    starts = None if folds is None else _convert_folds(folds, ids, boundary, targets_below, segment)
    batch_size //= segment  # from here on segments are the units; n-grams are segments of one target
    pools, listed = None, targets_below if segment == 1 else None
    if isinstance(ids, ShardedIds | Resampled):
        options = dict(shuffle=shuffle, seed=seed, targets_below=listed, part=part, segment=segment)
        pools = Pools(ids, order, boundary, **options)
        number = pools.number
    else:
        if segment == 1:
            tokens, positions = ngram_positions(ids, order, boundary, targets_below)
        else:
            tokens, positions = segment_positions(ids, order, boundary, segment)
            if not shuffle:  # there is no offset, so the segment that it may need at the end is empty
                positions = positions[positions <= len(tokens) - (2 * segment - 1)]
        number = len(positions)
    batches = number // batch_size if drop_remainder else -(-number // batch_size)
    if most_batches is not None:
        batches = min(batches, most_batches)
    if not batches:
        raise InputError(f"{number} n-grams do not fill a batch of {batch_size}. Fix: use a smaller batch.")
    if not 0 <= first_batch < batches or (first_batch and first_epoch is None):
        raise InputError(f"`first_batch` must be 0 to {batches - 1}, with `first_epoch`. Received: {first_batch}.")
    whole = tf.constant(batches, tf.int64)
    local_size = batch_size // workers  # n-grams of this part in a batch
    skipped = first_batch * local_size  # n-grams of this part to skip in the first epoch
    chunk = max(1, _CHUNK // (local_size * segment)) * local_size

    def gather(
        epoch: tf.Tensor, tokens: tf.Tensor, positions: tf.Tensor | None, numbers: tf.Tensor | None = None
    ) -> Callable:
        offset = draw_offset(segment, seed, epoch) if shuffle and segment > 1 else 0
        gather_places = functools.partial(gather_segments, tokens, positions, offset, order, segment, targets_below)
        if segment > 1:
            return _name_segments(gather_places)
        return gather_places if starts is None else _add_folds(gather_places, starts, numbers)

    if pools:
        chunks = build_pool_chunks(pools, gather, chunk, shuffle, seed, first_epoch, skipped)
    else:
        used = _count_part(min(number, batches * batch_size), batch_size, part)  # n-grams of this part in an epoch
        tokens = tf.constant(tokens)
        # the positions of a text without gaps are a range, which needs no look-up
        is_range = segment == 1 and number == len(tokens) - (order - 1)
        positions = None if is_range else tf.constant(positions)

        def chunks(epoch: tf.Tensor) -> tf.data.Dataset:
            first = tf.where(epoch == first_epoch, skipped, 0) if skipped else 0
            epoch_seed = make_key(seed, epoch, 0) if shuffle else None
            gather_places = gather(epoch, tokens, positions)
            return build_chunks(gather_places, chunk, first, used, number, epoch_seed, (local_size, *part))

    def batched(epoch: tf.Tensor) -> tf.data.Dataset:
        joined = chunks(epoch).prefetch(2).rebatch(local_size, drop_remainder=drop_remainder)
        if pools and drop_remainder:  # the range of this worker may have an n-gram more than that of another
            joined = joined.take(
                whole - tf.where(epoch == first_epoch, tf.constant(first_batch, tf.int64), 0) if skipped else whole
            )
        return joined

    # no parallel call needs tuning, and `fit` would wait up to a minute for the tuning thread when an iterator ends
    options = tf.data.Options()
    options.autotune.enabled = False
    # a checkpoint of an iterator has the number of its epoch, and needs neither the counter nor a reader of shards
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    if first_epoch is not None:
        return tf.data.Dataset.counter(first_epoch, 1).flat_map(batched).with_options(options)
    if not pools:
        batches = -(-used // local_size)
    elif workers > 1 and not drop_remainder:
        batches = tf.data.UNKNOWN_CARDINALITY  # it depends on the worker
    epochs = tf.Variable(-1, dtype=tf.int64, trainable=False)  # a counter, so that no random state is shared
    numbers = tf.data.Dataset.range(1).map(lambda _: epochs.assign_add(1))
    dataset = numbers.flat_map(batched).with_options(options)
    return dataset if batches < 0 else dataset.apply(tf.data.experimental.assert_cardinality(batches))


def _name_segments(gather: Callable) -> Callable:
    """Return a function of places whose ids have the name of segments, as a network reads them."""

    def gather_named(place: tf.Tensor) -> tuple:
        ids, target_ids = gather(place)
        return {"segments": ids}, target_ids

    return gather_named


def _convert_folds(
    folds: np.ndarray | Sequence[int],
    ids: np.ndarray | ShardedIds | Resampled,
    boundary: str,
    targets_below: int | None,
    segment: int,
) -> np.ndarray:
    """Return how many n-grams of an epoch come before each part but the first, int32 [K-1]."""
    texts = ids.texts if isinstance(ids, Resampled) else [ids]
    if segment > 1 or not all(isinstance(text, np.ndarray) for text in texts):
        raise InputError("`folds` requires ids in memory, without `segment`. Received: shards or segments.")
    starts = np.asarray(folds)
    if starts.ndim != 1 or starts.dtype.kind not in "iu" or not (np.diff(starts, prepend=0) >= 0).all():
        raise InputError(f"`folds` must be increasing numbers of n-grams. Received: {folds}. Fix: `Jackknife.starts`.")
    if targets_below is not None:
        targets = np.concatenate([text[find_targets(text, boundary)] for text in texts])
        is_used = targets < targets_below
        starts = np.append(0, np.cumsum(is_used))[np.minimum(starts, len(targets))]
    return starts.astype(np.int32)


def _add_folds(gather: Callable, starts: np.ndarray, numbers: tf.Tensor | None) -> Callable:
    """Return a function of places that adds the fold of each n-gram to its context.

    `numbers` are the n-grams of the text that are at the places. Without them the places are these numbers.
    """
    starts = tf.constant(starts)

    def gather_with_folds(place: tf.Tensor) -> tuple:
        context_ids, target_ids = gather(place)
        number = place if numbers is None else tf.gather(numbers, place)
        return (context_ids, tf.searchsorted(starts, number, side="right")), target_ids

    return gather_with_folds


def _count_part(number: int, batch_size: int, part: tuple[int, int]) -> int:
    """Count the n-grams of a part of an epoch: the w-th N-th of each batch."""
    worker, workers = part
    size = batch_size // workers
    whole, rest = divmod(number, batch_size)
    return whole * size + min(max(rest - worker * size, 0), size)
