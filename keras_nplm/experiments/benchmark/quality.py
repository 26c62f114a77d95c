"""Perplexity on Brown by CPU seconds of training, beside a PyTorch LSTM.

All models train on the same tokens of Brown with the same vocabulary, on one core, without `held_out_mass`. The LSTM
has the AWD recipe, an adaptive softmax and AdamW, and trains for the seconds of `--seconds`. Ours is `modern-pointer`,
which trains for all its epochs. Seconds do not include validation. One search finds the settings of dynamic evaluation
of all models, on the first 50,000 tokens of validation. A ratio of 1.35 says that the test perplexity is 35% higher
than ours. Finished models are kept, and the same command resumes.
"""

import sys
from pathlib import Path

from keras_nplm.experiments.benchmark import Settings
from keras_nplm.experiments.benchmark.contenders import PeerError, Process
from keras_nplm.experiments.log_probs import compute_perplexities, load_dynamic_log_probs, load_tuned
from keras_nplm.experiments.rows import Row, make_rows, read_row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import SPLITS, Table, split_columns
from keras_nplm.io.files import read_json
from keras_nplm.io.lock import lock_directory

OURS = Row(
    "modern-pointer-480-held-out-1",
    "modern-pointer to 480 words, no held-out mass",
    "train --config modern-pointer --order 481 --averages-after 4,10,20,40,80,160,320 --held-out-mass 0 --seed 1",
)
RECIPE = {  # the LSTM and its training
    "seconds": 300.0,  # CPU seconds of training
    "width": 256,  # of embeddings and of hidden layers
    "layers": 2,
    "batch": 32,  # B, texts that are read side by side
    "length": 35,  # T, tokens of each text in a step
    "rate": 2e-3,  # of AdamW at the beginning
    "dropout": 0.2,  # of embeddings, between layers and before the output
    "embedding_dropout": 0.1,  # share of word types whose embedding is 0 in a step
    "weight_dropout": 0.2,  # share of the recurrent weights that are 0 in a step
    "weight_decay": 0.01,
    "clip": 0.5,  # largest norm of the gradient
    "cutoffs": [2000, 8000],  # ranks of words that separate the clusters of the adaptive softmax
    "steps": None,  # number of steps in place of `seconds`
    "seed": 1,
}
_SHORT = {"layers": 1, "batch": 20, "rate": 3e-3, "dropout": 0.3}
_LONG, _LONG_SECONDS = {"dropout": 0.45, "weight_dropout": 0.5}, 1000  # from which the network is larger
COLUMNS = [
    ("model", "name", ""),
    ("CPU seconds of training", "cpu_seconds", ",.0f"),
    ("epochs", "epochs", ".1f"),
    ("million parameters", lambda row: row["parameters"] / 1e6, ".1f"),
    *split_columns(),
    ("test, ratio to ours", "ratio_to_ours.static", ".2f"),
    *split_columns("dynamic.", "dynamic: "),
    ("ratio to ours", "ratio_to_ours.dynamic", ".2f"),
    ("settings", "dynamic_settings", ""),
    ("processor", "processor", ""),
]


def measure(settings: Settings) -> list[dict]:
    """Train the models that do not exist yet, and return a row for each."""
    directory = settings.directory
    with lock_directory(directory):
        make_rows([OURS], directory, 1, settings.data_dir)
        ours = measure_ours(OURS, directory)
        corpus = directory / "rows" / OURS.name / "corpus"
        peers = [measure_peer(choose_recipe(budget), corpus, directory / "quality") for budget in settings.seconds]
    for row in peers:
        if "failure" not in row:
            dynamic = row["dynamic"]["test"] / ours["dynamic"]["test"]
            row["ratio_to_ours"] = {"static": row["test"] / ours["test"], "dynamic": dynamic}
    return [ours, *peers]


def choose_recipe(seconds: int) -> dict:
    return RECIPE | (_LONG if seconds >= _LONG_SECONDS else _SHORT) | {"seconds": seconds}


def measure_ours(row: Row, directory: Path) -> dict:
    figures = read_row(row, directory)
    return {name: figures[name] for name in (*SPLITS, "parameters", "epochs")} | {
        "name": row.title,
        "cpu_seconds": figures["training_cpu_seconds"],
        "dynamic": compute_perplexities(load_dynamic_log_probs(directory, row.name, row.name)),
        "dynamic_settings": str(load_tuned(directory / "rows" / row.name).dynamics.settings),
        "processor": read_json(directory / "rows" / row.name / "metrics.json").get("processor", ""),
    }


def measure_peer(recipe: dict, corpus: Path, directory: Path) -> dict:
    """Return the row of the LSTM, trained on an encoded corpus in its own process unless it was before."""
    budget, unit = (recipe["steps"], "steps") if recipe["steps"] else (recipe["seconds"], "CPU seconds")
    name, result = f"PyTorch LSTM, {budget:,.0f} {unit}", directory / f"lstm-{budget:g}.json"
    if not (result.exists() and read_json(result).get("recipe") == recipe):
        directory.mkdir(parents=True, exist_ok=True)
        arguments = {"recipe": recipe, "corpus": str(corpus), "result": str(result)}
        build = "keras_nplm.experiments.benchmark.torch_models:build_trainer"
        print(f"training {name}", file=sys.stderr)
        peer = Process(name, build, arguments, ["torch"])
        try:
            peer.run_round()
        except PeerError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return {"name": name, "failure": str(error)}
        finally:
            peer.close()
    return {"name": name} | read_json(result)["row"]


STUDY = Study(__doc__, [Table("rows", COLUMNS)], measure=measure)
