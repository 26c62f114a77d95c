"""Studies on Brown beyond the paper's Table 1: a module declares each, and is imported when its study is loaded."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_nplm.experiments.study import Study

STUDIES = ("configurations", "default", "dynamic", "modern", "tokenization")


def load_study(name: str, **options: Any) -> "Study":
    """Import and return the study with a name of `STUDIES`.

    Args:
        name: the name.
        options: files and directories of the user, for studies that take them: `texts` and `character_texts` of
            `default`, `pages` of `tokenization`.
    """
    module = importlib.import_module(f"{__name__}.{name}")
    return module.build_study(**options) if options else module.STUDY
