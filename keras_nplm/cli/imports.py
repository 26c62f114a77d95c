"""What commands leave out when they import TensorFlow: a third of the time of the import.

With it `keras-nplm evaluate` of the starter takes 7 CPU seconds, and 10.7 without it.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

# Keras and TensorFlow import them where they are installed, for functions that no command calls:
# galleries of images, wrappers for scikit-learn, sparse arrays, tables, widgets
_OPTIONAL = ("IPython", "matplotlib", "pandas", "scipy", "sklearn")


@contextlib.contextmanager
def leave_out_optional_libraries() -> Iterator[None]:
    """Let Keras and TensorFlow find none of these libraries within the block.

    Our own modules, which import them before or afterwards, find them as usual.
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Refuse the optional libraries while Keras or TensorFlow is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if name in _OPTIONAL and any(map(_is_being_imported, ("keras", "tensorflow"))):
            raise ModuleNotFoundError(f"{name} is left out by commands", name=name)
        return None  # the next finder answers


def _is_being_imported(name: str) -> bool:
    """Return whether the import of a library has begun, and its version is not yet known."""
    return name in sys.modules and not hasattr(sys.modules[name], "__version__")
