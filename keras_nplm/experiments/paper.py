"""The paper's Table 1 on Brown, row by row, and the comparisons that go with it."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import extract_ngrams, predicted_ids
from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.experiments.rows import Row, is_made, make_rows
from keras_nplm.experiments.tables import write_figure, write_markdown
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import read_arrays, read_json, write_arrays, write_json
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams import ContextFrequencies, FrequencyBins, count_ngrams
from keras_nplm.models.ngrams.interpolation import combine, fit_weights

_SPLITS = ("validation", "test")
_SHOWN = "brown-no-held-out"  # the network whose word vectors are shown
_PROBED = "she him three Monday London father could said went green small because during years States".split()
_NEIGHBOURS = 6
_MAP_WORDS = 300
_MORE_MIXTURES = (
    ["kneser-ney-5", "uniform"],
    ["brown-no-held-out", "kneser-ney-5"],
    ["brown-no-held-out", "trigram", "kneser-ney-5", "class-500-3", "uniform"],
    ["mlp1", "mlp9", "brown-no-held-out", "kneser-ney-5", "class-500-3", "uniform"],
)


def _classes(number: int, order: int, paper: tuple[int, int]) -> Row:
    command = f"ngram --method class-based --num-classes {number} --order {order}"
    return Row(f"class-{number}-{order}", f"class-based, {number} classes, n={order}", command, paper)


ROWS = (
    Row("mlp1", "MLP1", "train --config mlp1", (284, 268), ("MLP2", 275, 257)),
    Row("mlp3", "MLP3", "train --config mlp3", (327, 310), ("MLP4", 286, 272)),
    Row("mlp5", "MLP5", "train --config mlp5", (296, 279), ("MLP6", 273, 259)),
    Row("mlp7", "MLP7", "train --config mlp7", (309, 293), ("MLP8", 284, 270)),
    Row("mlp9", "MLP9", "train --config mlp9", (280, 276), ("MLP10", 265, 252)),
    Row("brown-no-held-out", "n=5, h=100, m=60, no direct", "train --config brown --held-out-mass 0"),
    Row("mlp1-paper", "MLP1, the paper's optimiser", "train --config mlp1-paper", (284, 268)),
    Row(
        "mlp1-paper-no-direct",
        "the same, no direct",
        "train --config mlp1-paper --no-direct-connections --epochs 8",
    ),
    Row(
        "deleted-interpolation-paper",
        "deleted interpolation, the paper's bins",
        "ngram --method deleted-interpolation --order 3 --paper-bins",
        (352, 336),
    ),
    Row("trigram", "deleted interpolation, our bins", "ngram --method deleted-interpolation --order 3"),
    *(
        Row(f"kneser-ney-{n}", f"Kneser-Ney, n={n}", f"ngram --method kneser-ney --order {n}", paper)
        for n, paper in ((3, (334, 323)), (4, (332, 321)), (5, (332, 321)))
    ),
    _classes(150, 3, (348, 334)),
    _classes(200, 3, (354, 340)),
    _classes(500, 3, (326, 312)),
    _classes(500, 4, (327, 312)),
    _classes(500, 5, (327, 312)),
    _classes(1000, 3, (335, 319)),
    _classes(2000, 3, (343, 326)),
)


def row_named(name: str) -> Row:
    """A row of the table, for what else asks its model.

    Raises:
        KeyError: there is none of that name.
    """
    return {row.name: row for row in ROWS}[name]


def reproduce(
    directory: str | os.PathLike, *, rows: Sequence[str] = (), jobs: int | None = None, data_dir: str | None = None
) -> dict:
    """Make the rows of the paper's Table 1 on Brown that are not made yet, and report all that are.

    Each row is made by the command that the table shows, in `rows/NAME`, with its messages in `rows/NAME.log`. What was
    interrupted is gone on with. The report is `table.md`, `table.json` and, where matplotlib is installed, `table.png`.

    Args:
        directory: where rows and report go.
        rows: names of rows. Default: all.
        jobs: how many rows are made side by side, each with its share of the cores. Default: 2 where there are cores.
        data_dir: where Brown's archive lies or is downloaded to.

    Returns:
        the report, as `table.json` has it.

    Raises:
        InputError: no such row.
        RunError: a row failed; the others are kept.
    """
    named = {row.name: row for row in ROWS}
    if unknown := [name for name in rows if name not in named]:
        raise InputError(f"There is no row {unknown[0]!r}: choose from {', '.join(named)}.")
    directory = Path(directory)
    try:
        make_rows([named[name] for name in rows] or ROWS, directory, jobs=jobs, data_dir=data_dir)
    except RunError:
        build_report(directory)
        raise
    return build_report(directory)


def build_report(directory: Path) -> dict:
    """The figures of all rows that are made, and what is worked out from them."""
    made = {row.name: row for row in ROWS if is_made(row, directory)}
    metrics = {name: read_json(directory / "rows" / name / "metrics.json") for name in made}
    scores = {name: scores_of(directory, name) for name in made}
    report = {"rows": [_figures(made[name], metrics[name]) for name in made]}
    if made:
        encoded = EncodedCorpus.load(directory / "rows" / next(iter(made)) / "corpus")
        report["mixtures"] = _mixtures(made, scores, encoded)
        report["unseen"] = _unseen(made, scores, encoded)
        report["parameters"] = _parameters(encoded)
    if _SHOWN in made:
        report["words"] = _words(LanguageModel.load(directory / "rows" / _SHOWN))
    pair = ("mlp1-paper", "mlp1-paper-no-direct")
    report["curves"] = {
        name: [epoch["validation_perplexity"] for epoch in metrics[name]["history"]] for name in pair if name in made
    }
    write_json(directory / "table.json", report)
    write_markdown(directory / "table.md", report)
    try:
        write_figure(directory / "table.png", report)
    except ImportError:
        print("no table.png: pip install matplotlib for the figure", file=sys.stderr)
    return report


def _figures(row: Row, metrics: dict) -> dict:
    figures = {"name": row.name, "title": row.title, "paper": row.paper}
    figures["command"] = f"keras-nplm {shlex.join(row.arguments)} --output {row.name}"
    figures |= {split: metrics[split]["perplexity"] for split in _SPLITS} | {"cpu_seconds": metrics["cpu_seconds"]}
    if row.is_network:
        figures |= {"parameters": metrics["parameters"], "epochs": len(metrics["history"])}
    return figures


def scores_of(directory: Path, name: str) -> dict[str, np.ndarray]:
    """ln P of each token of `validation` and `test` by a row, float [T]; worked out once and kept."""
    path, made = directory / "log_probs" / f"{name}.npz", directory / "rows" / name / "metrics.json"
    if not path.exists() or path.stat().st_mtime < made.stat().st_mtime:
        print(f"scoring {name}", file=sys.stderr)
        model = LanguageModel.load(directory / "rows" / name)
        columns = {
            split: np.concatenate([part for part, _ in log_probs(model.model, model.corpus.ids(split), "stream")])
            for split in _SPLITS
        }
        write_arrays(path, columns)
    return read_arrays(path, _SPLITS)


def _mixtures(made: dict[str, Row], scores: dict, encoded: EncodedCorpus) -> list[dict]:
    """Each network with the trigram at 0.5 and at the fitted weight, and what more models bring."""
    uniform = {split: np.full(len(next(iter(scores.values()))[split]), 0.0) for split in _SPLITS}
    for column in uniform.values():
        column -= np.log(len(predicted_ids(encoded.vocabulary_size, "stream")))
    scores = scores | {"uniform": uniform}
    mixtures = []
    for row in made.values():
        if row.is_network and "trigram" in made:
            title, *paper = row.mixed or (f"{row.title} + trigram", None, None)
            paper = paper if paper[0] else None
            mixtures.append(
                {"title": f"{title}, 0.5", "paper": paper} | mixture_of(scores, [row.name, "trigram"], [0.5, 0.5])
            )
            mixtures.append({"title": f"{title}, fitted", "paper": None} | mixture_of(scores, [row.name, "trigram"]))
    for names in _MORE_MIXTURES:
        if all(name in scores for name in names):
            mixtures.append({"title": " + ".join(names) + ", fitted", "paper": None} | mixture_of(scores, names))
    by_frequency = ["brown-no-held-out", "trigram"]
    if all(name in scores for name in by_frequency):
        title = " + ".join(by_frequency) + ", by frequency of the context"
        mixtures.append({"title": title, "paper": None} | mixture_of(scores, by_frequency, bins=_bins(encoded)))
    return mixtures


def _bins(encoded: EncodedCorpus) -> dict[str, np.ndarray]:
    """The bin of the context of each token of validation and test; see `FrequencyBins`."""
    counted = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, 3, "stream")
    bins = FrequencyBins(ContextFrequencies.from_counts(counted))
    ngrams = {split: extract_ngrams(encoded.ids(split), 3, "stream") for split in _SPLITS}
    return {split: bins.find_bins(ngrams[split][:, :-1]) for split in _SPLITS}


def mixture_of(
    scores: dict, names: Sequence[str], weights: Sequence[float] | None = None, bins: dict | None = None
) -> dict:
    """The perplexities of a mixture; its weights, or where they depend on bins their mean over validation."""
    columns = {split: np.stack([scores[name][split] for name in names], axis=1) for split in _SPLITS}
    bins = bins or {split: np.zeros(len(columns[split]), np.int64) for split in _SPLITS}
    number = 1 + max(int(bins[split].max()) for split in _SPLITS)
    rows = fit_weights(columns["validation"], bins["validation"], number) if weights is None else np.array([weights])
    figures = {split: float(np.exp(-combine(columns[split], rows[bins[split]]).mean())) for split in _SPLITS}
    return {"components": list(names), "weights": rows[bins["validation"]].mean(axis=0).round(4).tolist()} | figures


def _unseen(made: dict[str, Row], scores: dict, encoded: EncodedCorpus) -> dict:
    """Mean ln P over the test 5-grams that training has and has not: what a model does beyond counting."""
    counted = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, 5, "stream")
    ngrams = extract_ngrams(encoded.ids("test"), 5, "stream")
    seen = counted.look_up(ngrams) > 0
    names = [name for name in made if made[name].is_network or name.startswith(("kneser-ney", "trigram"))]
    means = {
        n: {"unseen": float(scores[n]["test"][~seen].mean()), "seen": float(scores[n]["test"][seen].mean())}
        for n in names
    }
    return {"tokens": len(seen), "unseen_tokens": int((~seen).sum()), "mean_log_prob": means}


def _words(language_model: LanguageModel) -> dict:
    """What the word vectors learned: the nearest words of some, and a map of the most frequent ones."""
    words = [word for word in language_model.vocabulary.words[len(SPECIALS) :] if word.isalpha()][:_MAP_WORDS]
    places = word_map(language_model.model.embed.C.numpy()[language_model.vocabulary.encode(words)])
    places /= np.abs(places).max()
    known = [word for word in _PROBED if word in language_model.vocabulary.words]
    near = {word: language_model.nearest(word, _NEIGHBOURS) for word in known}
    return {
        "network": _SHOWN,
        "nearest": {word: [[other, round(cosine, 3)] for other, cosine in row] for word, row in near.items()},
        "map": [[word, *map(float, place.round(3))] for word, place in zip(words, places, strict=True)],
    }


def _parameters(encoded: EncodedCorpus, most: int = 6) -> list[dict]:
    """Parameters against n: all n-grams that there could be, those seen in training, those of the network MLP1."""
    size, m, h = encoded.vocabulary_size - 3, 60, 50
    counted = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, most, "stream")
    return [
        {
            "order": n,
            "possible_ngrams": size**n,
            "seen_ngrams": len(counted.keys[n - 1]),
            "seen_share": len(counted.keys[n - 1]) / size**n,
            "network": size * (1 + n * m + h) + h * (1 + (n - 1) * m),
        }
        for n in range(2, most + 1)
    ]
