"""Log-probabilities of held-out tokens under the models of a report, and perplexities of their
mixtures.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.experiments.tables import SPLITS
from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, save_dynamics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.dynamic import make_dynamic
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams.interpolation import combine, fit_weights

Columns = Mapping[str, np.ndarray]  # for each split ln P of each token, float [T], in nats
Build = Callable[[LanguageModel], NextWordModel]


def load_log_probs(
    directory: Path,
    row: str,
    name: str = "",
    build: Build = lambda language_model: language_model.model,
    source: Path | None = None,
) -> Columns:
    """Return ln P of each token under the model that `build` makes of a row; kept until it or
    `source` is rewritten.
    """
    path = directory / "log_probs" / f"{name or row}.npz"
    model = directory / "rows" / row
    newest = max(file.stat().st_mtime for file in (model / "metrics.json", source) if file)
    if not path.exists() or path.stat().st_mtime < newest:
        print(f"computing log-probabilities of {name or row}", file=sys.stderr)
        language_model = LanguageModel.load(model)
        columns = {}
        for split in SPLITS:
            blocks = log_probs(build(language_model), language_model.corpus.ids(split), "stream")
            columns[split] = np.concatenate([log_prob for log_prob, _ in blocks])
        write_arrays(path, columns)
    return read_arrays(path, SPLITS)


def load_dynamic_log_probs(directory: Path, row: str) -> Columns:
    """Return ln P of each token under the model of a row that learns as it reads."""
    dynamics = load_tuned(directory / "rows" / row).dynamics
    return load_log_probs(
        directory,
        row,
        f"{row}-dynamic",
        lambda language_model: make_dynamic(
            language_model.model, dynamics.settings, dynamics.mean_squares
        ),
        directory / "rows" / row / DYNAMICS_FILE,
    )


def load_tuned(directory: Path) -> LanguageModel:
    """Load a model directory with its settings of dynamic evaluation, which are tuned and written
    first if absent.
    """
    language_model = LanguageModel.load(directory)
    if language_model.dynamics is None:
        language_model.dynamics = language_model.tune_dynamic()
        save_dynamics(directory, language_model.dynamics)
    return language_model


def compute_perplexities(columns: Columns) -> dict[str, float]:
    return {split: float(np.exp(-column.mean())) for split, column in columns.items()}


def measure_mixture(
    columns: Mapping[str, Columns], names: Sequence[str], weights: Sequence[float] | None = None
) -> dict:
    """Return the `components` and `weights`, by default fitted on validation, and the perplexities
    of a mixture.
    """
    tables = {split: np.stack([columns[name][split] for name in names], axis=1) for split in SPLITS}
    if weights is None:
        weights = fit_weights(
            tables["validation"], np.zeros(len(tables["validation"]), np.int64), 1
        )[0]
    mixed = {split: combine(table, np.array([weights])) for split, table in tables.items()}
    figures = {"components": list(names), "weights": np.round(weights, 4).tolist()}
    return figures | compute_perplexities(mixed)
