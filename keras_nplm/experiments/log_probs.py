"""Log-probabilities of held-out tokens under the models of a report, and perplexities of their
mixtures.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.io.files import read_arrays, read_json, write_arrays, write_json
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, make_learner, save_dynamics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.dynamic import TunedDynamics
from keras_nplm.models.dynamic.settings import add_static
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams.interpolation import combine, fit_weights

Columns = Mapping[str, np.ndarray]  # for each split ln P of each token, float [T], in nats
Build = Callable[[LanguageModel], NextWordModel]
_SECONDS = "cpu_seconds"  # of the work that made a file; files of earlier versions lack it


def _get_model(language_model: LanguageModel) -> NextWordModel:
    return language_model.model


def load_log_probs(
    directory: Path,
    row: str,
    name: str = "",
    build: Build = _get_model,
    source: Path | None = None,
) -> Columns:
    """Return ln P of each token under the model that `build` makes of a row; kept, with its CPU
    seconds, until it or `source` is rewritten.
    """
    name = name or row
    path = _name_file(directory, name)
    model = directory / "rows" / row
    newest = (model / "metrics.json").stat().st_mtime
    if source is not None:
        newest = max(newest, source.stat().st_mtime)
    if not path.exists() or path.stat().st_mtime < newest:
        print(f"computing log-probabilities of {name}", file=sys.stderr)
        language_model = LanguageModel.load(model)
        corpus = EncodedCorpus.load(model / "corpus")
        began = time.process_time()
        columns = {}
        for split in HELD_OUT:
            blocks = log_probs(build(language_model), corpus.ids(split), "stream")
            columns[split] = np.concatenate([log_prob for log_prob, _ in blocks])
        seconds = np.array(time.process_time() - began)
        write_arrays(path, {**columns, _SECONDS: [seconds]})
    return read_arrays(path, HELD_OUT)


def _name_file(directory: Path, name: str) -> Path:
    return directory / "log_probs" / f"{name}.npz"


def load_dynamic_log_probs(directory: Path, row: str) -> Columns:
    """Return ln P of each token under the network of a row that learns as it reads.

    Its copy reads alone: the log-probabilities of the trained network, for its share, are kept.
    """
    model = directory / "rows" / row
    dynamics = load_or_tune_dynamics(model)

    def build(language_model: LanguageModel) -> NextWordModel:
        return make_learner(language_model.model, dynamics, static_share=False)

    copy = load_log_probs(directory, row, _name_copy(row), build, model / DYNAMICS_FILE)
    share = dynamics.settings.static_share
    if not share:
        return copy
    static = load_log_probs(directory, row)
    return {split: add_static(copy[split], static[split], share) for split in HELD_OUT}


def _name_copy(row: str) -> str:
    return f"{row}-copy"


def sum_dynamic_seconds(directory: Path, row: str) -> float | None:
    """Return the CPU seconds of dynamic evaluation of a row: of its tuning, of reading by its copy,
    and of reading by the trained network where that has a share.

    None: an earlier version, or `evaluate --dynamic`, did some of this work without a record.
    """
    content = read_json(directory / "rows" / row / DYNAMICS_FILE)
    parts = [content[_SECONDS]] if _SECONDS in content else []
    names = [_name_copy(row), *([row] if content["settings"].get("static_share") else [])]
    for name in names:
        kept = read_arrays(_name_file(directory, name), lists=[_SECONDS])
        parts += [float(seconds) for seconds in kept[_SECONDS]]
    return sum(parts) if len(parts) == 1 + len(names) else None


def load_or_tune_dynamics(directory: Path) -> TunedDynamics:
    """Load the settings of dynamic evaluation of a model directory, which are tuned and written
    first, with the CPU seconds of tuning, if absent.
    """
    language_model = LanguageModel.load(directory)
    dynamics = language_model.dynamics
    if dynamics is None:
        began = time.process_time()
        dynamics = language_model.tune_dynamic()
        seconds = time.process_time() - began
        save_dynamics(directory, dynamics)
        path = directory / DYNAMICS_FILE
        write_json(path, {**read_json(path), _SECONDS: seconds})
    return dynamics


def compute_perplexities(columns: Columns) -> dict[str, float]:
    return {split: float(np.exp(-column.mean())) for split, column in columns.items()}


def measure_mixture(
    columns: Mapping[str, Columns], names: Sequence[str], weights: Sequence[float] | None = None
) -> dict:
    """Return the `components` and `weights`, by default fitted on validation, and the perplexities
    of a mixture.
    """
    if weights is None:
        weights = fit_weights([columns[name]["validation"] for name in names])[0]
    mixed = {}
    for split in HELD_OUT:
        table = np.stack([columns[name][split] for name in names], axis=1)
        mixed[split] = combine(table, np.array([weights]))
    return {
        "components": list(names),
        "weights": np.round(weights, 4).tolist(),
        **compute_perplexities(mixed),
    }
