"""Context layer of characters: near ones concatenated, and vectors of the words they spell."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.ids import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.io.errors import InputError, check_argument, check_integer
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.lookup import rows
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.segments import Context

_PRIME = 16_777_619  # of the hash of a spelling; odd, so that it has an inverse modulo 2^32
_MIXER = 2_654_435_769  # 2^32 / golden ratio, odd
_BITS = 32


@keras.saving.register_keras_serializable("keras_nplm")
class SpelledContext(ContextEmbedding):
    """Context of characters: the near ones concatenated, and vectors of the words they spell.

        x = [S(word 0), …, S(word K), C(w_{t-k}), …, C(w_{t-1})]

    Word 0 is the beginning of the present word, word j the j-th word before it. A network of
    characters then sees several words at the cost of K + 1 blocks of x, not of a block for each of
    their characters. S has R rows, which all spellings share: the row of a word follows from a hash
    of its characters,

        h(c_1 … c_L) = sum_i (c_i + 1) p^(L - i) mod 2^32.

    Words end at the token `separator`, and at `<s>`, `</s>` and `<pad>`. A word that the context
    has cut is left out, as an empty word is: both have row 0.

    Args:
        vocabulary_size: int, |V|, of characters.
        embedding_dim: int, m, of characters and of words.
        near_characters: int, k, how many characters are concatenated; at most n-1.
        spelled_words: int, K, how many words before the present one have a vector.
        spelling_bits: int, S has R = 2^spelling_bits rows.
        separator: int, the id that ends words. Default: that of the most frequent token, which is
            the white space of most texts.
        weight_decay, word_dropout, dropout: as in `ContextEmbedding`. S has no weight decay, and
            its words no `word_dropout`.

    Call arguments, returns: as in `ContextEmbedding`, with x float [B, (K + 1 + k) m].

    Reference: Weinberger et al. (2009), Feature hashing for large scale multitask learning;
    Bojanowski et al. (2017), Enriching word vectors with subword information, whose n-grams of
    characters share hashed rows.
    """

    options = ("near_characters", "spelled_words", "spelling_bits", "separator")
    reads_segments = False

    def __init__(
        self,
        *args: Any,
        near_characters: int,
        spelled_words: int,
        spelling_bits: int,
        separator: int = len(SPECIALS),
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        check_integer("spelling_bits", spelling_bits, 1, most=30)
        check_integer("separator", separator, 0, most=self.vocabulary_size - 1)
        self.near_characters = near_characters
        self.spelled_words = spelled_words
        self.spelling_bits = spelling_bits
        self.separator = separator

    def build(self, input_shape: tuple) -> None:
        size = input_shape[-1]
        fits = self.near_characters <= size
        wanted = f"at most {size}, the number of context tokens"
        fix = "raise `order` or lower `near_characters`."
        check_argument("near_characters", fits, wanted, self.near_characters, fix)
        super().build(input_shape)
        self.S = self.add_weight(
            name="S",
            shape=(1 << self.spelling_bits, self.embedding_dim),
            initializer=keras.initializers.RandomNormal(stddev=0.05),
            autocast=False,
        )

    @property
    def biases(self) -> list[keras.Variable]:
        """S has no weight decay: it would pass over all rows in each update."""
        return [*super().biases, self.S]

    def read(
        self, context_ids: Tensor, training: bool = False, sum_gradient: bool = True
    ) -> Context:
        context_ids = self._fix_width(context_ids)
        near_ids = context_ids[:, self.context_size - self.near_characters :]
        vectors = self.vectors(near_ids, training, sum_gradient)  # [B, k, m]
        vectors = self.drop_words(vectors, training=training)
        places = self.find_rows(context_ids)
        spelled = ops.cast(rows(self.S, places, sum_gradient=sum_gradient), vectors.dtype)
        x = self.join(ops.concatenate([spelled, vectors], axis=1))
        return Context(self.drop(x, training=training), vectors, near_ids, starts=None)

    def find_rows(self, context_ids: Tensor) -> Tensor:
        """Return the row of S of each word, int32 [B, K+1], of contexts int32 [B, n-1]."""
        ids = ops.flip(ops.cast(context_ids, "int32"), axis=1)  # the last character first
        is_special = ops.logical_and(ids <= EOS_ID, ids != UNK_ID)
        is_end = ops.logical_or(ids == self.separator, is_special)
        ends = ops.cumsum(ops.cast(is_end, "int32"), axis=1)  # between each place and the target
        number = ops.max(ends, axis=1)
        powers, inverses = _list_powers(self.context_size)
        zero = ops.zeros_like(ids)
        # p^place of a character; a word's last one is to have p^0
        values = ops.where(is_end, zero, (ids + 1) * powers)
        places = []
        for word in range(self.spelled_words + 1):
            # sums and operations of bits lose the upper bits in ONNX files
            spelling = ops.cumsum(ops.where(ends == word, values, zero), axis=1)[:, -1]
            first = ops.sum(ops.cast(ends < word, "int32"), axis=1) + min(word, 1)
            first = ops.minimum(first, self.context_size)
            spelling = spelling * ops.take(inverses, first)
            is_whole = number > word
            places.append(ops.where(is_whole, spelling, ops.zeros_like(spelling)))
        mixed = ops.stack(places, axis=1) * _to_int32(_MIXER)
        # the upper bits
        is_negative = mixed < 0
        lower = ops.where(is_negative, mixed - _to_int32(1 << (_BITS - 1)), mixed)  # 31 bits
        upper = lower // 2 // (1 << (_BITS - 1 - self.spelling_bits))
        return upper + ops.cast(is_negative, "int32") * (1 << (self.spelling_bits - 1))

    def join(self, vectors: Tensor) -> Tensor:
        return ops.reshape(vectors, (-1, self._count_blocks() * self.embedding_dim))

    def _count_blocks(self) -> int:
        return self.spelled_words + 1 + self.near_characters

    def read_segments(self, *args: Any, **kwargs: Any) -> Context:
        raise InputError(
            "`inputs` must be contexts with SpelledContext. Received: segments. "
            "Fix: leave `segment` out."
        )

    def position_spans(self, context_size: int) -> tuple[np.ndarray, np.ndarray] | None:
        return None

    def num_single_words(self, context_size: int) -> int:
        return self.near_characters

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self._count_blocks() * self.embedding_dim)


def _list_powers(size: int) -> tuple[Tensor, Tensor]:
    """Return p^0 … p^(size-1), and p^0 … p^-size, modulo 2^32 as int32."""
    modulus = 1 << _BITS
    inverse = pow(_PRIME, -1, modulus)
    powers = [_to_int32(pow(_PRIME, k, modulus)) for k in range(size)]
    inverses = [_to_int32(pow(inverse, k, modulus)) for k in range(size + 1)]
    return ops.convert_to_tensor(powers, "int32"), ops.convert_to_tensor(inverses, "int32")


def _to_int32(number: int) -> int:
    """Return an unsigned number of 32 bits as the signed number with the same bits."""
    return number - (1 << _BITS) if number >> (_BITS - 1) else number
