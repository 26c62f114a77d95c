"""Study `shortlist`: size of the short-list on Brown against perplexity and speed.

With a short-list (Schwenk 2007) the network predicts the s most frequent words, and an n-gram model predicts the rest:
P(w | h) = P_N(w | h) P_S(h) for listed words and P_B(w | h) for other words, where P_S(h) is the mass that the n-gram
model gives to the list. With `--outside-output` the network has one more output for this mass (Park et al. 2010). Both
sum to 1. Training and scoring cost s rows instead of |V|. All networks have the same training options. Rates are
n-grams per CPU second of one core. "With n-grams" is the mixture with Kneser-Ney, weights fitted on validation.
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.experiments.log_probs import SPLITS, Columns, compute_log_probs, compute_perplexities, measure_mixture
from keras_nplm.experiments.paper_rows import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import format_perplexities
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.ngrams.mass import build_mass
from keras_nplm.models.shortlist import Shortlist, measure_coverage
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import use_one_core

FULL, BACKGROUND = "brown-no-held-out", "kneser-ney-5"  # rows of Table 1: a network of all words, an n-gram model
_WARM_UP, _UPDATES, _ROUNDS = 20, 150, 5  # of training, to measure its speed
_WARM_UP_IDS = 5000  # ids of text that a model scores before its speed is measured


def _build_row(size: int, outside: bool) -> Row:
    option = " --outside-output" if outside else ""
    command = f"train --config brown --held-out-mass 0 --shortlist-size {size}{option}"
    title = f"{size:,} words" + (" and an output for other words" if outside else "")
    return Row(f"shortlist-{size}{'-outside' if outside else ''}", title, command)


ROWS = (
    find_row(FULL),
    find_row(BACKGROUND),
    _build_row(1000, outside=False),
    _build_row(2000, outside=False),
    _build_row(2000, outside=True),
    _build_row(5000, outside=False),
)


def measure(rows: Path) -> dict:
    """Return exact perplexities, alone and mixed with the n-gram model, and n-grams per CPU second."""
    use_one_core()
    models = {row.name: LanguageModel.load(rows / row.name) for row in ROWS}
    encoded, boundary = models[FULL].corpus, models[FULL].boundary
    held_out = {split: encoded.ids(split) for split in SPLITS}
    scored = {name: _score_text(model, held_out) for name, model in models.items()}
    trained = _measure_training_rates(rows, models)
    counts = encoded.frequencies()
    if boundary == "stream":
        counts[EOS_ID] = 0
    report = []
    for row in ROWS:
        model, (columns, rate) = models[row.name].model, scored[row.name]
        figures = {"name": row.name, "title": row.title, "scored_per_second": round(rate)}
        figures |= compute_perplexities(columns)
        figures |= _measure_with_ngrams(columns, scored[BACKGROUND][0]) if row.name != BACKGROUND else {}
        if isinstance(model, Shortlist):
            shares = {split: measure_coverage(held_out[split], model.listed, boundary) for split in SPLITS}
            figures |= {"coverage": shares, "seconds_of_masses": _time_masses(model)}
        if row.name in trained:
            config = read_json(rows / row.name / "config.json")
            listed_only = isinstance(model, Shortlist) and not config["outside_output"]
            ngrams = int(counts[: model.listed if listed_only else None].sum())
            figures |= {"trained_per_second": round(trained[row.name]), "ngrams_an_epoch": ngrams}
            figures["parameters"] = models[row.name].network.count_params()
        report.append(figures)
    return {"rows": report, "tokens": {split: len(scored[FULL][0][split]) for split in SPLITS}}


def _score_text(language_model: LanguageModel, held_out: dict[str, np.ndarray]) -> tuple[Columns, float]:
    """Return ln P of each token of the splits, float64 [T], and n-grams per CPU second of the test text."""
    model, boundary = language_model.model, language_model.boundary
    compute_log_probs(model, held_out["test"][:_WARM_UP_IDS], boundary)
    columns, seconds = {}, 0.0
    for split, ids in held_out.items():
        began = time.process_time()
        columns[split] = compute_log_probs(model, ids, boundary).astype(np.float64)
        seconds = time.process_time() - began
    return columns, len(columns["test"]) / seconds


def _measure_with_ngrams(columns: Columns, ngram_columns: Columns) -> dict:
    """Return the perplexities of a mixture with the n-gram model, weights fitted on validation."""
    mixture = measure_mixture({"model": columns, "ngrams": ngram_columns}, ["model", "ngrams"])
    return {"mixed": {split: mixture[split] for split in SPLITS} | {"weight": mixture["weights"][0]}}


def _time_masses(model: Shortlist) -> float:
    """Return the CPU seconds that P_S of all n-gram states takes."""
    began = time.process_time()
    build_mass(model.background, np.arange(model.vocabulary_size) >= model.listed)
    return round(time.process_time() - began, 2)


def _measure_training_rates(rows: Path, models: dict[str, LanguageModel]) -> dict[str, float]:
    """Return the training rate of each network, n-grams per CPU second: the median of rounds taken in turns."""
    steps = {name: _build_training(rows / name, model) for name, model in models.items() if model.network}
    rates = {name: [] for name in steps}
    for _ in range(_ROUNDS):
        for name, step in steps.items():
            rates[name].append(step())
    return {name: float(np.median(measured)) for name, measured in rates.items()}


def _build_training(directory: Path, language_model: LanguageModel) -> Callable[[], float]:
    """Return a function that trains a new network of a row for some updates and returns n-grams per CPU second."""
    config = read_json(directory / "config.json")
    names = [field.name for field in dataclasses.fields(Configuration)]
    configuration = Configuration(**{name: config[name] for name in names if name in config})
    network, clock = build_model(configuration, len(language_model.vocabulary)), _Clock()
    network.compile(optimizer=build_optimizer(configuration, 1 << 20))
    below = network.prob.listed if configuration.shortlist_size and not configuration.outside_output else None
    options = dict(
        order=configuration.order,
        batch_size=configuration.batch_size,
        targets_below=below,
        boundary=configuration.boundary,
    )
    data = ngram_dataset(language_model.corpus.ids("train"), first_epoch=0, drop_remainder=True, **options)

    def step() -> float:
        network.fit(data, steps_per_epoch=_WARM_UP + _UPDATES, callbacks=[clock], shuffle=False, verbose=0)
        return _UPDATES * configuration.batch_size / clock.seconds

    return step


class _Clock(keras.callbacks.Callback):
    """Measures the CPU seconds from the end of the warm-up to the end of the last update."""

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if batch == _WARM_UP - 1:
            self.began = time.process_time()
        self.seconds = time.process_time() - getattr(self, "began", 0.0)


def format_report(report: dict) -> str:
    """Return a table with a row for each model."""
    header = ["model", "coverage of test", "validation", "test", "with n-grams: validation", "test"]
    header += ["training, n-grams per CPU second", "CPU seconds per epoch", "scoring, n-grams per CPU second"]
    full = next(row for row in report["rows"] if row["name"] == FULL)
    rows = []
    for row in report["rows"]:
        cells = [row["title"], f"{row['coverage']['test']:.1%}" if "coverage" in row else ""]
        cells += [*format_perplexities(row), *format_perplexities(row.get("mixed"))]
        if "trained_per_second" in row:
            cells += [_format_rate(row, full, "trained_per_second")]
            cells += [f"{row['ngrams_an_epoch'] / row['trained_per_second']:.0f}"]
        else:
            cells += ["", ""]
        rows.append([*cells, _format_rate(row, full, "scored_per_second")])
    return markdown_table(header, rows)


def _format_rate(row: dict, full: dict, name: str) -> str:
    """Return a rate, and for networks with a short-list its ratio to the network of all words."""
    ratio = f" ({row[name] / full[name]:.1f}×)" if row["name"] not in (FULL, BACKGROUND) else ""
    return f"{row[name]:,}{ratio}"
