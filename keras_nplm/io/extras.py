"""Optional libraries: which extra of setup.py installs each, and the command for it."""

import importlib
from types import ModuleType

from keras_nplm.io.errors import InputError, summarize_error

DISTRIBUTION = "keras-nplm"
# the extra that installs a library, by the name that is imported
EXTRA_OF = {
    "ai_edge_litert": "litert",
    "tf2onnx": "onnx",
    "onnxruntime": "onnx",
    "backports": "zstd",
    "simplemma": "lemmas",
    "pyarrow": "parquet",
    "ray": "ray",
    "s3fs": "remote",
    "gcsfs": "remote",
    "apache_beam": "beam",
}


def import_extra(module: str, user: str) -> ModuleType:
    """Import a library that only an extra of setup.py installs, a name in `EXTRA_OF`.

    `user` needs it, as in "text.zst".

    Raises:
        InputError: it cannot be imported. The message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        extra = EXTRA_OF[module.partition(".")[0]]
        reason = summarize_error(error)
        fix = f"{format_install_command(extra)}."
        raise InputError(f"{user} needs the extra {extra} ({reason}). Fix: {fix}") from error


def format_install_command(extra: str) -> str:
    """Return the command that installs an extra, in backquotes.

    It needs no index for the package itself: pip takes the one that is installed. In a checkout
    that is not installed it is run there.
    """
    import importlib.metadata  # imported here because its import is slow

    try:
        importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return f"`pip install '.[{extra}]'` in the checkout of {DISTRIBUTION}"
    return f"`pip install '{DISTRIBUTION}[{extra}]'`"
