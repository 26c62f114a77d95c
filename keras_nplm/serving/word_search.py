"""The beam search for words of subwords or characters as TensorFlow operations, as `complete_words` in Python."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_nplm.data.vocabulary import EOS, EOS_ID
from keras_nplm.language_model.completion import BEAM, LONGEST_PREFIX, MOST_PIECES, WordPieces
from keras_nplm.serving.graph_model import GraphModel, exclude, store_array
from keras_nplm.serving.prefixes import PrefixTable
from keras_nplm.serving.text import character_ranges

_LOG_ZERO = float("-inf")
_BLOCK_NUMBERS = 1 << 23  # of a block [rows, beam, |V|]: 32 MiB
_ANY, _SPACE, _NO_SPACE = range(3)  # how a word begins


class _State(NamedTuple):
    """The state of the search: K partial words of each of B rows, and the E words that have ended."""

    step: tf.Tensor  # number of pieces so far
    done: tf.Tensor  # bool [B]
    texts: tf.Tensor  # string [B, K], the partial words
    contexts: tf.Tensor  # int32 [B, K, n-1]
    scores: tf.Tensor  # float32 [B, K, |V|], log-probabilities of the partial words and their next piece
    ended: tf.Tensor  # float32 [B, E], log-probabilities
    ended_texts: tf.Tensor  # string [B, E]


class WordSearch(tf.Module):
    """A beam search for the most probable words of a model of pieces, for a batch of contexts.

    The results of a row are those of `keras_nplm.language_model.completion.complete_words`, and do not depend on other
    rows. All rows advance together, one piece at a time, until each has its words.

    Args:
        model: the model as a graph.
        pieces: the pieces of its vocabulary.
        top_k: number of words that it returns.
        beam: number of partial words that the search keeps.

    Attributes:
        block_rows: int, how many rows to complete at a time; see `compute_in_blocks`.
    """

    def __init__(self, model: GraphModel, pieces: WordPieces, top_k: int, beam: int = BEAM):
        super().__init__()
        self._size = len(pieces.texts)
        self.model, self._beam, self._top_k = model, beam, top_k
        self.block_rows = max(1, _BLOCK_NUMBERS // (beam * self._size))
        self._texts = tf.constant(pieces.texts)  # [|V|]
        self._last = store_array(pieces.last.astype(np.int32))  # [|V|]
        self._begins = store_array(pieces.begins)  # [4, |V|]
        self._has_space = store_array(pieces.has_space)  # [|V|]
        self._blank = f"[{character_ranges(str.isspace)}]*"
        self._prefixes = PrefixTable(pieces.index)
        padding = [self._size] * self._prefixes.most_equal
        self._sorted = store_array(np.array([*pieces.index.ids, *padding], np.int32))

    def find_spaces(self, contexts: tf.Tensor, prefixes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the contexts without spaces at their ends, string [B], and how a word begins, for `complete`."""
        before = tf.strings.regex_replace(contexts, " +$", "")
        has_space = (before != contexts) | (contexts == "")
        return before, tf.where(has_space, _SPACE, tf.where(prefixes == "", _ANY, _NO_SPACE))

    def complete(
        self, context_ids: tf.Tensor, prefixes: tf.Tensor, spaces: tf.Tensor, with_end: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the most probable words, string [B, k], and their probabilities, float32 [B, k].

        Args:
            context_ids: int32 [B, n-1].
            prefixes: string [B], text that the words of a row begin with; may be empty. `</s>` has no prefix.
            spaces: int32 [B]: whether a word may begin in any way (0), with a space (1) or without one (2).
            with_end: whether `</s>` counts as a word.
        """
        begins = tf.convert_to_tensor(self._begins)
        begins &= with_end | (np.arange(self._size) != EOS_ID)  # [4, |V|]
        state = tf.while_loop(
            lambda *state: (state[0] < MOST_PIECES) & ~tf.reduce_all(state[1]),
            lambda *state: self._extend(_State(*state), prefixes, begins),
            self._start(context_ids, prefixes, spaces, begins),
            shape_invariants=_State(
                *map(tf.TensorShape, ([], [None], [None, None], [None, None, self.model.order - 1])),
                *map(tf.TensorShape, ([None, None, self._size], [None, None], [None, None])),
            ),
        )
        is_short = tf.strings.length(prefixes, unit="UTF8_CHAR") <= LONGEST_PREFIX
        return self._rank(exclude(state.ended, is_short[:, None]), state.ended_texts)

    def _start(self, context_ids: tf.Tensor, prefixes: tf.Tensor, spaces: tf.Tensor, begins: tf.Tensor) -> _State:
        """Return the state before the first piece: one partial word per row, which is empty."""
        is_end, number = np.arange(self._size) == EOS_ID, tf.shape(context_ids)[0]
        has_space, spaces = tf.convert_to_tensor(self._has_space) | is_end, spaces[:, None]
        allowed = tf.gather(begins, tf.gather(self._last, context_ids[:, -1]))  # [B, |V|]
        allowed &= tf.where(spaces == _SPACE, has_space, (spaces == _ANY) | ~has_space)
        scores = exclude(tf.cast(self.model.next_log_probs(context_ids), tf.float32), allowed)
        scores -= tf.reduce_logsumexp(scores, axis=1, keepdims=True)
        return _State(
            step=tf.constant(0),
            done=tf.fill([number], False),
            texts=tf.fill([number, 1], ""),
            contexts=context_ids[:, None],
            scores=exclude(scores, tf.convert_to_tensor(~is_end))[:, None],
            ended=exclude(scores[:, EOS_ID, None], (prefixes == "")[:, None]),
            ended_texts=tf.fill([number, 1], EOS),
        )

    def _extend(self, state: _State, prefixes: tf.Tensor, begins: tf.Tensor) -> _State:
        """Extend each partial word by a piece, keep the best ones, and add the words that may end here."""
        number, lengths = tf.shape(prefixes)[0], tf.strings.length(prefixes)[:, None]
        read = tf.minimum(tf.strings.length(state.texts), lengths)
        rest = tf.strings.substr(tf.repeat(prefixes[:, None], tf.shape(read)[1], axis=1), read, lengths - read)
        is_open = tf.reduce_any(tf.strings.length(rest) > 0)
        scores = tf.cond(is_open, lambda: exclude(state.scores, self._fit(rest)), lambda: state.scores)
        beam = tf.minimum(self._beam, tf.shape(scores)[1] * self._size)
        values, best = tf.math.top_k(tf.reshape(scores, [number, tf.shape(scores)[1] * self._size]), beam)
        rows, ids = best // self._size, best % self._size
        texts = tf.gather(state.texts, rows, batch_dims=1) + tf.gather(self._texts, ids)
        contexts = tf.gather(state.contexts, rows, batch_dims=1)[:, :, 1:]
        contexts = tf.concat([contexts, ids[:, :, None]], axis=2)
        log_probs = self.model.next_log_probs(tf.reshape(contexts, [-1, self.model.order - 1]))
        log_probs = tf.reshape(tf.cast(log_probs, tf.float32), [number, beam, self._size]) + values[:, :, None]
        ends = tf.gather(begins, tf.gather(self._last, ids))  # [B, K, |V|]
        is_word = (tf.strings.length(texts) >= tf.maximum(lengths, 1)) & ~state.done[:, None]
        ended = exclude(tf.reduce_logsumexp(exclude(log_probs, ends), axis=2), is_word)
        ended = tf.concat([state.ended, ended], axis=1)
        scores = exclude(log_probs, ~ends & (np.arange(self._size) > EOS_ID))
        padded = tf.pad(ended, [[0, 0], [0, self._top_k]], constant_values=_LOG_ZERO)
        least = tf.math.top_k(padded, self._top_k).values[:, -1]
        done = state.done | (least >= tf.reduce_max(scores, axis=[1, 2]))  # no word to come is among the best
        ended_texts = tf.concat([state.ended_texts, texts], axis=1)
        return _State(state.step + 1, done, texts, contexts, scores, ended, ended_texts)

    def _fit(self, rest: tf.Tensor) -> tf.Tensor:
        """Return which pieces may come next if the text must begin with `rest`: string [B, K] to bool [B, K, |V|]."""
        lengths = tf.strings.length(rest)[:, :, None]
        cuts = tf.range(tf.reduce_max(lengths)) + tf.zeros_like(lengths)  # [B, K, L]
        parts = tf.repeat(rest[:, :, None], tf.shape(cuts)[2], axis=2)
        parts = tf.strings.substr(parts, tf.zeros_like(cuts), tf.minimum(cuts, lengths))
        ranges = self._prefixes.look_up(parts)  # [B, K, L, 3]
        places = ranges[..., :1] + tf.range(self._prefixes.most_equal)
        is_beginning = (places < ranges[..., 2:]) & (cuts < lengths)[..., None]  # a piece that the rest begins with
        ids = tf.where(is_beginning, tf.gather(self._sorted, places), self._size)
        ids = tf.reshape(ids, [tf.shape(rest)[0], tf.shape(rest)[1], -1])
        whole = tf.reduce_any(tf.one_hot(ids, self._size + 1, True, False, dtype=tf.bool), axis=2)
        return self._prefixes.match(rest) | whole[:, :, : self._size]

    def _rank(self, ended: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Merge the spellings of each word, drop bytes that are no text, and return the k most probable words."""
        number = tf.range(tf.shape(ended)[1])
        equal = texts[:, :, None] == texts[:, None]  # [B, E, E]
        merged = tf.reduce_logsumexp(exclude(tf.repeat(ended[:, None], tf.size(number), axis=1), equal), axis=2)
        is_first = tf.reduce_all(~equal | (number[:, None] <= number), axis=2)
        is_text = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore") == texts
        merged = exclude(merged, is_first & is_text & ~tf.strings.regex_full_match(texts, self._blank))
        merged = tf.pad(merged, [[0, 0], [0, self._top_k]], constant_values=_LOG_ZERO)
        values, places = tf.math.top_k(merged, self._top_k)
        words = tf.gather(tf.pad(texts, [[0, 0], [0, self._top_k]]), places, batch_dims=1)
        return tf.where(values > _LOG_ZERO, words, ""), tf.exp(values)
