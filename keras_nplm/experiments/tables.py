"""Tables as data: a column names a figure of the rows and how it is written."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.io.markdown import markdown_table

format_code = "`{}`".format
Format = str | Callable[[Any], str]  # a format specification, such as ".1f", or a function
# header; path of the figure, such as "dynamic.test"; format
Column = tuple[str, str | Callable[[dict], Any], Format]


@dataclasses.dataclass(frozen=True)
class Frame:
    """What stands around a table on the page of measured results."""

    command: str  # above: what makes the table
    origin: str  # below: where its figures come from
    text: str = ""  # after the command: what a reader of the table must know


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a report.

    A row without a figure has an empty cell, a row with `failure` says so in its second.
    """

    key: str  # the entry of the report that holds its rows
    columns: Sequence[Column]
    title: str = ""  # its heading, with fields of the report in braces
    # whether the page of measured results has a row; None: it has none
    on_page: Callable[[dict], Any] | None = bool
    more: Sequence[str] = ()  # further entries of the report, whose rows follow

    def format(self, report: Mapping, frame: Frame | None = None) -> str:
        """Return the table as Markdown, in a frame only the rows of the page; without rows, an
        empty string.
        """
        rows = [row for key in (self.key, *self.more) for row in report.get(key, ())]
        if frame is not None:
            rows = [row for row in rows if self.on_page and self.on_page(row)]
        if not rows:
            return ""
        headers = [header for header, _, _ in self.columns]
        title = f"### {self.title}".format(**report) if self.title else ""
        table = markdown_table(headers, [self._format_row(row) for row in rows])
        if frame is None:
            return join_paragraphs(title, table)
        above = f"Command: {format_code(frame.command)}. {frame.text}".rstrip()
        return join_paragraphs(title, above, table, frame.origin)

    def _format_row(self, row: dict) -> list[str]:
        if "failure" in row:
            empty = [""] * (len(self.columns) - 2)
            return [row["name"], f"not measured: {row['failure']}", *empty]
        return [_format_cell(row, figure, form) for _, figure, form in self.columns]


def _format_cell(row: dict, figure: str | Callable, form: Format) -> str:
    value = figure(row) if callable(figure) else _find_figure(row, figure)
    if value is None:
        return ""
    return form(value) if callable(form) else format(value, form)


def _find_figure(row: dict, path: str) -> Any:
    """Follow a path such as `"dynamic.test"` or `"paper.0"`; None: a row has no such figure."""
    value: Any = row
    for part in path.split("."):
        if value is None:
            return None
        value = value[int(part)] if isinstance(value, Sequence) else value.get(part)
    return value


def split_columns(prefix: str = "", header: str = "", form: Format = ".1f") -> list[Column]:
    """Return the columns of validation and test: `prefix` begins their paths, `header` the first
    header.
    """
    validation, test = HELD_OUT
    return [(header + validation, prefix + validation, form), (test, prefix + test, form)]


def format_mean(figures: float | Sequence[float]) -> str:
    """Return a figure; of several the mean, with the least and the greatest in brackets."""
    if not isinstance(figures, Sequence):
        return f"{figures:.1f}"
    mean = f"{statistics.fmean(figures):.1f}"
    if len(figures) == 1:
        return mean
    return f"{mean} ({min(figures):.1f} to {max(figures):.1f})"


def format_seconds(seconds: float | Sequence[float]) -> str:
    """Return seconds; of several seeds the mean."""
    if isinstance(seconds, Sequence):
        seconds = statistics.fmean(seconds)
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}"


def join_paragraphs(*paragraphs: str) -> str:
    """Return Markdown paragraphs and tables, separated by empty lines; empty ones are left out."""
    return "\n\n".join(filter(None, paragraphs))
