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
        raise InputError(
            f"{user} needs the extra {extra} ({summarize_error(error)}). Fix: `pip install "
            f"'{DISTRIBUTION}[{extra}]'`."
        ) from error
