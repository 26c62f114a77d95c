"""Study `configurations`: named configurations on Brown: perplexity, CPU seconds and n-grams per second.

The text is Brown with the paper's split (800,001, 200,021 and 161,170 tokens) and vocabulary: types that occur three
times or fewer in the whole corpus become `<unk>`, which leaves 17,905. Options were chosen on validation. Seconds are
those of training and validation together.

A vocabulary counted over the whole corpus tells that each of its types occurs at least 4 times. 777 of them never occur
in training. `held_out_mass` uses this: it is label smoothing towards these types. For a comparison with models that do
not use it, see the rows with `--held-out-mass 0`. It is 0 by default.

Noise-contrastive estimation (NCE) trains this network fastest on one core, and keeps log Z close to 0. Sampled softmax
is as fast, without a bound on log Z. Adaptive softmax is exact in training too, and slower. All perplexities are
exactly normalised.
"""

from pathlib import Path

from keras_nplm.experiments.log_probs import SPLITS
from keras_nplm.experiments.paper_rows import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import SPLIT_HEADER, format_perplexities
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table

_SOFTMAX = "train --config brown-nce-quick --held-out-mass 0 --self-normalisation 0 --output-layer"
ROWS = (
    find_row("kneser-ney-5"),
    Row("brown", "full softmax", "train --config brown"),
    Row("brown-quick", "full softmax, two epochs", "train --config brown-quick"),
    Row("brown-quick-no-held-out", "full softmax, two epochs", "train --config brown-quick --held-out-mass 0"),
    Row("brown-nce", "NCE", "train --config brown-nce"),
    Row("brown-nce-no-held-out", "NCE", "train --config brown-nce --held-out-mass 0"),
    Row("brown-nce-quick", "NCE, three epochs", "train --config brown-nce-quick"),
    Row("brown-nce-quick-no-held-out", "NCE, three epochs", "train --config brown-nce-quick --held-out-mass 0"),
    Row("brown-sampled-quick", "sampled softmax, three epochs", f"{_SOFTMAX} sampled"),
    Row("brown-adaptive-quick", "adaptive softmax, three epochs", f"{_SOFTMAX} adaptive"),
    Row("modern-small-1", "modern, small", "train --config modern-small --seed 1"),
    Row("modern-1", "modern", "train --config modern --seed 1"),
)
_FIGURES = ("seconds", "cpu_seconds", "training_cpu_seconds", "ngrams_per_second", "parameters")


def measure(rows: Path) -> dict:
    """Return perplexities, seconds, rates and sizes of the models."""
    return {"models": [_report_row(row, read_json(rows / row.name / "metrics.json")) for row in ROWS]}


def _report_row(row: Row, metrics: dict) -> dict:
    figures = {"name": row.name, "title": row.title, "command": row.full_command}
    figures |= {split: metrics[split]["perplexity"] for split in SPLITS}
    figures["without_unk"] = {split: metrics[split]["perplexity_without_unk"] for split in SPLITS}
    figures["log_z"] = metrics["test"].get("ln_z", {}).get("mean_absolute")
    return figures | {name: metrics[name] for name in _FIGURES if name in metrics}


def format_report(report: dict) -> str:
    """Return a table with a row for each model."""
    rows = [
        [
            model["title"],
            *format_perplexities(model),
            *format_perplexities(model["without_unk"]),
            f"{model['cpu_seconds']:,.0f}" if model["cpu_seconds"] >= 10 else f"{model['cpu_seconds']:.1f}",
            f"{model['ngrams_per_second']:,}" if "ngrams_per_second" in model else "",
            "" if model["log_z"] is None else f"{model['log_z']:.3f}",
            f"`{model['command']}`",
        ]
        for model in report["models"]
    ]
    header = ["model", *SPLIT_HEADER, "without `<unk>`: validation", "test", "CPU seconds", "n-grams/s in training"]
    return markdown_table([*header, "mean abs(log Z)", "command"], rows)
