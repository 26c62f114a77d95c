"""Reproduction of the paper's Table 1 on Brown: its rows, mixtures, parameters and word vectors.

The text is not quite the paper's: |V| is 17,905 here and 16,383 there. So compare rows, not
columns. No network has `held_out_mass`. "Our bins" of deleted interpolation distinguish contexts
that never occurred by their last word. Weights of mixtures are 0.5, as in the paper, or fitted on
validation. `trigram` in a mixture is deleted interpolation with our bins; the paper mixes that with
the paper's bins, whose perplexity is higher. Class-based models have a uniform component.
"""

import dataclasses
import hashlib
import json
import os
import textwrap
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.experiments import paper_optimiser
from keras_nplm.experiments.claims import TABLE as CLAIMS_TABLE
from keras_nplm.experiments.claims import judge_claims, measure_similar_words
from keras_nplm.experiments.log_probs import load_log_probs, measure_mixture
from keras_nplm.experiments.rows import Row, is_made, read_row
from keras_nplm.experiments.seeds import add_seeds, join_measured, list_rows
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import (
    Column,
    Table,
    format_code,
    format_mean,
    format_seconds,
    split_columns,
)
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.ngrams import count_ngrams

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TRIGRAM = "deleted interpolation"
_INTERPOLATION = "ngram --method deleted-interpolation --order 3"
_CLASSES = "ngram --method class-based --num-classes"
# by the order n: the paper's perplexity on validation and test
_KNESER_NEY = {3: (334, 323), 4: (332, 321), 5: (332, 321)}
# by the number of classes and the order n
_CLASS_BASED = {
    (150, 3): (348, 334),
    (200, 3): (354, 340),
    (500, 3): (326, 312),
    (500, 4): (327, 312),
    (500, 5): (327, 312),
    (1000, 3): (335, 319),
    (2000, 3): (343, 326),
}
PAPER_ROWS = (
    Row("mlp1", "MLP1", "train --config mlp1", (284, 268), ("MLP2", 275, 257)),
    Row("mlp3", "MLP3", "train --config mlp3", (327, 310), ("MLP4", 286, 272)),
    Row("mlp5", "MLP5", "train --config mlp5", (296, 279), ("MLP6", 273, 259)),
    Row("mlp7", "MLP7", "train --config mlp7", (309, 293), ("MLP8", 284, 270)),
    Row("mlp9", "MLP9", "train --config mlp9", (280, 276), ("MLP10", 265, 252)),
    Row(
        "brown-no-held-out", "n=5, h=100, m=60, no direct", "train --config brown --held-out-mass 0"
    ),
    Row(
        "brown-random-features",
        "the same, C fixed at random",
        "train --config brown --held-out-mass 0 --freeze-embedding",
    ),
    *paper_optimiser.ROWS,
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
SEEDS = (add_seeds(PAPER_ROWS[0], 3),)  # of MLP1
_FURTHER_SEEDS = [row.name for seeds in SEEDS for row in seeds.rows[1:]]
VECTORS_ROW = "brown-no-held-out"  # the network whose word vectors are reported
QUERIES = (  # words whose nearest neighbours are reported
    "she him three Monday London father could said went green small because during years States"
).split()
_MAP_WORDS = 300
_LEAST_PERPLEXITY = 200  # at the left of the bars
_CAPTION_WIDTH = 165  # letters of a line
_MAX_ORDER = 6  # of the table of parameters
_MLP1_EMBEDDING_DIM = 60  # m
_MLP1_HIDDEN_UNITS = 50  # h
_BESIDE: list[Column] = [
    ("paper: validation", "paper.0", ""),
    ("test", "paper.1", ""),
    *split_columns(header="ours: ", form=format_mean),
]


def _format_neighbours(pairs: list) -> str:
    return ", ".join(f"{neighbour} {cosine:.2f}" for neighbour, cosine in pairs)


def _describe_making(row: dict) -> str:
    """Return the command of a row, or the weights of a mixture."""
    if "command" in row:
        return format_code(row["command"])
    pairs = zip(row["weights"], row["components"], strict=True)
    return ", ".join(f"{weight:.3f} {component}" for weight, component in pairs)


def _is_on_page(row: dict) -> bool:
    """Return whether a row is one of the paper, or stands beside it, but for single seeds."""
    if "command" in row:
        return row["name"] not in _FURTHER_SEEDS
    return row["paper"] is not None


def _compute_share(row: dict) -> float:
    return row["seen_ngrams"] / row["possible_ngrams"]


_ROW: list[Column] = [
    ("row", "title", ""),
    *_BESIDE,
    ("epochs", "epochs", ""),
    ("CPU seconds", "cpu_seconds", format_seconds),
    ("command, or weights of a mixture", _describe_making, ""),
]
_WORDS: list[Column] = [
    ("word", "word", ""),
    ("nearest neighbours", "neighbours", _format_neighbours),
]
_PARAMETERS: list[Column] = [
    ("n", "order", ""),
    ("possible n-grams", "possible_ngrams", ".2e"),
    ("n-grams in training", "seen_ngrams", ","),
    ("share", _compute_share, ".1e"),
    ("parameters of a network with the sizes of MLP1", "network", ","),
]
TABLES = (
    Table("rows", _ROW, on_page=_is_on_page, more=["seeds", "mixtures"]),
    CLAIMS_TABLE,
    Table(
        "nearest",
        _WORDS,
        f"Nearest neighbours by cosine similarity of word vectors, {VECTORS_ROW}",
        None,
    ),
    paper_optimiser.CURVES_TABLE,
    Table("parameters", _PARAMETERS, "Parameters by order n", None),
)


def find_row(name: str) -> Row:
    return next(row for row in PAPER_ROWS if row.name == name)


def _measure(directory: Path) -> dict:
    made = [row for row in STUDY.rows if is_made(row, directory)]
    names = [row.name for row in made]
    rows = []
    for row in made:
        figures = read_row(row, directory)
        figures["paper"] = row.paper
        rows.append(figures)
    report: dict[str, Any] = {"rows": rows, "seeds": join_measured(SEEDS, rows)}
    of_other_texts = paper_optimiser.ROWS
    on_brown = [row for row in made if row in PAPER_ROWS and row not in of_other_texts]
    if on_brown:
        report["mixtures"] = _measure_mixtures(on_brown, directory)
        encoded = EncodedCorpus.load(directory / "rows" / on_brown[0].name / "corpus")
        report["parameters"] = _count_parameters(encoded)
    if VECTORS_ROW in names:
        language_model = LanguageModel.load(directory / "rows" / VECTORS_ROW)
        report["nearest"] = _find_neighbours(language_model)
        report["map"] = _map_words(language_model)
        report["similar_words"] = measure_similar_words(
            language_model, encoded.ids("test"), QUERIES
        )
    report["curves"] = paper_optimiser.read_curves(names, directory)
    report["claims"] = judge_claims(report)
    return report


STUDY = Study(__doc__, TABLES, list_rows(PAPER_ROWS, SEEDS), measure=_measure)


def add_recorded(report: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with the rows that only a recorded one has. Claims are judged anew.

    Table 1 takes hours. So its rows may be made in several directories, one after the other.
    """
    made = {row["name"] for row in report["rows"]}
    # a recorded row with another command is not that of the present table
    commands = {row["name"]: row["command"] for row in recorded["rows"] if row["name"] not in made}
    kept = {row.name for row in STUDY.rows if commands.get(row.name) == row.full_command}
    order = [row.name for row in STUDY.rows]

    def join(key: str, find_name: Callable[[dict], str]) -> list[dict]:
        rows = [row for row in recorded.get(key, ()) if find_name(row) in kept]
        return sorted([*rows, *report.get(key, ())], key=lambda row: order.index(find_name(row)))

    merged = {
        **recorded,
        **report,
        "rows": join("rows", itemgetter("name")),
        # sorted by their network: that with equal weights stays before that with fitted ones
        "mixtures": join("mixtures", _find_network),
    }
    merged["seeds"] = join_measured(SEEDS, merged["rows"])
    curves = [
        {key: value for key, value in epoch.items() if key == "epoch" or key in kept}
        for epoch in recorded["curves"]
    ]
    merged["curves"] = paper_optimiser.join_curves(curves, report["curves"])
    merged["claims"] = judge_claims(merged)
    return merged


def _find_network(mixture: Mapping[str, Any]) -> str:
    return mixture["components"][0]


def _measure_mixtures(made: list[Row], directory: Path) -> list[dict]:
    """Mix each network with the trigram: with equal weights, and with weights that are fitted."""
    if not any(row.name == "trigram" for row in made):
        return []
    mixtures = []
    for row in made:
        if not row.is_network:
            continue
        columns = {name: load_log_probs(directory, name) for name in (row.name, "trigram")}
        title = f"{row.title} + trigram"
        paper = None
        if row.mixed is not None:
            title, *paper = row.mixed
        equal = measure_mixture(columns, [*columns], [0.5, 0.5])
        fitted = measure_mixture(columns, [*columns])
        mixtures.append({"title": f"{title}, 0.5", "paper": paper, **equal})
        mixtures.append({"title": f"{title}, fitted", "paper": None, **fitted})
    return mixtures


def _find_neighbours(language_model: LanguageModel) -> list[dict]:
    nearest = []
    for word in QUERIES:
        if word in language_model.vocabulary.words:
            pairs = [[other, round(cosine, 3)] for other, cosine in language_model.nearest(word, 6)]
            nearest.append({"word": word, "neighbours": pairs})
    return nearest


def _map_words(language_model: LanguageModel) -> list[list]:
    """Return the most frequent words of letters, each with its two coordinates in [-1, 1]."""
    words, vectors = language_model.word_vectors()
    rows = [row for row, word in enumerate(words) if word.isalpha()][:_MAP_WORDS]
    points = word_map(vectors[rows])
    points = (points / np.abs(points).max()).round(3)
    return [[words[row], *map(float, point)] for row, point in zip(rows, points, strict=True)]


def _count_parameters(encoded: EncodedCorpus) -> list[dict]:
    size = encoded.vocabulary_size - 3  # <pad>, <s> and </s> are not words of the paper
    m = _MLP1_EMBEDDING_DIM
    h = _MLP1_HIDDEN_UNITS
    counts = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, _MAX_ORDER, "stream")
    return [
        {
            "order": n,
            "possible_ngrams": size**n,
            "seen_ngrams": len(counts.keys[n - 1]),
            "network": size * (1 + n * m + h) + h * (1 + (n - 1) * m),
        }
        for n in range(2, _MAX_ORDER + 1)
    ]


def write_figure(path: str | os.PathLike, report: dict) -> None:
    """Write a picture of the paper's test perplexities beside ours, and of the learning curves with
    the paper's optimiser. `paper --record` writes that of the README.

    The file says of which figures it is, as the entry `Comment`: see `digest_figures`.
    """
    with replace_file(path) as temporary:
        comment = {"Comment": digest_figures(report)}
        draw_figure(report).savefig(temporary, dpi=120, metadata=comment)


def digest_figures(report: dict) -> str:
    """Return a digest of the figures of a report that the picture shows."""
    shown = {key: report.get(key) for key in ("rows", "mixtures", "curves")}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def draw_figure(report: dict) -> "Figure":
    """Draw the bars of MLP1 to MLP10 and Kneser-Ney, the curves, and the caption below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.6), layout="constrained")
    if report["curves"]:
        bars, curves = figure.subplots(1, 2, width_ratios=[3, 2])
        paper_optimiser.draw_curves(curves, report["curves"])
    else:
        bars = figure.subplots()
    _draw_bars(bars, _list_bars(report))
    lines = [textwrap.fill(paragraph, _CAPTION_WIDTH) for paragraph in _write_caption(report)]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=9)
    return figure


@dataclasses.dataclass(frozen=True)
class _Bar:
    """A row of the picture: test perplexities of the paper and of this package."""

    title: str
    paper: float
    ours: float


def _list_bars(report: dict) -> list[_Bar]:
    """List MLP1 to MLP10 with their mixtures, Kneser-Ney, and the rows of the text with marks."""
    rows = {row["name"]: row for row in report["rows"]}
    mixtures = {row["title"]: row for row in report.get("mixtures", [])}
    bars = []
    for row in PAPER_ROWS:
        if row.mixed is None or row.name not in rows:
            continue
        bars.append(_make_bar(row.title, rows[row.name]))
        mixed, *_ = row.mixed
        mixture = mixtures.get(f"{mixed}, 0.5")
        if mixture is not None:
            bars.append(_make_bar(f"{row.title} + trigram", mixture))
    for order in _KNESER_NEY:
        name = f"kneser-ney-{order}"
        if name in rows:
            bars.append(_make_bar(f"Kneser-Ney, n = {order}", rows[name]))
    for name, title in paper_optimiser.BARS.items():
        if name in rows:
            bars.append(_make_bar(title, rows[name]))
    return bars


def _make_bar(title: str, row: dict) -> _Bar:
    return _Bar(title, row["paper"][1], row["test"])


def _draw_bars(axes: "Axes", bars: list[_Bar]) -> None:
    places = range(len(bars))
    above = [place - 0.2 for place in places]
    below = [place + 0.2 for place in places]
    paper = axes.barh(above, [bar.paper for bar in bars], 0.4, label="paper")
    ours = axes.barh(below, [bar.ours for bar in bars], 0.4, label="keras_nplm")
    for drawn in (paper, ours):
        axes.bar_label(drawn, fmt="%.0f", fontsize=7, padding=2)
    axes.set_yticks(places, [bar.title for bar in bars], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(left=_LEAST_PERPLEXITY)
    axes.set_xlabel(f"perplexity, from {_LEAST_PERPLEXITY}")
    axes.set_title("Test perplexity on Brown: lower is better", loc="left", fontsize=10)
    axes.legend(loc="upper right", fontsize=9)


def _write_caption(report: dict) -> list[str]:
    """Return the paragraphs below the picture, which explain it without the text around it."""
    bars = (
        "rows of Table 1 of Bengio et al. (2003). The networks of keras_nplm have the "
        "paper's sizes, with a higher learning rate and dropout. “+\N{NO-BREAK SPACE}trigram” is "
        "the mean of the probabilities of the network and of a trigram model: MLP2, MLP4, … in "
        "the paper. The vocabulary has 16,383 words in the paper and 17,905 here."
    )
    if not report["curves"]:
        return [f"Bars: {bars}"]
    return [f"Left: {bars}", f"Right: {paper_optimiser.write_caption(report)}"]
