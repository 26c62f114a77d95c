"""Adapt a language model to a text: a personal or in-domain model from a general one, by
fine-tuning.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.ids import EOS_ID
from keras_nplm.data.shards import encode_lines
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.language_model.options import AdaptationOptions

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel


def adapt(
    language_model: "LanguageModel", text: Iterable[str], *, held_out: float, epochs: int, seed: int
) -> "LanguageModel":
    """Fine-tune a copy of a language model on a text; see `LanguageModel.adapt` and
    `adapt_network`.
    """
    AdaptationOptions(held_out=held_out, epochs=epochs, seed=seed)
    if language_model.network is None:
        raise InputError(
            "`model` must be a network, or hold one network, to be adapted. "
            f"Received: {type(language_model.model).__name__}. "
            "Fix: train one with `keras-nplm train`."
        )
    tokenizer = language_model.tokenizer
    boundary = language_model.boundary
    ids = encode_lines(check_lines(text, "text"), language_model.vocabulary, tokenizer, boundary)
    train_ids, held_out_ids = _split_lines(ids, held_out)

    from keras_nplm.models.adaptation import adapt_network

    tuned = adapt_network(
        language_model.model, train_ids, held_out_ids, boundary, epochs=epochs, seed=seed
    )
    adapted = language_model.replace_model(tuned[0])
    adapted.adaptation = tuned[1]
    return adapted


def _split_lines(ids: np.ndarray, held_out: float) -> tuple[np.ndarray, np.ndarray]:
    ends = np.flatnonzero(ids == EOS_ID)
    fix = "write one sentence per line, or give more text."
    check_argument("text", len(ends) >= 2, "2 lines or more with words", len(ends), fix)
    number = min(max(1, round(held_out * len(ends))), len(ends) - 1)
    first = ends[-number - 1] + 1
    return ids[:first], ids[first:]
