"""Recorded reports: the measured results that the package ships, the page that shows them, the
picture of Table 1, and the README's table.

`--record` of the commands replaces their report here, and writes the page, the table and of `paper`
the picture again. A report is of one commit and one processor: models of other code or another
processor are refused. `keras_nplm.experiments.origin` says how they are compared. Each benchmark
has an origin of its own, as it runs without the others.
"""

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
    describe_origin,
    format_origin,
    merge_origins,
)
from keras_nplm.experiments.study import BENCHMARKS, STUDIES, Declaration, load_study
from keras_nplm.experiments.tables import (
    Column,
    Frame,
    Table,
    format_code,
    join_paragraphs,
    split_columns,
)
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

_QUALITY = "keras-nplm benchmark quality --seconds 400,3000"
_STUDY = "keras-nplm study dynamic"
_SHORT = "modern-pointer, 7 epochs"
_LONG = "modern-pointer to 1,000 words, wider, 16 epochs"
_LSTM = "PyTorch LSTM"
_MIXTURE = "three networks, dynamic, n-grams, classes, caches"
_READS = ", dynamic: it learns as it reads"
_CACHE = ", with a continuous cache"
_LINK = "All tables: [measured results](saved_models/measured/README.md)."
# of the README: report, table, name or title of the row, part of the row, command if it has none
RESULTS = {
    "Kneser-Ney, n=5": ("paper", "rows", "kneser-ney-5"),
    "the paper's MLP1: n=5, h=50, m=60, direct connections": ("paper", "rows", "mlp1"),
    "n=5, h=100, m=60, NCE": ("configurations", "models", "brown-nce-no-held-out"),
    "modern network, NCE": ("configurations", "models", "modern-small-held-out-1"),
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


def format_report(name: str, report: Mapping) -> str:
    """Return the tables of a report as Markdown."""
    return _load_declaration(name).format(report)


def _load_declaration(name: str) -> Declaration:
    return benchmark.ALL if name == "benchmark" else load_study(name)


def record_report(name: str, report: Mapping) -> None:
    """Store a report with its origin, and write the pages again, and of `paper` the picture.

    Benchmarks that did not run keep their rows.

    Raises:
        InputError: its models, `origins`, are of other code or of another processor.
    """
    path = DIRECTORY / f"{name}.json"
    report = dict(report)
    here = describe_origin()
    origins = report.pop("origins", {})
    _check_origins(origins, here)
    command = {"command": report.pop("command", _name_command(name))}
    if name == "benchmark":
        old = read_json(path)
        ran = [row["benchmark"] for row in report["rows"]]
        rows = [*report["rows"], *(row for row in old["rows"] if row["benchmark"] not in ran)]
        report["rows"] = sorted(rows, key=lambda row: BENCHMARKS.index(row["benchmark"]))
        measured = dict(old["measured"])
        for part in ran:
            # the other benchmarks have no models of their own
            models = origins if part == "quality" else {}
            measured[part] = {**merge_origins(models, here), **command}
        report["measured"] = {part: measured[part] for part in BENCHMARKS if part in measured}
    else:
        report["measured"] = {name: {**merge_origins(origins, here), **command}}
    write_json(path, report)
    write_page()
    write_results()
    if name == "paper":
        paper.write_figure(PICTURE, report)


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
    _check_origins(origins, describe_origin())


def _check_origins(origins: Mapping[str, list[Origin]], here: Origin) -> None:
    check_is_committed(here)
    check_origins(origins, here)


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
    text = join_paragraphs(table, f"{_LINK} {_describe_origins()}")
    with replace_file(README) as temporary:
        temporary.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")


def _describe_origins() -> str:
    """Return date, processor and commit of the rows of the README, once all have the same."""
    origins = []
    for report in dict.fromkeys(report for report, *_ in RESULTS.values()):
        part = "quality" if report == "benchmark" else report
        origins.append(read_json(DIRECTORY / f"{report}.json")["measured"][part])
    facts = []
    for name in ("date", "processor", "commit"):
        values = {origin.get(name, NOT_RECORDED) for origin in origins}
        facts.append(f"{name} {values.pop()}" if len(values) == 1 else f"several {name}s")
    return f"Measured: {', '.join(facts)}."


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
        if name in _ONLY_IN_NOTEBOOKS:
            continue
        report = read_json(DIRECTORY / f"{name}.json")
        parts += _format_section(name, report)
    with replace_file(PAGE) as temporary:
        temporary.write_text(_fill_lines(join_paragraphs(*parts)) + "\n", encoding="utf-8")


def _format_section(name: str, report: Mapping) -> list[str]:
    """Return the title of a report, and its tables, each between its command and its origin."""
    title, text = _load_declaration(name).split_text()
    parts = [f"## {title}"]
    if name == "benchmark":
        parts.append(text)
    for part, measured in report["measured"].items():
        frame = Frame(measured["command"], format_origin(measured), text)
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
