"""Perplexity on Brown by CPU seconds of training, beside an LSTM and a Transformer of PyTorch.

All models train on the same tokens of Brown with the same vocabulary, on one core, without
`held_out_mass`. The peers train for the seconds of `--seconds`, ours for their epochs; the
Transformer only for less than 1,000 seconds. Seconds do not include validation. The cache is the
continuous cache of the last 2,000 words. Its flatness and weight, and the settings of dynamic
evaluation, are found for all models by the same search on validation. Ratios are of test
perplexities to that of the pointer above: compare seconds, too.
"""

import functools
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from keras_nplm.experiments.benchmark import Benchmark, Settings
from keras_nplm.experiments.benchmark.contenders import Process, measure_group
from keras_nplm.experiments.log_probs import (
    Columns,
    compute_perplexities,
    load_dynamic_log_probs,
    load_log_probs,
    load_or_tune_dynamics,
    measure_mixture,
    sum_dynamic_seconds,
)
from keras_nplm.experiments.origin import Origin, describe_origin
from keras_nplm.experiments.rows import Row, make_rows, read_origins, read_row
from keras_nplm.experiments.tables import Column, Table, split_columns
from keras_nplm.io.files import read_json, write_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.caches import ContinuousCache

_POINTER = "train --config modern-pointer"
_FLAGS = "--held-out-mass 0 --seed 1"
OURS = {  # by CPU seconds, of a short and of a long training; others are compared with the first
    300: [
        Row("modern-pointer-short", "modern-pointer, 7 epochs", f"{_POINTER} {_FLAGS} --epochs 7"),
        Row("modern-small-held-out-1", "modern-small", f"train --config modern-small {_FLAGS}"),
    ],
    3000: [
        Row(
            "modern-pointer-long",
            "modern-pointer to 1,000 words, wider, 16 epochs",
            f"{_POINTER} {_FLAGS} --order 1001 --averages-after 6,12,24,48,96,192"
            " --no-tied-output --embedding-dim 120 --hidden-units 300"
            " --dropout 0.4 --embedding-dropout 0.2 --epochs 16 --patience 16",
        )
    ],
}
_LSTM = {
    "width": 256,  # of embeddings and of hidden layers
    "layers": 2,
    "batch": 32,  # B, texts that are read side by side
    "length": 35,  # T, tokens of each text in a step
    "rate": 2e-3,  # of AdamW at the beginning
    "warm_up": 0,  # share of the training in which the rate rises
    "dropout": 0.45,  # of embeddings, between layers and before the output
    "embedding_dropout": 0.1,  # share of word types whose embedding is 0 in a step
    "weight_dropout": 0.5,  # share of the recurrent weights that are 0 in a step
    "weight_decay": 0.01,
    "clip": 0.5,  # largest norm of the gradient
    # ranks of words that separate the clusters of the adaptive softmax
    "cutoffs": [2000, 8000],
    "seed": 1,
}
_TRANSFORMER = {
    **_LSTM,
    "layers": 3,
    "batch": 8,
    "length": 128,
    "rate": 1e-3,
    "warm_up": 0.05,
    "dropout": 0.3,
}
RECIPES = {"LSTM": _LSTM, "Transformer": _TRANSFORMER}  # peers and their training
_LONG = 1000  # CPU seconds: a training of fewer is short, of ours as of peers
_SHORT = {  # changes for a short training
    "LSTM": {"layers": 1, "batch": 20, "rate": 3e-3, "dropout": 0.3, "weight_dropout": 0.2},
    "Transformer": {"layers": 2, "dropout": 0.2},
}
FLATNESS = [0.05, 0.1, 0.2, 0.4, 0.8]  # candidates of the continuous cache
CACHE_LENGTH = 2000  # words
LIBRARY = "torch"  # of the peers


def _count_millions(row: dict) -> float:
    return row["parameters"] / 1e6


COLUMNS: list[Column] = [
    ("model", "name", ""),
    ("CPU seconds of training", "cpu_seconds", ",.0f"),
    ("epochs", "epochs", ".1f"),
    ("million parameters", _count_millions, ".1f"),
    *split_columns(),
    ("ratio to ours", "ratio_to_ours.static", ".2f"),
    *split_columns("cache.", "cache: "),
    ("ratio", "ratio_to_ours.cache", ".2f"),
    *split_columns("dynamic.", "dynamic: "),
    ("ratio", "ratio_to_ours.dynamic", ".2f"),
    ("CPU seconds of tuning and reading", "dynamic_cpu_seconds", ",.0f"),
    ("settings", "dynamic_settings", ""),
]


def measure(settings: Settings) -> list[dict]:
    rows = []
    with lock_directory(settings.directory):
        for is_long in (False, True):
            budgets = [
                seconds
                for seconds in dict.fromkeys(settings.seconds)
                if (seconds >= _LONG) == is_long
            ]
            if budgets:
                rows += _measure_budgets(budgets, settings.directory, settings.data_dir)
    return rows


def _measure_budgets(
    budgets: Sequence[int], directory: Path, data_dir: str | None
) -> list[dict[str, Any]]:
    """Return the rows of our models, and of the peers for each number of CPU seconds of training:
    all short, or all long.
    """
    ours = _choose_ours(budgets[0])
    make_rows(ours, directory, 1, data_dir)
    (directory / "quality").mkdir(exist_ok=True)
    first, *others = [measure_ours(row, directory) for row in ours]
    corpus = directory / "rows" / ours[0].name / "corpus"
    for seconds in budgets:
        for model in _choose_peers(seconds):
            recipe = choose_recipe(model, seconds)
            peer = measure_peer(recipe, corpus, directory / "quality")
            if seconds >= _LONG or len(budgets) > 1:
                peer["name"] = f"{peer['name']}, {seconds:,.0f} CPU seconds"
            others.append(peer)
    for other in others:
        if "failure" not in other:
            other["ratio_to_ours"] = {
                "static": other["test"] / first["test"],
                "cache": other["cache"]["test"] / first["cache"]["test"],
                "dynamic": other["dynamic"]["test"] / first["dynamic"]["test"],
            }
    return [first, *others]


def _choose_ours(seconds: float) -> list[Row]:
    return OURS[min(OURS) if seconds < _LONG else max(OURS)]


def _choose_peers(seconds: float) -> list[str]:
    """Return the peers of a budget. With much time it is the LSTM alone: with little, the
    Transformer is far behind it.
    """
    return [*RECIPES] if seconds < _LONG else ["LSTM"]


def list_origins(settings: Settings) -> dict[str, list[Origin]]:
    """Return the origins of our models and of the peers that are made, by path."""
    origins = {}
    for seconds in settings.seconds:
        origins.update(read_origins(_choose_ours(seconds), settings.directory))
        for model in _choose_peers(seconds):
            recipe = choose_recipe(model, seconds)
            path = _name_result(recipe, settings.directory / "quality")
            if _is_trained(recipe, path):
                origins[str(path)] = read_json(path).get("origins", [])
    return origins


def choose_recipe(model: str, seconds: float) -> dict:
    """Return how a peer is trained for a number of CPU seconds."""
    recipe: dict[str, Any] = dict(RECIPES[model])
    if seconds < _LONG:
        recipe.update(_SHORT[model])
    recipe.update(model=model, seconds=seconds, steps=None, flatness=FLATNESS)
    return recipe


def measure_ours(row: Row, directory: Path) -> dict:
    """Return the figures of one of our models, measured unless they were before."""
    result = directory / "quality" / f"{row.name}.json"
    # a model that is made again has other origins
    made = {"command": row.full_command, "origins": read_origins([row], directory)}
    if result.exists():
        kept = read_json(result)
        if made.items() <= kept.items():
            return kept["row"]
    figures = read_row(row, directory)
    cache = _measure_best_cache(row, directory)
    dynamic = compute_perplexities(load_dynamic_log_probs(directory, row.name))
    settings = load_or_tune_dynamics(directory / "rows" / row.name).settings
    seconds = sum_dynamic_seconds(directory, row.name)
    measured = {
        "validation": figures["validation"],
        "test": figures["test"],
        "parameters": figures.get("parameters", ""),
        "epochs": figures.get("epochs", ""),
        "name": row.title,
        "cpu_seconds": figures["training_cpu_seconds"],
        "cache": cache,
        "dynamic": dynamic,
        "dynamic_settings": str(settings),
        "dynamic_cpu_seconds": None if seconds is None else round(seconds),
    }
    write_json(result, {**made, "row": measured})
    return measured


def _measure_best_cache(row: Row, directory: Path) -> dict:
    """Return the figures of a model with the continuous cache that validates best."""
    static = load_log_probs(directory, row.name)
    mixtures = []
    for flatness in FLATNESS:
        build = functools.partial(build_continuous_cache, flatness=flatness)
        cache = load_log_probs(directory, row.name, f"{row.name}-cache-{flatness}", build)
        columns: dict[str, Columns] = {"": static, "cache": cache}
        mixtures.append(measure_mixture(columns, ["", "cache"]))
    return min(mixtures, key=itemgetter("validation"))


def build_continuous_cache(language_model: LanguageModel, flatness: float) -> ContinuousCache:
    return ContinuousCache(language_model.model, flatness, CACHE_LENGTH)


def measure_peer(recipe: dict, corpus: Path, directory: Path) -> dict:
    """Return the row of a peer, trained on an encoded corpus in its own process unless it was
    before.
    """
    name = f"PyTorch {recipe['model']}"
    result = _name_result(recipe, directory)
    if not _is_trained(recipe, result):
        arguments = {"recipe": recipe, "corpus": str(corpus), "result": str(result)}
        print(f"training {name}, {recipe['seconds']:,.0f} CPU seconds", file=sys.stderr)
        peer = Process(name, f"{__package__}.torch_models:build_trainer", arguments, [LIBRARY])
        (row,) = measure_group([peer], rounds=1, warm_up=0)
        if "failure" in row:
            return row
        write_json(result, {**read_json(result), "origins": [describe_origin([LIBRARY])]})
    return {"name": name, **read_json(result)["row"]}


def _name_result(recipe: dict, directory: Path) -> Path:
    return directory / f"{recipe['model']}-{recipe['seconds']:g}.json"


def _is_trained(recipe: dict, result: Path) -> bool:
    return result.exists() and read_json(result).get("recipe") == recipe


BENCHMARK = Benchmark(__doc__, [Table("rows", COLUMNS)], measure=measure, list_origins=list_origins)
