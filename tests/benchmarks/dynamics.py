"""Models that learn as they read, caches, and mixtures of both with n-gram models."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm import LanguageModel
from keras_nplm.experiments.log_probs import SECONDS, Columns, load_log_probs, measure_mixture
from keras_nplm.io.files import read_arrays, read_json, write_json
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.caches import ContinuousCache, NgramCache, UnigramCache
from keras_nplm.models.dynamic import DynamicSettings, TunedDynamics, make_dynamic

FLATNESS = (0.05, 0.1, 0.2, 0.4, 0.8)  # candidates of the continuous cache
_DECAYS = (200, 500, 1000)  # candidates of the other caches
_LENGTH = 2000  # words of a cache
_CACHES: dict[str, tuple[Sequence[float], Callable[[float, LanguageModel], NextWordModel]]] = {
    "continuous cache": (
        FLATNESS,
        lambda flatness, of: ContinuousCache(of.model, flatness, _LENGTH),
    ),
    "unigram cache": (
        _DECAYS,
        lambda decay, of: UnigramCache(len(of.vocabulary), "stream", decay, _LENGTH),
    ),
    "n-gram cache": (
        _DECAYS,
        lambda decay, of: NgramCache(len(of.vocabulary), "stream", decay, _LENGTH),
    ),
}


def load_dynamic(directory: Path, row: str) -> tuple[Columns, DynamicSettings, float]:
    """Return ln P of each token under the network of a row that learns as it reads, its settings,
    which are tuned first, and the CPU seconds of tuning and reading.
    """
    name = f"{row}-dynamic"
    kept = directory / "log_probs" / f"{name}.json"

    @functools.cache  # both splits are read with the same settings
    def tune(language_model: LanguageModel) -> TunedDynamics:
        tuned = language_model.tune_dynamic()
        write_json(kept, dataclasses.asdict(tuned.settings))
        return tuned

    def build(language_model: LanguageModel) -> NextWordModel:
        tuned = tune(language_model)
        return make_dynamic(language_model.model, tuned.settings, tuned.mean_squares)

    columns = load_log_probs(directory, row, name, build)
    [seconds] = read_arrays(kept.with_suffix(".npz"), lists=[SECONDS])[SECONDS]
    return columns, DynamicSettings(**read_json(kept)), float(seconds)


def load_caches(directory: Path, row: str, kind: str) -> list[Columns]:
    """Return ln P of each token under the candidates of a kind of cache of a row."""
    candidates, make = _CACHES[kind]
    caches = []
    for candidate in candidates:
        name = f"{row}-{kind.replace(' ', '-')}-{candidate}"
        caches.append(load_log_probs(directory, row, name, functools.partial(make, candidate)))
    return caches


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
    for name in study["dynamic"]:
        columns[f"{name}-dynamic"], _, _ = load_dynamic(directory, name)
    first, settings, _ = load_dynamic(directory, names[0])
    for kind in _CACHES:
        columns[kind] = measure_best_cache(first, load_caches(directory, names[0], kind))[1]
    kneser_ney = measure_mixture(columns, [study["kneser_ney"]])["test"]
    rows = []
    for title, components in study["mixtures"].items():
        figures = measure_mixture(columns, components)
        rows.append({"title": title, **figures, "change": figures["test"] / kneser_ney - 1})
    return {"rows": rows, "settings": str(settings)}
