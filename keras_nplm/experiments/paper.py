"""Reproduction of the paper's Table 1 on Brown: its rows, mixtures, unseen n-grams, parameters and word vectors.

The text is not quite the paper's: |V| is 17,905 here and 16,383 there. So compare rows, not columns. No network has
`held_out_mass`. Weights of mixtures are 0.5, as in the paper, or fitted on validation.

The optimiser matters more than the shape. The two rows with the paper's optimiser (1e-3 per example, in batches of 512)
stop while validation still improves. "Our bins" of deleted interpolation distinguish contexts that never occurred by
their last word. Class-based models have a uniform component, fitted on validation; compare them with "kneser-ney-5 +
uniform". Networks win on n-grams that training lacks, Kneser-Ney on the others. This is why a mixture is better.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import extract_ngrams, predicted_ids
from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.experiments.log_probs import SPLITS, Columns, load_log_probs, measure_mixture
from keras_nplm.experiments.paper_rows import PAPER_ROWS
from keras_nplm.experiments.rows import Row, is_made, make_rows
from keras_nplm.experiments.tables import format_paper, write_figure
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import read_json, replace_file, write_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.ngrams import ContextFrequencies, FrequencyBins, count_ngrams

_VECTORS_ROW = "brown-no-held-out"  # the network whose word vectors are reported
_QUERIES = "she him three Monday London father could said went green small because during years States".split()
_NEIGHBOURS = 6
_MAP_WORDS = 300
_MIXTURES = (
    ["kneser-ney-5", "uniform"],
    ["brown-no-held-out", "kneser-ney-5"],
    ["brown-no-held-out", "trigram", "kneser-ney-5", "class-500-3", "uniform"],
    ["mlp1", "mlp9", "brown-no-held-out", "kneser-ney-5", "class-500-3", "uniform"],
)
_BINNED_MIXTURE = ["brown-no-held-out", "trigram"]
_CURVES = ("mlp1-paper", "mlp1-paper-no-direct")
_MAX_ORDER = 6  # of the table of parameters
_MLP1_SIZES = 60, 50  # m, h


def reproduce(
    directory: str | os.PathLike, *, rows: Sequence[str] = (), jobs: int | None = None, data_dir: str | None = None
) -> dict:
    """Make the rows of the paper's Table 1 on Brown that do not exist yet, and report all existing rows.

    Each row is made by the command that the table shows, in `rows/NAME`, with its messages in `rows/NAME.log`.
    Re-running resumes an interrupted reproduction. The report is `table.md`, `table.json` and `table.png`.

    Args:
        directory: the directory of rows and report.
        rows: names of rows. Default: all.
        jobs: number of rows made in parallel, each with an equal share of the cores. Default: 2, or 1 on one core.
        data_dir: directory of Brown's archive, to which it is downloaded if it is absent.

    Returns:
        the report, as written to `table.json`.

    Raises:
        InputError: unknown row, or `jobs` is less than 1.
        RunError: a command failed, other rows are kept and reported; or a different process writes the directory.
    """
    by_name = {row.name: row for row in PAPER_ROWS}
    if unknown := [name for name in rows if name not in by_name]:
        raise InputError(f"`rows` must be names of {', '.join(by_name)}. Received: {unknown[0]!r}.")
    directory = Path(directory)
    with lock_directory(directory):
        try:
            make_rows([by_name[name] for name in rows] or PAPER_ROWS, directory, jobs=jobs, data_dir=data_dir)
        except RunError:
            build_report(directory)
            raise
        return build_report(directory)


def build_report(directory: Path) -> dict:
    """Write and return the report on all rows that exist in a directory."""
    made = {row.name: row for row in PAPER_ROWS if is_made(row, directory)}
    metrics = {name: read_json(directory / "rows" / name / "metrics.json") for name in made}
    columns = {name: load_log_probs(directory, name) for name in made}
    report = {"rows": [_report_row(made[name], metrics[name]) for name in made]}
    if made:
        encoded = EncodedCorpus.load(directory / "rows" / next(iter(made)) / "corpus")
        report["mixtures"] = _report_mixtures(made, columns, encoded)
        report["unseen"] = _report_unseen(made, columns, encoded)
        report["parameters"] = _report_parameters(encoded)
    if _VECTORS_ROW in made:
        report["words"] = _report_words(LanguageModel.load(directory / "rows" / _VECTORS_ROW))
    report["curves"] = {
        name: [epoch["validation_perplexity"] for epoch in metrics[name]["history"]] for name in _CURVES if name in made
    }
    write_json(directory / "table.json", report)
    with replace_file(directory / "table.md") as temporary:
        temporary.write_text(format_paper(report) + "\n", encoding="utf-8")
    write_figure(directory / "table.png", report)
    return report


def _report_row(row: Row, metrics: dict) -> dict:
    figures = {"name": row.name, "title": row.title, "paper": row.paper}
    figures["command"] = row.full_command
    figures |= {split: metrics[split]["perplexity"] for split in SPLITS} | {"cpu_seconds": metrics["cpu_seconds"]}
    if row.is_network:
        figures |= {"parameters": metrics["parameters"], "epochs": len(metrics["history"])}
    return figures


def _report_mixtures(made: dict[str, Row], columns: dict[str, Columns], encoded: EncodedCorpus) -> list[dict]:
    """Return each network mixed with the trigram, at weight 0.5 and at the fitted weight, and other mixtures."""
    log_prob = -np.log(len(predicted_ids(encoded.vocabulary_size, "stream")))
    uniform = {split: np.full(len(next(iter(columns.values()))[split]), log_prob) for split in SPLITS}
    columns = columns | {"uniform": uniform}
    mixtures = []
    for row in made.values():
        if row.is_network and "trigram" in made:
            names = [row.name, "trigram"]
            title, *paper = row.mixed or (f"{row.title} + trigram",)
            half, fitted = measure_mixture(columns, names, [0.5, 0.5]), measure_mixture(columns, names)
            mixtures.append({"title": f"{title}, 0.5", "paper": paper or None} | half)
            mixtures.append({"title": f"{title}, fitted", "paper": None} | fitted)
    for names in _MIXTURES:
        if all(name in columns for name in names):
            title = f"{' + '.join(names)}, fitted"
            mixtures.append({"title": title, "paper": None} | measure_mixture(columns, names))
    if all(name in columns for name in _BINNED_MIXTURE):
        title = f"{' + '.join(_BINNED_MIXTURE)}, by frequency of the context"
        mixture = measure_mixture(columns, _BINNED_MIXTURE, bins=_find_bins(encoded))
        mixtures.append({"title": title, "paper": None} | mixture)
    return mixtures


def _find_bins(encoded: EncodedCorpus) -> dict[str, np.ndarray]:
    """Return the bin of the context of each token of validation and test; see `FrequencyBins`."""
    counts = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, 3, "stream")
    bins = FrequencyBins(ContextFrequencies.from_counts(counts))
    return {split: bins.find_bins(extract_ngrams(encoded.ids(split), 3, "stream")[:, :-1]) for split in SPLITS}


def _report_unseen(made: dict[str, Row], columns: dict[str, Columns], encoded: EncodedCorpus) -> dict:
    """Return the mean ln P of test tokens whose 5-gram occurs in training, and of those whose 5-gram does not."""
    counts = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, 5, "stream")
    seen = counts.look_up(extract_ngrams(encoded.ids("test"), 5, "stream")) > 0
    means = {}
    for name, row in made.items():
        if row.is_network or name.startswith(("kneser-ney", "trigram")):
            column = columns[name]["test"]
            means[name] = {"unseen": float(column[~seen].mean()), "seen": float(column[seen].mean())}
    return {"tokens": len(seen), "unseen_tokens": int((~seen).sum()), "mean_log_prob": means}


def _report_words(language_model: LanguageModel) -> dict:
    """Return the nearest neighbours of some words, and a map of the most frequent words."""
    words = [word for word in language_model.vocabulary.words[len(SPECIALS) :] if word.isalpha()][:_MAP_WORDS]
    points = word_map(language_model.model.embed.C.numpy()[language_model.vocabulary.encode(words)])
    points /= np.abs(points).max()
    queries = [word for word in _QUERIES if word in language_model.vocabulary.words]
    neighbours = {word: language_model.nearest(word, _NEIGHBOURS) for word in queries}
    return {
        "network": _VECTORS_ROW,
        "nearest": {
            word: [[neighbour, round(cosine, 3)] for neighbour, cosine in pairs] for word, pairs in neighbours.items()
        },
        "map": [[word, *map(float, point.round(3))] for word, point in zip(words, points, strict=True)],
    }


def _report_parameters(encoded: EncodedCorpus) -> list[dict]:
    """Return for each order n the possible n-grams, the n-grams in training, and the parameters of MLP1's network."""
    size, (m, h) = encoded.vocabulary_size - 3, _MLP1_SIZES  # <pad>, <s> and </s> are not words of the paper
    counts = count_ngrams(encoded.ids("train"), encoded.vocabulary_size, _MAX_ORDER, "stream")
    return [
        {
            "order": n,
            "possible_ngrams": size**n,
            "seen_ngrams": len(counts.keys[n - 1]),
            "seen_share": len(counts.keys[n - 1]) / size**n,
            "network": size * (1 + n * m + h) + h * (1 + (n - 1) * m),
        }
        for n in range(2, _MAX_ORDER + 1)
    ]
