"""Log-probabilities of held-out tokens under the models of a report, and perplexities of their
mixtures.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, make_learner, save_dynamics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.dynamic import TunedDynamics
from keras_nplm.models.dynamic.settings import add_static
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams.interpolation import combine, fit_weights

Columns = Mapping[str, np.ndarray]  # for each split ln P of each token, float [T], in nats
Build = Callable[[LanguageModel], NextWordModel]


def _get_model(language_model: LanguageModel) -> NextWordModel:
    return language_model.model


def load_log_probs(
    directory: Path,
    row: str,
    name: str = "",
    build: Build = _get_model,
    source: Path | None = None,
) -> Columns:
    """Return ln P of each token under the model that `build` makes of a row; kept until it or
    `source` is rewritten.
    """
    name = name or row
    path = directory / "log_probs" / f"{name}.npz"
    model = directory / "rows" / row
    newest = (model / "metrics.json").stat().st_mtime
    if source is not None:
        newest = max(newest, source.stat().st_mtime)
    if not path.exists() or path.stat().st_mtime < newest:
        print(f"computing log-probabilities of {name}", file=sys.stderr)
        language_model = LanguageModel.load(model)
        corpus = EncodedCorpus.load(model / "corpus")
        columns = {}
        for split in HELD_OUT:
            blocks = log_probs(build(language_model), corpus.ids(split), "stream")
            columns[split] = np.concatenate([log_prob for log_prob, _ in blocks])
        write_arrays(path, columns)
    return read_arrays(path, HELD_OUT)


def load_dynamic_log_probs(directory: Path, row: str) -> Columns:
    """Return ln P of each token under the network of a row that learns as it reads.

    Its copy reads alone: the log-probabilities of the trained network, for its share, are kept.
    """
    model = directory / "rows" / row
    dynamics = load_or_tune_dynamics(model)

    def build(language_model: LanguageModel) -> NextWordModel:
        return make_learner(language_model.model, dynamics, static_share=False)

    copy = load_log_probs(directory, row, f"{row}-copy", build, model / DYNAMICS_FILE)
    share = dynamics.settings.static_share
    if not share:
        return copy
    static = load_log_probs(directory, row)
    return {split: add_static(copy[split], static[split], share) for split in HELD_OUT}


def load_or_tune_dynamics(directory: Path) -> TunedDynamics:
    """Load the settings of dynamic evaluation of a model directory, which are tuned and written
    first if absent.
    """
    language_model = LanguageModel.load(directory)
    dynamics = language_model.dynamics
    if dynamics is None:
        dynamics = language_model.tune_dynamic()
        save_dynamics(directory, dynamics)
    return dynamics


def compute_perplexities(columns: Columns) -> dict[str, float]:
    return {split: float(np.exp(-column.mean())) for split, column in columns.items()}


def measure_mixture(
    columns: Mapping[str, Columns], names: Sequence[str], weights: Sequence[float] | None = None
) -> dict:
    """Return the `components` and `weights`, by default fitted on validation, and the perplexities
    of a mixture.
    """
    tables = {
        split: np.stack([columns[name][split] for name in names], axis=1) for split in HELD_OUT
    }
    if weights is None:
        one_bin = np.zeros(len(tables["validation"]), np.int64)
        weights = fit_weights(tables["validation"], one_bin, 1)[0]
    mixed = {split: combine(table, np.array([weights])) for split, table in tables.items()}
    return {
        "components": list(names),
        "weights": np.round(weights, 4).tolist(),
        **compute_perplexities(mixed),
    }
