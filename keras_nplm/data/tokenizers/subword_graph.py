"""Subwords as TensorFlow operations: the segmentation of SentencePiece, unigram or BPE, as in
Python.
"""

import numpy as np
import tensorflow as tf

from keras_nplm.data.subwords import Subwords
from keras_nplm.data.text_ops import character_ranges, lower_texts, store_array
from keras_nplm.data.tokenizers.pieces import SPACE

_NONE = -1  # the piece of a string that is none
_LOG_ZERO = float("-inf")


class SubwordGraph(tf.Module):
    """A SentencePiece model as TensorFlow operations: words to ids of pieces, as `Subwords` gives
    them.

    TensorFlow Text chooses differently between segmentations of equal probability, such as `0 000`
    and `000 0`.
    """

    def __init__(self, subwords: Subwords, lower_case: bool):
        super().__init__()
        texts_spec = tf.TensorSpec([None], tf.string)
        # one copy of the tables for all served functions
        self._encode = tf.function(self._encode_after_spaces, [texts_spec], autograph=False)
        self._lower_case = lower_case
        texts, ids, scores, is_symbol = zip(*subwords.list_pieces(), strict=True)
        self._is_bpe = subwords.kind == "bpe"
        self._longest = max(map(len, texts))  # characters of a piece
        entries = tf.lookup.KeyValueTensorInitializer(
            texts, np.arange(len(texts)), tf.string, tf.int64
        )
        self._table = tf.lookup.StaticHashTable(entries, default_value=_NONE)
        self._scores = store_array(np.array(scores, np.float32))
        self._unknown = subwords.unknown_score  # of a character that is no piece
        self._byte_ids = store_array(subwords.byte_ids)
        parts = tf.ragged.constant(ids, tf.int32, row_splits_dtype=tf.int64)
        self._parts, self._splits = store_array(parts.flat_values), store_array(parts.row_splits)
        symbols = sorted(
            (text for text, is_one in zip(texts, is_symbol, strict=True) if is_one),
            key=len,
            reverse=True,
        )
        self._symbols = "|".join(
            "".join(f"\\x{{{ord(letter):x}}}" for letter in text) for text in symbols
        )

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of texts: string [B], valid UTF-8, to int32 [B, (T)]."""
        return self._encode(_begin_words(texts))

    def encode_sentences(self, lines: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of lines, without the line ends at their ends. A blank line has none."""
        blank = f"^[{character_ranges(str.isspace)}]+$"
        return self.encode(tf.strings.regex_replace(lines, f"(?:{blank}|[\\r\\n]+$)", ""))

    def encode_ends(self, ends: tf.Tensor, is_cut: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of the ends of prompts.

        A text that is cut is read from its first space on.

        `is_cut` is bool [B].
        """
        whole = tf.strings.regex_replace(ends, "^[^ ]*", "", replace_global=False)
        return self._encode(tf.where(is_cut, whole, _begin_words(ends)))

    def _encode_after_spaces(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of texts, each word of which follows a space."""
        if self._lower_case:
            texts = lower_texts(texts)
        words = tf.strings.split(texts, " ")[:, 1:]
        ids, rows = self._encode_words(words.flat_values)
        rows = tf.gather(words.value_rowids(), rows)
        return tf.RaggedTensor.from_value_rowids(
            ids, rows, nrows=tf.cast(tf.size(texts), tf.int64), validate=False
        )

    def _encode_words(self, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the ids of words, string [C], int32 [T], and their words, int64 [T]."""
        # in bytes: SPACE stands for a space
        is_spelled = tf.strings.regex_full_match(words, f"(?s).*{SPACE}.*")
        words = tf.strings.join([SPACE, words])
        if self._is_bpe and self._symbols:  # no merge crosses a user-defined symbol
            marked = tf.strings.regex_replace(words, f"({self._symbols})", b"\xff\\1\xff")
            segments = tf.strings.split(tf.where(is_spelled, words, marked), b"\xff")
            is_spelled = tf.gather(is_spelled, segments.value_rowids())
            owners = segments.value_rowids()
            ids, rows = self._encode_segments(segments.flat_values, is_spelled)
            return ids, tf.gather(owners, rows)
        return self._encode_segments(words, is_spelled)

    def _encode_segments(
        self, words: tf.Tensor, is_spelled: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the ids of words, or of the symbols in them and the parts between these, as
        `_encode_words`.
        """
        split = tf.strings.unicode_split(words, "UTF-8")
        chars, rows = split.flat_values, split.value_rowids()  # [N]
        # in the word
        place = tf.range(tf.size(chars, tf.int64)) - tf.gather(split.row_starts(), rows)
        ids = self._look_up(chars, place, tf.gather(is_spelled, rows))  # [N, M]
        scores = tf.where(ids == _NONE, _LOG_ZERO, tf.gather(self._scores, tf.maximum(ids, 0)))
        if self._is_bpe:
            lengths = _merge_pairs(scores, rows, tf.size(words, tf.int64))
            if self._symbols:
                is_symbol = tf.gather(
                    tf.strings.regex_full_match(words, self._symbols) & ~is_spelled, rows
                )
                sizes = tf.gather(split.row_lengths(), rows)
                lengths = tf.where(is_symbol, tf.where(place + 1 == sizes, sizes, 0), lengths)
        else:
            single = tf.where(ids[:, :1] == _NONE, self._unknown, scores[:, :1])
            scores = tf.concat([single, scores[:, 1:]], axis=1)
            lengths = _find_best_path(scores, split.row_starts(), split.row_lengths())
        ends = tf.where(lengths > 0)[:, 0]
        tokens = tf.gather_nd(ids, tf.stack([ends, tf.gather(lengths, ends) - 1], axis=1))  # [P]
        return self._spell_unknown(tokens, tf.gather(chars, ends), tf.gather(rows, ends))

    def _look_up(self, chars: tf.Tensor, place: tf.Tensor, is_spelled: tf.Tensor) -> tf.Tensor:
        """Return the ids of the pieces of 1, 2 … M characters that end at each character, int64 [N,
        M], or -1.
        """
        columns = []
        texts = chars
        for length in range(1, self._longest + 1):
            if length > 1:
                texts = tf.strings.join(
                    [tf.concat([[""], texts[:-1]], axis=0)[: tf.size(chars)], chars]
                )
            is_inside = (place >= length - 1) & (~is_spelled | (place == 0))
            columns.append(tf.where(is_inside, self._table.lookup(texts), _NONE))
        return tf.stack(columns, axis=1)

    def _spell_unknown(
        self, tokens: tf.Tensor, chars: tf.Tensor, rows: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the ids of tokens. A character that is not a piece gives its bytes."""
        is_unknown = tokens == _NONE
        spelling = tf.where(is_unknown, chars, "")
        starts = tf.gather(self._splits, tf.maximum(tokens, 0))
        sizes = tf.cast(tf.gather(self._splits, tf.maximum(tokens, 0) + 1) - starts, tf.int32)
        counts = tf.where(is_unknown, tf.strings.length(chars), sizes)
        owner = tf.repeat(tf.range(tf.size(tokens)), counts)  # of each id, its token
        # in the token
        place = tf.range(tf.size(owner)) - tf.gather(tf.cumsum(counts, exclusive=True), owner)
        data = tf.io.decode_raw(tf.strings.join([tf.strings.reduce_join(spelling), "\0"]), tf.uint8)
        is_byte = tf.gather(is_unknown, owner)
        number = tf.where(is_byte, tf.cumsum(tf.cast(is_byte, tf.int32)) - 1, 0)
        spelled = tf.gather(self._byte_ids, tf.cast(tf.gather(data, number), tf.int32))
        part = tf.where(is_byte, 0, tf.cast(tf.gather(starts, owner), tf.int32) + place)
        return tf.where(is_byte, spelled, tf.gather(self._parts, part)), tf.gather(rows, owner)


def _begin_words(texts: tf.Tensor) -> tf.Tensor:
    """Return texts with a space before the first word, as before each other word."""
    return tf.where(texts == "", "", tf.strings.join([" ", texts]))


def _find_best_path(scores: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Return the length of the piece of the best segmentation (Viterbi) that ends at each
    character, int64 [N], or 0.

    `scores` [N, M] are those of pieces of 1 … M characters. Of equal segmentations the last piece
    is the longest.
    """
    longest = scores.shape[1]
    number = tf.size(lengths)
    by_length = tf.argsort(lengths, direction="DESCENDING", stable=True)
    starts = tf.gather(starts, by_length)
    lengths = tf.gather(lengths, by_length)
    most = tf.reduce_max(tf.concat([[0], lengths], axis=0))
    steps = tf.range(1, most + 1)
    words_left = tf.searchsorted(tf.reverse(lengths, [0]), steps, out_type=tf.int64)
    sizes = tf.cast(number, tf.int64) - words_left
    backwards = tf.reverse(scores, [1])  # the longest piece first
    # best [C, M]
    window = tf.concat([tf.fill([number, longest - 1], _LOG_ZERO), tf.zeros([number, 1])], axis=1)
    chosen = tf.TensorArray(
        tf.int64, tf.cast(most, tf.int32), infer_shape=False, element_shape=[None]
    )

    def step(place: tf.Tensor, window: tf.Tensor, chosen: tf.TensorArray) -> tuple:
        size = sizes[place]
        sums = window[:size] + tf.gather(backwards, starts[:size] + place)
        chosen = chosen.write(tf.cast(place, tf.int32), longest - tf.argmax(sums, axis=1))
        window = tf.concat([window[:size, 1:], tf.reduce_max(sums, axis=1)[:, None]], axis=1)
        return place + 1, tf.ensure_shape(window, [None, longest]), chosen

    shapes = [tf.TensorShape([]), tf.TensorShape([None, longest]), tf.TensorShape(None)]
    _, _, chosen = tf.while_loop(
        lambda place, *_: place < most,
        step,
        [tf.constant(0, tf.int64), window, chosen],
        shape_invariants=shapes,
    )
    flat = chosen.concat()
    offsets = tf.cumsum(sizes, exclusive=True)

    def step_back(word: tf.Tensor, left: tf.Tensor, pieces: tf.Tensor) -> tuple:
        length = tf.gather(flat, tf.gather(offsets, left - 1) + word)
        update = (tf.gather(starts, word) + left - 1)[:, None]
        pieces = tf.tensor_scatter_nd_update(pieces, update, length)
        rest = left - length
        return tf.boolean_mask(word, rest > 0), tf.boolean_mask(rest, rest > 0), pieces

    pieces = tf.zeros([tf.shape(scores)[0]], tf.int64)
    shapes = [tf.TensorShape([None])] * 3
    first = [tf.range(tf.cast(number, tf.int64)), lengths, pieces]
    return tf.while_loop(
        lambda word, *_: tf.size(word) > 0, step_back, first, shape_invariants=shapes
    )[2]


def _merge_pairs(scores: tf.Tensor, rows: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Merge characters to pieces by BPE, in each word the first pair of the highest score; see
    `_find_best_path`.
    """
    size = tf.size(rows, tf.int64)
    longest = scores.shape[1]
    places = tf.range(size)

    def merge(lengths: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        after = places + lengths  # the next piece, or the same place within a piece
        following = tf.minimum(after, size - 1)
        is_pair = (lengths > 0) & (after < size) & (tf.gather(rows, following) == rows)
        merged = lengths + tf.gather(lengths, following)
        is_pair &= merged <= longest
        ends = tf.minimum(places + merged, size) - 1
        found = tf.gather_nd(
            scores,
            tf.stack([tf.maximum(ends, 0), tf.clip_by_value(merged, 1, longest) - 1], axis=1),
        )
        found = tf.where(is_pair, found, _LOG_ZERO)
        best = tf.gather(tf.math.unsorted_segment_max(found, rows, number), rows)
        is_best = (found == best) & (found > _LOG_ZERO)
        first = tf.math.unsorted_segment_min(tf.where(is_best, places, size), rows, number)  # [C]
        chosen = tf.boolean_mask(first, first < size)
        removed = tf.gather(following, chosen)
        where = tf.concat([chosen, removed], axis=0)[:, None]
        values = tf.concat([tf.gather(merged, chosen), tf.zeros_like(removed)], axis=0)
        return tf.tensor_scatter_nd_update(lengths, where, values), tf.size(chosen) > 0

    shapes = [tf.TensorShape([None]), tf.TensorShape([])]
    state = [tf.ones_like(places), size > 0]
    starts, _ = tf.while_loop(lambda _, goes_on: goes_on, merge, state, shape_invariants=shapes)
    begins = tf.where(starts > 0)[:, 0]
    lengths = tf.gather(starts, begins)
    return tf.scatter_nd((begins + lengths - 1)[:, None], lengths, tf.stack([size]))
