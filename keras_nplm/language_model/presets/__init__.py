"""Trained models that the package contains: a model directory each, without corpus and logs.

`reference` is what `keras-nplm train` makes from the Python language reference.
"""

from pathlib import Path

from keras_nplm.io.errors import InputError

PRESETS = ("reference",)


def find_preset(name: str) -> Path:
    """Return the model directory of a preset."""
    if name not in PRESETS:
        raise InputError(
            f"`name` must be one of {', '.join(PRESETS)}. Received: {name!r}. Fix: choose a name, or load a model "
            "directory with `LanguageModel.load`."
        )
    return Path(__file__).parent / name
