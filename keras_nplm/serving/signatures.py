"""The signatures of a served language model: words in, words and log-probabilities out."""

import tensorflow as tf

from keras_nplm.data.vocabulary import UNK_ID
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.serving.graphs import graph_of
from keras_nplm.serving.text import TextGraph

DEFAULT = "predict_next"
_CONTEXTS = "texts; the last n-1 tokens of each count, and an empty one is the beginning of a text"
_CONTEXT_IDS = "ids of n-1 words, oldest first; 0 or 2 (see `vocabulary.txt`) where there is no word yet"
_NUMBER = "how many were predicted"
DOCUMENTATION = {
    "predict_next": {
        "": "The k most probable next words and their probabilities, the likeliest first; `<unk>` is never among them.",
        "contexts": _CONTEXTS,
        "words": "the words",
        "probabilities": "P(word | context), normalised over the whole vocabulary",
    },
    "score": {
        "": "The log-probability of each sentence by itself.",
        "sentences": "texts; one without words scores 0 over 0 tokens where only words are predicted",
        "log_prob": "ln P of all its tokens together, in nats",
        "tokens": f"{_NUMBER}, with `</s>` if the model predicts it",
        "unk_tokens": f"{_NUMBER} that the vocabulary has not",
    },
    "predict_next_ids": {
        "": "As `predict_next`, by ids.",
        "context_ids": _CONTEXT_IDS,
        "ids": "the ids of the words",
        "probabilities": "P(word | context); NaN where an id of the context is none of the vocabulary",
    },
    "log_prob_ids": {
        "": "ln P(target | context), normalised over the whole vocabulary.",
        "context_ids": _CONTEXT_IDS,
        "target_ids": "the id of the word that follows",
        "log_prob": "nats; NaN where an id is none of the vocabulary",
    },
    "embed": {
        "": "The feature vectors C(word).",
        "words": "single words as the tokenizer leaves them",
        "vectors": "C of the word, or of `<unk>` for a word outside the vocabulary",
        "ids": "its id; 1 for a word outside the vocabulary",
    },
}


class Served(tf.Module):
    """A language model of any kind as a module whose signatures TF Serving answers.

    All of the text side is in the graph. Every input and output shares its first dimension, so that requests can be
    batched together; k is fixed; the answer to one row does not depend on the others; batches may be empty.

    Args:
        language_model: the model with its vocabulary, tokenizer and boundary.
        top_k: k, how many words `predict_next` and `predict_next_ids` give: all, where there are fewer.

    Raises:
        InputError: `top_k` is out of range, or the model is of no kind that can be served.

    Example:

    >>> from keras_nplm import NPLM, Vocabulary
    >>> vocabulary = Vocabulary(["the", "cat", "sat"])
    >>> served = Served(LanguageModel(NPLM(len(vocabulary), order=3), vocabulary, "words", "sentence"), top_k=2)
    >>> answer = served.signatures()["score"](tf.constant(["the cat sat", "the dog"]))
    >>> answer["tokens"].numpy(), answer["unk_tokens"].numpy()
    (array([4, 3], dtype=int32), array([0, 1], dtype=int32))
    """

    def __init__(self, language_model: LanguageModel, top_k: int = 10):
        super().__init__(name="keras_nplm")
        proposed = language_model.proposed_ids
        if top_k < 1:
            raise InputError(f"`top_k` must be 1 or more. Received: {top_k}.")
        self.top_k = min(top_k, len(proposed))
        self.model = graph_of(language_model.model)
        self.text = TextGraph(language_model.vocabulary, language_model.tokenizer_name, language_model.boundary)
        self._first = int(proposed[0])  # the ids from here on are proposed
        self.C = language_model.network.embed.C.value if language_model.network else None

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """The functions by name, each with its input signature; `embed` where the model has word vectors."""
        text, number = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int32)
        context = tf.TensorSpec([None, self.model.order - 1], tf.int32)
        inputs = {
            "predict_next": {"contexts": text},
            "score": {"sentences": text},
            "predict_next_ids": {"context_ids": context},
            "log_prob_ids": {"context_ids": context, "target_ids": number},
        }
        if self.C is not None:
            inputs["embed"] = {"words": text}
        return {
            name: tf.function(
                getattr(self, name), [_named(spec, argument) for argument, spec in specs.items()], autograph=False
            )
            for name, specs in inputs.items()
        }

    def predict_next(self, contexts):
        context_ids = self.text.contexts(contexts, self.model.order)
        ids, probabilities = self.model.most_probable(context_ids, self._first, self.top_k)
        return {"words": tf.gather(self.text.words, ids), "probabilities": probabilities}

    def score(self, sentences):
        ngrams, sentence = self.text.ngrams(sentences, self.model.order)
        log_prob = tf.cast(self.model.log_prob(ngrams[:, :-1], ngrams[:, -1]), tf.float64)
        unknown = tf.cast(ngrams[:, -1] == UNK_ID, tf.int32)
        columns = {"log_prob": log_prob, "tokens": tf.ones_like(unknown), "unk_tokens": unknown}
        sums = {name: tf.math.unsorted_segment_sum(c, sentence, tf.size(sentences)) for name, c in columns.items()}
        return sums | {"log_prob": tf.cast(sums["log_prob"], tf.float32)}

    def predict_next_ids(self, context_ids):
        known, inside = self._in_vocabulary(context_ids)
        ids, probabilities = self.model.most_probable(inside, self._first, self.top_k)
        return {"ids": ids, "probabilities": tf.where(tf.reduce_all(known, 1)[:, None], probabilities, _NAN)}

    def log_prob_ids(self, context_ids, target_ids):
        known, ngrams = self._in_vocabulary(tf.concat([context_ids, target_ids[:, None]], axis=1))
        log_prob = tf.cast(self.model.log_prob(ngrams[:, :-1], ngrams[:, -1]), tf.float32)
        return {"log_prob": tf.where(tf.reduce_all(known, 1), log_prob, _NAN)}

    def embed(self, words):
        ids = self.text.look_up(words)
        return {"vectors": tf.gather(self.C, ids), "ids": ids}

    def _in_vocabulary(self, ids):
        """Which ids the vocabulary has, and the ids moved inside."""
        return (ids >= 0) & (ids < self.model.vocabulary_size), tf.clip_by_value(ids, 0, self.model.vocabulary_size - 1)


_NAN = float("nan")


def _named(spec: tf.TensorSpec, name: str) -> tf.TensorSpec:
    return tf.TensorSpec(spec.shape, spec.dtype, name)
