"""Models that learn as they read on Brown, alone and with n-grams, word classes and caches.

Brown's splits have other genres than its training text. Dynamic evaluation predicts a chunk of the
text and then takes a step on it, with settings tuned for each network on the beginning of
validation. The first of the three networks has a pointer to 1,000 words, the second is narrower
with another seed, and the third has a pointer to 240 words. Caches hold the last 2,000 words; decay
and flatness are those with the best validation perplexity next to the first network, dynamic.
Weights of mixtures are fitted on validation. `held_out_mass` is 0.
"""

from pathlib import Path

from keras_nplm.experiments import log_probs
from keras_nplm.experiments.benchmark.quality import OURS
from keras_nplm.experiments.paper import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table, split_columns
from keras_nplm.models.caches import ContinuousCache, NgramCache, UnigramCache

_SHORT = OURS[300][0]
_LONG = OURS[3000][0]
_NARROW = "train --config modern-pointer --held-out-mass 0 --seed 2 --epochs 7 --order 1001"
NETWORKS = [
    _LONG,
    Row("modern-pointer-narrow-2", "modern-pointer to 1,000 words, 7 epochs", _NARROW),
    _SHORT,
]
_STATIC = [row.name for row in NETWORKS]
_DYNAMIC = [f"{name}-dynamic" for name in _STATIC]
_NGRAM_MODELS = ["kneser-ney-5", "class-500-3"]
_CACHES = ["unigram cache", "n-gram cache", "continuous cache"]
MIXTURES = {
    "one network": [_STATIC[0]],
    "one network, caches": [_STATIC[0], *_CACHES],
    "one network, n-grams, classes, caches": [_STATIC[0], *_NGRAM_MODELS, *_CACHES],
    "three networks": _STATIC,
    "three networks, n-grams, classes, caches": [*_STATIC, *_NGRAM_MODELS, *_CACHES],
    "one network, dynamic": [_DYNAMIC[0]],
    "one network, dynamic, n-grams, classes, caches": [_DYNAMIC[0], *_NGRAM_MODELS, *_CACHES],
    "three networks, dynamic": _DYNAMIC,
    "three networks, dynamic, n-grams, classes, caches": [*_DYNAMIC, *_NGRAM_MODELS, *_CACHES],
}
_DECAYS = (200, 500, 1000)
_FLATNESS = (0.05, 0.1, 0.2)
_MIXTURE = [("model", "title", ""), *split_columns(), ("test, to Kneser-Ney", "change", "+.1%")]
_WEIGHTS = ("weights", lambda row: ", ".join(map("{:.2f}".format, row["weights"])), "")
TABLE = Table("mixtures", [*_MIXTURE, _WEIGHTS], "Dynamic evaluation: {settings}")
_CANDIDATES: list[dict[str, log_probs.Build]] = [  # of each kind of cache, by name
    {
        f"unigram-cache-{d}": lambda m, d=d: UnigramCache(len(m.vocabulary), "stream", d, 2000)
        for d in _DECAYS
    },
    {
        f"ngram-cache-{d}": lambda m, d=d: NgramCache(len(m.vocabulary), "stream", d, 2000)
        for d in _DECAYS
    },
    {
        f"{_LONG.name}-cache-{f}": lambda m, f=f: ContinuousCache(m.model, f, 2000)
        for f in _FLATNESS
    },
]


def _measure(directory: Path) -> dict:
    first = _STATIC[0]
    columns = {
        name: log_probs.load_log_probs(directory, name) for name in (*_STATIC, *_NGRAM_MODELS)
    }
    for name, dynamic in zip(_STATIC, _DYNAMIC, strict=True):
        columns[dynamic] = log_probs.load_dynamic_log_probs(directory, name)
    # the best next to the dynamic network
    for cache, candidates in zip(_CACHES, _CANDIDATES, strict=True):
        loaded = [
            log_probs.load_log_probs(directory, first, name, build)
            for name, build in candidates.items()
        ]
        pairs = [{"": columns[_DYNAMIC[0]], "cache": candidate} for candidate in loaded]
        columns[cache] = min(
            pairs, key=lambda pair: log_probs.measure_mixture(pair, [*pair])["validation"]
        )["cache"]
    kneser_ney = log_probs.compute_perplexities(columns[_NGRAM_MODELS[0]])
    mixtures = [
        {"title": title} | log_probs.measure_mixture(columns, names)
        for title, names in MIXTURES.items()
    ]
    for row in mixtures:
        row["change"] = row["test"] / kneser_ney["test"] - 1
    settings = str(log_probs.load_tuned(directory / "rows" / first).dynamics.settings)
    return {"settings": settings, "mixtures": mixtures, "kneser_ney": kneser_ney}


STUDY = Study(__doc__, [TABLE], (*NETWORKS, *map(find_row, _NGRAM_MODELS)), _measure)
