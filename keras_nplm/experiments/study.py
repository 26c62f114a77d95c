"""A study as data, and its runner: make the models, measure them, write the report."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from keras_nplm.experiments.rows import Row, make_rows, read_origins
from keras_nplm.experiments.tables import Frame, Table, join_paragraphs
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import replace_file, write_json
from keras_nplm.io.lock import lock_directory

STUDIES = ("configurations", "default", "dynamic", "modern", "tokenization")
BENCHMARKS = ("training", "scoring", "estimation", "serving", "start", "quality")


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What studies and benchmarks have in common: their text, and the tables of their report."""

    text: str  # Markdown: the title in the first line, then what a reader of the tables must know
    tables: Sequence[Table] = ()

    def split_text(self) -> tuple[str, str]:
        """Return the title and the text below it."""
        title, _, text = self.text.partition("\n")
        return title.rstrip("."), text.strip()

    def format(self, report: Mapping, frame: Frame | None = None) -> str:
        """Return the report as Markdown; with a frame of each table, as on the page of measured
        results. The text of the frame stands before the first table.
        """
        parts = []
        for table in self.tables:
            part = table.format(report, frame)
            parts.append(part)
            if part and frame is not None:
                frame = dataclasses.replace(frame, text="")
        return join_paragraphs(*parts)


@dataclasses.dataclass(frozen=True)
class Study(Declaration):
    """A report on models, which are made first."""

    rows: Sequence[Row] = ()  # the models that it needs
    # return the report of the models below `rows/` of a directory
    measure: Callable[[Path], dict] = dataclasses.field(kw_only=True)


def load_study(name: str, texts: Sequence[str] = ()) -> Study:
    """Import and return the declaration of `paper` or of a study, which may read texts of the
    caller.
    """
    package = "studies." if name in STUDIES else ""
    module = importlib.import_module(f"{__package__}.{package}{name}")
    if not texts:
        return module.STUDY
    if name != "default":
        raise InputError(
            f"`texts` must be left out with {name}. Received: {' '.join(texts)}. "
            "Fix: `study default` reads texts."
        )
    return module.declare_study(texts)


def make_study(
    name: str,
    directory: Path,
    jobs: int | None = None,
    data_dir: str | None = None,
    rows: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> dict:
    """Make the models of a study that do not exist yet, by default all; write `studies/NAME.json`
    and `.md`. `origins` of the report are those of the models.
    """
    study = load_study(name, texts)
    path = directory / "studies" / name
    names = [row.name for row in study.rows]
    for row in rows:
        check_argument("rows", row in names, f"names of {', '.join(names)}", repr(row))
    chosen = [row for row in study.rows if not rows or row.name in rows]
    with lock_directory(directory):
        make_rows(chosen, directory, jobs, data_dir)
        report = study.measure(directory)
        report["origins"] = read_origins(study.rows, directory)
        write_json(path.with_suffix(".json"), report)
        with replace_file(path.with_suffix(".md")) as temporary:
            temporary.write_text(study.format(report) + "\n", encoding="utf-8")
        return report
