"""What a call of `train` asks for, and its preparation: the text encoded, the options chosen."""

import dataclasses
import functools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.corpus import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.io.errors import check_argument
from keras_nplm.io.files import identify_content
from keras_nplm.io.parts import build_options, check_given
from keras_nplm.io.remote import CHECKPOINTS, display_url
from keras_nplm.io.stages import Stages
from keras_nplm.language_model.word_vectors import read_vector_width
from keras_nplm.training.adaptive_default import choose_options
from keras_nplm.training.options import (
    RUN_CLASSES,
    Options,
    RunOptions,
    TextOptions,
    TextStatistics,
    read_options,
)
from keras_nplm.training.pace import plan_minutes
from keras_nplm.training.prepare import prepare_text
from keras_nplm.training.run import Run, count_text

_SOME_TEXT = TextStatistics(tokens=100_000, vocabulary_size=1000)


@dataclasses.dataclass(frozen=True)
class Request:
    """What a call of `train` asks for.

    Raises:
        InputError: the options contradict each other, the devices or the text.
    """

    corpus: Corpus
    given: Mapping[str, Any]
    """options of the run by name; text or time decide about the others"""
    replicas: int = 1
    minutes: float | None = None
    background: str | os.PathLike | None = None
    vectors: str | os.PathLike | None = None
    command: Sequence[str] = ()
    started: float = dataclasses.field(default_factory=time.process_time)

    def __post_init__(self) -> None:
        RunOptions(minutes=self.minutes)
        check_given(self.given, *RUN_CLASSES)
        if not self.has_validation:
            self._check_without_validation()
        self._check_batch_size()
        check_argument(
            "background",
            self.background is None or bool(self.given.get("shortlist_size")),
            "left out without `shortlist_size`",
            self.background,
            "add --set shortlist_size=2000.",
        )
        self._check_width()
        # options that contradict each other in any text are refused before one is read
        choose_options(self.decided, _SOME_TEXT)

    @property
    def has_validation(self) -> bool:
        """Whether the corpus has text for early stopping and for the weights of a mixture."""
        return "validation" in self.corpus.splits

    def _check_without_validation(self) -> None:
        """Refuse options that validation text decides about, and ask for the number of epochs."""
        fix = "add --validation FILE: every line of --train stays for training."
        needed = "without validation text, which"
        check_argument(
            "minutes",
            self.minutes is None,
            "None without validation text",
            self.minutes,
            f"give --epochs, or {fix}",
        )
        check_argument(
            "epochs",
            "epochs" in self.given,
            f"given {needed} would end training early",
            None,
            f"give --epochs N, as many as were best with validation text, or {fix}",
        )
        check_argument(
            "interpolated",
            not self.given.get("interpolated"),
            f"off {needed} fits weights",
            "on",
            "give --no-interpolated, and mix the network with an n-gram model of the same text by "
            f"`keras-nplm mix --weights`; or {fix}",
        )
        network = self.given.get("network")
        accepted = f"context or pointer {needed} the network hybrid is compared on"
        check_argument("network", network != "hybrid", accepted, network, fix)

    def _check_batch_size(self) -> None:
        segment = self.given.get("segment", 1)
        batch_size = self.given.get("batch_size", self.replicas * segment)
        check_argument(
            "batch_size",
            batch_size % (self.replicas * segment) == 0,
            f"a multiple of the number of replicas, {self.replicas}, times `segment`",
            batch_size,
        )

    def _check_width(self) -> None:
        width = self.vector_width
        given = self.given.get("embedding_dim", width)
        accepted = f"{width}, m of the vectors of {self.vectors}"
        fix = f"give --embedding-dim {width}."
        check_argument("embedding_dim", width in (None, given), accepted, given, fix)

    @functools.cached_property
    def vector_width(self) -> int | None:
        """m of the file of word vectors, if there is one."""
        return None if self.vectors is None else read_vector_width(self.vectors)

    @property
    def decided(self) -> Mapping[str, Any]:
        """The options that are not chosen: those given, and m of the word vectors."""
        if self.vector_width is None:
            return self.given
        return {"embedding_dim": self.vector_width, **self.given}

    @property
    def text(self) -> TextOptions:
        return build_options(TextOptions, self.given)

    def list_chosen(self, options: Options) -> list[str]:
        """List the options that were chosen by the size of the text or by the time."""
        return [name for name in options.flatten() if name not in self.given]


def prepare_run(request: Request, directory: Path) -> Run:
    """Count and encode the text, and choose the options.

    Raises:
        InputError: the text is invalid, or the directory holds a text with other options.
    """
    encoded, vocabulary = prepare_text(directory, request.corpus, request.text, CHECKPOINTS)
    options = _choose(request, directory, encoded)
    config = {**options.write_config(), "kind": options.network.model_kind}
    if request.background is not None:
        config["background"] = display_url(request.background)
    if (vectors := request.vectors) is not None:
        config["vectors"] = f"{display_url(vectors)} ({identify_content(vectors)})"
    config.update(request.corpus.describe())
    return Run(directory, options, config, encoded, vocabulary, request.vectors)


def _choose(request: Request, directory: Path, encoded: EncodedCorpus) -> Options:
    """Choose the options that are not given, by the size of the text or by the given time."""
    given = choose_options(request.decided, _SOME_TEXT)
    if not request.list_chosen(given):  # the text has nothing to say
        return given
    statistics = count_text(encoded, request.text.boundary)
    if not request.has_validation:
        return _choose_without_validation(request, statistics)
    if request.minutes is None:
        return choose_options(request.decided, statistics, replicas=request.replicas)
    recorded = Stages(directory).read_key("network")
    if recorded is not None:
        print(
            f"The options are those of the run in {display_url(directory)}: a run is planned once, "
            "and `minutes` is not used. For another plan, name another directory.",
            file=sys.stderr,
        )
        return read_options(recorded).replace(**request.decided)
    return plan_minutes(
        request.minutes,
        request.decided,
        statistics,
        encoded,
        replicas=request.replicas,
        started=request.started,
    )


def _choose_without_validation(request: Request, statistics: TextStatistics) -> Options:
    """Choose a network alone: no validation text compares it with an n-gram model."""
    given = {"interpolated": False, **request.decided}
    chosen = choose_options(given, statistics, replicas=request.replicas)
    if chosen.network.network.reads_ngram_model:
        given["network"] = "context"
        chosen = choose_options(given, statistics, replicas=request.replicas)
    return chosen
