"""Trained models of the package, model directories without corpus: `starter` is what
`keras-nplm train` makes of the embedded text.
"""

from pathlib import Path

from keras_nplm.io.errors import check_argument

PRESETS = ("starter",)


def find_preset(name: str) -> Path:
    """Return the model directory of a preset."""
    fix = "choose a name, or load a model directory with `LanguageModel.load`."
    check_argument("name", name in PRESETS, f"one of {', '.join(PRESETS)}", repr(name), fix)
    return Path(__file__).parent / name
