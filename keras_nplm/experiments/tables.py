"""Reports of `keras-nplm paper` and `benchmark` as Markdown tables and figures, and cells that reports share."""

import os
from collections.abc import Mapping, Sequence

from keras_nplm.io.files import replace_file
from keras_nplm.io.markdown import markdown_table

SPLIT_HEADER = ["validation", "test"]


def format_perplexities(figures: Mapping[str, float] | None) -> list[str]:
    """Return the cells of validation and test perplexity; empty cells for None."""
    return [f"{figures[split]:.1f}" if figures else "" for split in ("validation", "test")]


def format_weights(weights: Sequence[float]) -> str:
    """Return the cell of the weights of a mixture."""
    return ", ".join(f"{weight:.2f}" for weight in weights)


def join_tables(*tables: str) -> str:
    """Return Markdown paragraphs and tables, separated by empty lines; empty ones are left out."""
    return "\n\n".join(filter(None, tables))


def format_paper(report: dict) -> str:
    """Return the report on Table 1 as Markdown; see `keras_nplm.experiments.paper.build_report`."""
    sections = [
        _format_rows(report),
        _format_mixtures(report),
        _format_unseen(report),
        _format_words(report),
        _format_curves(report),
        _format_parameters(report),
    ]
    return join_tables(*sections)


def format_benchmark(result: dict) -> str:
    """Return the rows of a benchmark as Markdown; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    commands = ("estimation", "preparation", "tfds")
    speed = [_format_speed(row) for row in result["rows"] if row["benchmark"] not in ("quality", "workers", *commands)]
    workers = [_format_workers(row) for row in result["rows"] if row["benchmark"] == "workers"]
    workers_header = ["workers", "n-grams/s (median)", "min to max", "CPU seconds", "validation perplexity"]
    header = ["benchmark", "contender", "n-grams/s (median)", "min to max", "share of peak", "latency in ms (p50, p99)"]
    texts = [_format_command(row) for row in result["rows"] if row["benchmark"] in commands]
    text_header = ["benchmark", "command", "tokens per CPU second", "CPU seconds", "tokens per second of the clock"]
    text_header += ["peak memory", "ratio to peer (min to max)"]
    quality = [_format_quality(row) for row in result["rows"] if row["benchmark"] == "quality"]
    quality_header = ["quality", "CPU seconds of training", "epochs", "million parameters", *SPLIT_HEADER]
    quality_header += ["test, ratio to ours", "dynamic: validation", "test", "ratio to ours", "settings", "processor"]
    return join_tables(
        markdown_table([*header, "ratio to peer (min to max)"], speed) if speed else "",
        markdown_table(text_header, texts) if texts else "",
        markdown_table([*workers_header, "ratio to peer (min to max)"], workers) if workers else "",
        markdown_table(quality_header, quality) if quality else "",
    )


def _format_quality(row: dict) -> list[str]:
    if "failure" in row:
        return [row["name"], f"failed: {row['failure']}", *[""] * 10]
    ratios = row.get("ratio_to_ours", {})
    return [
        row["name"],
        f"{row['cpu_seconds']:,.0f}",
        f"{row['epochs']:.1f}",
        f"{row['parameters'] / 1e6:.1f}",
        *format_perplexities(row),
        f"{ratios['static']:.2f}" if ratios else "",
        *format_perplexities(row["dynamic"]),
        f"{ratios['dynamic']:.2f}" if ratios else "",
        row["dynamic_settings"],
        row.get("processor", ""),
    ]


def _format_speed(row: dict) -> list[str]:
    if "failure" in row:
        return [row["benchmark"], row["name"], f"failed: {row['failure']}", *[""] * 4]
    return [
        row["benchmark"],
        row["name"],
        f"{row['rate']:,.0f}",
        f"{row['low']:,.0f} to {row['high']:,.0f}",
        f"{row['share_of_peak']:.0%}" if "share_of_peak" in row else "",
        ", ".join(f"{milliseconds:.2f}" for milliseconds in row.get("milliseconds", ())),
        _format_ratios(row),
    ]


def _format_command(row: dict) -> list[str]:
    if "failure" in row:
        return [row["benchmark"], row["name"], row["failure"], *[""] * 4]
    return [
        row["benchmark"],
        row["name"],
        f"{row['rate']:,.0f}",
        f"{row['cpu_seconds']:,.1f}",
        f"{row['wall_rate']:,.0f}" if "wall_rate" in row else "",
        f"{row['peak_memory'] / 1e6:,.0f} MB" if "peak_memory" in row else "",
        _format_ratios(row),
    ]


def _format_workers(row: dict) -> list[str]:
    return [
        row["name"],
        f"{row['rate']:,.0f}",
        f"{row['low']:,.0f} to {row['high']:,.0f}",
        f"{row['cpu_seconds']:,.0f}" if "cpu_seconds" in row else "",
        f"{row['validation_perplexity']:.1f}" if "validation_perplexity" in row else "",
        _format_ratios(row),
    ]


def _format_ratios(row: dict) -> str:
    ratios = row.get("ratio_to", {}).items()
    return "; ".join(f"{name}: {ratio:.2f} ({low:.2f} to {high:.2f})" for name, (ratio, low, high) in ratios)


def _format_section(title: str, header: list[str], rows: list[list]) -> str:
    return f"### {title}\n\n{markdown_table(header, rows)}" if rows else ""


def _format_paper(figures: list | None) -> list[str]:
    return [str(figure) for figure in figures] if figures else ["", ""]


def _format_rows(report: dict) -> str:
    header = ["row", "paper: validation", "test", "ours: validation", "test", "epochs", "CPU seconds", "command"]
    rows = [
        [
            row["title"],
            *_format_paper(row["paper"]),
            *format_perplexities(row),
            row.get("epochs", ""),
            f"{row['cpu_seconds']:,.0f}" if row["cpu_seconds"] >= 10 else f"{row['cpu_seconds']:.1f}",
            f"`{row['command']}`",
        ]
        for row in report["rows"]
    ]
    return _format_section("Perplexity on Brown", header, rows)


def _format_mixtures(report: dict) -> str:
    header = ["mixture", "paper: validation", "test", "ours: validation", "test", "weights"]
    rows = []
    for mixture in report.get("mixtures", []):
        pairs = zip(mixture["components"], mixture["weights"], strict=True)
        weights = ", ".join(f"{weight:.3f} {name}" for name, weight in pairs)
        rows.append([mixture["title"], *_format_paper(mixture["paper"]), *format_perplexities(mixture), weights])
    return _format_section("Mixtures, weights fixed or fitted on validation", header, rows)


def _format_unseen(report: dict) -> str:
    if not (unseen := report.get("unseen")):
        return ""
    share = f"{unseen['unseen_tokens']:,} of {unseen['tokens']:,} test tokens have a 5-gram that is not in training"
    rows = [[name, f"{mean['unseen']:.3f}", f"{mean['seen']:.3f}"] for name, mean in unseen["mean_log_prob"].items()]
    return _format_section(f"Mean ln P by 5-gram: {share}", ["model", "unseen 5-grams", "seen 5-grams"], rows)


def _format_words(report: dict) -> str:
    if not (words := report.get("words")):
        return ""
    rows = [
        [word, ", ".join(f"{neighbour} {cosine:.2f}" for neighbour, cosine in pairs)]
        for word, pairs in words["nearest"].items()
    ]
    title = f"Nearest neighbours by cosine similarity of word vectors, {words['network']}"
    return _format_section(title, ["word", "nearest neighbours"], rows)


def _format_curves(report: dict) -> str:
    curves = report["curves"].values()
    rows = [
        [epoch + 1, *(f"{curve[epoch]:.1f}" if epoch < len(curve) else "" for curve in curves)]
        for epoch in range(max(map(len, curves), default=0))
    ]
    title = "Validation perplexity by epoch, with and without direct connections"
    return _format_section(title, ["epoch", *report["curves"]], rows)


def _format_parameters(report: dict) -> str:
    header = ["n", "possible n-grams", "n-grams in training", "share", "parameters of a network with the sizes of MLP1"]
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
    return _format_section("Parameters by order n", header, rows)


def write_figure(path: str | os.PathLike, report: dict) -> None:
    """Write a figure of the paper's test perplexities beside ours, and of the learning curves."""
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
