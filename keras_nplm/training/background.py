"""The n-gram models beside a network: background model of a short-list, or parts of a hybrid or a
mixture.
"""

import functools
import math
import os
import shutil
from pathlib import Path

import numpy as np

from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import write_json
from keras_nplm.io.progress import open_progress
from keras_nplm.io.stages import Stages
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.differences import TokenOptions, check_same_tokens
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import evaluate, log_probs
from keras_nplm.models.jackknife import list_training_texts
from keras_nplm.models.model_files import component_directory, save_component
from keras_nplm.models.ngrams import (
    NGRAMS_FILE,
    BackoffModel,
    ClassBased,
    class_based,
    exchange_classes,
)
from keras_nplm.models.shortlist import BACKGROUND
from keras_nplm.training.methods import write_kneser_ney
from keras_nplm.training.options import MOST_NGRAM_ORDER
from keras_nplm.training.run import Run

CLASSES = 2  # the number of the class-based model of a mixture among its parts
_CLASS_ORDER = 3  # of 4 no better
_CLASSES_PER_ROOT = 1.3  # 0.7 to 2 times as many classes are within 0.2% of the perplexity
_SWEEPS = 3  # of the exchange algorithm: all 12 gain 0.2% of the perplexity, in four times as long
_LEAST_GAIN = 0.001  # of the validation perplexity, by one more word of context
_PROBE = 1 << 18  # ids of validation that choose the order


def write_background(run: Run, source: str | os.PathLike | None = None) -> None:
    """Make the n-gram models beside a network before the first epoch: the stage `ngrams`.

    The background model is copied from the model directory `source`. Without one, a Kneser-Ney
    model is estimated from the training split: of order `ngram_order`, or in a hybrid or a mixture
    of the lowest from which on validation gains little. A mixture also gets a class-based model.
    """
    numbers = [BACKGROUND, CLASSES] if run.options.network.interpolated else [BACKGROUND]
    components = [f"components/{number}" for number in numbers]
    make = functools.partial(_make_background, run, source)
    Stages(run.directory).make("ngrams", run.config, components, make, replace=True)


def _make_background(run: Run, source: str | os.PathLike | None) -> None:
    directory = run.directory
    boundary = run.options.text.boundary
    size = run.options.network.head.shortlist_size
    largest = len(run.vocabulary) - len(SPECIALS)
    accepted = f"1 to {largest}, the number of words in the vocabulary"
    check_argument("shortlist_size", (size or 0) <= largest, accepted, size)
    if run.options.network.network.reads_ngram_model:
        list_training_texts(run.encoded.for_training(), boundary)
    if source:
        save_component(directory, BACKGROUND, _load(source, run))
        return
    component = component_directory(directory, BACKGROUND)
    _estimate(run, component / NGRAMS_FILE)
    write_json(component / "config.json", {"kind": BackoffModel.kind})
    if run.options.network.interpolated:
        ids, held_out_ids = map(run.encoded.ids, ("train", "validation"))
        model = estimate_classes(ids, held_out_ids, len(run.vocabulary), boundary)
        save_component(directory, CLASSES, model)


def _estimate(run: Run, path: Path) -> None:
    """Write the Kneser-Ney model of the training split; see `write_background` for its order."""
    network = run.options.network
    boundary = run.options.text.boundary
    if network.target_limit is not None:
        write_kneser_ney(path, run.encoded, network.ngram_order, boundary)
        return
    held_out = run.encoded.ids("validation")[:_PROBE]
    # not temporary names: the call after a kill writes, and removes, the same
    folder = path.parent / "orders"
    try:
        lowest = math.inf
        for order in range(2, min(network.order, MOST_NGRAM_ORDER) + 1):
            candidate = folder / f"{order}.npz"
            model = write_kneser_ney(candidate, run.encoded, order, boundary)
            perplexity = evaluate(model, held_out)["perplexity"]
            if perplexity > lowest * (1 - _LEAST_GAIN):
                break
            os.replace(candidate, path)
            lowest = perplexity
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def estimate_classes(
    ids: np.ndarray, held_out_ids: np.ndarray, vocabulary_size: int, boundary: str
) -> ClassBased:
    """Estimate the class-based trigram model of a mixture, with 1.3 sqrt(|V|) classes."""
    types = len(np.setdiff1d(ids, EOS_ID))
    number = round(_CLASSES_PER_ROOT * math.sqrt(types))
    with open_progress("word classes", _SWEEPS, " sweeps") as progress:
        classes = exchange_classes(
            ids,
            vocabulary_size,
            number,
            boundary,
            max_sweeps=_SWEEPS,
            after_sweep=lambda *_: progress.update(),
        )
    return class_based(ids, held_out_ids, classes, _CLASS_ORDER, boundary)


def _load(directory: str | os.PathLike, run: Run) -> NextWordModel:
    """Load a background model, and check that it matches the run and predicts all words outside the
    list.
    """
    source = LanguageModel.load(directory)
    codec = TextCodec(run.vocabulary, run.encoded.tokenizer, run.options.text.boundary)
    wanted = TokenOptions("this training run", codec)
    check_same_tokens(wanted, TokenOptions.of_model(directory, source))
    first_outside = run.options.network.target_limit
    for split in run.held_out_splits:
        for log_prob, target_ids in log_probs(source.model, run.encoded.ids(split)):
            if np.isneginf(log_prob[target_ids >= first_outside]).any():
                raise InputError(
                    f"{directory} gives probability 0 to a word of the {split} text outside the "
                    "short-list. Fix: mix it with the uniform distribution (`keras-nplm mix "
                    "--uniform`), and use the mixture."
                )
    return source.model
