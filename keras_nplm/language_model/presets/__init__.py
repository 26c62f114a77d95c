"""Trained models of the package, model directories without corpus: `reference` is the network of
`keras-nplm train`.
"""

from pathlib import Path

from keras_nplm.io.errors import check_argument

PRESETS = ("reference",)


def find_preset(name: str) -> Path:
    """Return the model directory of a preset."""
    fix = "choose a name, or load a model directory with `LanguageModel.load`."
    check_argument("name", name in PRESETS, f"one of {', '.join(PRESETS)}", repr(name), fix)
    return Path(__file__).parent / name
