"""Where figures come from: date, processor, commit, code, and versions of Python and its libraries.

Code is compared by its digest, not by its commit: comments, docstrings and exports may change while
models that took hours stay valid.
"""

import ast
import datetime
import hashlib
import importlib
import importlib.metadata
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import keras_nplm
from keras_nplm.io.processor import read_processor_name

Origin = Mapping[str, str]  # the fields of `describe_origin`

DIRTY = "-dirty"  # ends the name of a commit whose package has changed since
_PACKAGE = Path(keras_nplm.__file__).parent
# the packages whose code makes and scores models
_ROOMS = ("io", "data", "layers", "models", "language_model", "training")


def describe_origin(libraries: Iterable[str] = ()) -> dict[str, str]:
    """Return the origin of figures that are measured now, with versions of further libraries."""
    names = ("tensorflow", "keras")  # which know their version, also that of tensorflow-cpu
    versions = {name: importlib.import_module(name).__version__ for name in names}
    return {
        "date": datetime.date.today().isoformat(),
        "processor": read_processor_name(),
        "commit": name_commit(),
        "code": digest_code(),
        "python": platform.python_version(),
        **versions,
        **{name: importlib.metadata.version(name) for name in libraries},
    }


def name_commit(package: Path = _PACKAGE) -> str:
    """Return the commit that last changed the code of the package, with `-dirty` if it has changed
    since; outside of a checkout the version.
    """
    code = ("--", ".", ":!experiments/record.json")
    try:
        _run_git(package, "ls-files", "--error-unmatch", "__init__.py")
        commit = _run_git(package, "log", "-1", "--abbrev=10", "--format=%h", *code)
        changes = _run_git(package, "status", "--porcelain", *code)
    except (OSError, subprocess.CalledProcessError):
        return f"version {keras_nplm.__version__}"
    return f"{commit}{DIRTY}" if changes else commit


def _run_git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def digest_code(package: Path = _PACKAGE) -> str:
    """Return a digest of the statements that make and score models, without docstrings."""
    digest = hashlib.sha256()
    for room in _ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            tree = _RemoveTexts().visit(ast.parse(path.read_bytes()))
            digest.update(f"{path.relative_to(package)}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()[:10]


class _RemoveTexts(ast.NodeTransformer):
    """Remove strings that stand alone as a statement: docstrings, and the help of options."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node
