"""Reproduction of the paper's Table 1 on Brown: its rows, mixtures, parameters and word vectors.

The text is not quite the paper's: |V| is 17,905 here and 16,383 there. So compare rows, not
columns. No network has `held_out_mass`. Weights of mixtures are 0.5, as in the paper, or fitted on
validation. The two rows with the paper's optimiser (1e-3 per example, in batches of 512) stop while
validation still improves. "Our bins" of deleted interpolation distinguish contexts that never
occurred by their last word. Class-based models have a uniform component.
"""

import os
from pathlib import Path

import numpy as np

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import SPECIALS
from keras_nplm.experiments.log_probs import load_log_probs, measure_mixture
from keras_nplm.experiments.rows import Row, is_made, read_row
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Column, Table, format_code, format_seconds, split_columns
from keras_nplm.io.files import read_json, replace_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.ngrams import count_ngrams

_TRIGRAM = "deleted interpolation"
_INTERPOLATION = "ngram --method deleted-interpolation --order 3"
_CLASSES = "ngram --method class-based --num-classes"
_KNESER_NEY = {3: (334, 323), 4: (332, 321), 5: (332, 321)}
_CLASS_BASED = {
    (150, 3): (348, 334),
    (200, 3): (354, 340),
    (500, 3): (326, 312),
    (500, 4): (327, 312),
}
_CLASS_BASED |= {(500, 5): (327, 312), (1000, 3): (335, 319), (2000, 3): (343, 326)}
PAPER_ROWS = (
    Row("mlp1", "MLP1", "train --config mlp1", (284, 268), ("MLP2", 275, 257)),
    Row("mlp3", "MLP3", "train --config mlp3", (327, 310), ("MLP4", 286, 272)),
    Row("mlp5", "MLP5", "train --config mlp5", (296, 279), ("MLP6", 273, 259)),
    Row("mlp7", "MLP7", "train --config mlp7", (309, 293), ("MLP8", 284, 270)),
    Row("mlp9", "MLP9", "train --config mlp9", (280, 276), ("MLP10", 265, 252)),
    Row(
        "brown-no-held-out", "n=5, h=100, m=60, no direct", "train --config brown --held-out-mass 0"
    ),
    Row("mlp1-paper", "MLP1, the paper's optimiser", "train --config mlp1-paper", (284, 268)),
    Row(
        "mlp1-paper-no-direct",
        "the same, no direct",
        "train --config mlp1-paper --no-direct-connections --epochs 8",
    ),
    Row(
        "deleted-interpolation-paper",
        f"{_TRIGRAM}, the paper's bins",
        f"{_INTERPOLATION} --paper-bins",
        (352, 336),
    ),
    Row("trigram", f"{_TRIGRAM}, our bins", _INTERPOLATION),
    *(
        Row(
            f"kneser-ney-{n}", f"Kneser-Ney, n={n}", f"ngram --method kneser-ney --order {n}", paper
        )
        for n, paper in _KNESER_NEY.items()
    ),
    *(
        Row(
            f"class-{c}-{n}",
            f"class-based, {c} classes, n={n}",
            f"{_CLASSES} {c} --order {n}",
            paper,
        )
        for (c, n), paper in _CLASS_BASED.items()
    ),
)
_VECTORS_ROW = "brown-no-held-out"  # the network whose word vectors are reported
_QUERIES = (
    "she him three Monday London father could said went green small because during years States"
).split()
_MAP_WORDS = 300
_CURVES = ("mlp1-paper", "mlp1-paper-no-direct")
_MAX_ORDER = 6  # of the table of parameters
_MLP1_SIZES = 60, 50  # m, h
_BESIDE: list[Column] = [
    ("paper: validation", "paper.0", ""),
    ("test", "paper.1", ""),
    *split_columns(header="ours: "),
]


def _format_neighbours(pairs: list) -> str:
    return ", ".join(f"{neighbour} {cosine:.2f}" for neighbour, cosine in pairs)


_ROW = [
    ("row", "title", ""),
    *_BESIDE,
    ("epochs", "epochs", ""),
    ("CPU seconds", "cpu_seconds", format_seconds),
]
_WEIGHTS = (
    "weights",
    lambda row: ", ".join(map("{:.3f} {}".format, row["weights"], row["components"])),
    "",
)
_MIXTURE = [("mixture", "title", ""), *_BESIDE, _WEIGHTS]
_WORDS = [("word", "word", ""), ("nearest neighbours", "neighbours", _format_neighbours)]
_EPOCHS = [("epoch", "epoch", ""), *((name, name, ".1f") for name in _CURVES)]
_COUNTS = [
    ("possible n-grams", "possible_ngrams", ".2e"),
    ("n-grams in training", "seen_ngrams", ","),
]
_SIZES: list[Column] = [
    ("share", lambda row: row["seen_ngrams"] / row["possible_ngrams"], ".1e"),
    ("parameters of a network with the sizes of MLP1", "network", ","),
]
TABLES = (
    Table("rows", [*_ROW, ("command", "command", format_code)], "Perplexity on Brown"),
    Table(
        "mixtures",
        _MIXTURE,
        "Mixtures, weights fixed or fitted on validation",
        lambda row: row["paper"],
    ),
    Table(
        "nearest",
        _WORDS,
        f"Nearest neighbours by cosine similarity of word vectors, {_VECTORS_ROW}",
        None,
    ),
    Table(
        "curves",
        _EPOCHS,
        "Validation perplexity by epoch, with and without direct connections",
        None,
    ),
    Table("parameters", [("n", "order", ""), *_COUNTS, *_SIZES], "Parameters by order n", None),
)


def find_row(name: str) -> Row:
    return next(row for row in PAPER_ROWS if row.name == name)


def _measure(directory: Path) -> dict:
    made = {row.name: row for row in PAPER_ROWS if is_made(row, directory)}
    report = {"rows": [read_row(row, directory) | {"paper": row.paper} for row in made.values()]}
    if made:
        report["mixtures"] = _measure_mixtures(made, directory)
        report["parameters"] = _count_parameters(
            EncodedCorpus.load(directory / "rows" / next(iter(made)) / "corpus")
        )
    if _VECTORS_ROW in made:
        report |= _find_neighbours(LanguageModel.load(directory / "rows" / _VECTORS_ROW))
    curves: dict[int, dict] = {}
    for name in filter(made.get, _CURVES):
        for epoch, figures in enumerate(
            read_json(directory / "rows" / name / "metrics.json")["history"], start=1
        ):
            curves.setdefault(epoch, {"epoch": epoch})[name] = figures["validation_perplexity"]
    return report | {"curves": list(curves.values())}


STUDY = Study(__doc__, TABLES, PAPER_ROWS, _measure)


def _measure_mixtures(made: dict[str, Row], directory: Path) -> list[dict]:
    mixtures = []
    for row in made.values() if "trigram" in made else ():
        if row.is_network:
            title, *paper = row.mixed or (f"{row.title} + trigram",)
            columns = {name: load_log_probs(directory, name) for name in (row.name, "trigram")}
            for label, weights, printed in (
                ("0.5", [0.5, 0.5], paper or None),
                ("fitted", None, None),
            ):
                mixture = measure_mixture(columns, [*columns], weights)
                mixtures.append({"title": f"{title}, {label}", "paper": printed} | mixture)
    return mixtures


def _find_neighbours(language_model: LanguageModel) -> dict:
    words = [word for word in language_model.vocabulary.words[len(SPECIALS) :] if word.isalpha()][
        :_MAP_WORDS
    ]
    points = word_map(language_model.model.embed.C.numpy()[language_model.vocabulary.encode(words)])
    points = (points / np.abs(points).max()).round(3)
    nearest = []
    for word in filter(language_model.vocabulary.words.__contains__, _QUERIES):
        pairs = [[other, round(cosine, 3)] for other, cosine in language_model.nearest(word, 6)]
        nearest.append({"word": word, "neighbours": pairs})
    return {
        "nearest": nearest,
        "map": [[word, *map(float, point)] for word, point in zip(words, points, strict=True)],
    }


def _count_parameters(encoded: EncodedCorpus) -> list[dict]:
    # <pad>, <s> and </s> are not words of the paper
    size, (m, h) = encoded.vocabulary_size - 3, _MLP1_SIZES
    counts = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, _MAX_ORDER, "stream")
    return [
        {"order": n, "possible_ngrams": size**n, "seen_ngrams": len(counts.keys[n - 1])}
        | {"network": size * (1 + n * m + h) + h * (1 + (n - 1) * m)}
        for n in range(2, _MAX_ORDER + 1)
    ]


def write_figure(path: str | os.PathLike, report: dict) -> None:
    """Write a figure of the paper's test perplexities beside ours, and of the learning curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    bars, curves = figure.subplots(1, 2, width_ratios=[3, 2])
    compared = [row for row in report["rows"] + report.get("mixtures", []) if row["paper"]]
    places = range(len(compared))
    bars.barh(
        [place - 0.2 for place in places], [row["paper"][1] for row in compared], 0.4, label="paper"
    )
    bars.barh(
        [place + 0.2 for place in places],
        [row["test"] for row in compared],
        0.4,
        label="keras_nplm",
    )
    bars.set_yticks(places, [row["title"] for row in compared], fontsize=8)
    bars.invert_yaxis()
    bars.set_xlabel("test perplexity on Brown")
    bars.legend(loc="upper left", bbox_to_anchor=(0, 1.08), ncols=2)
    for name in _CURVES:
        if curve := [row[name] for row in report["curves"] if name in row]:
            curves.plot(range(1, len(curve) + 1), curve, marker="o", label=name)
            curves.legend()
    curves.set(xlabel="epoch, the paper's optimiser", ylabel="validation perplexity")
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=120)
