"""Perplexity on Brown by CPU seconds of training, beside an LSTM and a Transformer of PyTorch.

All models train on the same tokens of Brown with the same vocabulary, on one core, without
`held_out_mass`. Peers train for a number of seconds, ours for their epochs; the Transformer only
for the short one. Seconds do not include validation. The cache is the continuous cache of the last
2,000 words. Its flatness and weight, and the settings of dynamic evaluation, are found for all
models by the same search on validation. Ratios are of test perplexities to that of the pointer
above: compare seconds, too.
"""

import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments.log_probs import Columns, load_log_probs, measure_mixture
from keras_nplm.experiments.origin import Origin, describe_origin
from keras_nplm.experiments.rows import Row, make_rows, read_origins, read_row
from keras_nplm.io.errors import RunError
from keras_nplm.io.files import identify_content, read_json, write_json
from keras_nplm.io.lock import lock_directory
from tests.benchmarks import dynamics
from tests.benchmarks.contenders import Process
from tests.benchmarks.report import Report, Settings

_DECLARED = read_json(Path(__file__).with_name("quality.json"))
GROUPS = _DECLARED["groups"]
LIBRARY = "torch"  # of the peers
_MODELS = Path(__file__).with_name("torch_models.py")


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
    caches = dynamics.load_caches(directory, row.name, "continuous cache")
    dynamic, dynamic_settings, seconds = dynamics.load_dynamic(directory, row.name)
    return {
        "name": row.title,
        **_measure_columns(static, caches, dynamic),
        "epochs": figures["epochs"],
        "parameters": figures["parameters"],
        "cpu_seconds": figures["training_cpu_seconds"],
        "dynamic_settings": str(dynamic_settings),
        "dynamic_cpu_seconds": round(seconds),
    }


def _measure_columns(static: Columns, caches: Sequence[Columns], dynamic: Columns) -> dict:
    """Return the perplexities of a model: static, with its best cache and dynamic."""
    cache, _ = dynamics.measure_best_cache(static, caches)
    measured = {"cache": cache, "dynamic": measure_mixture({"": dynamic}, [""])}
    shown = {name: {split: found[split] for split in HELD_OUT} for name, found in measured.items()}
    alone = measure_mixture({"": static}, [""])
    return {**{split: alone[split] for split in HELD_OUT}, **shown}


def measure_peer(recipe: dict[str, Any], corpus: Path, directory: Path) -> dict[str, Any]:
    """Return the row of a peer, trained on an encoded corpus in its own process unless it was
    before.
    """
    result = _name_result(recipe, directory)
    if not result.exists():
        arguments = {"recipe": recipe, "corpus": str(corpus), "flatness": dynamics.FLATNESS}
        print(f"training {recipe['name']}, {recipe['seconds']:,} CPU seconds", file=sys.stderr)
        peer = Process(recipe["name"], f"{__package__}.torch_models:build_trainer", arguments)
        try:
            found = peer.run_round()
        except RunError as error:
            return {"name": recipe["name"], "failure": str(error)}
        finally:
            peer.close()
        result.parent.mkdir(exist_ok=True)
        figures = _measure_columns(found["static"], found["caches"], found["dynamic"])
        row = {**figures, **found["row"]}
        write_json(result, {"row": row, "origins": [describe_origin([LIBRARY])]})
    return {"name": recipe["name"], **read_json(result)["row"]}


def _name_result(recipe: dict[str, Any], directory: Path) -> Path:
    """Return the file of a peer's figures: its name changes with recipe and code of peers."""
    made = f"{recipe} {identify_content(_MODELS)}"
    return directory / "quality" / f"{recipe['model']}-{zlib.crc32(made.encode()):08x}.json"


class _Quality(Report):
    def read_origins(self, settings: Settings) -> dict[str, list[Origin]]:
        """Return the origins of our models and of the peers that are made, by path."""
        origins = read_origins(list_rows(settings), settings.directory)
        for recipe in (peer for group in GROUPS for peer in group["peers"]):
            result = _name_result(recipe, settings.directory)
            if result.exists():
                origins[str(result)] = read_json(result)["origins"]
        return origins


REPORT = _Quality(__doc__, _DECLARED["columns"], measure, list_rows)
