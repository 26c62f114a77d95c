"""The packages import in one direction; `import keras_nplm` loads neither Keras nor TensorFlow."""

import ast
import subprocess
import sys
from pathlib import Path

import keras_nplm

PACKAGES = ("io", "data", "layers", "models", "language_model", "training", "serving", "experiments", "cli")
ROOT = Path(keras_nplm.__file__).parent


def _imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            modules.add(node.module)
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules


def test_packages_import_only_from_those_before_them():
    directories = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert sorted(directories) == sorted(PACKAGES)
    for path in ROOT.rglob("*.py"):
        package = path.relative_to(ROOT).parts[0]
        if package not in PACKAGES:  # __init__.py and __main__.py
            continue
        for module in _imported_modules(path):
            parts = module.split(".")
            if parts[0] == "keras_nplm" and len(parts) > 1:
                assert PACKAGES.index(parts[1]) <= PACKAGES.index(package), f"{path} imports {module}"


def test_import_keras_nplm_loads_no_tensorflow():
    code = "import sys, keras_nplm; print({'keras', 'tensorflow', 'tensorflow_datasets', 'numpy'} & {*sys.modules})\n"
    code += "import keras_nplm.io.files; print({'keras_nplm.io.lock', 'filelock'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\nset()\n"


def test_layers_and_metrics_run_on_every_keras_backend():
    chosen = {"ops", "lookup", "softmax", "energy_ops"}  # TensorFlow's operations where Keras runs on TensorFlow
    for path in [ROOT / "models" / "metrics.py", *(ROOT / "layers").rglob("*.py")]:
        if path.stem not in chosen:
            assert "import tensorflow" not in path.read_text(encoding="utf-8"), f"{path.name} must use keras.ops alone"
