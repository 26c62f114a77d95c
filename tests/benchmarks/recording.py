"""Recorded reports, and what shows them: the page of measured results, the picture of Table 1, the
README's table, and the table of notebook 04. They name the commit and processor of the figures.

`--record` replaces one report and writes them again. A report is of one commit and one processor:
models of other code, another processor or other versions are refused. `python -m
tests.benchmarks.recording` writes what shows them again, without figures of its own.
"""

import importlib.util
import itertools
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.experiments import paper
from keras_nplm.experiments.origin import DIRTY, Origin, describe_origin
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.markdown import markdown_table
from tests.benchmarks import commands
from tests.benchmarks.report import Report
from tests.benchmarks.studies import STUDIES, load_study

BENCHMARKS = ("training", "scoring", "estimation", "serving", "start", "quality")
NAMES = ("configurations", *BENCHMARKS, "paper", *(n for n in STUDIES if n != "configurations"))
_IN_NOTEBOOK = "modern"  # and not on the page
ROOT = Path(__file__).parents[2]
README = Path("README.md")
PAGE = Path("saved_models", "measured", "README.md")
PICTURE = PAGE.with_name("paper.png")
NOTEBOOK = Path("notebooks", "04_modern.ipynb")
_CELL = "table-of-brown"  # of the notebook
_LIBRARIES = ("torch", "kenlm")  # of peers
_VERSIONS = ("python", "tensorflow", "keras", *_LIBRARIES)
_HEADER = """# Measured results

The command above a table writes it, and with `--record` this page. The line below says where its
figures come from: `git diff COMMIT keras_nplm` shows what has changed since. Perplexities are per
token, exactly normalised. Changes of the modern networks are in
[notebook 04](../../notebooks/04_modern.ipynb), claims of the paper in
[notebook 02](../../notebooks/02_bengio_2003.ipynb).

Benchmarks of speed: contenders run on one core and take turns, so that each round compares them
under the same load. A rate is the median over the rounds. A ratio is the median of the ratios
within the rounds. Each peer runs in its own process. With a GPU they are not bound to a core, and
the seconds are wall time. Rates depend on the processor: compare rows within a table."""
_LINK = "Commands and all other tables: [measured results](saved_models/measured/README.md)."
# rows of the README's table: of which report, row and part, such as "dynamic"
RESULTS = read_json(Path(__file__).with_name("results.json"))["results"]


def load_declaration(name: str) -> Report:
    """Import and return the declaration of a report."""
    if name in STUDIES:
        return load_study(name)
    if name in commands.BENCHMARKS:
        return commands.load_benchmark(name)
    return importlib.import_module(f"{__package__}.{name}").REPORT


def find_record(name: str) -> Path:
    """Return the file of a recorded report; that of the paper is part of the package."""
    if name == "paper":
        return ROOT / "keras_nplm" / "experiments" / "record.json"
    return ROOT / "tests" / "benchmarks" / "records" / f"{name}.json"


def load_record(name: str) -> dict[str, Any]:
    return read_json(find_record(name))


def record_report(
    name: str, report: Mapping[str, Any], origins: Mapping[str, Sequence[Origin]], command: str
) -> None:
    """Store a report with its command and the origin of its models, and write what shows it.

    Raises:
        InputError: its models are of other code or of another processor.
    """
    here = check_origins(origins)
    found = [*itertools.chain.from_iterable(origins.values())] or [here]
    commits = ", ".join(sorted({origin["commit"] for origin in found}))
    dates = _join_dates(origin["date"] for origin in found)
    measured = {**here, "date": dates, "commit": commits, "command": command}
    kept = {key: value for key, value in report.items() if key != "origins"}
    write_json(find_record(name), {**kept, "measured": measured})
    write_all()


def check_origins(origins: Mapping[str, Sequence[Origin]]) -> dict[str, str]:
    """Return the present origin. Refuse to record changes that are not committed, and models of
    other origins, which are by the path that is removed to make them again.
    """
    here = describe_origin(filter(importlib.util.find_spec, _LIBRARIES))
    if here["commit"].endswith(DIRTY):
        raise InputError(
            "`--record` must have a checkout whose package is committed. "
            f"Received: {here['commit']}. Fix: commit or stash the changes of `git status`."
        )
    differences = {}
    for path, several in origins.items():
        for origin in several:
            facts = {key: origin[key] for key in origin.keys() - {"date", "commit"}}
            other = dict(sorted(facts.items() - here.items()))
            if other:
                differences[path] = f"{Path(path).stem} (commit {origin['commit']}: {other})"
    if differences:
        raise InputError(
            "`--record` must have models of one origin, the present code and processor "
            f"(commit {here['commit']}, {here['processor']}). Received: "
            f"{', '.join(differences.values())}. Fix: `rm -r {' '.join(differences)}`, and run the "
            "same command again; or run it in a checkout of their commit."
        )
    return here


def write_all() -> None:
    """Write the picture and the texts that show the recorded reports."""
    paper.write_figure(ROOT / PICTURE, load_record("paper"))
    for path, text in format_texts().items():
        with replace_file(ROOT / path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def format_texts() -> dict[Path, str]:
    """Return the page, the README and the notebook with their tables, by path below the root."""
    before, begin, rest = (
        (ROOT / README).read_text(encoding="utf-8").partition("<!-- results -->\n")
    )
    _, end, after = rest.partition("<!-- end of results -->\n")
    notebook = json.loads((ROOT / NOTEBOOK).read_text(encoding="utf-8"))
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == _CELL]
    cell["source"] = "\n\n".join(_format_table(_IN_NOTEBOOK)).splitlines(keepends=True)
    return {
        PAGE: _format_page(),
        README: f"{before}{begin}{_format_results()}{end}{after}",
        NOTEBOOK: json.dumps(notebook, indent=1, ensure_ascii=False) + "\n",
    }


def _format_table(name: str) -> list[str]:
    """Return what explains a report, its table, and where the figures come from."""
    report = load_record(name)
    declaration = load_declaration(name)
    origin = report["measured"]
    text = declaration.text.partition("\n")[2].replace("{settings}", report.get("settings", ""))
    return [
        _fill(f"Command: `{origin['command']}`. {text}"),
        declaration.format_table(report),
        f"Measured: {_format_origin(origin)}.",
    ]


def _format_page() -> str:
    """Return the page of measured results, each table between its command and its origin."""
    parts = [_fill(part) if not part.startswith("#") else part for part in _HEADER.split("\n\n")]
    for name in NAMES:
        if name != _IN_NOTEBOOK:
            title = load_declaration(name).text.partition("\n")[0].rstrip(".")
            parts += [f"## {title}", *_format_table(name)]
    return "\n\n".join(parts) + "\n"


def _fill(paragraph: str) -> str:
    words = " ".join(paragraph.split())
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False)


def _format_origin(origin: Origin) -> str:
    versions = [f"{name} {origin[name]}" for name in _VERSIONS if name in origin]
    return ", ".join([origin["date"], origin["processor"], f"commit {origin['commit']}", *versions])


def _join_dates(spans: Iterable[str]) -> str:
    """Return the first and the last of some dates, or spans of dates, as one span: `A to B`."""
    dates = sorted({date for span in spans for date in span.split(" to ")})
    return " to ".join(dict.fromkeys([dates[0], dates[-1]]))


def _format_results() -> str:
    """Return the README's table, and where its figures come from."""
    header = ["test perplexity on Brown", "paper", "here", "CPU minutes"]
    table = markdown_table(header, [_list_cells(**result) for result in RESULTS])
    names = dict.fromkeys(result["report"] for result in RESULTS)
    origins = [load_record(name)["measured"] for name in names]
    facts = [_join_dates(origin["date"] for origin in origins)]
    for name in ("processor", "commit"):
        values = {origin[name] for origin in origins}
        facts.append(f"{name} {values.pop()}" if len(values) == 1 else f"several {name}s")
    return f"{table}\n\n{_LINK} Measured: {', '.join(facts)}.\n"


def _list_cells(title: str, report: str, row: str, part: str = "") -> list[str]:
    rows = load_record(report)["rows"]
    (found,) = [each for each in rows if row in (each.get("name"), each.get("title"))]
    test = found[part]["test"] if part else found["test"]
    _, paper_test = found.get("paper", ("", ""))
    minutes = ""
    if "cpu_seconds" in found:
        # of a network without validation, as those of peers
        minutes = _format_minutes(found.get("training_cpu_seconds", found["cpu_seconds"]))
        if part:
            minutes += f" + {_format_minutes(found[f'{part}_cpu_seconds'])}"
    return [title, str(paper_test), f"{test:.1f}", minutes]


def _format_minutes(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.1g}" if minutes < 1 else f"{minutes:.{0 if minutes >= 10 else 1}f}"


if __name__ == "__main__":
    write_all()
