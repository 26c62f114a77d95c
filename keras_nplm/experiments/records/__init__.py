"""Recorded reports: the measured results that the package ships, the page that shows them, and the README's table.

`--record` of the commands replaces their report here, and writes the page and the table again.
"""

import datetime
import importlib
from collections.abc import Mapping
from pathlib import Path

from keras_nplm.experiments import benchmark
from keras_nplm.experiments.benchmark import BENCHMARKS
from keras_nplm.experiments.studies import STUDIES
from keras_nplm.experiments.study import Study, load_study
from keras_nplm.experiments.tables import Table, format_code, join_paragraphs, split_columns
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.processor import read_processor_name

REPORTS = ("configurations", "benchmark", "paper", *(name for name in STUDIES if name != "configurations"))
_MODULES = {"paper": "paper"} | {name: f"studies.{name}" for name in STUDIES}
_DIRECTORY = Path(__file__).parent
_PAGE = _DIRECTORY.parents[2] / "saved_models" / "measured" / "README.md"  # in a checkout
_README = _PAGE.parents[2] / "README.md"
_HEADER = """# Measured results

Tables are written by the command below them, from the reports in `keras_nplm/experiments/records`, which have more rows
(`keras_nplm.experiments.records.load_report`). Perplexities are per token, exactly normalised; differences in the
fourth digit are rounding. Rates per CPU second depend on the processor: compare rows within a table.
"""

_QUALITY = "keras-nplm benchmark quality --seconds 300,3000"
_SHORT, _LONG = "modern-pointer, 7 epochs", "modern-pointer to 480 words, 10 epochs"
_LSTM, _MIXTURE = "PyTorch LSTM", "three seeds, dynamic, n-grams, classes, caches"
_READS, _CACHE = ", dynamic: it learns as it reads", ", with a continuous cache"
RESULTS = {  # of the README: report, table, name or title of the row, part of the row, command if it has none
    "Kneser-Ney, n=5": ("configurations", "models", "kneser-ney-5"),
    "the paper's MLP1: n=5, h=50, m=60, direct connections": ("paper", "rows", "mlp1"),
    "n=5, h=100, m=60, NCE": ("configurations", "models", "brown-nce-no-held-out"),
    "modern network, NCE": ("modern", "changes", "modern-small-held-out"),
    "modern network with a pointer to 240 words": ("benchmark", "rows", _SHORT, "", _QUALITY),
    f"modern network with a pointer to 240 words{_READS}": ("benchmark", "rows", _SHORT, "dynamic", _QUALITY),
    f"modern network with a pointer to 480 words{_READS}": ("benchmark", "rows", _LONG, "dynamic", _QUALITY),
    f"PyTorch LSTM{_CACHE}": ("benchmark", "rows", _LSTM, "cache", _QUALITY),
    f"PyTorch LSTM{_READS}": ("benchmark", "rows", _LSTM, "dynamic", _QUALITY),
    "three seeds of the pointer to 240 words, n-grams, classes and caches, dynamic": (
        *("dynamic", "mixtures", _MIXTURE, "", "keras-nplm study dynamic"),
    ),
}


def load_report(name: str) -> dict:
    """Load a recorded report: `"paper"`, `"benchmark"` or a study, such as `"modern"`."""
    if name not in REPORTS:
        raise InputError(f"`name` must be one of {', '.join(REPORTS)}. Received: {name!r}. Fix: choose a name.")
    return read_json(_DIRECTORY / f"{name}.json")


def format_report(name: str, report: Mapping, page: bool = False) -> str:
    """Return the tables of a report as Markdown, with `page` as on the page of measured results."""
    if name != "benchmark":
        return load_study(_MODULES[name]).format(report, page=page)
    parts = []
    for each in dict.fromkeys(row["benchmark"] for row in report["rows"]):
        declared = load_study(f"benchmark.{each}")
        title, text = declared.split_text()
        table = declared.format({"rows": [row for row in report["rows"] if row["benchmark"] == each]})
        parts.append(join_paragraphs(f"### `{each}`: {title}", text if page else "", table))
    return join_paragraphs(*parts)


def record_report(
    name: str, report: Mapping, directory: Path = _DIRECTORY, page: Path = _PAGE, readme: Path = _README
) -> None:
    """Store a report with its machine, and write both pages again. Benchmarks that did not run keep their rows."""
    check_can_record(page)
    path, report, measured = directory / f"{name}.json", dict(report), _describe_machine()
    if name == "benchmark":
        old = read_json(path) if path.exists() else {"rows": [], "measured": {}}
        if command := report.pop("command", ""):
            measured["command"] = f"`{command}`"
        ran = [row["benchmark"] for row in report["rows"]]
        rows = [*report["rows"], *(row for row in old["rows"] if row["benchmark"] not in ran)]
        report["rows"] = sorted(rows, key=lambda row: BENCHMARKS.index(row["benchmark"]))
        report["measured"] = old["measured"] | dict.fromkeys(ran, measured)
    else:
        report["measured"] = {name: measured}
    write_json(path, report)
    write_page(directory, page)
    write_results(directory, readme)


def check_can_record(page: Path = _PAGE) -> None:
    """Refuse to record without the directory of the page: only a checkout has it, an installed package does not."""
    if not page.parent.is_dir():
        raise InputError(f"`--record` needs a checkout, which has {page.parent}. Fix: `pip install -e .` there.")


def write_results(directory: Path = _DIRECTORY, readme: Path = _README) -> None:
    """Write the table of results of the README between its marks, from the reports in `directory`."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition("<!-- results -->\n")
    _, end, after = rest.partition("<!-- end of results -->\n")
    rows = [row | {"title": title} for title, place in RESULTS.items() if (row := _find_result(directory, *place))]
    columns = [("model", "title", ""), *split_columns(), ("CPU seconds", _format_seconds, "")]
    table = Table("rows", [*columns, ("command", "command", format_code)]).format({"rows": rows})
    with replace_file(readme) as temporary:
        temporary.write_text(f"{before}{begin}\n{table}\n\n{end}{after}", encoding="utf-8")


def _find_result(directory: Path, report: str, table: str, name: str, part: str = "", command: str = "") -> dict:
    """Return a row of a report, empty if it has no figures; of several seeds the first counts."""
    rows = read_json(directory / f"{report}.json")[table]
    rows = [row for row in rows if name in (row.get("name"), row.get("title"))]
    if not rows or "failure" in rows[0]:
        return {}
    row = {key: value[0] if isinstance(value, list) and value else value for key, value in rows[0].items()}
    return {"command": command} | row | row.get(part, {}) | {"part": part}


def _format_seconds(row: Mapping) -> str:
    """Return the cell of CPU seconds: of training, and of tuning and reading of a dynamic model if recorded."""
    more = row.get(f"{row['part']}_cpu_seconds")
    spent = f"{row['cpu_seconds']:,.0f}" if "cpu_seconds" in row else ""
    return f"{spent} + about {more:,} of tuning and reading" if more else spent


def write_page(directory: Path = _DIRECTORY, page: Path = _PAGE) -> None:
    """Write the Markdown page of all reports in `directory`. A study that was not recorded yet has no section."""
    files = {name: directory / f"{name}.json" for name in REPORTS}
    sections = [_format_section(name, read_json(file)) for name, file in files.items() if file.is_file()]
    with replace_file(page) as temporary:
        temporary.write_text(join_paragraphs(_HEADER.rstrip(), *sections) + "\n", encoding="utf-8")


def _format_section(name: str, report: dict) -> str:
    if name == "benchmark":
        study, command = Study(benchmark.__doc__), f"benchmark {' '.join(BENCHMARKS)}"
    else:
        study, command = load_study(_MODULES[name]), f"{'' if name == 'paper' else 'study '}{name} --output paper"
    title, text = study.split_text()
    origin = [f"Written by `keras-nplm {command} --record`. Measured:"]
    for measured, machine in report["measured"].items():
        origin.append(f"`{measured}`: {', '.join(f'{key} {value}' for key, value in machine.items())}.")
    return join_paragraphs(f"## {title}", text, format_report(name, report, page=True), " ".join(origin))


def _describe_machine() -> dict[str, str]:
    # the module knows its version, whether the package is tensorflow or tensorflow-cpu
    versions = {name: importlib.import_module(name).__version__ for name in ("tensorflow", "keras")}
    return {"date": datetime.date.today().isoformat(), "processor": read_processor_name()} | versions
