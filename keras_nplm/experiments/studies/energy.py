"""The energy-based variant, whose perplexity the paper does not report, beside the network and Kneser-Ney."""

import dataclasses
from pathlib import Path

from keras_nplm.experiments.paper import mixture_of, row_named, scores_of
from keras_nplm.experiments.rows import Row
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table

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
    models = [
        [
            model["title"],
            f"{model['parameters']:,}" if "parameters" in model else "",
            *(f"{model[split]:.1f}" for split in ("validation", "test")),
            str(model.get("best_epoch", "")),
            f"{model['training_cpu_seconds']:,.0f}" if "training_cpu_seconds" in model else "",
            f"{model['cpu_seconds']:,.0f}",
        ]
        for model in report["models"]
    ]
    mixtures = [
        [
            " + ".join(mixture["components"]),
            *(f"{mixture[split]:.1f}" for split in ("validation", "test")),
            ", ".join(f"{weight:.2f}" for weight in mixture["weights"]),
        ]
        for mixture in report["mixtures"]
    ]
    head = ["model", "parameters", "validation", "test", "epochs", "CPU seconds: training", "with validation"]
    mixed = ["mixture, weights fitted on validation", "validation", "test", "weights"]
    return f"{markdown_table(head, models)}\n\n{markdown_table(mixed, mixtures)}"
