"""The n-gram model beside a network: background model of a short-list, or part of a hybrid or a mixture."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.encoding import EncodedCorpus
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument, drop_fix
from keras_nplm.io.files import write_json
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.model_files import (
    BACKGROUND,
    NETWORK,
    component_directory,
    load_component,
    save_component,
)
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import evaluate, log_probs
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.training.configuration import Configuration

MAX_ORDER, _LEAST_GAIN = 8, 0.001  # of the validation perplexity, by one more word of context
_PROBE = 1 << 18  # ids of validation that choose the order


def write_background(
    directory: Path,
    configuration: Configuration,
    encoded: EncodedCorpus,
    vocabulary: Vocabulary,
    source: str | os.PathLike | None = None,
) -> None:
    """Write the n-gram model beside a network before the first epoch, unless the model directory has a whole one.

    It is copied from the model directory `source`. Without one, a Kneser-Ney model is estimated from the training
    split: of order `ngram_order`, or in a hybrid or a mixture of the lowest from which on validation gains little.
    """
    if (component_directory(directory, BACKGROUND) / "config.json").exists():
        try:
            load_component(directory, BACKGROUND, {"boundary": configuration.boundary}, len(vocabulary))
            return
        except InputError as error:
            print(f"{drop_fix(error)} The n-gram model is written again.", file=sys.stderr)
    largest = len(vocabulary) - len(SPECIALS)
    size, wanted = configuration.shortlist_size, f"1 to {largest}, the number of words in the vocabulary"
    check_argument("shortlist_size", size is None or size <= largest, wanted, size)
    if configuration.output_layer == "hybrid":
        from keras_nplm.models.jackknife import list_training_texts  # which loads TensorFlow

        list_training_texts(encoded.for_training(), configuration.boundary)
    model = _load(source, configuration, encoded, vocabulary) if source else _estimate(configuration, encoded)
    write_json(component_directory(directory, NETWORK) / "config.json", {"kind": "nplm"})
    save_component(directory, BACKGROUND, model)  # its config.json last: its presence says that the model is complete


def _estimate(configuration: Configuration, encoded: EncodedCorpus) -> NextWordModel:
    ids, size, boundary = encoded.ids("train"), encoded.vocabulary_size, configuration.boundary
    if configuration.shortlist_size:
        return kneser_ney(ids, size, configuration.ngram_order, boundary)
    best, lowest, held_out = None, np.inf, encoded.ids("validation")[:_PROBE]
    for order in range(2, min(configuration.order, MAX_ORDER) + 1):
        model = kneser_ney(ids, size, order, boundary)
        perplexity = evaluate(model, held_out)["perplexity"]
        if perplexity > lowest * (1 - _LEAST_GAIN):
            break
        best, lowest = model, perplexity
    return best


def _load(
    directory: str | os.PathLike, configuration: Configuration, encoded: EncodedCorpus, vocabulary: Vocabulary
) -> NextWordModel:
    """Load a background model, and check that it matches the run and predicts all words outside the list."""
    source = LanguageModel.load(directory)
    wanted = {"vocabulary": vocabulary, "tokenizer_name": encoded.tokenizer, "boundary": configuration.boundary}
    check_match(directory, source, wanted, "this training run")
    for split in ("validation", "test"):
        for log_prob, target_ids in log_probs(source.model, encoded.ids(split)):
            if np.isneginf(log_prob[target_ids >= len(SPECIALS) + configuration.shortlist_size]).any():
                raise InputError(
                    f"{directory} gives probability 0 to a word of the {split} text outside the short-list. Fix: mix "
                    "it with the uniform distribution (`keras-nplm mix --uniform`), and use the mixture."
                )
    return source.model


def check_match(directory: str | os.PathLike, part: LanguageModel, wanted: Mapping[str, Any], of: object) -> None:
    """Refuse a model with a different vocabulary, tokenizer or boundary than wanted."""
    for attribute, value in wanted.items():
        if getattr(part, attribute) != value:
            name = attribute.removesuffix("_name")
            raise InputError(f"{directory} must have the same {name} as {of}. Fix: train both with the same options.")
