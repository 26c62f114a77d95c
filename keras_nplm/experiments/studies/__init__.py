"""Studies on Brown beyond the paper's Table 1: a module declares each, and is imported when its study is loaded."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_nplm.experiments.study import Study

STUDIES = ("configurations", "default", "dynamic", "modern", "tokenization")


def load_study(name: str) -> "Study":
    """Import and return the study with a name of `STUDIES`."""
    return importlib.import_module(f"{__name__}.{name}").STUDY
