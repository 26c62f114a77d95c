"""The beam search for words of subwords or characters as TensorFlow operations, with the steps of
`completion.search_words` in Python.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import EOS, EOS_ID, SPECIALS
from keras_nplm.data.text_ops import character_ranges, store_array
from keras_nplm.language_model import completion
from keras_nplm.language_model.word_pieces import AFTER_SPACE, NO_SPACE, WordPieces
from keras_nplm.serving.graph_model import GraphModel, exclude

_LOG_ZERO = float("-inf")
_LEAST = -1e30  # stands for -inf where -inf would give NaN
_MOST_NUMBERS = 1 << 23  # of the beams [K, |V|] that are searched at the same time: 64 MiB
_MOST_ROWS = 10


class _State(NamedTuple):
    """The state of the search: K partial words, and the E best words so far."""

    step: tf.Tensor  # number of pieces so far
    texts: tf.Tensor  # string [K], the partial words
    contexts: tf.Tensor  # int32 [K, n-1]
    scores: tf.Tensor  # float64 [K, |V|], log-probabilities of the partial words with a next piece
    words: tf.Tensor  # string [E]
    ended: tf.Tensor  # float64 [E], log-probabilities of the words in descending order


class WordSearch(tf.Module):
    """A beam search for the most probable words of a model of pieces; see `search_words`.

    Attributes:
        top_k: number of words that `complete` returns.
        longest: characters of a prefix that it completes.
    """

    def __init__(self, model: GraphModel, pieces: WordPieces, top_k: int):
        super().__init__()
        self.model = model
        self.top_k = top_k
        self.longest = completion.LONGEST_PREFIX
        self._size = len(pieces.texts)
        self._num_wanted, self._beam = completion.choose_beam(top_k, self._size)
        rows = _MOST_NUMBERS // (self._beam * self._size)
        self._parallel_rows = min(max(1, rows), _MOST_ROWS)
        self._texts = tf.constant(pieces.texts)  # [|V|]
        self._codes = store_array(pieces.codes)  # [|V|, longest]
        self._last = store_array(pieces.last.astype(np.int32))  # [|V|]
        self._begins = store_array(pieces.begins)  # [5, |V|]
        self._blanks = f"[{pieces.blanks}]+$"
        self._blank = f"[{character_ranges(str.isspace)}]*"

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

        def search(row: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            return self._complete_words(*row, with_end=with_end)

        k = self.top_k
        specs = (tf.TensorSpec([k], tf.string), tf.TensorSpec([k], tf.float32))
        return tf.map_fn(
            search,
            (context_ids, prefixes, begin),
            parallel_iterations=self._parallel_rows,
            fn_output_signature=specs,
        )

    def _complete_words(
        self, context_ids: tf.Tensor, prefix: tf.Tensor, begin: tf.Tensor, with_end: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        is_long = tf.strings.length(prefix, "UTF8_CHAR") > self.longest
        prefix = tf.where(is_long, "", prefix)
        wanted = tf.strings.length(prefix)
        fits = self._find_fitting(prefix) & ~is_long
        begin = tf.where(begin < 0, tf.gather(self._last, context_ids[-1]), begin)
        log_probs = tf.cast(self.model.next_log_probs(context_ids[None]), tf.float64)
        scores = exclude(log_probs, tf.gather(self._begins, begin))  # [1, |V|]
        scores = _round(scores - tf.maximum(tf.reduce_logsumexp(scores), _LEAST))
        num_ended = int(with_end)
        start = _State(
            step=tf.constant(0),
            texts=tf.constant([""]),
            contexts=context_ids[None],
            scores=scores,
            words=tf.fill([num_ended], EOS),
            ended=scores[0, EOS_ID : EOS_ID + num_ended],
        )
        shapes = _State(
            step=tf.TensorShape([]),
            texts=tf.TensorShape([None]),
            contexts=tf.TensorShape([None, self.model.order - 1]),
            scores=tf.TensorShape([None, self._size]),
            words=tf.TensorShape([None]),
            ended=tf.TensorShape([None]),
        )

        def is_open(*values: tf.Tensor) -> tf.Tensor:
            state = _State(*values)
            has_next = tf.reduce_any(state.scores > _LOG_ZERO)
            return has_next & (state.step < wanted + completion.MOST_PIECES)

        def extend(*values: tf.Tensor) -> _State:
            return self._extend(_State(*values), wanted, fits)

        state = tf.while_loop(is_open, extend, start, shape_invariants=shapes)
        more = [[0, self.top_k]]  # there may be fewer words
        words = tf.pad(state.words, more)[: self.top_k]
        log_probs = tf.pad(state.ended, more, constant_values=_LOG_ZERO)[: self.top_k]
        return words, tf.cast(tf.exp(log_probs), tf.float32)

    def _extend(self, state: _State, wanted: tf.Tensor, fits: tf.Tensor) -> _State:
        """Extend the best partial words by a piece, and add the words that may end here.

        Words begin with a prefix of `wanted` bytes; see `WordPieces.find_fitting` for `fits`.
        """
        read = tf.minimum(tf.strings.length(state.texts), wanted)
        scores = tf.reshape(exclude(state.scores, tf.gather(fits, read)), [-1])
        num_open = tf.math.count_nonzero(scores > _LOG_ZERO, dtype=tf.int32)
        values, places = tf.math.top_k(scores, tf.minimum(self._beam, num_open))
        rows = places // self._size
        ids = places % self._size
        texts = tf.gather(state.texts, rows) + tf.gather(self._texts, ids)
        contexts = tf.concat([tf.gather(state.contexts, rows), ids[:, None]], axis=1)[:, 1:]
        log_probs = _round(tf.cast(self.model.next_log_probs(contexts), tf.float64))
        scores = values[:, None] + log_probs  # [K, |V|]
        # a word ends where a word begins next
        ends = tf.gather(self._begins, tf.gather(self._last, ids))  # [K, |V|]
        ended = _round(tf.reduce_logsumexp(exclude(scores, ends), axis=1))
        ended = exclude(ended, tf.strings.length(texts) >= wanted)
        words, ended = self._merge(
            tf.concat([state.words, texts], axis=0), tf.concat([state.ended, ended], axis=0)
        )
        # a partial word goes on, unless it is much less probable than the words that are wanted
        padded = tf.pad(ended, [[0, self._num_wanted]], constant_values=_LOG_ZERO)
        least = padded[self._num_wanted - 1] + completion.NEGLIGIBLE
        scores = exclude(scores, ~ends & (scores >= least))
        return _State(state.step + 1, texts, contexts, scores, words, ended)

    def _find_fitting(self, prefix: tf.Tensor) -> tf.Tensor:
        """Return what `WordPieces.find_fitting` does, bool [n+1, |V|]."""
        longest = self._codes.shape[1]
        codes = tf.cast(tf.io.decode_raw(prefix, tf.uint8), tf.int16)
        padded = tf.pad(codes, [[0, longest]], constant_values=-1)
        rests = tf.gather(padded, tf.range(tf.size(codes) + 1)[:, None] + tf.range(longest))

        def fit(rest: tf.Tensor) -> tf.Tensor:
            is_equal = (self._codes == rest) | (self._codes < 0) | (rest < 0)
            return tf.reduce_all(is_equal, axis=1)

        found = tf.map_fn(fit, rests, fn_output_signature=tf.bool)
        return found & (np.arange(self._size) >= len(SPECIALS))

    def _merge(self, words: tf.Tensor, ended: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Merge the spellings of words, drop bytes that are no text, and return the most probable
        words in order.
        """
        numbers = tf.range(tf.size(words))
        is_equal = words[:, None] == words  # [E, E]
        merged = _round(tf.reduce_logsumexp(exclude(ended, is_equal), axis=1))
        is_first = tf.reduce_all(~is_equal | (numbers[:, None] <= numbers), axis=1)
        is_text = tf.strings.unicode_transcode(words, "UTF-8", "UTF-8", errors="ignore") == words
        is_blank = tf.strings.regex_full_match(words, self._blank)
        merged = exclude(merged, is_first & is_text & ~is_blank)
        num_words = tf.math.count_nonzero(merged > _LOG_ZERO, dtype=tf.int32)
        values, places = tf.math.top_k(merged, tf.minimum(self._beam, num_words))
        return tf.gather(words, places), values


def _round(log_probs: tf.Tensor) -> tf.Tensor:
    """Round log-probabilities so that equal ones are equal in every program."""
    return tf.round(log_probs * completion.SCALE) / completion.SCALE
