"""Reports as data: how figures are made, the text that explains them, and a table of columns."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm import Corpus
from keras_nplm.experiments.origin import Origin
from keras_nplm.experiments.rows import Row, read_origins
from keras_nplm.io.markdown import markdown_table

# header; path of the figure in a row, such as "dynamic.test"; a name of FORMATS, or a format
# specification, such as ".1f"
Column = Sequence[str]


def _format_mean(figures: float | Sequence[float]) -> str:
    """Return a figure; of several seeds the mean, with the least and the greatest in brackets."""
    if not isinstance(figures, Sequence):
        return f"{figures:.1f}"
    mean = f"{statistics.fmean(figures):.1f}"
    return f"{mean} ({min(figures):.1f} to {max(figures):.1f})" if len(figures) > 1 else mean


def _format_ratios(ratios: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(
        f"{name}: {ratio:.2f} ({low:.2f} to {high:.2f})"
        for name, (ratio, low, high) in ratios.items()
    )


FORMATS: dict[str, Callable[[Any], str]] = {
    "code": "`{}`".format,
    "list": lambda figures: ", ".join(f"{figure:.2f}" for figure in figures),
    "mean": _format_mean,
    "megabytes": lambda size: f"{size / 1e6:,.0f} MB",
    "microseconds": lambda rate: f"{1e6 / rate:.2f}",
    "millions": lambda number: f"{number / 1e6:.1f}",
    "range": lambda figures: "{:,.0f} to {:,.0f}".format(*figures),
    "ratios": _format_ratios,
}
SPEED_COLUMNS: list[Column] = [
    ("contender", "name", ""),
    ("n-grams/s (median)", "rate", ",.0f"),
    ("min to max", "range", "range"),
    ("share of peak", "share_of_peak", ".0%"),
    ("ratio to peer (min to max)", "ratio_to", "ratios"),
]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the command line chooses."""

    corpus: Corpus  # of n-gram models that are timed
    rounds: int = 5
    directory: Path = Path("paper")  # of models
    jobs: int | None = None
    data_dir: str | None = None  # of Brown's archive
    texts: Sequence[str] = ()  # of the study `default`


@dataclasses.dataclass(frozen=True)
class Report:
    """Figures of one name."""

    text: str  # Markdown: the title in the first line, then what a reader of the table must know
    columns: Sequence[Column]
    # return `rows`, each with a title and figures, or with `name` and `failure`; and further facts
    measure: Callable[[Settings], dict[str, Any]]
    # the models that are made
    list_rows: Callable[[Settings], Sequence[Row]] = lambda settings: ()
    on_one_core: bool = True

    def read_origins(self, settings: Settings) -> dict[str, list[Origin]]:
        """Return the origins of the models that are made, by path."""
        return read_origins(self.list_rows(settings), settings.directory)

    def format_table(self, report: Mapping[str, Any]) -> str:
        """Return the rows of a report as a table in Markdown."""
        cells = []
        for row in report["rows"]:
            if "failure" in row:
                empty = [""] * (len(self.columns) - 2)
                cells.append([row["name"], f"not measured: {row['failure']}", *empty])
            else:
                cells.append([_format_cell(row, path, form) for _, path, form in self.columns])
        return markdown_table([header for header, *_ in self.columns], cells)


def _format_cell(row: Mapping[str, Any], path: str, form: str) -> str:
    """Return the figure at a path such as `"dynamic.test"`; empty: a row has no such figure."""
    value: Any = row
    for part in path.split("."):
        value = None if value is None else value.get(part)
    if value is None:
        return ""
    return FORMATS[form](value) if form in FORMATS else format(value, form)
