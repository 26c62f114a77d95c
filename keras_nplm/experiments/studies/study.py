"""The interface of a study, and `make_study`: make its models, measure them and write its report."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.experiments.rows import Row, make_rows
from keras_nplm.io.files import write_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.language_model.language_model import LanguageModel


class Study(Protocol):
    """A module of `keras_nplm.experiments.studies`.

    Attributes:
        ROWS: the models that it needs; see `Row`.
    """

    ROWS: Sequence[Row]

    def write_texts(self, directory: Path, data_dir: str | None) -> None:
        """Write the texts that its rows need, if they are absent. Only studies with other texts than Brown have it.

        Args:
            directory: replaces `{texts}` in the commands of rows.
            data_dir: directory of Brown's archive, to which it is downloaded if it is absent.
        """

    def measure(self, rows: Path) -> dict:
        """Return the report, for JSON. `rows / row.name` is the directory of a model."""

    def format_report(self, report: dict) -> str:
        """Return the report as Markdown."""


def make_study(
    name: str,
    study: Study,
    directory: str | os.PathLike,
    *,
    jobs: int | None = None,
    data_dir: str | None = None,
) -> dict:
    """Make the models of a study that do not exist yet, measure them, and write `studies/NAME.json`.

    Args:
        name: the name of the study.
        study: its module; see `load_study`.
        directory: the directory of models and reports. Rows with the same command are shared with other studies and
            with `reproduce`.
        jobs: number of models made in parallel; see `make_rows`.
        data_dir: directory of Brown's archive, to which it is downloaded if it is absent.

    Returns:
        the report.

    Raises:
        InputError: `jobs` is less than 1, or Brown can be neither found nor downloaded.
        RunError: a command failed, other models are kept; or a different process writes the directory.
    """
    directory = Path(directory)
    with lock_directory(directory):
        if write_texts := getattr(study, "write_texts", None):
            write_texts(directory / "texts", data_dir)
        make_rows(study.ROWS, directory, jobs=jobs, data_dir=data_dir)
        report = study.measure(directory / "rows")
        write_json(directory / "studies" / f"{name}.json", report)
        return report


def read_sentences(language_model: LanguageModel, split: str) -> list[list[str]]:
    """Return the sentences of a split of a model's corpus as words; out-of-vocabulary words are `<unk>`."""
    ids = language_model.corpus.ids(split)
    sentences = np.split(ids, np.flatnonzero(ids == EOS_ID) + 1)[:-1]
    return [language_model.vocabulary.decode(sentence[:-1]) for sentence in sentences]
