"""Where figures come from: date, processor, commit, code, and versions of Python and its libraries.

Figures of one table must be comparable, so a report is recorded from models of one origin. Code is
compared by its digest, not by its commit: the README, tests, comments, docstrings, exports and
reports may change while models that took hours stay valid. A change to a statement that makes or
scores models asks for new ones. So does another version of the library of a peer, for this peer.
"""

import ast
import datetime
import hashlib
import importlib
import importlib.metadata
import itertools
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import keras_nplm
from keras_nplm.io.errors import InputError
from keras_nplm.io.processor import read_processor_name

Origin = Mapping[str, str]  # the fields of `describe_origin`

NOT_RECORDED = "not recorded"
DIRTY = "-dirty"  # ends the name of a commit whose package has changed since
_PACKAGE = Path(keras_nplm.__file__).parent
# the packages whose code makes and scores models
_ROOMS = ("io", "data", "layers", "models", "language_model", "training")
# the modules of this package that make, score and mix models and peers
_MODULES = (
    "experiments/benchmark/quality.py",
    "experiments/benchmark/torch_models.py",
    "experiments/log_probs.py",
)
_RECORDS = "experiments/records"  # which `--record` writes
_COMPARED = ("code", "processor", "python", "tensorflow", "keras")
_PEER_LIBRARIES = ("torch",)  # compared where a model has them


def describe_origin(libraries: Iterable[str] = ()) -> dict[str, str]:
    """Return the origin of figures that are measured now, by this code on this processor.

    `libraries` are those of peers, whose versions it has, too.
    """
    # a module knows its version, whether the package is tensorflow or tensorflow-cpu
    tensorflow = importlib.import_module("tensorflow")
    keras = importlib.import_module("keras")
    return {
        "date": datetime.date.today().isoformat(),
        "processor": read_processor_name(),
        "commit": name_commit(),
        "code": digest_code(),
        "python": platform.python_version(),
        "tensorflow": tensorflow.__version__,
        "keras": keras.__version__,
        **{library: _read_version(library) for library in libraries},
    }


def _read_version(library: str) -> str:
    """Return the version of a library without importing it."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def list_peer_libraries(origins: Mapping[str, Sequence[Origin]]) -> list[str]:
    """Return the libraries of peers that origins of models have, by path."""
    found = list(itertools.chain.from_iterable(origins.values()))
    return [name for name in _PEER_LIBRARIES if any(name in origin for origin in found)]


def name_commit(package: Path = _PACKAGE) -> str:
    """Return the commit that last changed the package, with `-dirty` if it has changed since;
    outside of a checkout the version.

    Reports that are recorded one after the other have the same commit, while no code changes.
    """
    code = ("--", ".", f":!{_RECORDS}")
    try:
        _run_git(package, "ls-files", "--error-unmatch", "__init__.py")
        commit = _run_git(package, "log", "-1", "--abbrev=10", "--format=%h", *code).strip()
        changes = _run_git(package, "status", "--porcelain", *code)
    except (OSError, subprocess.CalledProcessError):
        return f"version {keras_nplm.__version__}"
    return f"{commit}{DIRTY}" if changes else commit


def _run_git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def digest_code(package: Path = _PACKAGE) -> str:
    """Return a digest of the statements that make and score models, without comments and
    docstrings.
    """
    digest = hashlib.sha256()
    of_rooms = (sorted((package / room).rglob("*.py")) for room in _ROOMS)
    modules = (package / module for module in _MODULES)
    for path in [*itertools.chain.from_iterable(of_rooms), *modules]:
        tree = _RemoveTexts().visit(ast.parse(path.read_bytes()))
        digest.update(f"{path.relative_to(package)}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()[:10]


class _RemoveTexts(ast.NodeTransformer):
    """Remove strings that stand alone as a statement: docstrings, and the help of options."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def check_origins(origins: Mapping[str, Sequence[Origin]], here: Origin) -> None:
    """Refuse to record models of other origins than the present one.

    `origins` are by the path of a model, which is removed to make it again: those of the commands
    that made it, several if it was resumed elsewhere; none if they are not recorded.
    """
    differences = {}
    for path, found in origins.items():
        reasons = [_describe_difference(origin, here) for origin in found] or [NOT_RECORDED]
        reasons = [reason for reason in reasons if reason]
        if reasons:
            differences[path] = "; ".join(reasons)
    if not differences:
        return
    listed = ", ".join(f"{Path(path).stem} ({reason})" for path, reason in differences.items())
    raise InputError(
        "`--record` must have models of one origin, the present code and processor "
        f"(commit {here['commit']}, {here['processor']}). Received: {listed}. "
        f"Fix: `rm -r {' '.join(differences)}`, and run the same command again; or run it in a "
        "checkout of their commit."
    )


def is_comparable(origin: Origin, here: Origin) -> bool:
    """Return whether figures of an origin may stand beside present ones, in one table."""
    return not _describe_difference(origin, here)


def _describe_difference(origin: Origin, here: Origin) -> str:
    """Return what differs between the origin of a model and the present one, or nothing."""
    compared = [*_COMPARED, *(name for name in _PEER_LIBRARIES if name in origin)]
    different = [name for name in compared if origin.get(name) != here.get(name)]
    if not different:
        return ""
    facts = [f"{name} {origin.get(name, NOT_RECORDED)}" for name in different]
    return f"commit {origin.get('commit', NOT_RECORDED)}: {', '.join(facts)}"


def check_is_committed(here: Origin) -> None:
    """Refuse to record what no commit has."""
    if here["commit"].endswith(DIRTY):
        raise InputError(
            "`--record` must have a checkout whose package is committed. "
            f"Received: {here['commit']}. Fix: commit or stash the changes of `git status`."
        )


def merge_origins(origins: Mapping[str, Sequence[Origin]], here: Origin) -> dict[str, str]:
    """Return the origin of a report whose models have the present code and processor, with their
    commits, and their first and last date.
    """
    found = list(itertools.chain.from_iterable(origins.values())) or [here]
    dates = join_dates([origin["date"] for origin in found])
    return {**here, "date": dates, "commit": _join_commits([origin["commit"] for origin in found])}


def _join_commits(names: Sequence[str]) -> str:
    """Return commits, or lists of commits, as one list."""
    commits = itertools.chain.from_iterable(name.split(", ") for name in names)
    return ", ".join(sorted(set(commits)))


def join_dates(spans: Sequence[str]) -> str:
    """Return the first and the last of some dates, or spans of dates, as one span: `A to B`."""
    dates = sorted({date for span in spans for date in span.split(" to ")})
    return " to ".join(dict.fromkeys([dates[0], dates[-1]]))


def format_origin(origin: Origin) -> str:
    """Return date, processor, commit and versions as one line."""
    facts = [
        origin.get("date", f"date {NOT_RECORDED}"),
        origin["processor"],
        f"commit {origin.get('commit', NOT_RECORDED)}",
    ]
    for name in ("python", "tensorflow", "keras", *_PEER_LIBRARIES):
        if name in origin:
            facts.append(f"{name} {origin[name]}")
    return f"Measured: {', '.join(facts)}."


def describe_changes(origins: Iterable[Origin], code: str) -> str:
    """Return a sentence if figures were measured by other code than that with a digest."""
    is_present = {origin.get("code") for origin in origins} == {code}
    return "" if is_present else " The code of the models has changed since."
