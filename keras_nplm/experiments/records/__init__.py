"""Recorded reports: the measured results that the package ships, and the page that shows them all.

`paper.json`, `benchmark.json` and a file for each study are the reports of `keras-nplm paper`, `benchmark` and `study`.
With `--record` these commands replace their report here and write `saved_models/measured/README.md` again.
"""

import datetime
import importlib
import inspect
import re
from collections.abc import Mapping
from pathlib import Path

from keras_nplm.experiments import benchmark, paper
from keras_nplm.experiments.benchmark import BENCHMARKS, quality
from keras_nplm.experiments.log_probs import SPLITS
from keras_nplm.experiments.studies import STUDIES, load_study
from keras_nplm.experiments.tables import (
    SPLIT_HEADER,
    format_benchmark,
    format_paper,
    format_perplexities,
    join_tables,
)
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.markdown import markdown_table
from keras_nplm.io.processor import read_processor_name

REPORTS = ("configurations", "benchmark", "paper", *(name for name in STUDIES if name != "configurations"))
_DIRECTORY = Path(__file__).parent
_PAGE = _DIRECTORY.parents[2] / "saved_models" / "measured" / "README.md"  # in a checkout
_README = _PAGE.parents[2] / "README.md"
_QUALITY_RESULTS = {  # title in the table of results: name in the benchmark `quality`
    "modern network with a pointer to 480 words": quality.OURS.title,
    "PyTorch LSTM": "PyTorch LSTM, 300 CPU seconds",
}
_DYNAMIC = "dynamic: it learns as it reads"
_MIXTURE = "three seeds, dynamic, n-grams, classes, caches"  # in the study `dynamic`
_HEADER = """# Measured results

Each table is written by the command above it, from the report in `keras_nplm/experiments/records`. Perplexities are per
token, exactly normalised. Rates per CPU second depend on the processor and on what else it does: compare rows within a
table. Differences in the fourth digit of a perplexity are rounding: another processor or release gives other roundings.
"""


def load_report(name: str) -> dict:
    """Load a recorded report: Table 1 of the paper, the speed benchmark, or a study.

    Args:
        name: `"paper"`, `"benchmark"` or a study, such as `"modern"`.

    Returns:
        the report, as the command prints it with `--json`. `measured` has the date, the processor and the versions.

    Raises:
        InputError: no report has this name.

    Example:

    >>> report = load_report("paper")
    >>> [(row["title"], row["paper"]) for row in report["rows"]][0]
    ('MLP1', [284, 268])
    """
    if name not in REPORTS:
        raise InputError(f"`name` must be one of {', '.join(REPORTS)}. Received: {name!r}. Fix: choose a name.")
    return read_json(_DIRECTORY / f"{name}.json")


def record_report(
    name: str, report: Mapping, directory: Path = _DIRECTORY, page: Path = _PAGE, readme: Path = _README
) -> None:
    """Store a report with its date, processor and versions, and write the page and the table of results again.

    Benchmarks that did not run keep their rows. The `command` of a benchmark is stored with its machine.

    Args:
        name: `"paper"`, `"benchmark"` or a study.
        report: the report.
        directory: the directory of the reports.
        page: the Markdown file of all reports.
        readme: the Markdown file with the table of results.

    Raises:
        InputError: the package is not installed from a checkout; see `check_can_record`.
        RunError: a file cannot be written.
    """
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


def write_results(directory: Path = _DIRECTORY, readme: Path = _README) -> None:
    """Write the table of results of the README between its marks, from the reports in `directory`."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition("<!-- results -->\n")
    _, end, after = rest.partition("<!-- end of results -->\n")
    with replace_file(readme) as temporary:
        table = _format_results(directory)
        temporary.write_text(f"{before}{begin}\n{table}\n\n{end}{after}", encoding="utf-8")


def _format_results(directory: Path) -> str:
    """Return the table of results: one row for each kind of model, without `held_out_mass`."""
    paper_rows = {row["name"]: row for row in read_json(directory / "paper.json")["rows"]}
    networks = {row["name"]: row for row in read_json(directory / "configurations.json")["models"]}
    modern = read_json(directory / "modern.json")
    (small,) = (row for row in modern["changes"] if row["name"] == "modern-small-held-out")
    small = small | {name: small[name][0] for name in (*SPLITS, "cpu_seconds")}
    rows = [
        ("Kneser-Ney, n=5", networks["kneser-ney-5"]),
        ("the paper's MLP1: n=5, h=50, m=60, direct connections", paper_rows["mlp1"]),
        ("n=5, h=100, m=60, NCE", networks["brown-nce-no-held-out"]),
        ("modern network, NCE", small),
        (f"modern network, NCE, {_DYNAMIC}", small | small["dynamic"]),
    ]
    measured = {row["name"]: row for row in read_json(directory / "benchmark.json")["rows"]}
    for title, name in _QUALITY_RESULTS.items():
        row = measured.get(name, {}) | {"command": "keras-nplm benchmark quality"}
        if "dynamic" in row:  # not a failure, nor trained for other seconds
            rows += [
                (title, row),
                (f"{title}, {_DYNAMIC}", row | row["dynamic"] | {"more": row.get("dynamic_cpu_seconds")}),
            ]
    mixtures = {row["title"]: row for row in read_json(directory / "dynamic.json")["mixtures"]}
    mixture = {name: mixtures[_MIXTURE][name] for name in SPLITS} | {"command": "keras-nplm study dynamic"}
    rows.append(("three seeds of the pointer to 240 words, n-grams, classes and caches, dynamic", mixture))
    cells = [
        [
            title,
            *format_perplexities(row),
            _format_seconds(row),
            f"`{row['command']}`",
        ]
        for title, row in rows
    ]
    return markdown_table(["model", *SPLIT_HEADER, "CPU seconds", "command"], cells)


def _format_seconds(row: Mapping) -> str:
    """Return the cell of CPU seconds: of training, and of tuning and reading if they were measured apart."""
    more = f" + about {row['more']:,} of tuning and reading" if row.get("more") else ""
    return f"{row['cpu_seconds']:,.0f}{more}" if "cpu_seconds" in row else ""


def check_can_record(page: Path = _PAGE) -> None:
    """Check that the directory of the page exists: only a checkout has it, an installed package does not.

    Raises:
        InputError: the directory does not exist.
    """
    if not page.parent.is_dir():
        raise InputError(
            f"`--record` needs a checkout of the project, which has {page.parent}. Fix: `pip install -e .` there."
        )


def write_page(directory: Path = _DIRECTORY, page: Path = _PAGE) -> None:
    """Write the Markdown page of all reports in `directory`. A study that was not recorded yet has no section."""
    files = {name: directory / f"{name}.json" for name in REPORTS}
    sections = [_format_section(name, read_json(file)) for name, file in files.items() if file.is_file()]
    with replace_file(page) as temporary:
        temporary.write_text(join_tables(_HEADER, *sections) + "\n", encoding="utf-8")


def _format_section(name: str, report: dict) -> str:
    """Return the section of a report: title, description, command, tables, machine."""
    if name == "paper":
        module, command, tables = paper, "paper --output paper", format_paper(report)
    elif name == "benchmark":
        module, command, tables = benchmark, "benchmark " + " ".join(BENCHMARKS), format_benchmark(report)
    else:
        module = load_study(name)
        command, tables = f"study {name} --output paper", module.format_report(report)
    title, text = _split_docstring(module.__doc__)
    if name == "benchmark":
        lines = [f"- `{each}`: {_describe_benchmark(each)}" for each in BENCHMARKS]
        text = join_tables(text.strip().split("\n\n")[0], "\n".join(lines))  # without the map of the modules
    code = f"```bash\nkeras-nplm {command} --record\n```"
    return join_tables(f"## {title}", text.strip(), code, tables.strip(), _format_machines(report["measured"]))


def _split_docstring(docstring: str) -> tuple[str, str]:
    """Return the first line without the kind and the name of the module, and the rest."""
    title, _, text = inspect.cleandoc(docstring).partition("\n")
    return re.sub(r"^\w+ `.*?`: (\w)", lambda match: match[1].upper(), title).rstrip("."), text


def _describe_benchmark(name: str) -> str:
    """Return the docstring of a benchmark as one paragraph."""
    title, text = _split_docstring(importlib.import_module(f"{benchmark.__name__}.{name}").__doc__)
    return " ".join([f"{title}.", *text.split()])


def _describe_machine() -> dict[str, str]:
    # the module knows its version, whether the package is tensorflow or tensorflow-cpu
    versions = {name: importlib.import_module(name).__version__ for name in ("tensorflow", "keras")}
    return {"date": datetime.date.today().isoformat(), "processor": read_processor_name()} | versions


def _format_machines(measured: Mapping[str, Mapping[str, str]]) -> str:
    """Return one sentence per machine and date, with the names of its reports."""
    names = {}
    for name, machine in measured.items():
        names.setdefault(tuple(machine.items()), []).append(name)
    lines = []
    for machine, reports in names.items():
        what = f"`{'`, `'.join(reports)}`"
        lines.append(f"{what}: {', '.join(f'{key} {value}' for key, value in machine)}.")
    return "Measured: " + " ".join(lines)
