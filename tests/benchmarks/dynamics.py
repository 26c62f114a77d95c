"""Models that learn as they read, caches, and mixtures of both with n-gram models."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm import LanguageModel
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments.log_probs import SECONDS, Columns, load_log_probs, measure_mixture
from keras_nplm.io.files import read_arrays, read_json, write_json
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, save_dynamics
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.caches import ContinuousCache, NgramCache, UnigramCache
from keras_nplm.models.dynamic import TunedDynamics, make_dynamic
from keras_nplm.models.dynamic.settings import add_static

FLATNESS = (0.05, 0.1, 0.2, 0.4, 0.8)  # candidates of the continuous cache
_DECAYS = (200, 500, 1000)  # candidates of the other caches
_LENGTH = 2000  # words of a cache


def load_dynamic(directory: Path, row: str) -> tuple[Columns, TunedDynamics, float]:
    """Return ln P of each token under the network of a row that learns as it reads, its settings,
    which are tuned first, and the CPU seconds of tuning and reading.

    The copy that learns reads alone: ln P of the trained network, for its share, is kept.
    """
    model = directory / "rows" / row
    path = model / DYNAMICS_FILE
    copy = f"{row}-copy"
    if not path.exists() or SECONDS not in read_json(path):
        began = time.process_time()
        tuned = LanguageModel.load(model).tune_dynamic()
        seconds = time.process_time() - began
        save_dynamics(model, tuned)
        write_json(path, {**read_json(path), SECONDS: seconds})
        (directory / "log_probs" / f"{copy}.npz").unlink(missing_ok=True)
    dynamics = LanguageModel.load(model).dynamics

    def build(language_model: LanguageModel) -> NextWordModel:
        settings = dataclasses.replace(dynamics.settings, static_share=0.0)
        return make_dynamic(language_model.model, settings, dynamics.mean_squares)

    columns = load_log_probs(directory, row, copy, build)
    seconds = read_json(path)[SECONDS] + _read_seconds(directory, copy)
    if share := dynamics.settings.static_share:
        static = load_log_probs(directory, row)
        columns = {split: add_static(columns[split], static[split], share) for split in HELD_OUT}
        seconds += _read_seconds(directory, row)
    return columns, dynamics, seconds


def _read_seconds(directory: Path, name: str) -> float:
    [seconds] = read_arrays(directory / "log_probs" / f"{name}.npz", lists=[SECONDS])[SECONDS]
    return float(seconds)


def load_continuous_caches(directory: Path, row: str) -> list[Columns]:
    """Return ln P of each token under the continuous cache of a row, for each flatness."""
    caches = []
    for flatness in FLATNESS:

        def build(language_model: LanguageModel, flatness: float = flatness) -> NextWordModel:
            return ContinuousCache(language_model.model, flatness, _LENGTH)

        caches.append(load_log_probs(directory, row, f"{row}-cache-{flatness}", build))
    return caches


def _load_caches(directory: Path, row: str) -> dict[str, list[Columns]]:
    """Return the candidates of each kind of cache."""
    kinds = {"unigram cache": UnigramCache, "n-gram cache": NgramCache}
    found: dict[str, list[Columns]] = {"continuous cache": load_continuous_caches(directory, row)}
    for title, kind in kinds.items():
        found[title] = []
        for decay in _DECAYS:

            def build(model: LanguageModel, kind: type = kind, decay: float = decay) -> Any:
                return kind(len(model.vocabulary), "stream", decay, _LENGTH)

            name = f"{title.replace(' ', '-')}-{decay}"
            found[title].append(load_log_probs(directory, row, name, build))
    return found


def measure_best_cache(network: Columns, caches: Sequence[Columns]) -> tuple[dict, Columns]:
    """Return the mixture of a network with the cache that is best on validation, and this cache."""
    mixtures = [
        (measure_mixture({"network": network, "cache": cache}, ["network", "cache"]), cache)
        for cache in caches
    ]
    return min(mixtures, key=lambda pair: pair[0]["validation"])


def measure_mixtures(study: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the report of the study `dynamic`: its mixtures by title, of rows, `NAME-dynamic` and
    caches of the first row.
    """
    names = [row["name"] for row in study["rows"]]
    columns = {name: load_log_probs(directory, name) for name in names}
    settings = []
    for name in study["dynamic"]:
        columns[f"{name}-dynamic"], dynamics, _ = load_dynamic(directory, name)
        settings.append(str(dynamics.settings))
    first = columns[f"{names[0]}-dynamic"]
    for title, caches in _load_caches(directory, names[0]).items():
        columns[title] = measure_best_cache(first, caches)[1]
    kneser_ney = measure_mixture(columns, [study["kneser_ney"]])["test"]
    rows = []
    for title, components in study["mixtures"].items():
        figures = measure_mixture(columns, components)
        rows.append({"title": title, **figures, "change": figures["test"] / kneser_ney - 1})
    return {"rows": rows, "settings": settings[0]}
