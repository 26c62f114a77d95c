"""Benchmark `quality`: perplexity on Brown by CPU seconds of training, beside a PyTorch LSTM and a Transformer.

All models train on the same tokens with the same vocabulary, on one core; no network has `held_out_mass`. The PyTorch
models train for the seconds of `--seconds`: an LSTM with the AWD recipe and a causal pre-norm Transformer, both with an
adaptive softmax and AdamW. Ours is `modern-pointer`, which trains for all its epochs. Seconds do not include
validation. Dynamic evaluation predicts a chunk of the text, then takes one step on it. One search finds the settings of
all models, on the first 50,000 tokens of validation. A ratio of 1.35 says that the test perplexity is 35% higher than
ours. The benchmark is always on Brown. Finished models are kept, and the same command resumes. A CPU second depends
on the processor, which each row names.
"""

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_nplm.experiments.benchmark.contenders import PeerError
from keras_nplm.experiments.benchmark.peer_process import PeerProcess
from keras_nplm.experiments.benchmark.peers import is_installed
from keras_nplm.experiments.benchmark.torch_language_models import Recipe
from keras_nplm.experiments.log_probs import SPLITS, compute_perplexities, load_dynamic_log_probs, load_tuned
from keras_nplm.experiments.rows import Row, make_rows
from keras_nplm.io.files import read_json
from keras_nplm.io.lock import lock_directory

OURS = Row(
    "modern-pointer-480-held-out-1",
    "modern-pointer to 480 words, no held-out mass",
    "train --config modern-pointer --order 481 --averages-after 4,10,20,40,80,160,320 --held-out-mass 0 --seed 1",
)
_LONG = 1000  # CPU seconds from which the networks are larger and have more dropout


def measure(directory: str | os.PathLike, seconds: Sequence[int], data_dir: str | None = None) -> list[dict]:
    """Train the models that do not exist yet and return a row for each.

    Args:
        directory: the directory of the models, shared with `keras-nplm paper` and `study`. The network is a row there,
            and `quality/` has the results of PyTorch.
        seconds: budgets of training of the PyTorch models, in CPU seconds.
        data_dir: directory of Brown's archive, to which it is downloaded if it is absent.

    Returns:
        rows with `name`, `parameters`, `cpu_seconds` of training, `epochs`, `validation` and `test` (perplexities),
        `dynamic` (the same), `dynamic_settings`, `processor`, and `ratio_to_ours`: for `static` and `dynamic` test
        perplexity relative to ours. A PyTorch model that cannot be trained has `failure` instead.

    Raises:
        RunError: the network cannot be trained, or a different process writes the directory.
    """
    directory = Path(directory)
    with lock_directory(directory):
        make_rows([OURS], directory, jobs=1, data_dir=data_dir)
        ours = measure_ours(OURS, directory)
        corpus = directory / "rows" / OURS.name / "corpus"
        peers = [measure_peer(recipe, corpus, directory / "quality") for recipe in choose_recipes(seconds)]
    for row in peers:
        if "failure" not in row:
            row["ratio_to_ours"] = {
                "static": row["test"] / ours["test"],
                "dynamic": row["dynamic"]["test"] / ours["dynamic"]["test"],
            }
    return [ours, *peers]


def choose_recipes(seconds: Sequence[int]) -> Iterator[Recipe]:
    """Yield the recipes of the LSTM and the Transformer for each budget of CPU seconds.

    Example:

    >>> [(recipe.kind, recipe.seconds) for recipe in choose_recipes([300])]
    [('lstm', 300), ('transformer', 300)]
    """
    for budget in seconds:
        if budget < _LONG:
            yield Recipe("lstm", budget, layers=1, batch=20, rate=3e-3, dropout=0.3)
            yield Recipe("transformer", budget, batch=16, length=64, rate=1e-3, dropout=0.1)
        else:
            yield Recipe("lstm", budget, dropout=0.45, weight_dropout=0.5)
            yield Recipe("transformer", budget, batch=16, length=128, rate=1e-3, dropout=0.3)


def measure_ours(row: Row, directory: Path) -> dict:
    """Return the row of the network. Log-probabilities of dynamic evaluation are kept, as those of a study.

    Args:
        row: the model in `directory / "rows"`.
        directory: the directory of the models.
    """
    metrics = read_json(directory / "rows" / row.name / "metrics.json")
    return {split: metrics[split]["perplexity"] for split in SPLITS} | {
        "name": row.title,
        "parameters": metrics["parameters"],
        "cpu_seconds": metrics["training_cpu_seconds"],
        "epochs": len(metrics["history"]),
        "dynamic": compute_perplexities(load_dynamic_log_probs(directory, row.name)),
        "dynamic_settings": str(load_tuned(directory / "rows" / row.name).dynamics.settings),
        "processor": metrics.get("processor", ""),
    }


def measure_peer(recipe: Recipe, corpus: Path, directory: Path) -> dict:
    """Return the row of a PyTorch model, trained in its own process unless `directory` has its result.

    Args:
        recipe: the model and its training.
        corpus: directory of the encoded corpus.
        directory: receives the result.
    """
    title = {"lstm": "LSTM", "transformer": "Transformer"}.get(recipe.kind, recipe.kind)
    name = f"PyTorch {title}, {recipe.steps or recipe.seconds:,.0f} {'steps' if recipe.steps else 'CPU seconds'}"
    described = dataclasses.asdict(recipe) | {"cutoffs": list(recipe.cutoffs)}
    result = directory / f"{recipe.kind}-{recipe.steps or recipe.seconds:g}.json"
    if not (result.exists() and read_json(result).get("recipe") == described):
        if not is_installed("torch"):
            return {"name": name, "failure": "PyTorch is not installed. Fix: pip install 'keras-nplm[benchmark]'."}
        directory.mkdir(parents=True, exist_ok=True)
        arguments = {"recipe": described, "corpus": str(corpus), "result": str(result)}
        build = "keras_nplm.experiments.benchmark.torch_language_models:build_trainer"
        peer = PeerProcess(name, build, arguments, shows_progress=True)
        try:
            peer.run_round()
        except PeerError as error:
            print(f"{name} failed: {error}", file=sys.stderr)
            return {"name": name, "failure": str(error)}
        finally:
            peer.close()
    return {"name": name} | read_json(result)["row"]
