"""Log-probabilities of held-out tokens under the models of a report, and perplexities of their
mixtures.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams.interpolation import combine, fit_weights

Columns = Mapping[str, np.ndarray]  # for each split ln P of each token, float [T], in nats
Build = Callable[[LanguageModel], NextWordModel]
SECONDS = "cpu_seconds"  # of the work that made a file


def load_log_probs(
    directory: Path, row: str, name: str = "", build: Build | None = None
) -> Columns:
    """Return ln P of each token under a row, or under what `build` makes of its model; kept as
    `log_probs/NAME.npz`, with its CPU seconds, until the row is made again.
    """
    model = directory / "rows" / row
    path = directory / "log_probs" / f"{name or row}.npz"
    if not path.exists() or path.stat().st_mtime < (model / "metrics.json").stat().st_mtime:
        print(f"computing log-probabilities of {name or row}", file=sys.stderr)
        language_model = LanguageModel.load(model)
        corpus = EncodedCorpus.load(model / "corpus")
        began = time.process_time()
        columns: dict[str, Any] = {}
        for split in HELD_OUT:
            reader = build(language_model) if build else language_model.model
            blocks = log_probs(reader, corpus.ids(split), "stream")
            columns[split] = np.concatenate([log_prob for log_prob, _ in blocks])
        seconds = np.array(time.process_time() - began)
        write_arrays(path, {**columns, SECONDS: [seconds]})
    return read_arrays(path, HELD_OUT)


def measure_mixture(
    columns: Mapping[str, Columns], names: Sequence[str], weights: Sequence[float] | None = None
) -> dict[str, Any]:
    """Return the `components` and `weights`, by default fitted on validation, and the perplexities
    of a mixture.
    """
    if weights is None:
        weights = fit_weights([columns[name]["validation"] for name in names])[0]
    figures: dict[str, Any] = {"components": [*names], "weights": np.round(weights, 4).tolist()}
    for split in HELD_OUT:
        table = np.stack([columns[name][split] for name in names], axis=1)
        figures[split] = float(np.exp(-combine(table, np.array([weights])).mean()))
    return figures
