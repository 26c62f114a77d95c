"""Study `modern`: what each part of the modern networks contributes on Brown, one change at a time, and mixtures.

The first table changes one thing of `brown-nce-quick` with averages of far context (3 epochs, rate 1.8). A change that
diverges at this rate has a lower one; compare it with "rate 1.2 alone". Figures are means over two or three seeds, with
the range in brackets. `held_out_mass` is 0.04 unless the row says otherwise. The second table mixes the best networks
with n-gram models; weights are fitted on validation. Averages of far context follow Sun & Iyyer (2021).
"""

import dataclasses
from pathlib import Path

import numpy as np

from keras_nplm.experiments.log_probs import SPLITS, compute_perplexities, load_log_probs, measure_mixture
from keras_nplm.experiments.paper_rows import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import SPLIT_HEADER, format_weights, join_tables
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table

_NGRAM_MODELS = ("kneser-ney-5", "trigram", "class-500-3")


@dataclasses.dataclass(frozen=True)
class Change:
    """A named configuration with changed options, trained with several seeds: one line of the table.

    Args:
        name: prefix of the names of its rows.
        title: its name in the table.
        config: the named configuration.
        options: flags of `keras-nplm train` that change it.
        seeds: number of seeds; each is a row.
    """

    name: str
    title: str
    config: str
    options: str = ""
    seeds: int = 2

    @property
    def rows(self) -> list[Row]:
        """The rows, one for each seed."""
        command = f"train --config {self.config} {self.options}".strip()
        return [Row(f"{self.name}-{seed}", self.title, f"{command} --seed {seed}") for seed in range(1, self.seeds + 1)]


_CONTEXT = "--order 61 --averages-after 4,10,20,40"


def _change_context_network(name: str, title: str, options: str = "", context: str = _CONTEXT) -> Change:
    return Change(f"far-{name}" if name else "far", title, "brown-nce-quick", f"{context} {options}".strip())


CHANGES = (
    _change_context_network("", "n=61, averages after 4, 10, 20, 40; m=60, h=100, tanh, no dropout"),
    _change_context_network("none", "no far context: n=5", context=""),
    _change_context_network("one", "one average, of words 5 to 60", context="--order 61 --averages-after 4"),
    _change_context_network(
        "21", "a nearer one: n=21, averages after 4, 10", context="--order 21 --averages-after 4,10"
    ),
    _change_context_network("wide", "wider: m=100, h=200", "--embedding-dim 100 --hidden-units 200"),
    _change_context_network("residual", "a residual block, rate 1.2", "--residual-blocks 1 --learning-rate 1.2"),
    _change_context_network("norm", "layer normalisation, rate 1.2", "--layer-norm --learning-rate 1.2"),
    _change_context_network("gelu", "GELU, rate 1.2", "--activation gelu --learning-rate 1.2"),
    _change_context_network("slow", "rate 1.2 alone", "--learning-rate 1.2"),
    _change_context_network(
        "all", "the two and GELU, rate 1.2", "--residual-blocks 1 --layer-norm --activation gelu --learning-rate 1.2"
    ),
    _change_context_network("tied", "output tied to C, rate 0.5", "--tied-output --learning-rate 0.5"),
    _change_context_network("dropout", "dropout 0.2 on hidden units", "--dropout 0.2"),
    _change_context_network("vectors", "dropout 0.1 on x", "--embedding-dropout 0.1"),
    _change_context_network("words", "dropout 0.1 on words", "--word-dropout 0.1"),
    _change_context_network("average", "averaged weights, momentum 0.998", "--weight-average 0.998"),
)
BEST = (
    Change("modern-small", "`modern-small`", "modern-small", seeds=3),
    Change("modern-small-held-out", "`modern-small`, no held-out mass", "modern-small", "--held-out-mass 0", seeds=1),
    Change("modern", "`modern`", "modern", seeds=3),
)
ROWS = (*(row for change in (*CHANGES, *BEST) for row in change.rows), *map(find_row, _NGRAM_MODELS))


def measure(rows: Path) -> dict:
    """Return perplexities, CPU seconds and sizes of each change by seed, and perplexities of mixtures of the best."""
    columns = {row.name: load_log_probs(rows.parent, row.name) for change in BEST for row in change.rows}
    columns |= {name: load_log_probs(rows.parent, name) for name in _NGRAM_MODELS}
    report = {"changes": [_report_change(change, rows) for change in (*CHANGES, *BEST)], "mixtures": []}
    for change in BEST:
        names = [row.name for row in change.rows]
        with_ngrams = f" + {' + '.join(_NGRAM_MODELS)}"
        singles = [measure_mixture(columns, [name, *_NGRAM_MODELS]) for name in names]
        report["mixtures"].append(_report_mixture(f"{change.title}{with_ngrams}", singles))
        if change.seeds > 1:
            title = f"{change.title}: {change.seeds} seeds"
            ensemble = measure_mixture(columns, names)
            everything = measure_mixture(columns, [*names, *_NGRAM_MODELS])
            report["mixtures"].append(_report_mixture(title, [ensemble]))
            report["mixtures"].append(_report_mixture(f"{title}{with_ngrams}", [everything]))
    report["kneser_ney"] = compute_perplexities(columns["kneser-ney-5"])
    return report


def _report_change(change: Change, rows: Path) -> dict:
    metrics = [read_json(rows / row.name / "metrics.json") for row in change.rows]
    figures = {"name": change.name, "title": change.title, "command": change.rows[0].full_command}
    figures |= {split: [one[split]["perplexity"] for one in metrics] for split in SPLITS}
    figures |= {name: [one[name] for one in metrics] for name in ("training_cpu_seconds", "cpu_seconds")}
    return figures | {"parameters": metrics[0]["parameters"]}


def _report_mixture(title: str, mixtures: list[dict]) -> dict:
    figures = {split: [mixture[split] for mixture in mixtures] for split in SPLITS}
    return {"title": title, "weights": [mixture["weights"] for mixture in mixtures]} | figures


def format_report(report: dict) -> str:
    """Return the table of the changes, means over the seeds with their range, and the table of the mixtures."""
    baseline = np.mean(report["changes"][0]["validation"])
    changes = [
        [
            change["title"],
            *(_format_mean(change[split]) for split in SPLITS),
            f"{np.mean(change['validation']) - baseline:+.1f}",
            f"{np.mean(change['training_cpu_seconds']):,.0f}",
            f"{np.mean(change['cpu_seconds']):,.0f}",
            f"{change['parameters'] / 1e6:.1f}",
        ]
        for change in report["changes"]
    ]
    header = ["network", *SPLIT_HEADER, "validation, change", "CPU seconds: training", "with validation"]
    kneser_ney = report["kneser_ney"]["test"]
    mixtures = [
        [
            mixture["title"],
            *(_format_mean(mixture[split]) for split in SPLITS),
            f"{np.mean(mixture['test']) / kneser_ney:.3f}",
            format_weights(np.mean(mixture["weights"], axis=0)),
        ]
        for mixture in report["mixtures"]
    ]
    mixture_header = ["mixture, weights fitted on validation", *SPLIT_HEADER, "test, ratio to Kneser-Ney", "weights"]
    return join_tables(
        markdown_table([*header, "million parameters"], changes), markdown_table(mixture_header, mixtures)
    )


def _format_mean(figures: list[float]) -> str:
    """Return the mean over the seeds, and in brackets the difference of the greatest and the least."""
    return f"{np.mean(figures):.1f}" + (f" ({max(figures) - min(figures):.1f})" if len(figures) > 1 else "")
