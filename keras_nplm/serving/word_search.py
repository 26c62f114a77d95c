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
    """The state of the search: K partial words of each of B rows, and their best words so far."""

    step: tf.Tensor  # number of pieces so far
    texts: tf.Tensor  # string [B, K], the partial words
    contexts: tf.Tensor  # int32 [B, K, n-1]
    # float64 [B, K, |V|], log-probabilities of the partial words and their next piece
    scores: tf.Tensor
    ended: tf.Tensor  # float64 [B, E], log-probabilities in descending order
    words: tf.Tensor  # string [B, E]


class WordSearch(tf.Module):
    """A beam search for the most probable words of a model of pieces, for a batch of contexts; see
    `complete_words`.
    """

    def __init__(self, model: GraphModel, pieces: WordPieces, top_k: int):
        super().__init__()
        self._size = len(pieces.texts)
        self.model = model
        self._top_k = top_k
        self._number, self._beam = completion.choose_beam(top_k, self._size)
        self.block_rows = max(1, _BLOCK_NUMBERS // (self._beam * max(self._size, 4 * self._beam)))
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
        """Return contexts without white space at their ends, and rows of `WordPieces.begins`, -1:
        the last piece's.
        """
        before = tf.strings.regex_replace(contexts, self._blanks, "")
        has_space = before != contexts
        is_first = before == ""
        begin = tf.where(has_space, AFTER_SPACE, tf.where(prefixes == "", -1, NO_SPACE))
        return before, tf.where(is_first, -1, begin)

    def complete(
        self, context_ids: tf.Tensor, prefixes: tf.Tensor, begin: tf.Tensor, with_end: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the most probable words, string [B, k], and their probabilities, float32 [B,
        k].
        """
        state = tf.while_loop(
            lambda *state: tf.reduce_any(_State(*state).scores > _LOG_ZERO),
            lambda *state: self._extend(_State(*state), prefixes),
            self._start(context_ids, prefixes, begin, with_end),
            shape_invariants=_State(
                *map(tf.TensorShape, ([], [None, None], [None, None, self.model.order - 1])),
                *map(tf.TensorShape, ([None, None, self._size], [None, None], [None, None])),
            ),
        )
        padded = tf.pad(state.ended, [[0, 0], [0, self._top_k]], constant_values=_LOG_ZERO)[
            :, : self._top_k
        ]
        words = tf.pad(state.words, [[0, 0], [0, self._top_k]])[:, : self._top_k]
        return words, tf.cast(tf.exp(padded), tf.float32)

    def _start(
        self, context_ids: tf.Tensor, prefixes: tf.Tensor, begin: tf.Tensor, with_end: bool
    ) -> _State:
        """Return the state before the first piece: one partial word per row, which is empty."""
        begin = tf.where(begin < 0, tf.gather(self._last, context_ids[:, -1]), begin)
        log_probs = tf.cast(self.model.next_log_probs(context_ids), tf.float64)
        scores = exclude(log_probs, tf.gather(self._begins, begin))
        scores = _round(
            scores - tf.maximum(tf.reduce_logsumexp(scores, axis=1, keepdims=True), _LEAST)
        )
        is_short = (
            tf.strings.length(prefixes, unit="UTF8_CHAR")[:, None] <= completion.LONGEST_PREFIX
        )
        texts = tf.fill([tf.size(prefixes), 1], "")
        return _State(
            step=tf.constant(0),
            texts=texts,
            contexts=context_ids[:, None],
            scores=self._select(
                scores[:, None], texts, prefixes, self._is_word & is_short[:, None]
            ),
            ended=scores[:, EOS_ID : EOS_ID + with_end],
            words=tf.fill([tf.size(prefixes), int(with_end)], EOS),
        )

    def _extend(self, state: _State, prefixes: tf.Tensor) -> _State:
        """Extend each partial word by a piece, keep the best ones, and add the words that may end
        here.
        """
        number = tf.size(prefixes)
        lengths = tf.strings.length(prefixes)[:, None]
        scores = tf.reshape(state.scores, [number, tf.shape(state.scores)[1] * self._size])
        most = tf.reduce_max(tf.math.count_nonzero(scores > _LOG_ZERO, axis=1, dtype=tf.int32))
        values, best = tf.math.top_k(scores, tf.minimum(self._beam, most))
        rows = best // self._size
        ids = best % self._size
        texts = tf.gather(state.texts, rows, batch_dims=1) + tf.gather(self._texts, ids)
        contexts = tf.concat(
            [tf.gather(state.contexts, rows, batch_dims=1), ids[:, :, None]], axis=2
        )[:, :, 1:]
        log_probs = self.model.next_log_probs(tf.reshape(contexts, [-1, self.model.order - 1]))
        log_probs = tf.reshape(_round(tf.cast(log_probs, tf.float64)), [number, -1, self._size])
        log_probs += values[:, :, None]
        ends = tf.gather(self._begins, tf.gather(self._last, ids))  # [B, K, |V|]
        ended = _round(tf.reduce_logsumexp(exclude(log_probs, ends), axis=2))
        ended, words = self._merge(
            tf.concat([state.ended, exclude(ended, tf.strings.length(texts) >= lengths)], axis=1),
            tf.concat([state.words, texts], axis=1),
        )
        padded = tf.pad(ended, [[0, 0], [0, self._number]], constant_values=_LOG_ZERO)
        least = padded[:, self._number - 1, None, None] + completion.NEGLIGIBLE
        goes_on = state.step + 1 < lengths + completion.MOST_PIECES
        fits = ~ends & self._is_word & (log_probs >= least) & goes_on[:, None]
        return _State(
            state.step + 1,
            texts,
            contexts,
            self._select(log_probs, texts, prefixes, fits),
            ended,
            words,
        )

    def _select(
        self, scores: tf.Tensor, texts: tf.Tensor, prefixes: tf.Tensor, fits: tf.Tensor
    ) -> tf.Tensor:
        """Exclude the pieces that do not fit, or with which a partial word does not begin with its
        prefix.
        """
        lengths = tf.strings.length(prefixes)[:, None]
        read = tf.minimum(tf.strings.length(texts), lengths)
        rest = tf.strings.substr(
            tf.repeat(prefixes[:, None], tf.shape(read)[1], axis=1), read, lengths - read
        )
        is_open = tf.reduce_any(tf.strings.length(rest) > 0)
        return exclude(scores, tf.cond(is_open, lambda: fits & self._fit(rest), lambda: fits))

    def _fit(self, rest: tf.Tensor) -> tf.Tensor:
        """Return which pieces may come next if the text must begin with `rest`: string [B, K] to
        bool [B, K, |V|].
        """
        lengths = tf.strings.length(rest)[:, :, None]
        cuts = tf.range(tf.reduce_max(lengths)) + tf.zeros_like(lengths)  # [B, K, L]
        parts = tf.repeat(rest[:, :, None], tf.shape(cuts)[2], axis=2)
        parts = tf.strings.substr(parts, tf.zeros_like(cuts), tf.minimum(cuts, lengths))
        ranges = self._prefixes.look_up(parts)  # [B, K, L, 3]
        places = ranges[..., :1] + tf.range(self._prefixes.most_equal)
        # a piece that the rest begins with
        is_beginning = (places < ranges[..., 2:]) & (cuts < lengths)[..., None]
        ids = tf.where(is_beginning, tf.gather(self._sorted, places), self._size)
        ids = tf.reshape(ids, [tf.shape(rest)[0], tf.shape(rest)[1], -1])
        whole = tf.reduce_any(tf.one_hot(ids, self._size + 1, True, False, dtype=tf.bool), axis=2)
        return self._prefixes.match(rest) | whole[:, :, : self._size]

    def _merge(self, ended: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Merge the spellings of words, drop bytes that are no text, and return the most probable
        words in order.
        """
        number = tf.range(tf.shape(ended)[1])
        equal = texts[:, :, None] == texts[:, None]  # [B, E, E]
        merged = _round(
            tf.reduce_logsumexp(
                exclude(tf.repeat(ended[:, None], tf.size(number), axis=1), equal), axis=2
            )
        )
        is_first = tf.reduce_all(~equal | (number[:, None] <= number), axis=2)
        is_text = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore") == texts
        merged = exclude(
            merged, is_first & is_text & ~tf.strings.regex_full_match(texts, self._blank)
        )
        values, places = tf.math.top_k(merged, tf.minimum(self._beam, tf.size(number)))
        return values, tf.where(values > _LOG_ZERO, tf.gather(texts, places, batch_dims=1), "")


def _round(log_probs: tf.Tensor) -> tf.Tensor:
    return tf.round(log_probs * completion.SCALE) / completion.SCALE
