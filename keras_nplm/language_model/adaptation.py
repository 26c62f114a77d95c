"""Adapt a language model to a text: a personal or in-domain model from a general one, by
fine-tuning.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.ids import EOS_ID
from keras_nplm.data.shards import encode_lines
from keras_nplm.io.errors import check_argument
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.options import AdaptationOptions
from keras_nplm.models.base import NextWordModel, require_network

if TYPE_CHECKING:
    from keras_nplm.models.adaptation import Adaptation


def adapt_to_text(
    model: NextWordModel, codec: TextCodec, text: Iterable[str], options: AdaptationOptions
) -> "tuple[NextWordModel, Adaptation]":
    """Fine-tune a copy of a model on a text; see `LanguageModel.adapt` and `adapt_network`."""
    require_network(model, "to be adapted")
    lines = check_lines(text, "text")
    ids = encode_lines(lines, codec.vocabulary, codec.tokenizer, codec.boundary)
    train_ids, held_out_ids = _split_lines(ids, options.held_out)

    from keras_nplm.models.adaptation import adapt_network

    return adapt_network(
        model,
        train_ids,
        held_out_ids,
        codec.boundary,
        epochs=options.epochs,
        seed=options.seed,
    )


def _split_lines(ids: np.ndarray, held_out: float) -> tuple[np.ndarray, np.ndarray]:
    ends = np.flatnonzero(ids == EOS_ID)
    fix = "write one sentence per line, or give more text."
    check_argument("text", len(ends) >= 2, "2 lines or more with words", len(ends), fix)
    number = min(max(1, round(held_out * len(ends))), len(ends) - 1)
    first = ends[-number - 1] + 1
    return ids[:first], ids[first:]
