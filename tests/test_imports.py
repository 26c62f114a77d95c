"""The packages import in one direction; `import keras_nplm` loads neither Keras nor TensorFlow, and
few files.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_nplm
from keras_nplm.data.tokenizers import registry

PACKAGES = (
    "io",
    "data",
    "layers",
    "models",
    "language_model",
    "rescoring",
    "training",
    "serving",
    "experiments",
    "cli",
)
ROOT = Path(keras_nplm.__file__).parent
FILES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path
    for path in ROOT.rglob("*.py")
}
FILES = {name.removesuffix(".__init__"): path for name, path in FILES.items()}


def _find_imports(node: ast.AST) -> set[str]:
    """Find the modules that code imports when it runs, also within functions: nothing that only
    types need.
    """
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return set()
    modules = set()
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"{ast.unparse(node)}: a relative import"
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        modules = {name if name in FILES else node.module for name in names}
    elif isinstance(node, ast.Import):
        modules = {alias.name for alias in node.names}
    return modules.union(*map(_find_imports, ast.iter_child_nodes(node)))


IMPORTS = {
    name: _find_imports(ast.parse(path.read_text(encoding="utf-8"))) for name, path in FILES.items()
}


def test_packages_import_only_from_those_before_them():
    directories = [
        path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"
    ]
    assert sorted(directories) == sorted(PACKAGES)
    for name, modules in IMPORTS.items():
        package = name.split(".")[1:2]
        for module in modules if package and package[0] in PACKAGES else ():
            parts = module.split(".")
            if parts[0] == "keras_nplm" and len(parts) > 1:
                assert PACKAGES.index(parts[1]) <= PACKAGES.index(package[0]), (
                    f"{name} imports {module}"
                )


def test_no_files_import_each_other():
    left = {name: {*modules} & FILES.keys() - {"keras_nplm"} for name, modules in IMPORTS.items()}
    while leaves := {name for name, modules in left.items() if not modules}:
        left = {name: modules - leaves for name, modules in left.items() if name not in leaves}
    left = {name: modules & left.keys() for name, modules in left.items()}
    assert not left, f"files in a circle, or which import one: {left}"


LIGHT = {
    "import keras_nplm": 0,
    "import keras_nplm.io.files": 8,
    "import keras_nplm.data.vocabulary": 23,
}
HEAVY = {"from keras_nplm import NPLM": 48, "import keras_nplm.training.train": 170}


@pytest.mark.parametrize("most", [LIGHT, pytest.param(HEAVY, marks=pytest.mark.long)])
def test_few_files_are_loaded(most):
    """In one process: each program begins with the files of those before it."""
    program = "".join(f"{line}; print(*sys.modules)\n" for line in most)
    command = [sys.executable, "-c", f"import sys\n{program}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    kinds = {kind.__module__ for kind in registry.TOKENIZERS.values()}  # of tokens, a file each
    for line, number in zip(run.stdout.splitlines(), most.values(), strict=True):
        loaded = {*line.split()}
        assert len((loaded & FILES.keys()) - kinds) <= number + 1  # and `keras_nplm` itself
    unwanted = {"keras", "tensorflow", "filelock", "keras_nplm.data.subwords"}
    assert most is HEAVY or not unwanted & loaded


def test_the_files_to_read_first_exist():
    _, _, order = keras_nplm.__doc__.partition("read in this order")
    named = re.findall(r"[a-z_/]+\.py\b", order.partition("\n\n")[0])
    assert len(named) == 8
    assert all((ROOT / name).is_file() for name in named)


def test_the_names_that_the_help_begins_with_exist():
    _, _, text = keras_nplm.__doc__.partition("What you want")
    rows = [line.strip().split("   ")[-1] for line in text.partition("\n\nAll")[0].splitlines()]
    named = [name for row in rows[2:] for name in row.strip().split(", ")]
    assert len(named) > 20 and {*named} <= {*keras_nplm.__all__}


def test_layers_and_metrics_run_on_every_keras_backend():
    # they use TensorFlow where it is the backend
    chosen = {"ops", "lookup", "softmax", "energy_ops"}
    for path in [ROOT / "models" / "networks" / "metrics.py", *(ROOT / "layers").rglob("*.py")]:
        if path.stem not in chosen:
            assert "import tensorflow" not in path.read_text(encoding="utf-8"), (
                f"{path.name} must use keras.ops alone"
            )
