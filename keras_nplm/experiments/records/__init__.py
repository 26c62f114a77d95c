"""Recorded reports: the measured results that the package ships, the page that shows them, and the
README's table.

`--record` of the commands replaces their report here, and writes the page and the table again.
"""

import datetime
import importlib
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_nplm.experiments import benchmark
from keras_nplm.experiments.study import BENCHMARKS, STUDIES, Declaration, load_study
from keras_nplm.experiments.tables import Column, Table, format_code, join_paragraphs, split_columns
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.processor import read_processor_name

REPORTS = (
    "configurations",
    "benchmark",
    "paper",
    *(name for name in STUDIES if name != "configurations"),
)
DIRECTORY = Path(__file__).parent
PAGE = DIRECTORY.parents[2] / "saved_models" / "measured" / "README.md"  # in a checkout
README = DIRECTORY.parents[2] / "README.md"
_HEADER = """# Measured results

Tables are written by the command below them, from the reports in `keras_nplm/experiments/records`,
which have more rows (`keras_nplm.experiments.records.load_report`). Perplexities are per token,
exactly normalised; differences in the fourth digit are rounding. Rates per CPU second depend on the
processor: compare rows within a table.
"""

_QUALITY = "keras-nplm benchmark quality --seconds 400,3000"
_STUDY = "keras-nplm study dynamic"
_SHORT = "modern-pointer, 7 epochs"
_LONG = "modern-pointer to 1,000 words, wider, 16 epochs"
_LSTM = "PyTorch LSTM"
_MIXTURE = "three networks, dynamic, n-grams, classes, caches"
_READS = ", dynamic: it learns as it reads"
_CACHE = ", with a continuous cache"
# of the README: report, table, name or title of the row, part of the row, command if it has none
RESULTS = {
    "Kneser-Ney, n=5": ("configurations", "models", "kneser-ney-5"),
    "the paper's MLP1: n=5, h=50, m=60, direct connections": ("paper", "rows", "mlp1"),
    "n=5, h=100, m=60, NCE": ("configurations", "models", "brown-nce-no-held-out"),
    "modern network, NCE": ("modern", "changes", "modern-small-held-out"),
    "modern network with a pointer to 240 words": ("benchmark", "rows", _SHORT, "", _QUALITY),
    f"modern network with a pointer to 240 words{_READS}": (
        "benchmark",
        "rows",
        _SHORT,
        "dynamic",
        _QUALITY,
    ),
    f"the same to 1,000 words, wider{_READS}": ("benchmark", "rows", _LONG, "dynamic", _QUALITY),
    f"PyTorch LSTM{_CACHE}": ("benchmark", "rows", _LSTM, "cache", _QUALITY),
    f"PyTorch LSTM{_READS}": ("benchmark", "rows", _LSTM, "dynamic", _QUALITY),
    "three pointers, n-grams, classes and caches, dynamic": (
        "dynamic",
        "mixtures",
        _MIXTURE,
        "",
        _STUDY,
    ),
}


def load_report(name: str) -> dict:
    """Load a recorded report: `"paper"`, `"benchmark"` or a study, such as `"modern"`."""
    check_argument("name", name in REPORTS, f"one of {', '.join(REPORTS)}", repr(name))
    return read_json(DIRECTORY / f"{name}.json")


def format_report(name: str, report: Mapping, page: bool = False) -> str:
    """Return the tables of a report as Markdown, with `page` as on the page of measured results."""
    return _load_declaration(name).format(report, page=page)


def _load_declaration(name: str) -> Declaration:
    return benchmark.ALL if name == "benchmark" else load_study(name)


def record_report(name: str, report: Mapping) -> None:
    """Store a report with its machine, and write both pages again.

    Benchmarks that did not run keep their rows.
    """
    path = DIRECTORY / f"{name}.json"
    report = dict(report)
    measured = _describe_machine()
    if command := report.pop("command", ""):
        measured["command"] = f"`{command}`"
    if name == "benchmark":
        old = read_json(path)
        ran = [row["benchmark"] for row in report["rows"]]
        rows = [*report["rows"], *(row for row in old["rows"] if row["benchmark"] not in ran)]
        report["rows"] = sorted(rows, key=lambda row: BENCHMARKS.index(row["benchmark"]))
        report["measured"] = {**old["measured"], **dict.fromkeys(ran, measured)}
    else:
        report["measured"] = {name: measured}
    write_json(path, report)
    write_page()
    write_results()


def _describe_machine() -> dict[str, str]:
    """Return the date, the processor and the versions of the libraries."""
    # a module knows its version, whether the package is tensorflow or tensorflow-cpu
    tensorflow = importlib.import_module("tensorflow")
    keras = importlib.import_module("keras")
    return {
        "date": datetime.date.today().isoformat(),
        "processor": read_processor_name(),
        "tensorflow": tensorflow.__version__,
        "keras": keras.__version__,
    }


def check_can_record() -> None:
    """Refuse to record without the directory of the page: only a checkout has it, an installed
    package does not.
    """
    if not PAGE.parent.is_dir():
        raise InputError(
            f"`--record` needs a checkout, which has {PAGE.parent}. Fix: `pip install -e .` there."
        )


def write_results() -> None:
    """Write the table of results of the README between its marks, from the recorded reports."""
    before, begin, rest = README.read_text(encoding="utf-8").partition("<!-- results -->\n")
    _, end, after = rest.partition("<!-- end of results -->\n")
    rows = []
    for title, place in RESULTS.items():
        row = _find_result(*place)
        if row:
            row["title"] = title
            rows.append(row)
    table = Table("rows", _RESULT_COLUMNS).format({"rows": rows})
    with replace_file(README) as temporary:
        temporary.write_text(f"{before}{begin}\n{table}\n\n{end}{after}", encoding="utf-8")


def _find_result(report: str, table: str, name: str, part: str = "", command: str = "") -> dict:
    """Return a row of a report, empty if it has no figures; of several seeds the first counts."""
    rows = read_json(DIRECTORY / f"{report}.json")[table]
    rows = [row for row in rows if name in (row.get("name"), row.get("title"))]
    if not rows or "failure" in rows[0]:
        return {}
    row: dict[str, Any] = {"command": command}
    for key, value in rows[0].items():
        row[key] = value[0] if isinstance(value, list) and value else value
    row.update(row.get(part, {}))
    row["part"] = part
    return row


def _format_seconds(row: Mapping) -> str:
    spent = f"{row['cpu_seconds']:,.0f}" if "cpu_seconds" in row else ""
    more = row.get(f"{row['part']}_cpu_seconds")
    if more:
        return f"{spent} + about {more:,} of tuning and reading"
    return spent


_RESULT_COLUMNS: list[Column] = [
    ("model", "title", ""),
    *split_columns(),
    ("CPU seconds", _format_seconds, ""),
    ("command", "command", format_code),
]


def write_page() -> None:
    """Write the page of measured results, from the recorded reports."""
    parts = [_HEADER.rstrip()]
    for name in REPORTS:
        report = read_json(DIRECTORY / f"{name}.json")
        title, text = _load_declaration(name).split_text()
        tables = format_report(name, report, page=True)
        origin = _describe_origin(name, report["measured"])
        parts += [f"## {title}", text, tables, origin]
    with replace_file(PAGE) as temporary:
        temporary.write_text(_fill_lines(join_paragraphs(*parts)) + "\n", encoding="utf-8")


def _describe_origin(name: str, measured: Mapping[str, Mapping]) -> str:
    """Return the command that writes a report, and the machines that measured its parts."""
    if name == "benchmark":
        command = f"benchmark {' '.join(BENCHMARKS)}"
    elif name in STUDIES:
        command = f"study {name} --output paper"
    else:
        command = f"{name} --output paper"
    sentences = [f"Written by `keras-nplm {command} --record`. Measured:"]
    for part, machine in measured.items():
        facts = ", ".join(f"{key} {value}" for key, value in machine.items())
        sentences.append(f"`{part}`: {facts}.")
    return " ".join(sentences)


def _fill_lines(page: str) -> str:
    """Wrap the paragraphs of a page anew: those of docstrings are in the narrow lines of code."""
    blocks = page.split("\n\n")
    return "\n\n".join(block if _is_set(block) else _fill(block) for block in blocks)


def _is_set(block: str) -> bool:
    """Return whether a block is no paragraph in lines: a heading, a table, a list, one line."""
    return "\n" not in block or block.startswith(("#", "|", "-", " ", "<", "```"))


def _fill(paragraph: str) -> str:
    words = " ".join(paragraph.split())
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False)
