"""Estimators of n-gram models by method: their own options, their checks, and what they estimate.

To add a method, write its function as a module of `keras_nplm.models.ngrams`, and name it there and
among the public names of `keras_nplm`. Here, write the `Estimator` that calls it, and name it in
`ESTIMATORS` and in the choices of `NgramOptions.method`. Options of its own are fields of
`NgramOptions` and arguments of `estimate`.

Its tests: an oracle beside `test_kneser_ney.py`, and its name in `test_estimate.py`,
`test_orders.py` and `test_lines.py`. For users: CHANGELOG.md and notebook 05.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.corpus import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument, drop_fix
from keras_nplm.io.files import identify_content, read_arrays, write_arrays
from keras_nplm.io.remote import display_url, fetch, upload
from keras_nplm.io.text import check_is_file
from keras_nplm.models import ngrams
from keras_nplm.models.model_files import save_model
from keras_nplm.models.ngrams.tables import refuse_unless
from keras_nplm.training.ngram_options import NgramOptions

_CLASSES_FILE = "word_classes.tsv"
_SEARCH_FILE = "word_classes.npz"  # of a search that is not finished


@dataclasses.dataclass(frozen=True)
class EstimationRun:
    """A run whose text is encoded, so that a model can be estimated.

    Attributes:
        directory: the model directory.
        options: how the model is estimated.
        boundary: how the text is cut into n-grams.
        encoded: the text.
        vocabulary: its words.
    """

    directory: Path
    options: NgramOptions
    boundary: str
    encoded: EncodedCorpus
    vocabulary: Vocabulary


class Estimator:
    """Base class of the estimator of a method.

    A subclass implements `estimate`, which returns a model in memory. A method that writes larger
    models overrides `estimate_and_save`. If it has options of its own, it also implements
    `has_options` and `record_options`.

    Attributes:
        model_class: the class of the model.
        least_order: the least n.
        resumed_files: files in the model directory from which an interrupted run is resumed.
        own_options: the options of this method alone, as an error names them.
        needs_validation: whether it fits weights on validation text.
    """

    model_class: type[ngrams.NgramModel]
    least_order: int = 2
    resumed_files: Sequence[str] = ()
    own_options: str = ""
    needs_validation: bool = False

    def has_options(self, options: NgramOptions) -> bool:
        """Return whether an option was given that only this method has."""
        return False

    def check_corpus(self, corpus: Corpus, method: str) -> None:
        """Refuse a corpus without the text that the method needs."""
        if self.needs_validation and "validation" not in corpus.splits:
            raise InputError(
                f"The method {method} needs validation text, for its weights. Received: a corpus "
                "without it. Fix: add --validation FILE, drop --all, or give --method kneser-ney."
            )

    def record_options(self, options: NgramOptions) -> dict[str, Any]:
        """Check the options of this method alone, and return them for `config.json`."""
        return {}

    def estimate(self, run: EstimationRun) -> ngrams.NgramModel:
        """Estimate the model."""
        raise NotImplementedError

    def estimate_and_save(self, run: EstimationRun) -> ngrams.NgramModel:
        """Estimate the model and write its files."""
        model = self.estimate(run)
        save_model(run.directory, model)
        return model


def write_kneser_ney(
    path: Path, encoded: EncodedCorpus, order: int, boundary: str
) -> ngrams.BackoffModel:
    """Write the Kneser-Ney model of the training split, and load it; its counts lie on disk."""
    ngrams.kneser_ney_on_disk(
        path,
        functools.partial(encoded.parts, "train"),
        len(encoded.shards("train")),
        encoded.vocabulary_size,
        order,
        boundary,
    )
    return ngrams.BackoffModel.load(path, boundary)


class KneserNey(Estimator):
    """Interpolated modified Kneser-Ney smoothing, in bounded memory."""

    model_class = ngrams.BackoffModel
    least_order = 1

    def estimate_and_save(self, run: EstimationRun) -> ngrams.NgramModel:
        path = run.directory / ngrams.NGRAMS_FILE
        return write_kneser_ney(path, run.encoded, run.options.order, run.boundary)


class DeletedInterpolation(Estimator):
    """Deleted interpolation: the paper's smoothed trigram."""

    model_class = ngrams.DeletedInterpolation
    own_options = "`paper_bins`"
    needs_validation = True

    def has_options(self, options: NgramOptions) -> bool:
        return options.paper_bins

    def record_options(self, options: NgramOptions) -> dict[str, Any]:
        return {"paper_bins": options.paper_bins}

    def estimate(self, run: EstimationRun) -> ngrams.NgramModel:
        return ngrams.deleted_interpolation(
            run.encoded.ids("train"),
            run.encoded.ids("validation"),
            len(run.vocabulary),
            run.options.order,
            run.boundary,
            back_off=not run.options.paper_bins,
        )


class ClassBased(Estimator):
    """Class-based n-grams, of given word classes or of those that the exchange algorithm finds."""

    model_class = ngrams.ClassBased
    resumed_files = (_CLASSES_FILE, _SEARCH_FILE)
    own_options = "word classes"
    needs_validation = True

    def has_options(self, options: NgramOptions) -> bool:
        is_number_given = options.num_classes != NgramOptions.num_classes
        return is_number_given or options.word_classes is not None

    def record_options(self, options: NgramOptions) -> dict[str, Any]:
        if options.word_classes is None:
            return {"num_classes": options.num_classes}
        check_argument(
            "num_classes",
            options.num_classes == NgramOptions.num_classes,
            "left out with `word_classes`, whose file has their number",
            options.num_classes,
            "leave one of both out.",
        )
        path = fetch(options.word_classes)
        check_is_file(path)
        return {"word_classes": f"{display_url(path)} ({identify_content(path)})"}

    def estimate(self, run: EstimationRun) -> ngrams.NgramModel:
        ids = run.encoded.ids("train")
        held_out_ids = run.encoded.ids("validation")
        path = run.directory / _CLASSES_FILE
        if run.options.word_classes is not None:
            classes = ngrams.load_classes(fetch(run.options.word_classes), run.vocabulary)
        else:
            classes = _find_classes(path, ids, run)
        ngrams.save_classes(path, classes, run.vocabulary)
        (run.directory / _SEARCH_FILE).unlink(missing_ok=True)
        return ngrams.class_based(ids, held_out_ids, classes, run.options.order, run.boundary)


def _find_classes(path: Path, ids: np.ndarray, run: EstimationRun) -> np.ndarray:
    """Run the exchange algorithm, or continue an interrupted search; `path` is of found classes."""
    num_classes = run.options.num_classes
    search_path = run.directory / _SEARCH_FILE
    start, sweeps_left = _load_search(path, search_path, run.vocabulary)

    def save_sweep(classes: np.ndarray, moved: int, sweeps_left: int) -> None:
        arrays = {"classes": classes, "sweeps_left": np.array(sweeps_left)}
        write_arrays(search_path, arrays)
        upload(run.directory)
        print(f"{num_classes} classes: {moved:,} words moved", file=sys.stderr)

    return ngrams.exchange_classes(
        ids,
        len(run.vocabulary),
        num_classes,
        run.boundary,
        start=start,
        max_sweeps=sweeps_left,
        after_sweep=save_sweep,
    )


def _load_search(
    path: Path, search_path: Path, vocabulary: Vocabulary
) -> tuple[np.ndarray | None, int]:
    """Return the classes that an interrupted run has found, None without readable ones, and the
    number of sweeps left.
    """
    try:
        if path.exists():
            return ngrams.load_classes(path, vocabulary), 0
        if search_path.exists():
            search = read_arrays(search_path, ["classes", "sweeps_left"])
            classes = search["classes"]
            is_whole = classes.shape == (len(vocabulary),) and classes.dtype.kind == "i"
            refuse_unless(search_path, is_whole and classes.min() >= 0)
            refuse_unless(search_path, search["sweeps_left"].shape == ())
            return classes, int(search["sweeps_left"])
    except InputError as error:
        print(f"{drop_fix(error)} The search for classes begins again.", file=sys.stderr)
    return None, ngrams.MAX_SWEEPS


ESTIMATORS: dict[str, Estimator] = {
    "kneser-ney": KneserNey(),
    "deleted-interpolation": DeletedInterpolation(),
    "class-based": ClassBased(),
}


def get_estimator(options: NgramOptions) -> Estimator:
    """Return the estimator of a method; refuse what it cannot do, and options of other methods."""
    for method, other in ESTIMATORS.items():
        check_argument(
            "method",
            method == options.method or not other.has_options(options),
            f"{method} with {other.own_options}",
            options.method,
            f"give --method {method}, or leave the option out.",
        )
    estimator = ESTIMATORS[options.method]
    check_argument(
        "order",
        options.order >= estimator.least_order,
        f"{estimator.least_order} or more with the method {options.method}",
        options.order,
        "raise it, or give a method that estimates unigrams, such as --method kneser-ney.",
    )
    return estimator
