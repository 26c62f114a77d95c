"""The energy-based variant, whose perplexity the paper does not report, beside the network and Kneser-Ney."""

import dataclasses
from pathlib import Path

from keras_nplm.experiments import mixture_of, row_named, scores_of
from keras_nplm.files import read_json
from keras_nplm.rows import Row

ROWS = (
    Row("brown-energy", "energy-based, n=5, h=100, m=60", "train --config brown-energy"),
    dataclasses.replace(row_named("brown-no-held-out"), title="network, n=5, h=100, m=60"),
    row_named("kneser-ney-5"),
)
_MIXTURES = (
    ["brown-energy", "kneser-ney-5"],
    ["brown-no-held-out", "kneser-ney-5"],
    ["brown-energy", "brown-no-held-out"],
    ["brown-energy", "brown-no-held-out", "kneser-ney-5"],
)


def run(rows: Path) -> dict:
    """Perplexities, sizes and costs of the models, and perplexities of mixtures fitted on validation."""
    scores = {row.name: scores_of(rows.parent, row.name) for row in ROWS}
    return {
        "models": [_figures(row, read_json(rows / row.name / "metrics.json")) for row in ROWS],
        "mixtures": [mixture_of(scores, names) for names in _MIXTURES],
    }


def _figures(row: Row, metrics: dict) -> dict:
    figures = {"name": row.name, "title": row.title, "command": f"keras-nplm {' '.join(row.arguments)}"}
    figures |= {split: metrics[split]["perplexity"] for split in ("validation", "test")}
    figures["cpu_seconds"] = metrics["cpu_seconds"]
    wanted = ("parameters", "training_cpu_seconds", "best_epoch")
    return figures | {name: metrics[name] for name in wanted if name in metrics}


def table(report: dict) -> str:
    """The models, then the mixtures with their weights."""
    lines = [
        "| model | parameters | validation | test | epochs | CPU seconds: training | with validation |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in report["models"]:
        network = "parameters" in model
        cells = [model["title"], f"{model['parameters']:,}" if network else ""]
        cells += [f"{model[split]:.1f}" for split in ("validation", "test")]
        cells.append(str(model["best_epoch"]) if network else "")
        cells.append(f"{model['training_cpu_seconds']:,.0f}" if "training_cpu_seconds" in model else "")
        cells.append(f"{model['cpu_seconds']:,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| mixture, weights fitted on validation | validation | test | weights |", "|---|---|---|---|"]
    for mixture in report["mixtures"]:
        weights = ", ".join(f"{weight:.2f}" for weight in mixture["weights"])
        names = " + ".join(mixture["components"])
        lines.append(f"| {names} | {mixture['validation']:.1f} | {mixture['test']:.1f} | {weights} |")
    return "\n".join(lines)
