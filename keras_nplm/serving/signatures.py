"""The served functions of a language model, one class each: its documentation, then the way from
text to answer.

`predict_next`, `complete_prefix`, `score`, `predict_next_ids`, `log_prob_ids`, `embed`.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, cast

import tensorflow as tf

from keras_nplm.data.ids import SPECIALS, UNK_ID
from keras_nplm.data.text_ops import change_case, decode_texts
from keras_nplm.data.tokenizers.normalisation import lower
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_pieces import WordPieces
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.serving.graph_model import build_graph, compute_in_blocks
from keras_nplm.serving.prefixes import UnfinishedWords, WordTable, propose_words
from keras_nplm.serving.text import TextGraph, gather_ngrams
from keras_nplm.serving.word_search import WordSearch

DEFAULT_SIGNATURE = "predict_next"
MAX_TEXT_LENGTH = 1 << 16  # bytes
_NAN = float("nan")
_CONTEXT_IDS = (
    "token ids of the n-1 context words, oldest first; a shorter context is padded at the front, "
    "with 2 (`<s>`) if the model reads sentences and with 0 (`<pad>`) if it reads a stream"
)


class ServedFunction(tf.Module):
    """A function that the server calls by its signature name.

    A row of the answer does not depend on other rows, and a text beyond the limit has the result
    NaN, since the server batches the rows of different requests.

    Attributes:
        signature_name: the name in a request.
        description: what the model card says of it.
        inputs, outputs: what the model card says of each tensor. "{max_text_length}" is filled in.
        needs_network: whether a language model without a network lacks it.
        compute: function from the tensors of the inputs, in their order, to those of the outputs by
            name.
    """

    signature_name: ClassVar[str]
    description: ClassVar[str]
    inputs: ClassVar[Mapping[str, str]]
    outputs: ClassVar[Mapping[str, str]]
    needs_network: ClassVar[bool] = False
    compute: Callable[..., dict[str, tf.Tensor]]

    def __init__(self, served: "ServingModule"):
        super().__init__()
        self.model = served.model
        self.text = served.text
        self.max_text_length = served.max_text_length
        proposed = served.language_model.codec.proposed_ids
        self.first = int(proposed[0])  # the least id that may be returned
        self.top_k = min(served.top_k, len(proposed))

    def specify_inputs(self) -> list[tf.TensorSpec]:
        """Return the shape, dtype and name of each input. Default: texts, string [B]."""
        return [tf.TensorSpec([None], tf.string, name) for name in self.inputs]

    def specify_context_ids(self) -> tf.TensorSpec:
        return tf.TensorSpec([None, self.model.order - 1], tf.int32, "context_ids")

    def check_ids(self, ids: tf.Tensor, length: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Return which rows have only ids of the vocabulary, bool [B], and the ids clipped to its
        range; fail unless a row has `length` ids, since the server does not check the shape.
        """
        ids = tf.ensure_shape(ids, [None, length])
        size = self.model.vocabulary_size
        is_valid = tf.reduce_all((ids >= 0) & (ids < size), axis=1)
        return is_valid, tf.clip_by_value(ids, 0, size - 1)


class WordFunction(ServedFunction):
    """Base class of the served functions from texts to words with their probabilities."""

    def search_words(
        self, search: WordSearch, contexts: tf.Tensor, prefixes: tf.Tensor, with_end: bool
    ) -> dict[str, tf.Tensor]:
        """Return the most probable words that begin with `prefixes`, after the texts `contexts`.

        They are composed of parts of words by a beam search. `with_end`: `</s>` is one of them.
        """
        before, begin = search.split_blanks(decode_texts(contexts), prefixes)

        def complete(context_ids: tf.Tensor, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            return search.complete(context_ids, prefixes[rows], begin[rows], with_end)

        return self.answer_in_blocks(before, search.top_k, complete)

    def answer_in_blocks(
        self,
        contexts: tf.Tensor,
        k: int,
        find_words: Callable[[tf.Tensor, slice], tuple[tf.Tensor, tf.Tensor]],
    ) -> dict[str, tf.Tensor]:
        """Return k words and probabilities after each text; "" and NaN after one that is too long.

        `find_words(context_ids, rows)` returns those of some rows, string and float32 [b, k].
        """

        def answer(rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            context_ids, is_read = self.text.contexts(
                contexts[rows], self.model.order, self.max_text_length
            )
            words, probabilities = find_words(context_ids, rows)
            is_read = is_read[:, None]
            return tf.where(is_read, words, ""), tf.where(is_read, probabilities, _NAN)

        specs = [tf.TensorSpec([None, k], tf.string), tf.TensorSpec([None, k], tf.float32)]
        words, probabilities = compute_in_blocks(
            answer, tf.size(contexts), self.model.block_rows, specs
        )
        return {"words": words, "probabilities": probabilities}


class PredictNext(WordFunction):
    """`predict_next`: the most probable next words of texts."""

    signature_name = "predict_next"
    description = (
        "The k most probable next words with their probabilities, in descending order. `<unk>` is "
        "never returned."
    )
    inputs = {
        "contexts": "texts of any length, of which the last n-1 tokens are read; an empty text is "
        "the start of a text; after white space at the end a new word begins",
    }
    outputs = {
        "words": "next words; empty strings where `probabilities` is NaN or fewer than k words are "
        "found",
        "probabilities": "P(word | context), normalised over the whole vocabulary; 0 where fewer "
        "than k words are found; NaN if the last {max_text_length:,} bytes of a longer text do not "
        "hold n-1 tokens",
    }

    def __init__(self, served: "ServingModule"):
        super().__init__(served)
        self.predicts_end = self.text.predicts_end
        self.search: WordSearch | None = None
        # next words are composed of subwords and bytes; after characters come characters
        composes_words = served.language_model.tokenizer.searches_words
        if composes_words and isinstance(served.completions, WordSearch):
            self.search = served.completions

    def compute(self, contexts: tf.Tensor) -> dict[str, tf.Tensor]:
        if self.search is not None:
            no_prefixes = tf.fill(tf.shape(contexts), "")
            return self.search_words(self.search, contexts, no_prefixes, self.predicts_end)

        def rank(context_ids: tf.Tensor, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            ids, probabilities = self.model.most_probable(context_ids, self.first, self.top_k)
            return tf.gather(self.text.words, ids), probabilities

        return self.answer_in_blocks(contexts, self.top_k, rank)


class CompletePrefix(WordFunction):
    """`complete_prefix`: the most probable completions of the last word of texts."""

    signature_name = "complete_prefix"
    description = (
        "Autocompletion: the k most probable words that begin with the unfinished last word of "
        "each text. If there is none: words in another case of letters, in the case of the text."
    )
    inputs = {
        "texts": "texts of any length, whose last word is unfinished; after white space every word "
        "fits",
    }
    outputs = {
        "words": "words in descending order of probability; empty strings where `probabilities` is "
        "0 or NaN",
        "probabilities": "P(word | context), normalised over the whole vocabulary; 0 where fewer "
        "than k words fit; NaN as in `predict_next`",
    }

    def __init__(self, served: "ServingModule"):
        super().__init__(served)
        self.completions = served.completions
        tokenizer = served.language_model.tokenizer
        self.lowers = tokenizer.lowers
        self.unfinished = UnfinishedWords(tokenizer, self.completions.longest)
        self.top_k = min(served.top_k, self.model.vocabulary_size - len(SPECIALS))

    def compute(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        contexts, typed = self.unfinished.split(texts)
        if isinstance(self.completions, WordSearch):
            return self.search_any_case(self.completions, contexts, typed)
        table = self.completions
        number = self.model.vocabulary_size - len(SPECIALS)
        most = min(self.top_k * table.most_variants, number)

        def rank(context_ids: tf.Tensor, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            fits, is_other = table.match(typed[rows])
            first = len(SPECIALS)
            ids, probabilities = self.model.most_probable(context_ids, first, most, fits)
            words = tf.where(probabilities > 0, tf.gather(self.text.words, ids), "")
            return propose_words(typed[rows], is_other, words, probabilities, self.top_k)

        return self.answer_in_blocks(contexts, self.top_k, rank)

    def search_any_case(
        self, search: WordSearch, contexts: tf.Tensor, typed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return the words that begin with what was typed, else with it in lower case."""

        # both searches call it, so that it is traced and stored once
        @tf.function(autograph=False)
        def search_words(prefixes: tf.Tensor) -> dict[str, tf.Tensor]:
            return self.search_words(search, contexts, prefixes, with_end=False)

        lowered = change_case(typed, lower)
        prefixes = lowered if self.lowers else typed
        found = search_words(prefixes)
        if not self.lowers:
            is_missing = (found["words"][:, 0] == "") & (typed != lowered)
            prefixes = tf.where(is_missing, lowered, typed)
            found = tf.cond(
                tf.reduce_any(is_missing), lambda: search_words(prefixes), lambda: found
            )
        words, probabilities = propose_words(
            typed, prefixes != typed, found["words"], found["probabilities"], search.top_k
        )
        return {"words": words, "probabilities": probabilities}


class Score(ServedFunction):
    """`score`: the log-probabilities of sentences."""

    signature_name = "score"
    description = "The log-probability of each sentence, independent of the other sentences."
    inputs = {
        "sentences": "texts of at most {max_text_length:,} bytes (UTF-8), one line each, with or "
        "without its line end; a blank text has `log_prob` 0 and 0 tokens",
    }
    outputs = {
        "log_prob": "sum of ln P(token | context) over the tokens of the sentence, in nats; NaN, "
        "with 0 tokens, if the text is longer than {max_text_length:,} bytes",
        "tokens": "number of predicted tokens, including `</s>` if the model predicts it",
        "unk_tokens": "number of predicted tokens that are out-of-vocabulary (`<unk>`)",
    }

    def compute(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        order = self.model.order
        is_short = tf.strings.length(sentences) <= self.max_text_length
        ids, places, rows = self.text.ngrams(tf.where(is_short, sentences, ""), order)

        def score_ngrams(block: slice) -> tuple[tf.Tensor]:
            ngrams = gather_ngrams(ids, places[block], order)
            log_prob = self.model.log_prob(ngrams[:, :-1], ngrams[:, -1])
            return (tf.cast(log_prob, tf.float64),)

        def sum_tokens(values: tf.Tensor) -> tf.Tensor:
            return tf.math.unsorted_segment_sum(values, rows, tf.size(sentences))

        spec = tf.TensorSpec([None], tf.float64)
        [log_prob] = compute_in_blocks(score_ngrams, tf.size(places), self.model.block_rows, [spec])
        is_unknown = tf.cast(tf.gather(ids, places) == UNK_ID, tf.int32)
        return {
            "log_prob": tf.where(is_short, tf.cast(sum_tokens(log_prob), tf.float32), _NAN),
            "tokens": sum_tokens(tf.ones_like(is_unknown)),
            "unk_tokens": sum_tokens(is_unknown),
        }


class PredictNextIds(ServedFunction):
    """`predict_next_ids`: the most probable next words of contexts, as ids."""

    signature_name = "predict_next_ids"
    description = "The same as `predict_next`, with token ids in place of text."
    inputs = {"context_ids": _CONTEXT_IDS}
    outputs = {
        "ids": "token ids of the next words",
        "probabilities": "P(word | context); NaN if a context id is out of range",
    }

    def specify_inputs(self) -> list[tf.TensorSpec]:
        return [self.specify_context_ids()]

    def compute(self, context_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        def rank(rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
            is_valid, checked = self.check_ids(context_ids[rows], self.model.order - 1)
            ids, probabilities = self.model.most_probable(checked, self.first, self.top_k)
            return ids, tf.where(is_valid[:, None], probabilities, _NAN)

        k = self.top_k
        specs = [tf.TensorSpec([None, k], tf.int32), tf.TensorSpec([None, k], tf.float32)]
        ids, probabilities = compute_in_blocks(
            rank, tf.shape(context_ids)[0], self.model.block_rows, specs
        )
        return {"ids": ids, "probabilities": probabilities}


class LogProbIds(ServedFunction):
    """`log_prob_ids`: the log-probabilities of words after contexts, all as ids."""

    signature_name = "log_prob_ids"
    description = "ln P(target | context), normalised over the whole vocabulary."
    inputs = {
        "context_ids": _CONTEXT_IDS,
        "target_ids": "token id of the word after the context",
    }
    outputs = {"log_prob": "ln P(target | context) in nats; NaN if an id is out of range"}

    def specify_inputs(self) -> list[tf.TensorSpec]:
        return [self.specify_context_ids(), tf.TensorSpec([None], tf.int32, "target_ids")]

    def compute(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        given = tf.concat([context_ids, target_ids[:, None]], axis=1)
        is_valid, checked = self.check_ids(given, self.model.order)

        def score_ngrams(block: slice) -> tuple[tf.Tensor]:
            ngrams = checked[block]
            log_prob = self.model.log_prob(ngrams[:, :-1], ngrams[:, -1])
            return (tf.cast(log_prob, tf.float32),)

        spec = tf.TensorSpec([None], tf.float32)
        [log_prob] = compute_in_blocks(
            score_ngrams, tf.size(target_ids), self.model.block_rows, [spec]
        )
        return {"log_prob": tf.where(is_valid, log_prob, _NAN)}


class Embed(ServedFunction):
    """`embed`: the word vectors of tokens, of a model with one network."""

    signature_name = "embed"
    description = "The word vectors C(word)."
    inputs = {"words": "single tokens, as the tokenizer returns them"}
    outputs = {
        "vectors": "C(word), or C(`<unk>`) for an out-of-vocabulary word",
        "ids": "token id; 1 (`<unk>`) for an out-of-vocabulary word",
    }
    needs_network = True

    def __init__(self, served: "ServingModule"):
        super().__init__(served)
        network = cast(ContextNetwork, served.language_model.network)
        self.C = network.embed.C.value

    def compute(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = self.text.look_up(decode_texts(words))
        return {"vectors": tf.gather(self.C, ids), "ids": ids}


FUNCTIONS: tuple[type[ServedFunction], ...] = (
    PredictNext,
    CompletePrefix,
    Score,
    PredictNextIds,
    LogProbIds,
    Embed,
)


class ServingModule(tf.Module):
    """A language model of any kind as a module with the functions that TF Serving calls.

    Attributes:
        language_model: the language model.
        model: P(w | context) as a graph.
        text: the codec as a graph.
        completions: the words by their prefix: a table of them, or a search for the words of
            which the tokens are parts.
        top_k: the wanted number of words in an answer.
        max_text_length: limit of a text in bytes.
        functions: the served functions by their signature names.

    Raises:
        InputError: the model or the tokenizer cannot be served; see `build_graph`.
    """

    def __init__(
        self, language_model: LanguageModel, top_k: int = 10, max_text_length: int = MAX_TEXT_LENGTH
    ):
        super().__init__(name="keras_nplm")
        self.language_model = language_model
        self.model = build_graph(language_model.model)
        self.text = TextGraph(language_model.codec)
        self.top_k = top_k
        self.max_text_length = max_text_length
        index = language_model.codec.word_index
        self.completions: WordTable | WordSearch
        if isinstance(index, WordPieces):
            self.completions = WordSearch(self.model, index, top_k)
        else:
            self.completions = WordTable(index)
        self.functions: dict[str, ServedFunction] = {}
        for function in FUNCTIONS:
            if language_model.network is not None or not function.needs_network:
                self.functions[function.signature_name] = function(self)

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """Return the functions by name, each with its input signature, as TensorFlow functions."""
        signatures = {}
        for name, function in self.functions.items():
            signatures[name] = tf.function(
                function.compute, function.specify_inputs(), autograph=False
            )
        return signatures
