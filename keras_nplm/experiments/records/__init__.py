"""Recorded reports: the measured results that the package ships, the page that shows them, and the
README's table.

`--record` of the commands replaces their report here, and writes the page and the table again.
"""

import datetime
import importlib
import textwrap
from collections.abc import Mapping
from pathlib import Path

from keras_nplm.experiments.study import BENCHMARKS, STUDIES, load_study
from keras_nplm.experiments.tables import Table, format_code, join_paragraphs, split_columns
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.processor import read_processor_name

REPORTS = (
    "configurations",
    "benchmark",
    "paper",
    *(name for name in STUDIES if name != "configurations"),
)
_DIRECTORY = Path(__file__).parent
_PAGE = _DIRECTORY.parents[2] / "saved_models" / "measured" / "README.md"  # in a checkout
_README = _DIRECTORY.parents[2] / "README.md"
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
    return read_json(_DIRECTORY / f"{name}.json")


def format_report(name: str, report: Mapping, page: bool = False) -> str:
    """Return the tables of a report as Markdown, with `page` as on the page of measured results."""
    return load_study(name).format(report, page=page)


def record_report(name: str, report: Mapping) -> None:
    """Store a report with its machine, and write both pages again.

    Benchmarks that did not run keep their rows.
    """
    path = _DIRECTORY / f"{name}.json"
    report = dict(report)
    # the module knows its version, whether the package is tensorflow or tensorflow-cpu
    measured = {name: importlib.import_module(name).__version__ for name in ("tensorflow", "keras")}
    measured = {
        "date": datetime.date.today().isoformat(),
        "processor": read_processor_name(),
    } | measured
    if command := report.pop("command", ""):
        measured["command"] = f"`{command}`"
    if name == "benchmark":
        old = read_json(path)
        ran = [row["benchmark"] for row in report["rows"]]
        rows = [*report["rows"], *(row for row in old["rows"] if row["benchmark"] not in ran)]
        report["rows"] = sorted(rows, key=lambda row: BENCHMARKS.index(row["benchmark"]))
        report["measured"] = old["measured"] | dict.fromkeys(ran, measured)
    else:
        report["measured"] = {name: measured}
    write_json(path, report)
    write_page()
    write_results()


def check_can_record() -> None:
    """Refuse to record without the directory of the page: only a checkout has it, an installed
    package does not.
    """
    if not _PAGE.parent.is_dir():
        raise InputError(
            f"`--record` needs a checkout, which has {_PAGE.parent}. Fix: `pip install -e .` there."
        )


def write_results() -> None:
    """Write the table of results of the README between its marks, from the recorded reports."""
    before, begin, rest = _README.read_text(encoding="utf-8").partition("<!-- results -->\n")
    _, end, after = rest.partition("<!-- end of results -->\n")
    rows = [
        row | {"title": title} for title, place in RESULTS.items() if (row := _find_result(*place))
    ]
    columns = [("model", "title", ""), *split_columns(), ("CPU seconds", _format_seconds, "")]
    table = Table("rows", [*columns, ("command", "command", format_code)]).format({"rows": rows})
    with replace_file(_README) as temporary:
        temporary.write_text(f"{before}{begin}\n{table}\n\n{end}{after}", encoding="utf-8")


def _find_result(report: str, table: str, name: str, part: str = "", command: str = "") -> dict:
    """Return a row of a report, empty if it has no figures; of several seeds the first counts."""
    rows = read_json(_DIRECTORY / f"{report}.json")[table]
    rows = [row for row in rows if name in (row.get("name"), row.get("title"))]
    if not rows or "failure" in rows[0]:
        return {}
    row = {
        key: value[0] if isinstance(value, list) and value else value
        for key, value in rows[0].items()
    }
    return {"command": command} | row | row.get(part, {}) | {"part": part}


def _format_seconds(row: Mapping) -> str:
    more = row.get(f"{row['part']}_cpu_seconds")
    spent = f"{row['cpu_seconds']:,.0f}" if "cpu_seconds" in row else ""
    return f"{spent} + about {more:,} of tuning and reading" if more else spent


def write_page() -> None:
    parts = [_HEADER.rstrip()]
    for name in REPORTS:
        report = read_json(_DIRECTORY / f"{name}.json")
        title, text = load_study(name).split_text()
        command = f"{'study ' if name in STUDIES else ''}{name} --output paper"
        command = f"benchmark {' '.join(BENCHMARKS)}" if name == "benchmark" else command
        origin = [f"Written by `keras-nplm {command} --record`. Measured:"]
        for measured, machine in report["measured"].items():
            origin.append(
                f"`{measured}`: {', '.join(f'{key} {value}' for key, value in machine.items())}."
            )
        parts += [f"## {title}", text, format_report(name, report, page=True), " ".join(origin)]
    with replace_file(_PAGE) as temporary:
        temporary.write_text(_fill_lines(join_paragraphs(*parts)) + "\n", encoding="utf-8")


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
