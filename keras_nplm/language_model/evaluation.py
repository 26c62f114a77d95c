"""Perplexity and bits per character of a text, token ids or a split, under a language model."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.ids import BOS_ID, EOS_ID, UNK_ID, convert_ids
from keras_nplm.data.shards import count_ids, encode_text, sum_counts
from keras_nplm.data.text_counts import TextCounter
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.models.base import Network, NextWordModel
from keras_nplm.models.dynamic import DynamicSettings, make_dynamic
from keras_nplm.models.evaluation import evaluate, evaluate_each
from keras_nplm.models.text_figures import TextSize, compute_text_figures

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel

Text = str | Iterable[str] | np.ndarray  # a split, lines or ids
Ids = np.ndarray | Iterator[np.ndarray]


def evaluate_text(
    language_model: "LanguageModel", text: Text, ln_z: bool, dynamic: bool | DynamicSettings
) -> dict:
    """Return the figures of a text; see `LanguageModel.evaluate`."""
    ids, size = _encode(language_model, text)
    if not language_model.model.is_normalised:
        fix = "load the model without `self_normalised`."
        raise InputError(f"Self-normalised log-probabilities have no exact perplexity. Fix: {fix}")
    measure = evaluate
    if ln_z:
        if not isinstance(language_model.model, Network):
            received = type(language_model.model).__name__
            raise InputError(f"log Z can only be reported for an NPLM. Received: {received}.")
        from keras_nplm.models.networks.self_normalised import evaluate_with_ln_z

        measure = evaluate_with_ln_z
    if not dynamic:
        figures = measure(language_model.model, ids, language_model.boundary)
        return figures | compute_text_figures(figures["log_prob"], size())
    check_argument("dynamic", not ln_z, "False with `ln_z`", dynamic, "evaluate twice.")
    settings, learner = make_learner(language_model, dynamic)
    figures, learned = evaluate_each([language_model.model, learner], ids, language_model.boundary)
    text_size = size()
    learned |= compute_text_figures(learned["log_prob"], text_size) | {
        "settings": dataclasses.asdict(settings)
    }
    return figures | compute_text_figures(figures["log_prob"], text_size) | {"dynamic": learned}


def make_learner(
    language_model: "LanguageModel", dynamic: bool | DynamicSettings
) -> tuple[DynamicSettings, NextWordModel]:
    """Return the settings of dynamic evaluation, and a copy of the model that learns as it
    reads.
    """
    if isinstance(dynamic, DynamicSettings):
        check_argument(
            "dynamic.rule",
            dynamic.rule != "rms",
            "'sgd' in settings of your own",
            "rms",
            "tune them.",
        )
        return dynamic, make_dynamic(language_model.model, dynamic)
    tuned = language_model.dynamics or language_model.tune_dynamic()
    return tuned.settings, make_dynamic(language_model.model, tuned.settings, tuned.mean_squares)


def _encode(language_model: "LanguageModel", text: Text) -> tuple[Ids, Callable[[], TextSize]]:
    """Return the ids of a text, and a function that returns its size after the ids were read."""
    if isinstance(text, str):
        wanted = f"lines of text, token ids or one of {', '.join(SPLITS)}"
        check_argument("text", text in SPLITS, wanted, f"{text!r:.80}", "put one line into a list.")
        corpus = language_model.corpus
        boundary = language_model.boundary
        if corpus is None:
            reason = f"The model directory has no corpus/, so the split {text!r} is not available."
            raise InputError(f"{reason} Fix: evaluate lines of text (`--text FILE`).")
        return corpus.ids(text), lambda: TextSize.of_split(
            corpus, text, boundary, language_model.spelling
        )
    if _holds_ids(text):
        ids = convert_ids(text)
        return ids, lambda: _measure_ids(language_model, ids)
    return _encode_lines(language_model, check_lines(text, "text"))


def _holds_ids(text: object) -> bool:
    """Return whether an argument that takes lines or ids holds ids."""
    if isinstance(text, np.ndarray):
        return text.dtype.kind in "iu"
    if not isinstance(text, Sequence) or isinstance(text, bytes | bytearray):
        return False
    return len(text) > 0 and isinstance(text[0], int | np.integer)


def _measure_ids(language_model: "LanguageModel", ids: np.ndarray) -> TextSize:
    counter = TextCounter()
    for sentence in np.split(ids, np.flatnonzero(ids == EOS_ID) + 1):
        tokens = language_model.vocabulary.decode(
            sentence[(sentence != BOS_ID) & (sentence != EOS_ID)]
        )
        counter.add_line(language_model.tokenizer.join(tokens))
    counts = {"characters": counter.characters, "words": counter.words, **count_ids(ids)}
    return TextSize.of_text(counts, language_model.boundary, language_model.tokenizer, None)


def _encode_lines(
    language_model: "LanguageModel", lines: Iterable[str]
) -> tuple[Ids, Callable[[], TextSize]]:
    """Encode lines in bounded memory: unknown words are spelled chunk by chunk."""
    counter = TextCounter()
    counts = sum_counts([])
    spelled = 0.0
    vocabulary = language_model.vocabulary
    tokenizer = language_model.tokenizer

    def encode() -> Iterator[np.ndarray]:
        nonlocal counts, spelled
        for ids in encode_text(lines, vocabulary, tokenizer, language_model.boundary, counter):
            if counter.unknown and not counts["unk_tokens"]:
                _refuse_closed_vocabulary(language_model, next(iter(counter.unknown)))
            if counter.unknown and language_model.spelling is not None:
                spelled += language_model.spelling.sum_log_prob(counter.unknown)
            counter.unknown.clear()
            counts = sum_counts([counts, count_ids(ids)])
            yield ids

    def measure() -> TextSize:
        sizes = {"characters": counter.characters, "words": counter.words, **counts}
        known = spelled if counts["unk_tokens"] and language_model.spelling is not None else None
        return TextSize.of_text(sizes, language_model.boundary, tokenizer, known)

    return encode(), measure


def _refuse_closed_vocabulary(language_model: "LanguageModel", word: str) -> None:
    """Refuse an out-of-vocabulary word if its probability is 0."""
    if (
        language_model.model.log_prob(language_model.first_context[None], np.array([UNK_ID]))[0]
        == -np.inf
    ):
        reason = (
            "The vocabulary of the model is closed: out-of-vocabulary words have probability 0."
        )
        fix = "mix the model with the uniform distribution (`mix --uniform`), or remove the word."
        raise InputError(f"{reason} Received: {word!r}. Fix: {fix}")
