"""Training: optimiser, `fit` with checkpoints that can be resumed, and the model directory that comes of it."""

import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np

from keras_nplm.callbacks import LanguageModelBoard
from keras_nplm.configuration import Configuration
from keras_nplm.corpora import Corpus
from keras_nplm.encoding import EncodedCorpus
from keras_nplm.errors import InputError, RunError
from keras_nplm.evaluation import evaluate
from keras_nplm.files import read_json, replacing, write_json
from keras_nplm.language_model import LanguageModel
from keras_nplm.model import NPLM
from keras_nplm.model_directory import prepare_directory
from keras_nplm.optimizers import OPTIMIZERS
from keras_nplm.outputs import OUTPUTS, Output, SampledOutput
from keras_nplm.run_report import write_run_report
from keras_nplm.scoring import evaluate_with_ln_z
from keras_nplm.vocabulary import EOS_ID, Vocabulary
from keras_nplm.windows import ngram_dataset, ngrams_of

_VALIDATION_BATCH = 1024
_PROBE = 256  # n-grams of the validation split, for the gradient's norms
_STEPS_PER_CHECK = 50  # updates between looks at the loss, which wait for the device
_STEPS_PER_EXECUTION = 32  # at most: a sampled update takes about as long as Keras takes to begin one


def train(configuration: Configuration, corpus: Corpus, directory: str | os.PathLike) -> dict:
    """Train a model on a corpus, or go on with a run that was interrupted, and evaluate it.

    The model directory has `model.keras` (the epoch with the best validation perplexity), `vocabulary.txt`,
    `config.json`, `metrics.json`, `report.html` (a page with curves, samples and a map of the words), `corpus/` (the
    ids of the text) and `logs/` (TensorBoard). A run that ended early leaves `last.keras` and `history.json` as well;
    the same call goes on from them to the same result as if it had never ended.

    Args:
        configuration: the options.
        corpus: the text.
        directory: the model directory: absent, or of a run with the same options, which is finished or goes on.

    Returns:
        what `metrics.json` holds: exact `validation` and `test` figures (see `evaluate`), with `ln_z` where the model
        was trained to keep it near 0; `parameters`, `best_epoch`, `seconds`, `cpu_seconds`, `training_cpu_seconds`
        (without validation), `ngrams_per_second` and the `history` of the epochs.

    Raises:
        InputError: the directory holds another run, or the text or an option cannot be used.
        RunError: the loss became NaN or infinite, or a file cannot be written.
    """
    directory = Path(directory)
    keras.utils.set_random_seed(configuration.seed)
    encoded, vocabulary = prepare_directory(
        directory,
        corpus,
        dataclasses.asdict(configuration) | {"kind": "nplm"},
        vocabulary_scope=configuration.vocabulary_scope,
        min_count=configuration.min_count,
        max_size=configuration.max_size,
    )
    if (directory / "metrics.json").exists():
        print(f"The run in {directory} is finished; these are its figures.", file=sys.stderr)
        metrics = read_json(directory / "metrics.json")
        if not (directory / "report.html").exists():
            _write_report(directory, metrics)
        return metrics
    _fit(configuration, encoded, vocabulary, directory)

    model = keras.models.load_model(directory / "model.keras")
    history = read_json(directory / "history.json")["epochs"]
    best = min(history, key=lambda epoch: epoch["validation_perplexity"])
    ln_z = configuration.output_layer == "nce" or configuration.self_normalisation
    measure = evaluate_with_ln_z if ln_z else evaluate
    metrics = {split: measure(model, encoded.ids(split), configuration.boundary) for split in ("validation", "test")}
    metrics |= {
        "parameters": model.count_params() - sum(weight.numpy().size for weight in model.non_trainable_weights),
        "predicted_types": len(vocabulary) - 3 + (configuration.boundary == "sentence"),
        "best_epoch": best["epoch"],
        "seconds": round(sum(epoch["seconds"] for epoch in history), 1),
        "cpu_seconds": round(sum(epoch["cpu_seconds"] for epoch in history), 1),
        "training_cpu_seconds": round(sum(epoch["training_cpu_seconds"] for epoch in history), 1),
        "ngrams_per_second": round(float(np.median([epoch["ngrams_per_second"] for epoch in history]))),
        "history": history,
    }
    write_json(directory / "metrics.json", metrics)
    (directory / "last.keras").unlink(missing_ok=True)
    _write_report(directory, metrics)
    return metrics


def _write_report(directory: Path, metrics: dict) -> None:
    """Write `report.html`; where that fails the run is whole without it."""
    print(f"Writing {directory / 'report.html'}.", file=sys.stderr)
    try:
        config = read_json(directory / "config.json")
        write_run_report(directory / "report.html", LanguageModel.load(directory), config, metrics)
    except (InputError, RunError, KeyError, TypeError) as error:  # or another version's figures
        print(f"There is no report.html: {error} Give the same command again to have it.", file=sys.stderr)


def _fit(configuration: Configuration, encoded: EncodedCorpus, vocabulary: Vocabulary, directory: Path) -> None:
    """Fit from the start or from `last.keras`, saving both the last and the best epoch."""
    ids = encoded.ids("train")
    options = dict(order=configuration.order, boundary=configuration.boundary)
    number = len(ids) if configuration.boundary == "sentence" else int(np.count_nonzero(ids != EOS_ID))
    steps = max(1, number // configuration.batch_size)
    batch_size = min(configuration.batch_size, number)
    counts = np.bincount(ids, minlength=len(vocabulary))
    counts[EOS_ID] *= configuration.boundary == "sentence"
    if (directory / "last.keras").exists():
        model = keras.models.load_model(directory / "last.keras")
        history = read_json(directory / "history.json")["epochs"][: int(model.optimizer.iterations) // steps]
    else:
        history = []
        model = build_model(configuration, len(vocabulary))
        model.prob.set_unigram(counts, configuration.min_count)
        model.compile(optimizer=build_optimizer(configuration, steps))
    if isinstance(model.prob, SampledOutput):
        model.steps_per_execution = max(k for k in range(1, _STEPS_PER_EXECUTION + 1) if steps % k == 0)
    checkpoint = _Checkpoint(directory, history, configuration.patience, steps * batch_size)
    if checkpoint.is_done(configuration.epochs):
        return
    train_data = ngram_dataset(
        ids, batch_size=batch_size, seed=configuration.seed, drop_remainder=True, first_epoch=len(history), **options
    )
    validation_data = ngram_dataset(encoded.ids("validation"), batch_size=_VALIDATION_BATCH, shuffle=False, **options)
    probe = ngrams_of(encoded.ids("validation"), **options)[:_PROBE]
    board = LanguageModelBoard(
        directory / "logs",
        LanguageModel(model, vocabulary, encoded.tokenizer, configuration.boundary),
        probe=(probe[:, :-1], probe[:, -1]),
        batch_size=batch_size,
        word_counts=counts,
        hparams=dataclasses.asdict(configuration),
    )
    with contextlib.redirect_stdout(sys.stderr):
        model.fit(
            train_data,
            validation_data=validation_data,
            steps_per_epoch=steps,
            initial_epoch=len(history),
            epochs=configuration.epochs,
            callbacks=[board, checkpoint],  # so that no epoch is lost in the logs where a run is killed between them
            shuffle=False,  # the dataset does
            verbose=1 if sys.stderr.isatty() else 2,
        )


def build_model(configuration: Configuration, vocabulary_size: int) -> NPLM:
    """The network that a configuration describes, not yet compiled."""
    names = ("order", "embedding_dim", "hidden_units", "direct_connections", "dropout", "embedding_dropout")
    names += ("output_rank", "tied_output", "dtype")
    options = {name: getattr(configuration, name) for name in names}
    return NPLM(vocabulary_size, output_layer=_build_output(configuration, vocabulary_size), **options)


def _build_output(configuration: Configuration, vocabulary_size: int) -> Output:
    if configuration.output_layer == "adaptive":
        options = {"cutoffs": tuple(map(int, filter(None, configuration.cutoffs.split(",")))) or None}
    else:
        options = {name: getattr(configuration, name) for name in ("held_out_mass", "self_normalisation")}
    if _is_sampled(configuration):
        options |= {name: getattr(configuration, name) for name in ("num_sampled", "proposal", "seed")}
    return OUTPUTS[configuration.output_layer](vocabulary_size, name="prob", dtype=configuration.dtype, **options)


def _is_sampled(configuration: Configuration) -> bool:
    return issubclass(OUTPUTS[configuration.output_layer], SampledOutput)


def build_optimizer(configuration: Configuration, steps_per_epoch: int) -> keras.optimizers.Optimizer:
    """The optimiser and its schedule.

    Under plain SGD the paper's weight decay and the optimiser's are the same, theta <- theta - eps_t (gradient + lambda
    theta), and the optimiser's needs no pass over the weights for the penalty's value; under the others it is
    decoupled, and not the paper's. With a sampled output it falls on the rows that a step touches (see
    `keras_nplm.optimizers`).

    linear: eps_t = eps_0 (1 - t/T), T the updates of all epochs; inverse-time: eps_t = eps_0 / (1 + r t), the paper's.

    Args:
        configuration: the options.
        steps_per_epoch: updates in an epoch.

    Example:

    >>> optimizer = build_optimizer(Configuration(learning_rate=1e-3, schedule="inverse-time", decay_rate=0.5), 10)
    >>> _ = optimizer.iterations.assign(2)
    >>> round(float(optimizer.learning_rate), 6)
    0.0005
    """
    schedules = keras.optimizers.schedules
    rate = configuration.learning_rate
    if configuration.schedule == "linear":
        rate = schedules.PolynomialDecay(rate, steps_per_epoch * configuration.epochs, end_learning_rate=0.0)
    elif configuration.schedule == "inverse-time":
        rate = schedules.InverseTimeDecay(rate, decay_steps=1, decay_rate=configuration.decay_rate)
    return OPTIMIZERS[configuration.optimizer](
        rate,
        weight_decay=configuration.weight_decay or None,
        dense_decay=not _is_sampled(configuration),
    )


class _Checkpoint(keras.callbacks.Callback):
    """Keeps the best epoch and the last, a history of them all, and stops when patience is spent.

    Each file is replaced whole, the history before `last.keras`: a run killed between the two finds one epoch too many
    in the history, which resuming cuts off by the optimiser's count of updates.
    """

    def __init__(self, directory: Path, history: list[dict], patience: int, ngrams_per_epoch: int):
        super().__init__()
        self.directory = directory
        self.history = history
        self.patience = patience
        self.ngrams_per_epoch = ngrams_per_epoch

    def is_done(self, epochs: int) -> bool:
        """Whether all epochs are trained, or the last ones brought nothing better."""
        perplexities = [epoch["validation_perplexity"] for epoch in self.history]
        best = int(np.argmin(perplexities)) if perplexities else -1
        return len(perplexities) >= epochs or len(perplexities) - 1 - best >= self.patience

    def on_train_begin(self, logs=None):
        self.executions_per_check = max(1, _STEPS_PER_CHECK // self.model.steps_per_execution)

    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter(), time.process_time()

    def on_train_batch_end(self, batch, logs=None):
        loss = logs[self.model.prob.loss_name]
        if batch // self.model.steps_per_execution % self.executions_per_check == 0 and not np.isfinite(loss):
            raise RunError(
                f"The loss became {loss} at update {batch + 1} of epoch {len(self.history) + 1}: lower "
                "--learning-rate. The best epoch before it, if any, is still saved."
            )

    def on_test_begin(self, logs=None):
        self.trained = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        if not np.isfinite(logs["val_perplexity"]):
            became = f"became {logs['val_perplexity']} in epoch {epoch + 1}"
            raise RunError(f"The validation perplexity {became}: lower --learning-rate.")
        best = min((row["validation_perplexity"] for row in self.history), default=np.inf)
        name = self.model.prob.loss_name
        self.history.append(
            {
                "epoch": epoch + 1,
                name: float(logs[name]),
                **({"train_perplexity": float(logs["perplexity"])} if "perplexity" in logs else {}),
                "validation_perplexity": float(logs["val_perplexity"]),
                "learning_rate": float(self.model.optimizer.learning_rate),
                "seconds": round(time.perf_counter() - self.began[0], 2),
                "cpu_seconds": round(time.process_time() - self.began[1], 2),
                "training_cpu_seconds": round(self.trained[1] - self.began[1], 2),
                "ngrams_per_second": round(self.ngrams_per_epoch / (self.trained[0] - self.began[0])),
            }
        )
        if self.history[-1]["validation_perplexity"] < best:
            self._save("model.keras")
        write_json(self.directory / "history.json", {"epochs": self.history})
        self._save("last.keras")
        self.model.stop_training = self.is_done(self.params["epochs"])

    def _save(self, name: str) -> None:
        with replacing(self.directory / name) as temporary:
            self.model.save(temporary)
