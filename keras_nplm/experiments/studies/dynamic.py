"""Study `dynamic`: models that learn as they read on Brown, alone and with n-grams, word classes, caches and seeds.

Brown's splits have other genres than its training text. Dynamic evaluation predicts a chunk of the text and then takes
a step on it; see `keras_nplm.models.dynamic`. Its settings are tuned on the beginning of validation with seed 1. Each
split is read from its beginning with the trained weights. Caches hold the last 2,000 words; decay and flatness are
those with the best validation perplexity next to the dynamic network. Weights of mixtures are fitted on validation.
"That follow" are weights that move along the text by online EM, at the best rate on validation. The last table
leaves one part out of the mixture of everything. `held_out_mass` is 0.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keras_nplm.experiments.log_probs import (
    SPLITS,
    Columns,
    compute_log_probs,
    compute_perplexities,
    keep_log_probs,
    load_dynamic_log_probs,
    load_log_probs,
    load_tuned,
    measure_mixture,
)
from keras_nplm.experiments.paper_rows import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import SPLIT_HEADER, format_weights, join_tables
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.caches import ContinuousCache, NgramCache, UnigramCache
from keras_nplm.models.dynamic.mixture import FollowingWeights

_SEEDS = 3
_NETWORKS = tuple(f"modern-pointer-held-out-{seed}" for seed in range(1, _SEEDS + 1))
_TRAIN = "train --config modern-pointer --held-out-mass 0"
_NGRAM_MODELS = ("kneser-ney-5", "class-500-3")
_LENGTH = 2000  # words of a cache
_DECAYS = (200, 500, 1000)
_FLATNESS = (0.05, 0.1, 0.2)
_RATES = (0.001, 0.003, 0.01, 0.03)
ROWS = (
    *(
        Row(name, "`modern-pointer`, no held-out mass", f"{_TRAIN} --seed {seed}")
        for seed, name in enumerate(_NETWORKS, start=1)
    ),
    *map(find_row, _NGRAM_MODELS),
)


def measure(rows: Path) -> dict:
    """Return the perplexities of single models and mixtures, static and dynamic, and of the ablation."""
    directory = rows.parent
    first = load_tuned(rows / _NETWORKS[0])
    columns = {name: load_log_probs(directory, name) for name in (*_NETWORKS, *_NGRAM_MODELS)}
    columns |= {_dynamic(name): load_dynamic_log_probs(directory, name, _NETWORKS[0]) for name in _NETWORKS}
    columns |= _choose_caches(directory, first, columns)
    caches = ["unigram cache", "n-gram cache", "continuous cache"]
    static, dynamic = list(_NETWORKS), [_dynamic(name) for name in _NETWORKS]
    everything = [*dynamic, *_NGRAM_MODELS, *caches]
    mixtures = {
        "one network": [static[0]],
        "one network, caches": [static[0], *caches],
        "one network, n-grams, classes, caches": [static[0], *_NGRAM_MODELS, *caches],
        "three seeds": static,
        "three seeds, n-grams, classes, caches": [*static, *_NGRAM_MODELS, *caches],
        "one network, dynamic": [dynamic[0]],
        **{f"one network, dynamic, {cache}": [dynamic[0], cache] for cache in caches},
        "one network, dynamic, Kneser-Ney, caches": [dynamic[0], _NGRAM_MODELS[0], *caches],
        "one network, dynamic, n-grams, classes, caches": [dynamic[0], *_NGRAM_MODELS, *caches],
        "three seeds, dynamic": dynamic,
        "three seeds, dynamic, n-grams, classes, caches": everything,
    }
    report = {"settings": str(first.dynamics.settings), "mixtures": [], "ablation": []}
    for title, names in mixtures.items():
        report["mixtures"].append({"title": title, **_measure(columns, names)})
    report["mixtures"].append({"title": "the same, weights that follow", **_follow(columns, everything)})
    without = {
        "dynamic evaluation": [*static, *_NGRAM_MODELS, *caches],
        "two seeds": [dynamic[0], *_NGRAM_MODELS, *caches],
        "Kneser-Ney": [name for name in everything if name != _NGRAM_MODELS[0]],
        "word classes": [name for name in everything if name != _NGRAM_MODELS[1]],
        **{f"the {cache}": [name for name in everything if name != cache] for cache in caches},
        "all caches": [name for name in everything if name not in caches],
    }
    for part, names in without.items():
        report["ablation"].append({"title": part, **_measure(columns, names)})
    return report | {"kneser_ney": compute_perplexities(columns[_NGRAM_MODELS[0]])}


def _dynamic(name: str) -> str:
    return f"{name}-dynamic"


def _choose_caches(directory: Path, language_model: LanguageModel, columns: dict) -> dict[str, Columns]:
    """Return the columns of the cache of each kind that suits the dynamic network best."""
    network, corpus = language_model.model, language_model.corpus
    source = directory / "rows" / _NETWORKS[0] / "metrics.json"

    def keep(name: str, cache: NextWordModel) -> Columns:
        return keep_log_probs(
            directory, name, source, lambda: {s: compute_log_probs(cache, corpus.ids(s)) for s in SPLITS}
        )

    def choose(candidates: Iterable[Columns]) -> Columns:
        base = _dynamic(_NETWORKS[0])
        mixed = [(c, measure_mixture({base: columns[base], "": c}, [base, ""])["validation"]) for c in candidates]
        return min(mixed, key=lambda pair: pair[1])[0]

    size = network.vocabulary_size
    unigram = [keep(f"unigram-cache-{d}", UnigramCache(size, "stream", d, _LENGTH)) for d in _DECAYS]
    ngram = [keep(f"ngram-cache-{d}", NgramCache(size, "stream", d, _LENGTH)) for d in _DECAYS]
    continuous = [keep(f"continuous-cache-{f}", ContinuousCache(network, f, _LENGTH)) for f in _FLATNESS]
    return {"unigram cache": choose(unigram), "n-gram cache": choose(ngram), "continuous cache": choose(continuous)}


def _measure(columns: dict, names: list[str]) -> dict:
    if len(names) == 1:
        return {"weights": [1.0], **compute_perplexities(columns[names[0]])}
    return measure_mixture(columns, names)


def _follow(columns: dict, names: list[str]) -> dict:
    """Return the perplexities of a mixture whose weights follow the text, at the best rate on validation."""
    start = np.array([measure_mixture(columns, names)["weights"]])
    start /= start.sum()
    tables = {split: np.stack([columns[name][split] for name in names], axis=1) for split in SPLITS}

    def read(split: str, rate: float) -> float:
        log_prob = FollowingWeights(start, 32, rate).combine(tables[split], np.zeros(len(tables[split]), np.int64))
        return float(np.exp(-log_prob.mean()))

    validation, rate = min((read("validation", rate), rate) for rate in _RATES)
    return {"weights": start[0].tolist(), "validation": validation, "test": read("test", rate), "rate": rate}


def format_report(report: dict) -> str:
    """Return the table of the models, and the table of what each part adds to everything."""
    kneser_ney = report["kneser_ney"]["test"]
    models = [
        [
            row["title"],
            *(f"{row[split]:.1f}" for split in SPLITS),
            f"{row['test'] / kneser_ney - 1:+.1%}",
            format_weights(row["weights"]),
        ]
        for row in report["mixtures"]
    ]
    whole = next(row for row in reversed(report["mixtures"]) if "rate" not in row)
    parts = [
        [row["title"], *(f"{row[split]:.1f}" for split in SPLITS), f"{row['test'] - whole['test']:+.1f}"]
        for row in report["ablation"]
    ]
    return join_tables(
        f"Dynamic evaluation: {report['settings']}.",
        markdown_table(["model", *SPLIT_HEADER, "test, to Kneser-Ney", "weights"], models),
        markdown_table(["everything without", *SPLIT_HEADER, "test, change"], parts),
    )
