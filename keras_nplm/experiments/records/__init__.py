"""Recorded reports: the measured results that the package ships, the page that shows them, the
picture of Table 1, and the README's table. Page and README say whether the code has changed since.

`--record` of the commands replaces their report here, and writes the page, the table and of `paper`
the picture again. A report is of one commit and one processor: models of other code or another
processor are refused. `keras_nplm.experiments.origin` says how they are compared. Each benchmark
has an origin of its own, as it runs without the others.
"""

import dataclasses
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_nplm.experiments import benchmark, paper
from keras_nplm.experiments.origin import (
    NOT_RECORDED,
    Origin,
    check_is_committed,
    check_origins,
    describe_changes,
    describe_origin,
    digest_code,
    format_origin,
    is_comparable,
    join_dates,
    list_peer_libraries,
    merge_origins,
)
from keras_nplm.experiments.study import BENCHMARKS, STUDIES, Declaration, load_study
from keras_nplm.experiments.tables import Column, Frame, Table, join_paragraphs
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import read_json, replace_file, write_json

REPORTS = (
    "configurations",
    "benchmark",
    "paper",
    *(name for name in STUDIES if name != "configurations"),
)
_ONLY_IN_NOTEBOOKS = ("modern",)
DIRECTORY = Path(__file__).parent
# in a checkout: below saved_models, as models are what it measures; the README links to it
PAGE = DIRECTORY.parents[2] / "saved_models" / "measured" / "README.md"
PICTURE = PAGE.with_name("paper.png")  # of the front of the README
README = DIRECTORY.parents[2] / "README.md"
_HEADER = """# Measured results

The command above a table writes it, and with `--record` this page. The line below says where its
figures come from. Perplexities are per token, exactly normalised. Rates per CPU second depend on
the processor: compare rows within a table. More rows of Table 1 are in
[notebook 02](../../notebooks/02_bengio_2003.ipynb), changes of the modern networks in
[notebook 04](../../notebooks/04_modern.ipynb).
"""

_LINK = "Commands and all other tables: [measured results](saved_models/measured/README.md)."
_MODERN = "modern-small-held-out-1"
_SHORT = "modern-pointer, 7 epochs"
_LONG = "modern-pointer to 1,000 words, wider, 16 epochs"
_LONG_LSTM = "PyTorch LSTM, 6,000 CPU seconds"
_MIXTURE = "three networks, dynamic, n-grams, classes, caches"


@dataclasses.dataclass(frozen=True)
class Result:
    """A row of the README: its title, and the recorded row that has its figures."""

    title: str
    report: str
    table: str
    name: str
    part: str = ""  # of the recorded row, such as "dynamic"


RESULTS = [
    Result("Kneser-Ney, n=5", "paper", "rows", "kneser-ney-5"),
    Result("the paper's MLP1, its training tuned", "paper", "rows", "mlp1"),
    Result("60 words of context, a residual block, NCE", "configurations", "models", _MODERN),
    Result("the same with a pointer to 240 words", "benchmark", "rows", _SHORT),
    Result("the same, dynamic", "benchmark", "rows", _SHORT, "dynamic"),
    Result("pointer to 1,000 words, wider, dynamic", "benchmark", "rows", _LONG, "dynamic"),
    Result("PyTorch LSTM, dynamic", "benchmark", "rows", "PyTorch LSTM", "dynamic"),
    Result("PyTorch LSTM, wider, dynamic", "benchmark", "rows", _LONG_LSTM, "dynamic"),
    Result("three pointers, n-grams, classes, caches, dynamic", "dynamic", "mixtures", _MIXTURE),
]


def load_report(name: str) -> dict:
    """Load a recorded report: `"paper"`, `"benchmark"` or a study, such as `"modern"`."""
    check_argument("name", name in REPORTS, f"one of {', '.join(REPORTS)}", repr(name))
    return read_json(DIRECTORY / f"{name}.json")


def format_report(name: str, report: Mapping) -> str:
    """Return the tables of a report as Markdown."""
    return _load_declaration(name).format(report)


def _load_declaration(name: str) -> Declaration:
    return benchmark.ALL if name == "benchmark" else load_study(name)


def record_report(name: str, report: Mapping) -> None:
    """Store a report with its origin, and write the pages again, and of `paper` the picture.

    Benchmarks that did not run keep their rows. So do rows of the paper that were not made now, if
    they have the present origin.

    Raises:
        InputError: its models, `origins`, are of other code or of another processor.
    """
    path = DIRECTORY / f"{name}.json"
    report = dict(report)
    origins = report.pop("origins", {})
    here = describe_origin(list_peer_libraries(origins))
    _check_origins(origins, here)
    command = {"command": report.pop("command", _name_command(name))}
    if name == "benchmark":
        ran = {row["benchmark"] for row in report["rows"]}
        # the other benchmarks have no models of their own
        measured = {
            part: {**merge_origins(origins if part == "quality" else {}, here), **command}
            for part in ran
        }
        report = _add_benchmarks(report, measured, read_json(path))
    else:
        if name == "paper":
            recorded = read_json(path)
            before = recorded["measured"][name]
            if is_comparable(before, here):
                report = paper.add_recorded(report, recorded)
                origins = {**origins, str(path): [before]}
            else:
                _tell_replaced_rows(report, recorded)
        report["measured"] = {name: {**merge_origins(origins, here), **command}}
    write_json(path, report)
    write_page()
    write_results()
    if name == "paper":
        paper.write_figure(PICTURE, report)


def _tell_replaced_rows(report: Mapping, recorded: Mapping) -> None:
    """Name the recorded rows of other code or another processor that the new report lacks."""
    made = {row["name"] for row in report["rows"]}
    lost = [row["name"] for row in recorded["rows"] if row["name"] not in made]
    if lost:
        print(f"no longer recorded, of other code or processor: {', '.join(lost)}", file=sys.stderr)


def _add_benchmarks(report: Mapping, measured: Mapping, recorded: Mapping) -> dict[str, Any]:
    """Return a report with the recorded rows of benchmarks that did not run now."""
    others = [row for row in recorded["rows"] if row["benchmark"] not in measured]
    rows = sorted([*report["rows"], *others], key=lambda row: BENCHMARKS.index(row["benchmark"]))
    origins = {**recorded["measured"], **measured}
    parts = [part for part in BENCHMARKS if part in origins]
    return {**report, "rows": rows, "measured": {part: origins[part] for part in parts}}


def _name_command(name: str) -> str:
    command = f"study {name}" if name in STUDIES else name
    return f"keras-nplm {command} --output paper"


def check_can_record(origins: Mapping[str, list[Origin]]) -> None:
    """Refuse to record models of other origins, before hours of training.

    Only a checkout has the directory of the page, an installed package does not.
    """
    if not PAGE.parent.is_dir():
        raise InputError(
            f"`--record` needs a checkout, which has {PAGE.parent}. Fix: `pip install -e .` there."
        )
    _check_origins(origins, describe_origin(list_peer_libraries(origins)))


def _check_origins(origins: Mapping[str, list[Origin]], here: Origin) -> None:
    check_is_committed(here)
    check_origins(origins, here)


def write_results() -> None:
    """Write the table of results of the README between its marks, from the recorded reports."""
    before, begin, rest = README.read_text(encoding="utf-8").partition("<!-- results -->\n")
    _, end, after = rest.partition("<!-- end of results -->\n")
    rows = [row for result in RESULTS if (row := _find_row(result))]
    table = Table("rows", _RESULT_COLUMNS).format({"rows": rows})
    text = join_paragraphs(table, f"{_LINK} {_describe_origins()}")
    with replace_file(README) as temporary:
        temporary.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")


def _describe_origins() -> str:
    """Return dates, processor and commit of the rows of the README."""
    origins = []
    for report in dict.fromkeys(result.report for result in RESULTS):
        part = "quality" if report == "benchmark" else report
        origins.append(read_json(DIRECTORY / f"{report}.json")["measured"][part])
    dates = [origin["date"] for origin in origins if "date" in origin]
    facts = [join_dates(dates) if len(dates) == len(origins) else f"dates {NOT_RECORDED}"]
    for name in ("processor", "commit"):
        values = {origin.get(name, NOT_RECORDED) for origin in origins}
        facts.append(f"{name} {values.pop()}" if len(values) == 1 else f"several {name}s")
    return f"Measured: {', '.join(facts)}.{describe_changes(origins, digest_code())}"


def _find_row(result: Result) -> dict[str, Any]:
    """Return the row of a result, empty if it has no figures."""
    rows = read_json(DIRECTORY / f"{result.report}.json")[result.table]
    rows = [row for row in rows if result.name in (row.get("name"), row.get("title"))]
    if not rows or "failure" in rows[0]:
        return {}
    (recorded, *_) = rows
    figures = recorded[result.part] if result.part else recorded
    row = {"title": result.title, "test": figures["test"]}
    if "paper" in recorded:
        row["paper"] = recorded["paper"][1]
    if "cpu_seconds" in recorded:
        # of a network without validation, as those of peers
        seconds = recorded.get("training_cpu_seconds", recorded["cpu_seconds"])
        row["minutes"] = _format_minutes(seconds)
        if reading := recorded.get(f"{result.part}_cpu_seconds"):
            row["minutes"] += f" + {_format_minutes(reading)}"
    return row


def _format_minutes(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return f"{minutes:.1g}"
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.1f}"


_RESULT_COLUMNS: list[Column] = [
    ("test perplexity on Brown", "title", ""),
    ("paper", "paper", ".0f"),
    ("here", "test", ".1f"),
    ("CPU minutes", "minutes", ""),
]


def write_page() -> None:
    """Write the page of measured results, from the recorded reports."""
    parts = [_HEADER.rstrip()]
    code = digest_code()
    for name in REPORTS:
        if name in _ONLY_IN_NOTEBOOKS:
            continue
        report = read_json(DIRECTORY / f"{name}.json")
        parts += _format_section(name, report, code)
    with replace_file(PAGE) as temporary:
        temporary.write_text(_fill_lines(join_paragraphs(*parts)) + "\n", encoding="utf-8")


def _format_section(name: str, report: Mapping, code: str) -> list[str]:
    """Return the title of a report, and its tables, each between its command and its origin."""
    title, text = _load_declaration(name).split_text()
    parts = [f"## {title}"]
    if name == "benchmark":
        parts.append(text)
    for part, measured in report["measured"].items():
        origin = format_origin(measured) + describe_changes([measured], code)
        frame = Frame(measured["command"], origin, text)
        if name == "benchmark":
            parts.append(benchmark.ALL.format_one(part, report, frame))
        else:
            parts.append(_load_declaration(name).format(report, frame))
    return parts


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
