"""The beam search for words of subwords or characters as TensorFlow operations, as `complete_words`
in Python.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import EOS, EOS_ID, SPECIALS
from keras_nplm.data.text_ops import character_ranges, store_array
from keras_nplm.language_model import completion
from keras_nplm.language_model.word_pieces import AFTER_SPACE, NO_SPACE, WordPieces
from keras_nplm.serving.graph_model import GraphModel, exclude
from keras_nplm.serving.prefixes import PrefixTable

_LOG_ZERO = float("-inf")
_LEAST = -1e30  # stands for -inf where -inf would give NaN
_BLOCK_NUMBERS = 1 << 23  # of a block [rows, beam, |V|]: 64 MiB


class _State(NamedTuple):
    """The state of the search: K partial words of each of B rows, and the E best words so far."""

    step: tf.Tensor  # number of pieces so far
    texts: tf.Tensor  # string [B, K], the partial words
    contexts: tf.Tensor  # int32 [B, K, n-1]
    # float64 [B, K, |V|], log-probabilities of the partial words and their next piece
    scores: tf.Tensor
    ended: tf.Tensor  # float64 [B, E], log-probabilities of the words in descending order
    words: tf.Tensor  # string [B, E]


class WordSearch(tf.Module):
    """A beam search for the most probable words of a model of pieces, for a batch of contexts; see
    `complete_words`.

    Attributes:
        top_k: number of words that `complete` returns.
        block_rows: number of contexts that are searched together.
    """

    def __init__(self, model: GraphModel, pieces: WordPieces, top_k: int):
        super().__init__()
        self.model = model
        self.top_k = top_k
        self._size = len(pieces.texts)
        self._num_wanted, self._beam = completion.choose_beam(top_k, self._size)
        numbers_per_row = self._beam * max(self._size, 4 * self._beam)
        self.block_rows = max(1, _BLOCK_NUMBERS // numbers_per_row)
        self._texts = tf.constant(pieces.texts)  # [|V|]
        self._last = store_array(pieces.last.astype(np.int32))  # [|V|]
        self._begins = store_array(pieces.begins)  # [5, |V|]
        self._is_word = np.arange(self._size) >= len(SPECIALS)
        self._blanks = f"[{pieces.blanks}]+$"
        self._blank = f"[{character_ranges(str.isspace)}]*"
        self._prefixes = PrefixTable(pieces.index)
        padding = [self._size] * self._prefixes.most_equal
        self._sorted = store_array(np.array([*pieces.index.ids, *padding], np.int32))

    def split_blanks(self, contexts: tf.Tensor, prefixes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return contexts without white space at their ends, and rows of `WordPieces.begins`.

        The row -1 stands for that of the last piece of the context.
        """
        before = tf.strings.regex_replace(contexts, self._blanks, "")
        has_space = before != contexts
        is_first = before == ""
        begin_without_space = tf.where(prefixes == "", -1, NO_SPACE)
        begin = tf.where(has_space, AFTER_SPACE, begin_without_space)
        return before, tf.where(is_first, -1, begin)

    def complete(
        self, context_ids: tf.Tensor, prefixes: tf.Tensor, begin: tf.Tensor, with_end: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the most probable words and their probabilities, string and float32 [B, k].

        Args:
            context_ids: int32 [B, n-1].
            prefixes: what the words begin with, string [B].
            begin: a row of `WordPieces.begins`, or -1, for each context; see `split_blanks`.
            with_end: `</s>` is one of the words.
        """

        def is_open(*values: tf.Tensor) -> tf.Tensor:
            return tf.reduce_any(_State(*values).scores > _LOG_ZERO)

        def extend(*values: tf.Tensor) -> _State:
            return self._extend(_State(*values), prefixes)

        shapes = _State(
            step=tf.TensorShape([]),
            texts=tf.TensorShape([None, None]),
            contexts=tf.TensorShape([None, None, self.model.order - 1]),
            scores=tf.TensorShape([None, None, self._size]),
            ended=tf.TensorShape([None, None]),
            words=tf.TensorShape([None, None]),
        )
        start = self._start(context_ids, prefixes, begin, with_end)
        state = tf.while_loop(is_open, extend, start, shape_invariants=shapes)
        more = [[0, 0], [0, self.top_k]]  # there may be fewer words
        log_probs = tf.pad(state.ended, more, constant_values=_LOG_ZERO)[:, : self.top_k]
        words = tf.pad(state.words, more)[:, : self.top_k]
        return words, tf.cast(tf.exp(log_probs), tf.float32)

    def _start(
        self, context_ids: tf.Tensor, prefixes: tf.Tensor, begin: tf.Tensor, with_end: bool
    ) -> _State:
        """Return the state before the first piece: one partial word per row, which is empty."""
        begin = tf.where(begin < 0, tf.gather(self._last, context_ids[:, -1]), begin)
        log_probs = tf.cast(self.model.next_log_probs(context_ids), tf.float64)
        scores = exclude(log_probs, tf.gather(self._begins, begin))
        log_sum = tf.reduce_logsumexp(scores, axis=1, keepdims=True)
        scores = _round(scores - tf.maximum(log_sum, _LEAST))
        prefix_lengths = tf.strings.length(prefixes, unit="UTF8_CHAR")[:, None]
        fits = self._is_word & (prefix_lengths <= completion.LONGEST_PREFIX)[:, None]
        num_ended = int(with_end)
        texts = tf.fill([tf.size(prefixes), 1], "")
        return _State(
            step=tf.constant(0),
            texts=texts,
            contexts=context_ids[:, None],
            scores=self._select(scores[:, None], texts, prefixes, fits),
            ended=scores[:, EOS_ID : EOS_ID + num_ended],
            words=tf.fill([tf.size(prefixes), num_ended], EOS),
        )

    def _extend(self, state: _State, prefixes: tf.Tensor) -> _State:
        """Extend each partial word by a piece, keep the best ones, and add the words that may end
        here.
        """
        num_rows = tf.size(prefixes)
        lengths = tf.strings.length(prefixes)[:, None]
        # the best partial words with one more piece
        scores = tf.reshape(state.scores, [num_rows, tf.shape(state.scores)[1] * self._size])
        num_open = tf.math.count_nonzero(scores > _LOG_ZERO, axis=1, dtype=tf.int32)
        beam = tf.minimum(self._beam, tf.reduce_max(num_open))
        values, places = tf.math.top_k(scores, beam)
        extended = places // self._size
        ids = places % self._size
        texts = tf.gather(state.texts, extended, batch_dims=1) + tf.gather(self._texts, ids)
        contexts_before = tf.gather(state.contexts, extended, batch_dims=1)
        contexts = tf.concat([contexts_before, ids[:, :, None]], axis=2)[:, :, 1:]
        # their next pieces
        log_probs = self.model.next_log_probs(tf.reshape(contexts, [-1, self.model.order - 1]))
        log_probs = tf.reshape(_round(tf.cast(log_probs, tf.float64)), [num_rows, -1, self._size])
        log_probs += values[:, :, None]
        # a word ends where a word begins next
        ends = tf.gather(self._begins, tf.gather(self._last, ids))  # [B, K, |V|]
        ended = _round(tf.reduce_logsumexp(exclude(log_probs, ends), axis=2))
        has_prefix = tf.strings.length(texts) >= lengths
        ended, words = self._merge(
            tf.concat([state.ended, exclude(ended, has_prefix)], axis=1),
            tf.concat([state.words, texts], axis=1),
        )
        # a partial word goes on, unless it is much less probable than the words that are wanted
        padded = tf.pad(ended, [[0, 0], [0, self._num_wanted]], constant_values=_LOG_ZERO)
        least = padded[:, self._num_wanted - 1, None, None] + completion.NEGLIGIBLE
        goes_on = state.step + 1 < lengths + completion.MOST_PIECES
        fits = ~ends & self._is_word & (log_probs >= least) & goes_on[:, None]
        return _State(
            step=state.step + 1,
            texts=texts,
            contexts=contexts,
            scores=self._select(log_probs, texts, prefixes, fits),
            ended=ended,
            words=words,
        )

    def _select(
        self, scores: tf.Tensor, texts: tf.Tensor, prefixes: tf.Tensor, fits: tf.Tensor
    ) -> tf.Tensor:
        """Exclude the pieces that do not fit, or with which a partial word does not begin with its
        prefix.
        """
        lengths = tf.strings.length(prefixes)[:, None]
        read = tf.minimum(tf.strings.length(texts), lengths)
        repeated = tf.repeat(prefixes[:, None], tf.shape(read)[1], axis=1)
        rest = tf.strings.substr(repeated, read, lengths - read)
        has_rest = tf.reduce_any(tf.strings.length(rest) > 0)
        fits = tf.cond(has_rest, lambda: fits & self._fit(rest), lambda: fits)
        return exclude(scores, fits)

    def _fit(self, rest: tf.Tensor) -> tf.Tensor:
        """Return which pieces may come next if the text must begin with `rest`: string [B, K] to
        bool [B, K, |V|].
        """
        lengths = tf.strings.length(rest)[:, :, None]
        # all beginnings of the rest
        cuts = tf.range(tf.reduce_max(lengths)) + tf.zeros_like(lengths)  # [B, K, L]
        repeated = tf.repeat(rest[:, :, None], tf.shape(cuts)[2], axis=2)
        beginnings = tf.strings.substr(repeated, tf.zeros_like(cuts), tf.minimum(cuts, lengths))
        # the pieces that equal a beginning; |V| stands for no piece
        ranges = self._prefixes.look_up(beginnings)  # [B, K, L, 3]
        places = ranges[..., :1] + tf.range(self._prefixes.most_equal)
        is_equal = (places < ranges[..., 2:]) & (cuts < lengths)[..., None]
        ids = tf.where(is_equal, tf.gather(self._sorted, places), self._size)
        ids = tf.reshape(ids, [tf.shape(rest)[0], tf.shape(rest)[1], -1])
        one_hot = tf.one_hot(ids, self._size + 1, True, False, dtype=tf.bool)
        begins_rest = tf.reduce_any(one_hot, axis=2)[:, :, : self._size]
        return self._prefixes.match(rest) | begins_rest

    def _merge(self, ended: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Merge the spellings of words, drop bytes that are no text, and return the most probable
        words in order.
        """
        numbers = tf.range(tf.shape(ended)[1])
        is_equal = texts[:, :, None] == texts[:, None]  # [B, E, E]
        repeated = tf.repeat(ended[:, None], tf.size(numbers), axis=1)
        merged = _round(tf.reduce_logsumexp(exclude(repeated, is_equal), axis=2))
        is_first = tf.reduce_all(~is_equal | (numbers[:, None] <= numbers), axis=2)
        is_text = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore") == texts
        is_blank = tf.strings.regex_full_match(texts, self._blank)
        merged = exclude(merged, is_first & is_text & ~is_blank)
        values, places = tf.math.top_k(merged, tf.minimum(self._beam, tf.size(numbers)))
        words = tf.gather(texts, places, batch_dims=1)
        return values, tf.where(values > _LOG_ZERO, words, "")


def _round(log_probs: tf.Tensor) -> tf.Tensor:
    """Round log-probabilities so that equal ones are equal in every program."""
    return tf.round(log_probs * completion.SCALE) / completion.SCALE
