"""The served functions of a language model: predict_next, complete_prefix, score, …_ids, embed."""

from collections.abc import Callable

import tensorflow as tf

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.ids import SPECIALS, UNK_ID
from keras_nplm.io.errors import check_argument
from keras_nplm.language_model.completion import LONGEST_PREFIX
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_pieces import WordPieces
from keras_nplm.serving.graph_model import compute_in_blocks
from keras_nplm.serving.graphs import build_graph
from keras_nplm.serving.prefixes import PrefixTable, UnfinishedWords
from keras_nplm.serving.text import TextGraph, gather_ngrams
from keras_nplm.serving.word_search import WordSearch

DEFAULT_SIGNATURE = "predict_next"
MAX_TEXT_LENGTH = 1 << 16  # bytes
_LONGEST = 1 << 30  # TensorFlow counts bytes in int32
_NAN = float("nan")
_CONTEXT_IDS = (
    "token ids of the n-1 context words, oldest first; a shorter context is padded "
    "at "
    "the front, with 2 "
)
_CONTEXT_IDS += "(`<s>`) if the model reads sentences and with 0 (`<pad>`) if it reads a stream"
# For each signature: its description under "", and that of each input and output. {max_text_length}
# is filled in
DOCUMENTATION = {
    "predict_next": {
        "": "The k most probable next words with their probabilities, in descending order. "
        "`<unk>` is never returned.",
        "contexts": "texts of any length, of which the last n-1 tokens are read; an empty text is "
        "the start of a text; "
        "after white space at the end a new word begins",
        "words": "next words; empty strings where `probabilities` is NaN",
        "probabilities": "P(word | context), normalised over the whole vocabulary; NaN if the last "
        "{max_text_length:,} bytes of a longer text do not hold n-1 tokens",
    },
    "complete_prefix": {
        "": "Autocompletion: the k most probable words that begin with the unfinished last word "
        "of each text.",
        "texts": "texts of any length, whose last word is unfinished; after white space every "
        "word fits",
        "words": "words in descending order of probability; empty strings where `probabilities` "
        "is 0 or NaN",
        "probabilities": "P(word | context), normalised over the whole vocabulary; 0 where fewer "
        "than k words fit; NaN "
        "as in `predict_next`",
    },
    "score": {
        "": "The log-probability of each sentence, independent of the other sentences.",
        "sentences": "texts of at most {max_text_length:,} bytes (UTF-8), one line each, with or "
        "without its line end; "
        "a blank text has `log_prob` 0 and 0 tokens",
        "log_prob": "sum of ln P(token | context) over the tokens of the sentence, in nats; NaN, "
        "with 0 tokens, if "
        "the text is longer than {max_text_length:,} bytes",
        "tokens": "number of predicted tokens, including `</s>` if the model predicts it",
        "unk_tokens": "number of predicted tokens that are out-of-vocabulary (`<unk>`)",
    },
    "predict_next_ids": {
        "": "The same as `predict_next`, with token ids in place of text.",
        "context_ids": _CONTEXT_IDS,
        "ids": "token ids of the next words",
        "probabilities": "P(word | context); NaN if a context id is out of range",
    },
    "log_prob_ids": {
        "": "ln P(target | context), normalised over the whole vocabulary.",
        "context_ids": _CONTEXT_IDS,
        "target_ids": "token id of the word after the context",
        "log_prob": "ln P(target | context) in nats; NaN if an id is out of range",
    },
    "embed": {
        "": "The word vectors C(word).",
        "words": "single tokens, as the tokenizer returns them",
        "vectors": "C(word), or C(`<unk>`) for an out-of-vocabulary word",
        "ids": "token id; 1 (`<unk>`) for an out-of-vocabulary word",
    },
}


class ServingModule(tf.Module):
    """A language model of any kind as a module with the signatures that TF Serving calls.

    A row does not depend on other rows, and a text beyond the limit has the result NaN, since the
    server batches rows.
    """

    def __init__(
        self, language_model: LanguageModel, top_k: int = 10, max_text_length: int = MAX_TEXT_LENGTH
    ):
        super().__init__(name="keras_nplm")
        check_argument("top_k", top_k >= 1, "1 or more", top_k)
        in_range = 1 <= max_text_length <= _LONGEST
        check_argument(
            "max_text_length",
            in_range,
            f"1 to {_LONGEST:,}",
            max_text_length,
            "give a number of bytes.",
        )
        proposed = language_model.codec.proposed_ids
        self.top_k = min(top_k, len(proposed))
        self.num_completions = top_k
        self.max_text_length = max_text_length
        self.model = build_graph(language_model.model)
        self.text = TextGraph(
            language_model.vocabulary, language_model.tokenizer, language_model.boundary
        )
        self._first = int(proposed[0])  # the first id that `predict_next` may return
        self.C = language_model.network.embed.C.value if language_model.network else None
        self.prefixes = self.search = None
        index = language_model.codec.word_index
        longest = LONGEST_PREFIX
        if isinstance(index, WordPieces):
            self.search = WordSearch(self.model, index, top_k)
        else:
            self.prefixes = PrefixTable(index)
            longest = index.longest
            self.num_completions = min(top_k, self.model.vocabulary_size - len(SPECIALS))
        self.unfinished = UnfinishedWords(language_model.tokenizer, longest)
        self._searches_words = language_model.tokenizer.searches_words

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """Return the functions by name, each with its input signature; `embed` only for a model
        with word vectors.
        """
        text = tf.TensorSpec([None], tf.string)
        ids = tf.TensorSpec([None], tf.int32)
        context = tf.TensorSpec([None, self.model.order - 1], tf.int32)
        inputs = {
            "predict_next": {"contexts": text},
            "complete_prefix": {"texts": text},
            "score": {"sentences": text},
            "predict_next_ids": {"context_ids": context},
            "log_prob_ids": {"context_ids": context, "target_ids": ids},
        }
        if self.C is not None:
            inputs["embed"] = {"words": text}
        functions = {}
        for name, specs in inputs.items():
            signature = [
                tf.TensorSpec(spec.shape, spec.dtype, argument) for argument, spec in specs.items()
            ]
            functions[name] = tf.function(getattr(self, name), signature, autograph=False)
        return functions

    def predict_next(self, contexts: tf.Tensor) -> dict[str, tf.Tensor]:
        if self._searches_words:
            return self._search_words(
                contexts, tf.fill(tf.shape(contexts), ""), predicts_end(self.text.boundary)
            )

        def predict(context_ids: tf.Tensor, _: slice) -> tuple[tf.Tensor, tf.Tensor]:
            ids, probabilities = self.model.most_probable(context_ids, self._first, self.top_k)
            return tf.gather(self.text.words, ids), probabilities

        return self._predict_words(contexts, self.top_k, predict, self.model.block_rows)

    def complete_prefix(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        contexts, prefixes = self.unfinished.split(texts)
        if self.search is not None:
            return self._search_words(contexts, prefixes, with_end=False)

        def predict(context_ids: tf.Tensor, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            first = len(SPECIALS)
            fits = self.prefixes.match(prefixes[rows])
            ids, probabilities = self.model.most_probable(
                context_ids, first, self.num_completions, fits[:, first:]
            )
            return tf.where(probabilities > 0, tf.gather(self.text.words, ids), ""), probabilities

        return self._predict_words(contexts, self.num_completions, predict, self.model.block_rows)

    def _search_words(
        self, contexts: tf.Tensor, prefixes: tf.Tensor, with_end: bool
    ) -> dict[str, tf.Tensor]:
        """Return the most probable words of pieces that begin with `prefixes`, after the text
        `contexts`.
        """
        before, begin = self.search.split_blanks(contexts, prefixes)

        def predict(context_ids: tf.Tensor, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            return self.search.complete(context_ids, prefixes[rows], begin[rows], with_end)

        return self._predict_words(before, self.num_completions, predict, self.search.block_rows)

    def _predict_words(
        self, contexts: tf.Tensor, k: int, predict: Callable, block_rows: int
    ) -> dict[str, tf.Tensor]:
        """Return words and probabilities in blocks of rows; "" and NaN after a context that cannot
        be read.
        """

        def compute(rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            context_ids, found = self.text.contexts(
                contexts[rows], self.model.order, self.max_text_length
            )
            words, probabilities = predict(context_ids, rows)
            return tf.where(found[:, None], words, ""), tf.where(
                found[:, None], probabilities, _NAN
            )

        specs = [tf.TensorSpec([None, k], kind) for kind in (tf.string, tf.float32)]
        words, probabilities = compute_in_blocks(compute, tf.size(contexts), block_rows, specs)
        return {"words": words, "probabilities": probabilities}

    def score(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        order = self.model.order
        is_short = tf.strings.length(sentences) <= self.max_text_length
        ids, places, rows = self.text.ngrams(tf.where(is_short, sentences, ""), order)
        log_prob = self._log_prob(
            lambda block: gather_ngrams(ids, places[block], order), tf.size(places), tf.float64
        )
        is_unknown = tf.cast(tf.gather(ids, places) == UNK_ID, tf.int32)
        columns = {
            "log_prob": log_prob,
            "tokens": tf.ones_like(is_unknown),
            "unk_tokens": is_unknown,
        }
        sums = {
            name: tf.math.unsorted_segment_sum(c, rows, tf.size(sentences))
            for name, c in columns.items()
        }
        return sums | {"log_prob": tf.where(is_short, tf.cast(sums["log_prob"], tf.float32), _NAN)}

    def predict_next_ids(self, context_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        def predict(rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            valid, checked = self._check_ids(context_ids[rows])
            ids, probabilities = self.model.most_probable(checked, self._first, self.top_k)
            return ids, tf.where(valid[:, None], probabilities, _NAN)

        specs = [tf.TensorSpec([None, self.top_k], kind) for kind in (tf.int32, tf.float32)]
        ids, probabilities = compute_in_blocks(
            predict, tf.shape(context_ids)[0], self.model.block_rows, specs
        )
        return {"ids": ids, "probabilities": probabilities}

    def log_prob_ids(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        valid, ngrams = self._check_ids(tf.concat([context_ids, target_ids[:, None]], axis=1))
        log_prob = self._log_prob(lambda block: ngrams[block], tf.size(target_ids), tf.float32)
        return {"log_prob": tf.where(valid, log_prob, _NAN)}

    def embed(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = self.text.look_up(words)
        return {"vectors": tf.gather(self.C, ids), "ids": ids}

    def _log_prob(self, ngrams: Callable, number: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Return ln P of n-grams [N], in blocks; `ngrams` is a function from a slice to their ids
        [b, n].
        """

        def compute(rows: slice) -> tuple[tf.Tensor]:
            ids = ngrams(rows)
            return (tf.cast(self.model.log_prob(ids[:, :-1], ids[:, -1]), dtype),)

        specs = [tf.TensorSpec([None], dtype)]
        return compute_in_blocks(compute, number, self.model.block_rows, specs)[0]

    def _check_ids(self, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return which rows have only ids of the vocabulary, bool [B], and the ids clipped to its
        range.
        """
        size = self.model.vocabulary_size
        return tf.reduce_all((ids >= 0) & (ids < size), axis=1), tf.clip_by_value(ids, 0, size - 1)
