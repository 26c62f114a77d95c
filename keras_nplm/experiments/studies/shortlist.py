"""Short-lists on Brown: what the size of the list does to perplexity and to speed."""

import dataclasses
import time
from pathlib import Path

import keras
import numpy as np

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.experiments.paper import mixture_of, row_named
from keras_nplm.experiments.rows import Row
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams.mass import build_mass
from keras_nplm.models.shortlist import Shortlist, measure_coverage
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import use_one_core

FULL, BACKGROUND = "brown-no-held-out", "kneser-ney-5"  # rows of the paper's table: all words, and n-grams alone
_SPLITS = ("validation", "test")
_WARM_UP, _UPDATES, _ROUNDS = 20, 150, 5  # of training, to measure its speed
_SCORED = 5000  # ids of text that a model scores before its speed is measured


def _row(size: int, outside: bool) -> Row:
    option = " --outside-output" if outside else ""
    command = f"train --config brown --held-out-mass 0 --shortlist-size {size}{option}"
    title = f"{size:,} words" + (" and an output for the others" if outside else "")
    return Row(f"shortlist-{size}{'-outside' if outside else ''}", title, command)


ROWS = (
    row_named(FULL),
    row_named(BACKGROUND),
    *(_row(*which) for which in ((1000, False), (2000, False), (2000, True), (5000, False))),
)


def run(rows: Path) -> dict:
    """Exact perplexities, alone and mixed with the n-gram model; n-grams a CPU second in training and in scoring."""
    use_one_core()
    models = {row.name: LanguageModel.load(rows / row.name) for row in ROWS}
    encoded = models[FULL].corpus
    held_out = {split: encoded.ids(split) for split in _SPLITS}
    scored = {name: _scored(model, held_out) for name, model in models.items()}
    trained = _training_rates(rows, models)
    counts = encoded.frequencies()
    if models[FULL].boundary == "stream":
        counts[EOS_ID] = 0
    report = []
    for row in ROWS:
        model, (columns, rate) = models[row.name].model, scored[row.name]
        figures = {"name": row.name, "title": row.title, "scored_per_second": round(rate)}
        figures |= {split: float(np.exp(-column.mean())) for split, column in columns.items()}
        figures |= _mixed(columns, scored[BACKGROUND][0]) if row.name != BACKGROUND else {}
        if isinstance(model, Shortlist):
            shares = {
                split: measure_coverage(held_out[split], model.listed, models[FULL].boundary) for split in _SPLITS
            }
            figures |= {"coverage": shares, "seconds_of_masses": _seconds_of_masses(model)}
        if row.name in trained:
            config = read_json(rows / row.name / "config.json")
            filtered = isinstance(model, Shortlist) and not config["outside_output"]
            ngrams = int(counts[: model.listed if filtered else None].sum())
            figures |= {"trained_per_second": round(trained[row.name]), "ngrams_an_epoch": ngrams}
            figures["parameters"] = models[row.name].network.count_params()
        report.append(figures)
    return {"rows": report, "tokens": {split: len(scored[FULL][0][split]) for split in _SPLITS}}


def _scored(language_model: LanguageModel, held_out: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float]:
    """ln P of each token of the splits, float64 [T], and n-grams a CPU second over the test text."""
    model, columns, seconds = language_model.model, {}, 0.0
    for _ in log_probs(model, held_out["test"][:_SCORED]):
        pass
    for split, ids in held_out.items():
        began = time.process_time()
        columns[split] = np.concatenate([part for part, _ in log_probs(model, ids)]).astype(np.float64)
        seconds = time.process_time() - began
    return columns, len(columns["test"]) / seconds


def _mixed(columns: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> dict:
    """With the n-gram model, in shares fitted on validation."""
    found = mixture_of({"itself": columns, "others": others}, ["itself", "others"])
    return {"mixed": {split: found[split] for split in _SPLITS} | {"weight": found["weights"][0]}}


def _seconds_of_masses(model: Shortlist) -> float:
    """CPU seconds that P_S of all n-gram states takes."""
    began = time.process_time()
    build_mass(model.background, np.arange(model.vocabulary_size) >= model.listed)
    return round(time.process_time() - began, 2)


def _training_rates(rows: Path, models: dict[str, LanguageModel]) -> dict[str, float]:
    """N-grams a CPU second of the training of each network, the median of rounds in which they take turns."""
    steps = {name: _updates(rows / name, model) for name, model in models.items() if model.network}
    rates = {name: [] for name in steps}
    for _ in range(_ROUNDS):
        for name, step in steps.items():
            rates[name].append(step())
    return {name: float(np.median(measured)) for name, measured in rates.items()}


def _updates(directory: Path, language_model: LanguageModel):
    """A function that trains a network like a row's for some updates, and returns n-grams a CPU second."""
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
    """CPU seconds from the end of the first updates to that of the last."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == _WARM_UP - 1:
            self.began = time.process_time()
        self.seconds = time.process_time() - getattr(self, "began", 0.0)


def table(report: dict) -> str:
    """A row a model."""
    header = ["model", "in the list", "valid", "test", "with n-grams: valid", "test", "training, n-grams/s"]
    header += ["an epoch, CPU s", "scoring, n-grams/s"]
    full = next(row for row in report["rows"] if row["name"] == FULL)
    cells = []
    for row in report["rows"]:
        shown = [row["title"], f"{row['coverage']['test']:.1%}" if "coverage" in row else ""]
        shown += [f"{row[split]:.1f}" for split in _SPLITS]
        shown += [f"{row['mixed'][split]:.1f}" for split in _SPLITS] if "mixed" in row else ["", ""]
        if "trained_per_second" in row:
            shown += [_ratio(row, full, "trained_per_second")]
            shown += [f"{row['ngrams_an_epoch'] / row['trained_per_second']:.0f}"]
        else:
            shown += ["", ""]
        cells.append([*shown, _ratio(row, full, "scored_per_second")])
    return markdown_table(header, cells)


def _ratio(row: dict, full: dict, rate: str) -> str:
    """A rate, and how many times that of the full model it is."""
    times = f" ({row[rate] / full[rate]:.1f}×)" if row["name"] not in (FULL, BACKGROUND) else ""
    return f"{row[rate]:,}{times}"
