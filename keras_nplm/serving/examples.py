"""Example inputs of the served functions, from a model's own text: for the requests of its card."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_nplm.data.ids import EOS_ID, SPECIALS, UNK
from keras_nplm.language_model.language_model import LanguageModel

_NUM_WORDS = 3
_LONGEST_WORD = 20  # characters; text with longer ones has no spaces between its words
_GENERATED = 20  # words or characters, of which the first words are taken
_MOST_IDS = 1 << 16  # of the validation text that are read


def choose_text(language_model: LanguageModel) -> str:
    """Return the first words of a sentence that the model knows, or an empty text.

    They are of its validation text, or else generated. They have letters only, so that no shell and
    no programming language needs to quote them.
    """
    for sentence in _iterate_sentences(language_model):
        words = sentence.split()[:_NUM_WORDS]
        if len(words) == _NUM_WORDS and all(map(_is_plain, words)):
            return " ".join(words)
    generated = language_model.generate(num_words=_GENERATED, temperature=0.0)
    words = generated.split()[:_NUM_WORDS]
    return " ".join(itertools.takewhile(_is_plain, words))


def _iterate_sentences(language_model: LanguageModel) -> Iterator[str]:
    """Yield the sentences of the validation text that have no out-of-vocabulary words."""
    corpus = language_model.corpus
    if corpus is None or "validation" not in corpus.splits:
        return
    ids = next(iter(corpus.parts("validation")), np.zeros(0, np.int32))[:_MOST_IDS]
    for sentence in np.split(ids, np.flatnonzero(ids == EOS_ID) + 1):
        is_known = (sentence == EOS_ID) | (sentence >= len(SPECIALS))
        if is_known.all():
            tokens = language_model.vocabulary.decode(sentence[sentence != EOS_ID])
            yield language_model.tokenizer.join(tokens)


def _is_plain(word: str) -> bool:
    return word.isalpha() and len(word) <= _LONGEST_WORD


def build_examples(language_model: LanguageModel) -> dict[str, list[Any]]:
    """Return an example for each input of the served functions, by its name."""
    text = choose_text(language_model)
    model = language_model.model
    codec = language_model.codec
    context_ids = codec.encode_beginning(text, model.order)
    log_probs = model.next_log_probs(context_ids[None])[0]
    target = codec.proposed_ids[np.argmax(log_probs[codec.proposed_ids])]
    before, _, last = text.rpartition(" ")
    tokens = language_model.tokenize(text) or [UNK]
    return {
        "contexts": [text],
        "texts": [f"{before} {last[:1]}".lstrip()],
        "sentences": [text],
        "context_ids": [context_ids.tolist()],
        "target_ids": [int(target)],
        "words": tokens[-1:],
    }
