"""A codec as TensorFlow operations: text in, token ids out, as in Python."""

import tensorflow as tf

from keras_nplm.data.boundary import padding_id
from keras_nplm.data.ids import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.data.text_ops import decode_texts
from keras_nplm.language_model.codec import TextCodec

# of a text, `contexts` reads first these bytes for each token of a context, and these once
BYTES_PER_TOKEN = 12
MORE_BYTES = 32
_GROWTH = 4  # if they hold too few tokens, it reads this many times more bytes


class TextGraph(tf.Module):
    """The codec of a language model as TensorFlow operations, with the ids of Python.

    Bytes that are not UTF-8 become U+FFFD. `<pad>`, `<s>` and `</s>` in a text become `<unk>`,
    since an error fails a whole batch.

    A text is one line. A line end at its end is no part of it, and a text without tokens is blank:
    no sentence. A line end elsewhere is white space between words and characters, and a character
    of subwords, as in Python.

    Raises:
        InputError: the tokenizer is a class of your own without the methods to serve it.
    """

    def __init__(self, codec: TextCodec):
        super().__init__()
        vocabulary = codec.vocabulary
        self.padding = padding_id(codec.boundary)
        self.predicts_end = codec.predicts_end
        self.words = tf.constant(vocabulary.words)  # [|V|]
        ids = {word: i for word, i in vocabulary.ids.items() if i >= len(SPECIALS)}
        for form, word in (vocabulary.forms or {}).items():
            ids[form] = ids[word]
        entries = tf.lookup.KeyValueTensorInitializer(
            list(ids), list(ids.values()), tf.string, tf.int64
        )
        self.table = tf.lookup.StaticHashTable(entries, default_value=UNK_ID)
        # an attribute, so that its tables are saved
        self.tokens = codec.tokenizer.build_graph(self.look_up)

    def look_up(self, words: tf.Tensor) -> tf.Tensor:
        """Return the ids of words, int32 of the same shape; the id of `<unk>` for an
        out-of-vocabulary word.
        """
        return tf.cast(self.table.lookup(words), tf.int32)

    def contexts(
        self, texts: tf.Tensor, order: int, max_length: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the last n-1 tokens of texts, int32 [B, n-1], and whether they lie in the last
        `max_length` bytes, bool [B].

        More and more bytes are read, until they hold n-1 tokens after a place where a token surely
        begins.
        """

        def has_more(size: tf.Tensor, context_ids: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
            return (size < max_length) & ~tf.reduce_all(found)

        def read_more(
            size: tf.Tensor, context_ids: tf.Tensor, found: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            size = tf.where(size > max_length // _GROWTH, max_length, size * _GROWTH)
            rows = tf.where(~found)  # [R, 1]
            ids_of_rows, found_in_rows = self._read_ends(tf.gather(texts, rows[:, 0]), order, size)
            context_ids = tf.tensor_scatter_nd_update(context_ids, rows, ids_of_rows)
            return size, context_ids, tf.tensor_scatter_nd_update(found, rows, found_in_rows)

        size = tf.constant(min(BYTES_PER_TOKEN * (order - 1) + MORE_BYTES, max_length))
        context_ids, found = self._read_ends(texts, order, size)
        _, context_ids, found = tf.while_loop(has_more, read_more, [size, context_ids, found])
        return context_ids, found

    def _read_ends(
        self, texts: tf.Tensor, order: int, size: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the last n-1 tokens of the last `size` bytes, and whether there are so many or the
        whole text was read.
        """
        lengths = tf.strings.length(texts)
        is_cut = lengths > size
        sizes = tf.fill(tf.shape(lengths), size)
        ends = tf.strings.substr(texts, tf.maximum(lengths - size, 0), sizes)
        ids = self.tokens.encode_ends(decode_texts(ends), is_cut)
        return self._take_last(ids, order - 1), ~is_cut | (ids.row_lengths() >= order - 1)

    def _take_last(self, ids: tf.RaggedTensor, number: int) -> tf.Tensor:
        """Return the last ids of each row, int32 [B, number], padded at the front."""
        places = ids.row_limits()[:, None] + tf.range(-number, 0, dtype=tf.int64)  # [B, number]
        inside = places >= ids.row_starts()[:, None]
        padded = tf.concat([[self.padding], ids.flat_values], axis=0)
        return tf.gather(padded, tf.where(inside, places + 1, 0))

    def ngrams(self, sentences: tf.Tensor, order: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the token ids of sentences in one row, and which of them are predicted.

        Returns:
            ids of all sentences, each with its first context in front, int32 [T];
            the places of the predicted tokens in them, int64 [N], none of a blank sentence;
            the numbers of their sentences, int64 [N].
        """
        ids = self.tokens.encode_sentences(decode_texts(sentences))
        first_contexts = tf.fill([tf.size(sentences), order - 1], self.padding)
        parts = [tf.RaggedTensor.from_tensor(first_contexts), ids]
        if self.predicts_end:
            num_ends = tf.cast(ids.row_lengths() > 0, tf.int64)  # a blank text is no sentence
            ends = tf.fill([tf.reduce_sum(num_ends)], EOS_ID)
            parts.append(tf.RaggedTensor.from_row_lengths(ends, num_ends, validate=False))
        padded = tf.concat(parts, axis=1)
        places = tf.ragged.range(padded.row_starts() + (order - 1), padded.row_limits())
        return padded.flat_values, places.flat_values, places.value_rowids()


def gather_ngrams(ids: tf.Tensor, places: tf.Tensor, order: int) -> tf.Tensor:
    """Return the n-grams of ids, int32 [T], that end at some places, int64 [N]: int32 [N, n]."""
    return tf.gather(ids, places[:, None] + tf.range(1 - order, 1, dtype=tf.int64))
