"""Log-probabilities of held-out tokens under the models of a report, and perplexities of their mixtures."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, save_dynamics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.dynamic import make_dynamic
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams.interpolation import combine, fit_weights

SPLITS = ("validation", "test")

Columns = Mapping[str, np.ndarray]  # for each split ln P of each token, float [T]


def compute_log_probs(model: NextWordModel, ids: np.ndarray, boundary: str = "stream") -> np.ndarray:
    """Return ln P of each predicted token of a text, float [T], in nats. Brown is a stream, as in the paper."""
    return np.concatenate([log_prob for log_prob, _ in log_probs(model, ids, boundary)])


def load_log_probs(directory: Path, name: str) -> dict[str, np.ndarray]:
    """Return ln P of each token of validation and test under the model of a row.

    The file `log_probs/NAME.npz` keeps the result until the model is retrained.

    Args:
        directory: the directory of `rows/`.
        name: the name of the row.

    Returns:
        for each split a float array [T], in nats.
    """

    def compute() -> Columns:
        language_model = LanguageModel.load(directory / "rows" / name)
        return {s: compute_log_probs(language_model.model, language_model.corpus.ids(s)) for s in SPLITS}

    return keep_log_probs(directory, name, directory / "rows" / name / "metrics.json", compute)


def load_tuned(directory: Path) -> LanguageModel:
    """Load a model directory with its settings of dynamic evaluation, which are tuned and written first if absent."""
    language_model = LanguageModel.load(directory)
    if language_model.dynamics is None:
        language_model.dynamics = language_model.tune_dynamic()
        save_dynamics(directory, language_model.dynamics)
    return language_model


def load_dynamic_log_probs(directory: Path, name: str, tuned: str | None = None) -> dict[str, np.ndarray]:
    """Return ln P of each token under the model of a row that learns as it reads, as `load_log_probs` does.

    The file is `log_probs/NAME-dynamic.npz`. Each split is read from its beginning with the trained weights.

    Args:
        directory: the directory of `rows/`.
        name: the name of the row.
        tuned: the row whose settings are used; see `load_tuned`. Default: the same row.
    """
    rows = directory / "rows"
    tuned = tuned or name
    dynamics = load_tuned(rows / tuned).dynamics

    def compute() -> Columns:
        language_model = LanguageModel.load(rows / name)
        columns = {}
        for split in SPLITS:
            learner = make_dynamic(language_model.model, dynamics.settings, dynamics.mean_squares)
            columns[split] = compute_log_probs(learner, language_model.corpus.ids(split))
        return columns

    sources = rows / name / "metrics.json", rows / tuned / DYNAMICS_FILE
    return keep_log_probs(directory, f"{name}-dynamic", max(sources, key=lambda path: path.stat().st_mtime), compute)


def keep_log_probs(directory: Path, name: str, source: Path, compute: Callable[[], Columns]) -> dict[str, np.ndarray]:
    """Return `log_probs/NAME.npz`; computed and written first if it is absent, or older than the file `source`."""
    path = directory / "log_probs" / f"{name}.npz"
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        print(f"computing log-probabilities of {name}", file=sys.stderr)
        write_arrays(path, dict(compute()))
    return read_arrays(path, SPLITS)


def compute_perplexities(columns: Columns) -> dict[str, float]:
    """Return the perplexity of each split."""
    return {split: float(np.exp(-column.mean())) for split, column in columns.items()}


def measure_mixture(
    columns: Mapping[str, Columns],
    names: Sequence[str],
    weights: Sequence[float] | None = None,
    bins: Mapping[str, np.ndarray] | None = None,
) -> dict:
    """Return the perplexities of a mixture of models.

    Args:
        columns: the log-probabilities of each model by name; see `load_log_probs`.
        names: the components.
        weights: the weight of each component. Default: fitted on validation.
        bins: for each split the bin of each token, int [T]; fitted weights are separate for each bin. Default: one bin.

    Returns:
        `components`; `weights`, with bins their mean over the tokens of validation; the perplexity of each split.
    """
    tables = {split: np.stack([columns[name][split] for name in names], axis=1) for split in SPLITS}
    bins = bins or {split: np.zeros(len(tables[split]), np.int64) for split in SPLITS}
    num_bins = 1 + max(int(bins[split].max()) for split in SPLITS)
    rows = fit_weights(tables["validation"], bins["validation"], num_bins) if weights is None else np.array([weights])
    mixed = {split: combine(tables[split], rows[bins[split]]) for split in SPLITS}
    mean_weights = rows[bins["validation"]].mean(axis=0).round(4).tolist()
    return {"components": list(names), "weights": mean_weights} | compute_perplexities(mixed)
