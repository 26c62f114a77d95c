"""The back-off model of a language model, for an ARPA file."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_nplm.data.shards import encode_lines
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.options import ArpaOptions
from keras_nplm.models.defaults import MIN_EXPECTED_COUNT, ORDER
from keras_nplm.models.ngrams import BackoffModel, prune
from keras_nplm.models.ngrams.approximation import approximate, fit_unigrams


def convert_to_backoff(
    language_model: LanguageModel, lines: Iterable[str] | None, options: ArpaOptions
) -> BackoffModel:
    """Return the back-off model of an ARPA file: the model's own, or an approximation whose n-grams
    are those of a text.

    `lines` is the text. None: the training text.
    """
    model: Any = language_model.model
    order = options.order
    least = options.min_expected_count
    is_own = isinstance(model, BackoffModel) and (lines, order, least) == (None, None, None)
    whole = model
    if not is_own:
        whole = approximate(
            model,
            _encode_text(language_model, lines),
            min(ORDER, model.order) if order is None else order,
            language_model.boundary,
            MIN_EXPECTED_COUNT if least is None else least,
        )
    pruned = prune(whole, options.prune or 0.0)
    return pruned if is_own else fit_unigrams(pruned, whole.unigrams)


def _encode_text(language_model: LanguageModel, lines: Iterable[str] | None) -> np.ndarray:
    """Return the ids of lines, or of the training text."""
    if lines is not None:
        codec = language_model.codec
        return encode_lines(lines, codec.vocabulary, codec.tokenizer, codec.boundary)
    if not language_model.corpus:
        raise InputError(
            "`--text` must name a text if the model directory has no corpus/. Received: none. "
            "Fix: give --text FILE, whose n-grams the ARPA file lists."
        )
    return language_model.corpus.ids("train")
