"""Tables as data: a column names a figure of the rows and how it is written."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_nplm.io.markdown import markdown_table

SPLITS = ("validation", "test")
format_code = "`{}`".format
Format = str | Callable[[Any], str]  # a format specification, such as ".1f", or a function
# header; path of the figure, such as "dynamic.test"; format
Column = tuple[str, str | Callable[[dict], Any], Format]


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

    def format(self, report: Mapping, page: bool = False) -> str:
        """Return the table as Markdown, or only the rows of the page; without rows, an empty
        string.
        """
        rows = [
            row
            for row in report.get(self.key, ())
            if not page or (self.on_page and self.on_page(row))
        ]
        table = markdown_table(
            [header for header, _, _ in self.columns], list(map(self._format_row, rows))
        )
        return (
            join_paragraphs(f"### {self.title}".format(**report) if self.title else "", table)
            if rows
            else ""
        )

    def _format_row(self, row: dict) -> list[str]:
        if "failure" in row:
            return [row["name"], f"not measured: {row['failure']}", *[""] * (len(self.columns) - 2)]
        return [_format_cell(row, figure, form) for _, figure, form in self.columns]


def _format_cell(row: dict, figure: str | Callable, form: Format) -> str:
    value = figure(row) if callable(figure) else row
    for part in () if callable(figure) else figure.split("."):
        value = value[int(part)] if isinstance(value, Sequence) else (value or {}).get(part)
    if value is None:
        return ""
    return form(value) if callable(form) else format(value, form)


def split_columns(prefix: str = "", header: str = "", form: Format = ".1f") -> list[Column]:
    """Return the columns of validation and test: `prefix` begins their paths, `header` the first
    header.
    """
    return [(header + SPLITS[0], prefix + SPLITS[0], form), (SPLITS[1], prefix + SPLITS[1], form)]


def format_seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}"


def join_paragraphs(*paragraphs: str) -> str:
    """Return Markdown paragraphs and tables, separated by empty lines; empty ones are left out."""
    return "\n\n".join(filter(None, paragraphs))
