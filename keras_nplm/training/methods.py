"""Methods of n-gram models: each is a dataclass of its options, with its checks and its estimation.

To add a method, write its function as a module of `keras_nplm.models.ngrams`, and name it there. A
public name in `keras_nplm` is optional. Here, write its class:
`class WittenBell(Method, kind="witten-bell")` registers it. Its fields are its options, as in
`network`; `model_kind` is the name that `saved_as` gives the class of its model; `estimate` calls
the function. `ngram --method witten-bell` follows.

Its tests: an oracle beside `test_kneser_ney.py`, and a line in `METHODS` of
`tests/language_models.py`, from which the contracts of models, files, ids and served graphs take
it. Options that its command needs for a small text stand in `FLAGS` of `test_estimate.py`. A
refusal lists all methods: record `messages.json` again, see `tests/README.md`.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.fields import Option, check_values
from keras_nplm.io.parts import Part, check_parts

if TYPE_CHECKING:
    import numpy as np

    from keras_nplm.data.corpus import Corpus
    from keras_nplm.data.encoded_corpus import EncodedCorpus
    from keras_nplm.data.vocabulary import Vocabulary
    from keras_nplm.models.ngrams import BackoffModel, NgramModel

_CLASSES_FILE = "word_classes.tsv"
_SEARCH_FILE = "word_classes.npz"  # of a search that is not finished


@dataclasses.dataclass(frozen=True)
class EstimationRun:
    """A run whose text is encoded, so that a model of order n can be estimated."""

    directory: Path
    order: int
    boundary: str
    encoded: "EncodedCorpus"
    vocabulary: "Vocabulary"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method(Part, choice="method"):
    """How an n-gram model is estimated.

    Attributes:
        model_kind: the `kind` of the model in `config.json`.
        least_order: the least n.
        resumed_files: files in the model directory from which an interrupted run is resumed.
        needs_validation: whether it fits weights on validation text.
    """

    model_kind: ClassVar[str]
    least_order: ClassVar[int] = 2
    resumed_files: ClassVar[Sequence[str]] = ()
    needs_validation: ClassVar[bool] = False

    def fits(self, whole: "NgramOptions") -> str:
        if whole.order >= self.least_order:
            return ""
        return self.need("order", whole.order, f"{self.least_order} or more")

    def check_corpus(self, corpus: "Corpus") -> None:
        """Refuse a corpus without the text that the method needs."""
        if self.needs_validation and "validation" not in corpus.splits:
            raise InputError(
                f"The method {self.kind} needs validation text, for its weights. Received: a "
                "corpus without it. Fix: add --validation FILE, drop --all, or give --method "
                "kneser-ney."
            )

    def identify_files(self) -> dict[str, str]:
        """Return the options that name a file, with a checksum of its content."""
        return {}

    def estimate(self, run: EstimationRun) -> "NgramModel":
        """Estimate a model in memory."""
        raise NotImplementedError

    def estimate_and_save(self, run: EstimationRun) -> "NgramModel":
        """Estimate the model and write its files. A method of larger models overrides this."""
        from keras_nplm.models.model_files import save_model

        model = self.estimate(run)
        save_model(run.directory, model)
        return model


def write_kneser_ney(
    path: Path, encoded: "EncodedCorpus", order: int, boundary: str
) -> "BackoffModel":
    """Write the Kneser-Ney model of the training split, and load it; its counts lie on disk."""
    from keras_nplm.models.ngrams import BackoffModel, kneser_ney_on_disk

    kneser_ney_on_disk(
        path,
        encoded.parts("train"),
        len(encoded.shards("train")),
        encoded.vocabulary_size,
        order,
        boundary,
    )
    return BackoffModel.load(path, boundary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class KneserNey(Method, kind="kneser-ney"):
    """Interpolated modified smoothing, counts on disk if need be."""

    model_kind = "back-off"
    least_order = 1

    def estimate_and_save(self, run: EstimationRun) -> "NgramModel":
        from keras_nplm.models.ngrams import NGRAMS_FILE

        return write_kneser_ney(run.directory / NGRAMS_FILE, run.encoded, run.order, run.boundary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeletedInterpolation(Method, kind="deleted-interpolation"):
    """The paper's smoothed trigram."""

    paper_bins: Annotated[bool, Option(advanced=True)] = False
    """deleted interpolation with weights by the frequency of the whole context alone"""

    model_kind = "deleted-interpolation"
    needs_validation = True

    def estimate(self, run: EstimationRun) -> "NgramModel":
        from keras_nplm.models.ngrams import deleted_interpolation

        return deleted_interpolation(
            run.encoded.ids("train"),
            run.encoded.ids("validation"),
            len(run.vocabulary),
            run.order,
            run.boundary,
            back_off=not self.paper_bins,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassBased(Method, kind="class-based"):
    """An n-gram model of word classes. They are given, or found by the exchange algorithm."""

    num_classes: Annotated[int, Option(least=1)] = 500
    """number of word classes of the method class-based"""

    word_classes: str | None = None
    """file of word classes to use, one word and its class per line, separated by a tab"""

    model_kind = "class-based"
    resumed_files = (_CLASSES_FILE, _SEARCH_FILE)
    needs_validation = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_argument(
            "num_classes",
            self.word_classes is None or self.num_classes == ClassBased.num_classes,
            "left out with `word_classes`, whose file has their number",
            self.num_classes,
            "leave one of both out.",
        )

    def identify_files(self) -> dict[str, str]:
        from keras_nplm.io.files import identify_content
        from keras_nplm.io.remote import display_url, fetch
        from keras_nplm.io.text import check_is_file

        if self.word_classes is None:
            return {}
        path = fetch(self.word_classes)
        check_is_file(path)
        return {"word_classes": f"{display_url(path)} ({identify_content(path)})"}

    def estimate(self, run: EstimationRun) -> "NgramModel":
        from keras_nplm.io.remote import fetch
        from keras_nplm.models import ngrams

        ids = run.encoded.ids("train")
        held_out_ids = run.encoded.ids("validation")
        path = run.directory / _CLASSES_FILE
        if self.word_classes is not None:
            classes = ngrams.load_classes(fetch(self.word_classes), run.vocabulary)
        else:
            classes = _find_classes(path, ids, run, self.num_classes)
        ngrams.save_classes(path, classes, run.vocabulary)
        (run.directory / _SEARCH_FILE).unlink(missing_ok=True)
        return ngrams.class_based(ids, held_out_ids, classes, run.order, run.boundary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NgramOptions:
    """How an n-gram model is estimated.

    Raises:
        InputError: an option has another type or is out of its range.
    """

    method: Method = KneserNey()
    """estimation method"""

    order: Annotated[int, Option(least=1, below=1024)] = 5
    """n, order of the n-grams; a context has n-1 words; some methods need 2 or more"""

    def __post_init__(self) -> None:
        check_values(self)
        check_parts(self)


def _find_classes(
    path: Path, ids: "np.ndarray", run: EstimationRun, num_classes: int
) -> "np.ndarray":
    """Run the exchange algorithm, or continue an interrupted search; `path` is of found classes."""
    import numpy as np

    from keras_nplm.io.files import read_arrays, write_arrays
    from keras_nplm.io.remote import upload
    from keras_nplm.models import ngrams

    if path.exists():
        return ngrams.load_classes(path, run.vocabulary)
    search_path = run.directory / _SEARCH_FILE
    start, sweeps_left = None, ngrams.MAX_SWEEPS
    if search_path.exists():
        search = read_arrays(search_path, ["classes", "sweeps_left"])
        start, sweeps_left = search["classes"], int(search["sweeps_left"])

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
