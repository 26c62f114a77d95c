"""Study `energy`: the energy-based variant, whose perplexity the paper does not report, and its mixtures.

The variant of section 5.1: the target's vector goes through the hidden layer together with the context's vectors, E =
-b_w - v . tanh(d + H [x; C(w)]) and P = exp(-E) / Z. It has |V|(m+1) + h(nm+2) parameters: no matrix |V| x h. Training
is importance sampling with k negative samples, k+1 times h tanh per n-gram. Evaluation is exact and takes |V| h tanh
per context. It needs Adagrad with a small first sum (`--initial-accumulator 1e-5`) and a wide d. From the third epoch
on it overfits. The networks of both tables have no `held_out_mass`.
"""

import dataclasses
from pathlib import Path

from keras_nplm.experiments.log_probs import SPLITS, load_log_probs, measure_mixture
from keras_nplm.experiments.paper_rows import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import SPLIT_HEADER, format_perplexities, format_weights, join_tables
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table

ROWS = (
    Row("brown-energy", "energy-based, n=5, h=100, m=60", "train --config brown-energy"),
    dataclasses.replace(find_row("brown-no-held-out"), title="network, n=5, h=100, m=60"),
    find_row("kneser-ney-5"),
)
_MIXTURES = (
    ["brown-energy", "kneser-ney-5"],
    ["brown-no-held-out", "kneser-ney-5"],
    ["brown-energy", "brown-no-held-out"],
    ["brown-energy", "brown-no-held-out", "kneser-ney-5"],
)


def measure(rows: Path) -> dict:
    """Return perplexities, sizes and CPU seconds of the models, and perplexities of mixtures fitted on validation."""
    columns = {row.name: load_log_probs(rows.parent, row.name) for row in ROWS}
    return {
        "models": [_report_row(row, read_json(rows / row.name / "metrics.json")) for row in ROWS],
        "mixtures": [measure_mixture(columns, names) for names in _MIXTURES],
    }


def _report_row(row: Row, metrics: dict) -> dict:
    figures = {"name": row.name, "title": row.title, "command": row.full_command}
    figures |= {split: metrics[split]["perplexity"] for split in SPLITS}
    names = ("cpu_seconds", "parameters", "training_cpu_seconds", "best_epoch")
    return figures | {name: metrics[name] for name in names if name in metrics}


def format_report(report: dict) -> str:
    """Return the table of the models and the table of the mixtures with their weights."""
    models = [
        [
            model["title"],
            f"{model['parameters']:,}" if "parameters" in model else "",
            *format_perplexities(model),
            str(model.get("best_epoch", "")),
            f"{model['training_cpu_seconds']:,.0f}" if "training_cpu_seconds" in model else "",
            f"{model['cpu_seconds']:,.0f}",
        ]
        for model in report["models"]
    ]
    mixtures = [
        [" + ".join(mixture["components"]), *format_perplexities(mixture), format_weights(mixture["weights"])]
        for mixture in report["mixtures"]
    ]
    header = ["model", "parameters", *SPLIT_HEADER, "epochs", "CPU seconds: training", "with validation"]
    mixture_header = ["mixture, weights fitted on validation", *SPLIT_HEADER, "weights"]
    return join_tables(markdown_table(header, models), markdown_table(mixture_header, mixtures))
