"""Import modules of this package right after another library is imported (post-import hook)."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence


def run_after_import(library: str, modules: Sequence[str]) -> None:
    """Import `modules` as soon as `library` is imported, or now if it already is.

    Keras and TensorFlow Datasets find a class by its registered name. The class is registered when its module is
    imported, which a lazy `keras_nplm/__init__.py` postpones. With this hook `keras.models.load_model(path)` and
    `tfds.load("brown")` work right after `import keras_nplm`.

    Args:
        library: name of a top-level module, such as `"keras"`.
        modules: full names of the modules to import after it.
    """
    if library in sys.modules:
        _import_all(modules)
    elif not any(isinstance(finder, _Finder) and finder.library == library for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(library, modules))


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Find `library` as the other finders do, and add the imports to the execution of its loader."""

    def __init__(self, library: str, modules: Sequence[str]):
        self.library = library
        self.modules = modules

    def find_spec(self, fullname, path=None, target=None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.library:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_import(module):
                execute(module)
                _import_all(self.modules)

            spec.loader.exec_module = execute_and_import
        return spec
