"""Models that learn as they read on Brown, alone and with n-grams, word classes and caches.

Brown's splits have other genres than its training text. Dynamic evaluation predicts a chunk of the
text and then takes a step on it, with settings tuned for each network on the beginning of
validation. The first of the three networks has a pointer to 1,000 words, the second is narrower
with another seed, and the third has a pointer to 240 words. Caches hold the last 2,000 words; their
decay and flatness, and all weights, are the best on validation. `held_out_mass` is 0.
"""

import functools
from pathlib import Path

from keras_nplm.experiments.benchmark.quality import CACHE_LENGTH, OURS, build_continuous_cache
from keras_nplm.experiments.log_probs import (
    Build,
    Columns,
    compute_perplexities,
    load_dynamic_log_probs,
    load_log_probs,
    load_or_tune_dynamics,
    measure_mixture,
)
from keras_nplm.experiments.paper import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table, split_columns
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.caches import NgramCache, UnigramCache

_SHORT = OURS[300][0]
_LONG = OURS[3000][0]
# not tied, as the first one: a tied output was measured with 240 words only
_NARROW = (
    "train --config modern-pointer --held-out-mass 0 --seed 2 --epochs 7 --order 1001"
    " --no-tied-output --dropout 0.3 --embedding-dropout 0.1"
)
NETWORKS = [
    _LONG,
    Row("modern-pointer-narrow-2", "modern-pointer to 1,000 words, 7 epochs", _NARROW),
    _SHORT,
]
_STATIC = [row.name for row in NETWORKS]
_DYNAMIC = [f"{name}-dynamic" for name in _STATIC]
_NGRAM_MODELS = ["kneser-ney-5", "class-500-3"]
_CACHES = ["unigram cache", "n-gram cache", "continuous cache"]  # see `_CANDIDATES`
MIXTURES = {
    "one network": [_STATIC[0]],
    "one network, dynamic": [_DYNAMIC[0]],
    "one network, dynamic, n-grams, classes, caches": [_DYNAMIC[0], *_NGRAM_MODELS, *_CACHES],
    "three networks, dynamic": _DYNAMIC,
    "three networks, dynamic, n-grams, classes, caches": [*_DYNAMIC, *_NGRAM_MODELS, *_CACHES],
}
_DECAYS = (200, 500, 1000)
_FLATNESS = (0.05, 0.1, 0.2)


def _format_weights(row: dict) -> str:
    return ", ".join(f"{weight:.2f}" for weight in row["weights"])


TABLE = Table(
    "mixtures",
    [
        ("model", "title", ""),
        *split_columns(),
        ("test, to Kneser-Ney", "change", "+.1%"),
        ("weights", _format_weights, ""),
    ],
    "Dynamic evaluation: {settings}",
)


def _build_unigram_cache(language_model: LanguageModel, decay: float) -> UnigramCache:
    return UnigramCache(len(language_model.vocabulary), "stream", decay, CACHE_LENGTH)


def _build_ngram_cache(language_model: LanguageModel, decay: float) -> NgramCache:
    return NgramCache(len(language_model.vocabulary), "stream", decay, CACHE_LENGTH)


_CANDIDATES: dict[str, dict[str, Build]] = {  # of each kind of cache, by name
    "unigram cache": {
        f"unigram-cache-{decay}": functools.partial(_build_unigram_cache, decay=decay)
        for decay in _DECAYS
    },
    "n-gram cache": {
        f"ngram-cache-{decay}": functools.partial(_build_ngram_cache, decay=decay)
        for decay in _DECAYS
    },
    "continuous cache": {
        f"{_LONG.name}-cache-{flatness}": functools.partial(
            build_continuous_cache, flatness=flatness
        )
        for flatness in _FLATNESS
    },
}


def _measure(directory: Path) -> dict:
    first = _STATIC[0]
    columns = {name: load_log_probs(directory, name) for name in (*_STATIC, *_NGRAM_MODELS)}
    for name, dynamic in zip(_STATIC, _DYNAMIC, strict=True):
        columns[dynamic] = load_dynamic_log_probs(directory, name)
    for cache, builds in _CANDIDATES.items():
        candidates = [
            load_log_probs(directory, first, name, build) for name, build in builds.items()
        ]
        columns[cache] = _choose_cache(columns[_DYNAMIC[0]], candidates)
    kneser_ney = compute_perplexities(columns[_NGRAM_MODELS[0]])
    mixtures = []
    for title, names in MIXTURES.items():
        figures = measure_mixture(columns, names)
        change = figures["test"] / kneser_ney["test"] - 1
        mixtures.append({"title": title, **figures, "change": change})
    settings = str(load_or_tune_dynamics(directory / "rows" / first).settings)
    return {"settings": settings, "mixtures": mixtures, "kneser_ney": kneser_ney}


def _choose_cache(network: Columns, caches: list[Columns]) -> Columns:
    """Return the cache with the best validation perplexity in a mixture with a network."""

    def measure_with(cache: Columns) -> float:
        mixture = measure_mixture({"network": network, "cache": cache}, ["network", "cache"])
        return mixture["validation"]

    return min(caches, key=measure_with)


STUDY = Study(__doc__, [TABLE], (*NETWORKS, *map(find_row, _NGRAM_MODELS)), measure=_measure)
