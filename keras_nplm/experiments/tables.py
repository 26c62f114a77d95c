"""The reports of `keras-nplm paper` and `benchmark` as Markdown, the former as a figure too."""

import os

from keras_nplm.io.files import replace_file
from keras_nplm.io.markdown import markdown_table


def write_markdown(path: str | os.PathLike, report: dict) -> None:
    """Write the tables of a report; see `experiments.build_report`."""
    sections = [_rows(report), _mixtures(report), _unseen(report), _words(report), _curves(report), _parameters(report)]
    with replace_file(path) as temporary:
        temporary.write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")


def benchmark_table(result: dict) -> str:
    """The rows of a benchmark, each contender with its peers; see `benchmark.run`."""
    header = ["benchmark", "", "n-grams/s, median", "lowest to highest", "share of peak", "ms, p50 and p99"]
    rows = [
        [
            row["benchmark"],
            row["name"],
            f"{row['rate']:,.0f}",
            f"{row['low']:,.0f} to {row['high']:,.0f}",
            f"{row['share_of_peak']:.0%}" if "share_of_peak" in row else "",
            " and ".join(f"{milliseconds:.2f}" for milliseconds in row.get("milliseconds", ())),
            "; ".join(
                f"{m:.2f} ({low:.2f} to {high:.2f}) {name}" for name, (m, low, high) in row.get("ratio_to", {}).items()
            ),
        ]
        for row in result["rows"]
        if "peak_memory" not in row
    ]
    tables = [markdown_table([*header, "times the peer's rate"], rows)] if rows else []
    texts = [
        [row["name"], f"{row['rate']:,.0f}", f"{row['wall_rate']:,.0f}", f"{row['peak_memory'] / 1e6:,.0f} MB"]
        for row in result["rows"]
        if "peak_memory" in row
    ]
    header = ["corpora", "tokens a CPU second", "a second", "peak memory"]
    return "\n\n".join([*tables, markdown_table(header, texts)] if texts else tables)


def _table(title: str, header: list[str], rows: list[list]) -> str:
    if not rows:
        return ""
    return f"### {title}\n\n{markdown_table(header, rows)}"


def _pair(figures: list | None) -> list[str]:
    return [str(figure) for figure in figures] if figures else ["", ""]


def _rows(report: dict) -> str:
    header = ["row", "paper: validation", "test", "ours: validation", "test", "epochs", "CPU seconds", "command"]
    rows = [
        [
            row["title"],
            *_pair(row["paper"]),
            f"{row['validation']:.1f}",
            f"{row['test']:.1f}",
            row.get("epochs", ""),
            f"{row['cpu_seconds']:,.0f}" if row["cpu_seconds"] >= 10 else f"{row['cpu_seconds']:.1f}",
            f"`{row['command']}`",
        ]
        for row in report["rows"]
    ]
    return _table("Perplexity on Brown", header, rows)


def _mixtures(report: dict) -> str:
    header = ["mixture", "paper: validation", "test", "ours: validation", "test", "weights"]
    rows = [
        [
            mixture["title"],
            *_pair(mixture["paper"]),
            f"{mixture['validation']:.1f}",
            f"{mixture['test']:.1f}",
            ", ".join(f"{w:.3f} {n}" for n, w in zip(mixture["components"], mixture["weights"], strict=True)),
        ]
        for mixture in report.get("mixtures", [])
    ]
    return _table("Mixtures, weights fitted on validation or fixed", header, rows)


def _unseen(report: dict) -> str:
    if not (unseen := report.get("unseen")):
        return ""
    share = f"{unseen['unseen_tokens']:,} of {unseen['tokens']:,}"
    rows = [[name, f"{mean['unseen']:.3f}", f"{mean['seen']:.3f}"] for name, mean in unseen["mean_log_prob"].items()]
    title = f"Mean ln P of test words, {share} of them in a 5-gram that training lacks"
    return _table(title, ["model", "unseen 5-grams", "seen 5-grams"], rows)


def _words(report: dict) -> str:
    if not (words := report.get("words")):
        return ""
    rows = [
        [word, ", ".join(f"{other} {cosine:.2f}" for other, cosine in near)] for word, near in words["nearest"].items()
    ]
    return _table(f"Nearest words by the cosine of C, {words['network']}", ["word", "nearest"], rows)


def _curves(report: dict) -> str:
    names = list(report["curves"])
    epochs = max(map(len, report["curves"].values()), default=0)
    rows = [
        [epoch + 1, *(f"{curve[epoch]:.1f}" if epoch < len(curve) else "" for curve in report["curves"].values())]
        for epoch in range(epochs)
    ]
    return _table("Validation perplexity by epoch, with and without direct connections", ["epoch", *names], rows)


def _parameters(report: dict) -> str:
    header = ["n", "n-grams there could be", "seen in training", "share", "parameters of MLP1's shape"]
    rows = [
        [
            row["order"],
            f"{row['possible_ngrams']:.2e}",
            f"{row['seen_ngrams']:,}",
            f"{row['seen_share']:.1e}",
            f"{row['network']:,}",
        ]
        for row in report.get("parameters", [])
    ]
    return _table("Parameters against n", header, rows)


def write_figure(path: str | os.PathLike, report: dict) -> None:
    """Draw the paper's test perplexities beside ours, and the learning curves.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    bars, curves = figure.subplots(1, 2, width_ratios=[3, 2])
    compared = [row for row in report["rows"] + report.get("mixtures", []) if row["paper"]]
    places = range(len(compared))
    bars.barh([place - 0.2 for place in places], [row["paper"][1] for row in compared], 0.4, label="paper")
    bars.barh([place + 0.2 for place in places], [row["test"] for row in compared], 0.4, label="keras_nplm")
    bars.set_yticks(places, [row["title"] for row in compared], fontsize=8)
    bars.invert_yaxis()
    bars.set_xlabel("test perplexity on Brown")
    bars.legend(loc="upper left", bbox_to_anchor=(0, 1.08), ncols=2)
    for name, curve in report["curves"].items():
        curves.plot(range(1, len(curve) + 1), curve, marker="o", label=name)
    curves.set_xlabel("epoch, the paper's optimiser")
    curves.set_ylabel("validation perplexity")
    if report["curves"]:
        curves.legend()
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=120)
