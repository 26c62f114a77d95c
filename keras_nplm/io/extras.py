"""Import a library of an optional extra of the package, or say in one line what to install."""

import importlib
from types import ModuleType

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import summarize_error


def import_extra(module: str, extra: str, user: str) -> ModuleType:
    """Import a library that only an extra of setup.py installs. `user` needs it, as in "text.zst"."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        reason = summarize_error(error)
        raise InputError(f"{user} needs {name} ({reason}). Fix: `pip install 'keras-nplm[{extra}]'`.") from error
