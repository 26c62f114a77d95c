"""What a study is, and how it is made: its models once, its report anew."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from keras_nplm.experiments.rows import Row, make_rows
from keras_nplm.io.files import write_json


class Study(Protocol):
    """A module of `keras_nplm.experiments.studies`.

    Attributes:
        ROWS: the models that it needs. In their commands `{rows}` stands for where rows are made, `{texts}` for where
            `prepare` writes.
    """

    ROWS: Sequence[Row]

    def prepare(self, texts: Path, data_dir: str | None) -> None:
        """Write the texts that rows need to a directory, if they are not there; `data_dir` is where Brown's archive is.

        A study whose rows are all of Brown itself lacks this.
        """

    def run(self, rows: Path) -> dict:
        """What the study finds, for JSON; `rows / row.name` is the directory of a model."""

    def table(self, report: dict) -> str:
        """The same as Markdown."""


def make_study(
    name: str,
    study: Study,
    directory: str | os.PathLike,
    *,
    jobs: int | None = None,
    data_dir: str | None = None,
) -> dict:
    """Make the models of a study that are not made yet, run it, and write `studies/NAME.json`.

    Args:
        name: the study's.
        study: the module.
        directory: where models and report go; rows of the same command are shared with other studies and `reproduce`.
        jobs: how many models are made side by side; see `make_rows`.
        data_dir: where Brown's archive lies or is downloaded to.

    Returns:
        the report.

    Raises:
        InputError: `jobs` is less than 1, or Brown is not to be had.
        RunError: a model could not be made; the others are kept.
    """
    directory = Path(directory)
    if prepare := getattr(study, "prepare", None):
        prepare(directory / "texts", data_dir)
    make_rows(study.ROWS, directory, jobs=jobs, data_dir=data_dir)
    report = study.run(directory / "rows")
    write_json(directory / "studies" / f"{name}.json", report)
    return report
