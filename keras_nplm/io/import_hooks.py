"""Import hooks: import modules of this package right after a library, or import a library within a context manager."""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import ModuleType


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
        return

    @contextlib.contextmanager
    def import_afterwards() -> Iterator[None]:
        yield
        _import_all(modules)

    run_around_import(library, import_afterwards)


def run_around_import(library: str, context: Callable[[], AbstractContextManager]) -> None:
    """Import `library` within a context manager, when it is imported for the first time.

    Args:
        library: name of a top-level module that is not yet imported.
        context: makes the context manager.
    """
    sys.meta_path.insert(0, _Finder(library, context))


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Find `library` as the other finders do, and let its loader run within the context manager."""

    def __init__(self, library: str, context: Callable[[], AbstractContextManager]):
        self.library = library
        self.context = context
        self.searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.library or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.searching = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_within_context(module: ModuleType) -> None:
                with self.context():
                    execute(module)
                if self in sys.meta_path:  # until here: `find_spec` alone imports nothing, and an import may fail
                    sys.meta_path.remove(self)

            spec.loader.exec_module = execute_within_context
        return spec
