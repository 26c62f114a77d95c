"""Perplexity on Brown by CPU seconds of training, beside an LSTM and a Transformer of PyTorch.

All models train on the same tokens of Brown with the same vocabulary, on one core, without
`held_out_mass`. Peers train for a number of seconds, ours for their epochs; the Transformer only
for the short one. Seconds do not include validation. The cache is the continuous cache of the last
2,000 words. Its flatness and weight, and the settings of dynamic evaluation, are found for all
models by the same search on validation. Ratios are of test perplexities to that of the pointer
above: compare seconds, too.
"""

import sys
from pathlib import Path
from typing import Any

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments.log_probs import load_log_probs, measure_mixture
from keras_nplm.experiments.origin import Origin, describe_origin
from keras_nplm.experiments.rows import Row, make_rows, read_origins, read_row
from keras_nplm.io.files import identify_content, read_json, write_json
from keras_nplm.io.lock import lock_directory
from tests.benchmarks import dynamics
from tests.benchmarks.contenders import Process, measure_group
from tests.benchmarks.report import Column, Report, Settings, split_columns

GROUPS = read_json(Path(__file__).with_name("quality.json"))["groups"]
LIBRARY = "torch"  # of the peers
_MODELS = Path(__file__).with_name("torch_models.py")

COLUMNS: list[Column] = [
    ("model", "name", ""),
    ("CPU seconds of training", "cpu_seconds", ",.0f"),
    ("epochs", "epochs", ".1f"),
    ("million parameters", "parameters", "millions"),
    *split_columns(),
    ("ratio to ours", "ratio_to_ours.static", ".2f"),
    *split_columns("cache.", "cache: "),
    ("ratio", "ratio_to_ours.cache", ".2f"),
    *split_columns("dynamic.", "dynamic: "),
    ("ratio", "ratio_to_ours.dynamic", ".2f"),
    ("CPU seconds of tuning and reading", "dynamic_cpu_seconds", ",.0f"),
    ("settings", "dynamic_settings", ""),
]


def measure(settings: Settings) -> dict[str, list[dict]]:
    rows = []
    with lock_directory(settings.directory):
        make_rows(list_rows(settings), settings.directory, 1, settings.data_dir)
        for group in GROUPS:
            ours = [Row(**row) for row in group["rows"]]
            corpus = settings.directory / "rows" / ours[0].name / "corpus"
            first, *others = [measure_ours(row, settings.directory) for row in ours]
            others += [measure_peer(peer, corpus, settings.directory) for peer in group["peers"]]
            for other in others:
                if "failure" not in other:
                    other["ratio_to_ours"] = _compare(other, first)
            rows += [first, *others]
    return {"rows": rows}


def _compare(other: dict[str, Any], first: dict[str, Any]) -> dict[str, float]:
    ratios = {name: other[name]["test"] / first[name]["test"] for name in ("cache", "dynamic")}
    return {"static": other["test"] / first["test"], **ratios}


def list_rows(settings: Settings) -> list[Row]:
    return [Row(**row) for group in GROUPS for row in group["rows"]]


def measure_ours(row: Row, directory: Path) -> dict[str, Any]:
    """Return the figures of one of our models: static, with a cache and dynamic."""
    figures = read_row(row, directory)
    static = load_log_probs(directory, row.name)
    caches = dynamics.load_continuous_caches(directory, row.name)
    cache, _ = dynamics.measure_best_cache(static, caches)
    columns, tuned, seconds = dynamics.load_dynamic(directory, row.name)
    dynamic = measure_mixture({"": columns}, [""])
    return {
        "name": row.title,
        **{key: figures[key] for key in (*HELD_OUT, "epochs", "parameters")},
        "cpu_seconds": figures["training_cpu_seconds"],
        "cache": {split: cache[split] for split in HELD_OUT},
        "dynamic": {split: dynamic[split] for split in HELD_OUT},
        "dynamic_settings": str(tuned.settings),
        "dynamic_cpu_seconds": round(seconds),
    }


def measure_peer(recipe: dict[str, Any], corpus: Path, directory: Path) -> dict[str, Any]:
    """Return the row of a peer, trained on an encoded corpus in its own process unless it was
    before.
    """
    result = _name_result(recipe, directory)
    if not _is_trained(recipe, directory):
        arguments = {
            "recipe": recipe,
            "corpus": str(corpus),
            "result": str(result),
            "flatness": dynamics.FLATNESS,
        }
        print(f"training {recipe['name']}, {recipe['seconds']:,} CPU seconds", file=sys.stderr)
        result.parent.mkdir(exist_ok=True)
        build = f"{__package__}.torch_models:build_trainer"
        peer = Process(recipe["name"], build, arguments, [LIBRARY])
        (row,) = measure_group([peer], rounds=1, warm_up=0)
        if "failure" in row:
            return row
        origin = describe_origin([LIBRARY])
        kept = {"code": identify_content(_MODELS), "origins": [origin]}
        write_json(result, {**read_json(result), **kept})
    return {"name": recipe["name"], **read_json(result)["row"]}


def _name_result(recipe: dict[str, Any], directory: Path) -> Path:
    return directory / "quality" / f"{recipe['model']}-{recipe['seconds']}.json"


def _is_trained(recipe: dict[str, Any], directory: Path) -> bool:
    """Return whether a peer was trained by the same recipe and the present code of the peers."""
    result = _name_result(recipe, directory)
    made = {"recipe": recipe, "code": identify_content(_MODELS)}
    return result.exists() and made.items() <= read_json(result).items()


class _Quality(Report):
    def read_origins(self, settings: Settings) -> dict[str, list[Origin]]:
        """Return the origins of our models and of the peers that are made, by path."""
        origins = read_origins(list_rows(settings), settings.directory)
        for recipe in (peer for group in GROUPS for peer in group["peers"]):
            if _is_trained(recipe, settings.directory):
                result = _name_result(recipe, settings.directory)
                origins[str(result)] = read_json(result)["origins"]
        return origins


REPORT = _Quality(__doc__, COLUMNS, measure, list_rows)
