"""What a short-list is trained beside: the language model of the other words, in the directory before training."""

import os
from pathlib import Path

import numpy as np

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.vocabulary import SPECIALS, Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import write_json
from keras_nplm.language_model.directory import remove_config_if_refused
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.model_files import BACKGROUND, NETWORK, component_directory, save_component
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.training.configuration import Configuration


def write_background(
    directory: Path,
    configuration: Configuration,
    encoded: EncodedCorpus,
    vocabulary: Vocabulary,
    given: str | os.PathLike | None = None,
) -> None:
    """Write the background of a short-list's model directory, unless it is there.

    It comes before the network's first epoch, so that the directory is a whole model from then on.

    Args:
        directory: the model directory, with its `config.json`; that is removed if the background cannot be had.
        configuration: the options of the training, with a `shortlist_size`.
        encoded: the text.
        vocabulary: its words.
        given: the model directory to take it from. Default: Kneser-Ney of the same `ngram_order` is estimated.

    Raises:
        InputError: the list is longer than the vocabulary, or the given model is of another vocabulary, tokenizer or
            boundary, or cannot predict words outside the list.
        RunError: a file cannot be written.
    """
    if (component_directory(directory, BACKGROUND) / "config.json").exists():
        return
    with remove_config_if_refused(directory):
        most = len(vocabulary) - len(SPECIALS)
        if configuration.shortlist_size > most:
            raise InputError(
                f"`shortlist_size` must be 1 to {most}, the words that there are. Received: "
                f"{configuration.shortlist_size}."
            )
        model = _taken(given, configuration, encoded, vocabulary) if given else _estimated(configuration, encoded)
    write_json(component_directory(directory, NETWORK) / "config.json", {"kind": "nplm"})
    save_component(directory, BACKGROUND, model)  # its config.json last, by which a later call knows that all is here


def _estimated(configuration: Configuration, encoded: EncodedCorpus) -> NextWordModel:
    ids = encoded.ids("train")
    return kneser_ney(ids, encoded.vocabulary_size, configuration.ngram_order, configuration.boundary)


def _taken(
    directory: str | os.PathLike, configuration: Configuration, encoded: EncodedCorpus, vocabulary: Vocabulary
) -> NextWordModel:
    given = LanguageModel.load(directory)
    wanted = {"vocabulary": vocabulary, "tokenizer_name": encoded.tokenizer, "boundary": configuration.boundary}
    for what, value in wanted.items():
        if getattr(given, what) != value:
            raise InputError(
                f"{directory} has another {what.removesuffix('_name')} than this training: a background must have the "
                "same. Make one of the same text with the same options."
            )
    for split in ("validation", "test"):
        for log_prob, target_ids in log_probs(given.model, encoded.ids(split), configuration.boundary):
            if np.isneginf(log_prob[target_ids >= len(SPECIALS) + configuration.shortlist_size]).any():
                raise InputError(
                    f"{directory} gives a word of the {split} text that is outside the short-list probability 0: mix "
                    "it with the uniform distribution first (`mix --uniform`)."
                )
    return given.model
