"""Import a library of an optional extra of the package, or say in one line what to install."""

import importlib
from types import ModuleType

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import summarize_error


def import_extra(module: str, extra: str, user: str) -> ModuleType:
    """Import a library that only one extra of the package installs.

    Args:
        module: full name of the module.
        extra: name of the extra in setup.py.
        user: what needs the library, for the error.

    Raises:
        InputError: the library, or one that it imports, is absent or too old.

    Example:

    >>> import_extra("absent_library", "zstd", "text.zst")
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: text.zst needs absent_library (No module named 'absent_library'). Fix: `pip install
    'keras-nplm[zstd]'`.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise InputError(
            f"{user} needs {name} ({summarize_error(error)}). Fix: `pip install 'keras-nplm[{extra}]'`."
        ) from error
