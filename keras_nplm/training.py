"""Training: optimiser, `fit` with checkpoints that can be resumed, and the model directory that comes of it."""

import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.averaging import EVERY, WeightAverage
from keras_nplm.background import coverage, write_background
from keras_nplm.callbacks import LanguageModelBoard
from keras_nplm.configuration import Configuration, numbers_of
from keras_nplm.corpora import Corpus
from keras_nplm.distribution import from_chief, has_several_workers, is_chief, open_strategy, sharded
from keras_nplm.encoding import EncodedCorpus
from keras_nplm.errors import InputError, RunError
from keras_nplm.evaluation import evaluate
from keras_nplm.files import NUMBER, check_fields, read_arrays, read_json, replacing, write_arrays, write_json
from keras_nplm.language_model import LanguageModel
from keras_nplm.model import NPLM
from keras_nplm.model_directory import (
    NETWORK,
    component_directory,
    freed_if_refused,
    load_model,
    prepare_directory,
    read_metrics,
)
from keras_nplm.network_file import check_memory, least_number_of_weights
from keras_nplm.optimizers import OPTIMIZERS
from keras_nplm.outputs import OUTPUTS, LinearOutput, Output, SampledOutput
from keras_nplm.resampling import drawn_number
from keras_nplm.run_report import write_run_report
from keras_nplm.scoring import evaluate_with_ln_z
from keras_nplm.shortlist import Shortlist
from keras_nplm.vocabulary import EOS_ID, SPECIALS, Vocabulary
from keras_nplm.windows import gather_ngrams, ngram_dataset, ngram_positions

_VALIDATION_BATCH = 1024
_PROBE = 256  # n-grams of the validation split, for the gradient's norms
SECONDS_PER_SAVE = 600  # at most this much work is lost with a run that is killed
_STEPS_PER_CHECK = 50  # updates between looks at the loss, which wait for the device
_STEPS_PER_EXECUTION = 32  # at most: a sampled update takes about as long as Keras takes to begin one


def train(
    configuration: Configuration,
    corpus: Corpus,
    directory: str | os.PathLike,
    *,
    strategy: str | tf.distribute.Strategy = "auto",
    background: str | os.PathLike | None = None,
) -> dict:
    """Train a model on a corpus, or go on with a run that was interrupted, and evaluate it.

    The model directory has `model.keras` (the epoch with the best validation perplexity), `vocabulary.txt`,
    `config.json`, `metrics.json`, `report.html` (a page with curves, samples and a map of the words), `corpus/` (the
    ids of the text) and `logs/` (TensorBoard). A run that ended early, killed at whatever moment, leaves `last.npz` and
    `history.json` as well, written every ten minutes, after each epoch and when it is interrupted; the same call goes
    on from them to the same weights, bit for bit, as if it had never ended, on as many devices as before.

    With a short-list (`configuration.shortlist_size`) the model is a `Shortlist`: `components/0` has the network,
    `components/1` the background, by default a Kneser-Ney model of the same text, of the order
    that sees the network's near words.

    With several workers each calls this with the same arguments. Worker 0 writes the directory; the others need the
    corpus alone, and find its ids in the directory where they see it, else make them there for themselves.

    Args:
        configuration: the options.
        corpus: the text.
        directory: the model directory: absent, or of a run with the same options, which is finished or goes on.
        strategy: the devices: of tf.distribute, or a name; see `keras_nplm.distribution.open_strategy`.
        background: with a short-list, the model directory whose model predicts the other words.

    Returns:
        what `metrics.json` holds: exact `validation` and `test` figures (see `evaluate`), with `ln_z` where the model
        was trained to keep it near 0; `coverage`, the share of their tokens that a short-list has; `parameters`,
        `best_epoch`, `seconds`, `cpu_seconds`, `training_cpu_seconds` (without validation), `ngrams_per_second` and the
        `history` of the epochs, with a short-list that of the network alone. At workers but the first, `{}`.

    Raises:
        InputError: the directory holds another run, or the text, an option or the strategy cannot be used.
        RunError: the loss became NaN or infinite, a file cannot be written, or another worker was lost.
    """
    directory = Path(directory)
    devices = open_strategy(strategy) if isinstance(strategy, str) else strategy
    if configuration.batch_size % devices.num_replicas_in_sync:
        raise InputError(
            f"`batch_size` must be a multiple of the {devices.num_replicas_in_sync} devices that share a batch. "
            f"Received: {configuration.batch_size}."
        )
    try:
        return _train(configuration, corpus, directory, devices, background)
    except tf.errors.OpError as error:
        several = has_several_workers(devices)
        what = "Another worker was lost" if several else "TensorFlow could not go on"
        where = " at all workers" if several else ""
        raise RunError(
            f"{what} ({_first_line(error.message)}). What was saved is kept: give the same command "
            f"again{where} to go on."
        ) from error


def _first_line(message: str) -> str:
    """What an error of TensorFlow says, without its heading and the pages after it."""
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("Graph execution error")]
    return lines[0][:200] if lines else "no reason given"


def _train(
    configuration: Configuration,
    corpus: Corpus,
    directory: Path,
    devices: tf.distribute.Strategy,
    background: str | os.PathLike | None,
) -> dict:
    options = dataclasses.asdict(configuration) | {"kind": "shortlist" if configuration.shortlist_size else "nplm"}
    if background is not None:
        if not configuration.shortlist_size:
            raise InputError("A background is for the words outside a short-list: give --shortlist-size, too.")
        options |= {"background": str(background)}
    keras.utils.set_random_seed(configuration.seed)
    chief = is_chief(devices)
    if not chief:
        from_chief(devices, [np.zeros(1)])  # until it has prepared the directory
    encoded, vocabulary = prepare_directory(
        directory,
        corpus,
        options,
        vocabulary_scope=configuration.vocabulary_scope,
        min_count=configuration.min_count,
        max_size=configuration.max_size,
    )
    if chief:
        from_chief(devices, [np.zeros(1)])
    (finished,) = from_chief(devices, [np.array((directory / "metrics.json").exists())])
    if finished:
        print(f"The run in {directory} is finished; these are its figures.", file=sys.stderr)
        if not chief:
            return {}
        metrics = read_metrics(directory)
        wanted = dict(parameters=int, best_epoch=int, seconds=NUMBER, cpu_seconds=NUMBER, ngrams_per_second=int)
        check_fields(directory / "metrics.json", metrics, wanted)
        if not (directory / "report.html").exists():
            _write_report(directory, metrics)
        return metrics
    with freed_if_refused(directory, unless=directory / "last.npz"):
        targets = _targets(configuration, encoded)
    if chief and configuration.shortlist_size:
        write_background(directory, configuration, encoded, vocabulary, background)
    _fit(configuration, encoded, targets, vocabulary, directory, devices)
    if not chief:
        return {}

    model = load_model(directory, options, len(vocabulary))
    history = _read_history(directory / "history.json")
    best = min(history, key=lambda epoch: epoch["validation_perplexity"])
    ln_z = isinstance(model, NPLM) and (configuration.output_layer == "nce" or configuration.self_normalisation)
    measure = evaluate_with_ln_z if ln_z else evaluate
    held_out = {split: encoded.ids(split) for split in ("validation", "test")}
    metrics = {split: measure(model, ids, configuration.boundary) for split, ids in held_out.items()}
    if isinstance(model, Shortlist):
        shares = {split: coverage(ids, model.listed, configuration.boundary) for split, ids in held_out.items()}
        metrics["coverage"] = {split: round(share, 4) for split, share in shares.items()}
    network = model.network if isinstance(model, Shortlist) else model
    metrics |= {
        "parameters": network.count_params() - sum(weight.numpy().size for weight in network.non_trainable_weights),
        "predicted_types": len(vocabulary) - 3 + (configuration.boundary == "sentence"),
        "best_epoch": best["epoch"],
        "seconds": round(sum(epoch["seconds"] for epoch in history), 1),
        "cpu_seconds": round(sum(epoch["cpu_seconds"] for epoch in history), 1),
        "training_cpu_seconds": round(sum(epoch["training_cpu_seconds"] for epoch in history), 1),
        "ngrams_per_second": round(float(np.median([epoch["ngrams_per_second"] for epoch in history]))),
        "history": history,
    }
    write_json(directory / "metrics.json", metrics)
    (directory / "last.npz").unlink(missing_ok=True)
    _write_report(directory, metrics)
    return metrics


def _write_report(directory: Path, metrics: dict) -> None:
    """Write `report.html`; where that fails the run is whole without it."""
    print(f"Writing {directory / 'report.html'}.", file=sys.stderr)
    try:
        config = read_json(directory / "config.json")
        write_run_report(directory / "report.html", LanguageModel.load(directory), config, metrics)
    except Exception as error:  # of many kinds: the figures may be another version's
        print(f"There is no report.html: {error} Give the same command again to have it.", file=sys.stderr)


def _read_history(path: Path) -> list[dict]:
    """The figures of the epochs that `history.json` holds."""
    history = read_json(path)
    check_fields(path, history, {"epochs": list})
    figures = ("validation_perplexity", "seconds", "cpu_seconds", "training_cpu_seconds", "ngrams_per_second")
    for epoch in history["epochs"]:
        check_fields(path, epoch, {"epoch": int} | dict.fromkeys(figures, NUMBER))
    return history["epochs"]


def _targets(configuration: Configuration, encoded: EncodedCorpus) -> tuple[np.ndarray, np.ndarray, int]:
    """Of the texts of each share: how often each id is a target, int [K, |V|], and the share; an epoch's n-grams.

    Raises:
        InputError: a text has no n-gram to show.
    """
    frequencies, shares = encoded.frequencies_by_share()
    frequencies[:, EOS_ID] *= configuration.boundary == "sentence"
    numbers = frequencies[:, : _targets_below(configuration)].sum(axis=1)
    return frequencies, shares, sum(map(drawn_number, shares, numbers))


def _targets_below(configuration: Configuration) -> int | None:
    """The id from which on words are no targets of the training; None where all are."""
    if configuration.shortlist_size is None or configuration.outside_output:
        return None
    return len(SPECIALS) + configuration.shortlist_size


def _fit(
    configuration: Configuration,
    encoded: EncodedCorpus,
    targets: tuple[np.ndarray, np.ndarray, int],
    vocabulary: Vocabulary,
    directory: Path,
    devices: tf.distribute.Strategy,
) -> None:
    """Fit from the start or from where `last.npz` has got to, saving both the last state and the best epoch.

    `targets` is what `_targets` tells of the text.
    """
    ids = encoded.for_training()
    frequencies, shares, number = targets
    counts = frequencies.sum(axis=0)
    listed = len(SPECIALS) + (configuration.shortlist_size or len(vocabulary))
    targets_below = _targets_below(configuration)
    options = dict(order=configuration.order, boundary=configuration.boundary, targets_below=targets_below)
    replicas = devices.num_replicas_in_sync
    batch_size = min(configuration.batch_size, max(replicas, number - number % replicas))
    steps = max(1, number // batch_size)
    with devices.scope():
        model = build_model(configuration, len(vocabulary))
        # what is shown more often counts more; a word of the text that is shown least as often as it was met
        model.set_unigram(shares / shares.min() @ frequencies, configuration.min_count)
        model.compile(optimizer=build_optimizer(configuration, steps))
        model.optimizer.build(model.trainable_variables)
    if isinstance(model.prob, SampledOutput) and replicas == 1:
        model.steps_per_execution = max(k for k in range(1, _STEPS_PER_EXECUTION + 1) if steps % k == 0)
    run = _Run(model, directory, configuration, steps, batch_size, devices)
    validation_data = ngram_dataset(encoded.ids("validation"), batch_size=_VALIDATION_BATCH, shuffle=False, **options)
    tokens, positions = ngram_positions(encoded.ids("validation"), **options)
    probe = gather_ngrams(tokens, positions[:_PROBE], configuration.order)
    if configuration.shortlist_size and is_chief(devices):
        share, outputs = counts[:listed].sum() / counts.sum(), model.prob.vocabulary_size
        print(
            f"The short-list has {share:.1%} of the training text. Perplexities of the fit are the network's own, over "
            f"its {outputs:,} outputs; those of the whole model come after it.",
            file=sys.stderr,
        )
    callbacks = [run]
    if is_chief(devices):
        board = LanguageModelBoard(
            directory / "logs",
            LanguageModel(model, vocabulary, encoded.tokenizer, configuration.boundary),
            probe=(probe[:, :-1], probe[:, -1]),
            batch_size=batch_size,
            word_counts=counts,
            hparams=dataclasses.asdict(configuration),
        )
        callbacks = [board, run]  # so that no epoch is lost in the logs where a run is killed between them
    while not run.is_done:
        epoch, step = run.reached
        train_data = ngram_dataset(
            ids,
            batch_size=batch_size,
            seed=configuration.seed,
            drop_remainder=True,
            first_epoch=epoch,
            first_batch=step,
            **options,
        )
        try:
            with contextlib.redirect_stdout(sys.stderr):
                model.fit(
                    sharded(train_data),
                    validation_data=sharded(validation_data),
                    steps_per_epoch=steps - step,
                    initial_epoch=epoch,
                    epochs=epoch + 1 if step else configuration.epochs,  # what is left of an epoch, then the others
                    callbacks=callbacks,
                    shuffle=False,  # the dataset does
                    verbose=(1 if sys.stderr.isatty() else 2) if is_chief(devices) else 0,
                )
        except KeyboardInterrupt:
            run.save()
            raise


def build_model(configuration: Configuration, vocabulary_size: int) -> NPLM:
    """The network that a configuration describes, not yet compiled."""
    names = ("order", "embedding_dim", "hidden_units", "direct_connections", "dropout", "embedding_dropout")
    names += ("output_rank", "tied_output", "shortlist_size", "outside_output", "word_dropout", "activation")
    names += ("residual_blocks", "layer_norm", "dtype")
    options = {name: getattr(configuration, name) for name in names}
    options["averages_after"] = configuration.averages
    if not configuration.hidden_units or configuration.output_layer == "energy":  # no hidden layer of its own
        options |= dict(activation="tanh", residual_blocks=0, layer_norm=False)
    linear = issubclass(OUTPUTS[configuration.output_layer], LinearOutput)
    check_memory(least_number_of_weights(options, vocabulary_size, linear))
    outputs = vocabulary_size
    if configuration.shortlist_size:
        outputs = len(SPECIALS) + configuration.shortlist_size + configuration.outside_output
    return NPLM(vocabulary_size, output_layer=_build_output(configuration, outputs), **options)


def _build_output(configuration: Configuration, outputs: int) -> Output:
    if configuration.output_layer == "adaptive":
        options = {"cutoffs": numbers_of(configuration.cutoffs) or None}
    else:
        options = {name: getattr(configuration, name) for name in ("held_out_mass", "self_normalisation")}
    if _is_sampled(configuration):
        options |= {name: getattr(configuration, name) for name in ("num_sampled", "proposal", "seed")}
    if configuration.output_layer == "energy":
        options["hidden_units"] = configuration.hidden_units
    return OUTPUTS[configuration.output_layer](outputs, name="prob", dtype=configuration.dtype, **options)


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
    adagrad = configuration.optimizer == "adagrad"
    options = {"initial_accumulator_value": configuration.initial_accumulator} if adagrad else {}
    return OPTIMIZERS[configuration.optimizer](
        rate,
        weight_decay=configuration.weight_decay or None,
        dense_decay=not _is_sampled(configuration),
        **options,
    )


class _Run(keras.callbacks.Callback):
    """Where a run has got to: its history, the best epoch, and all that decides how it goes on.

    `last.npz` has the weights, where random numbers have got to, the optimiser with its count of updates, and what the
    metrics hold of an epoch begun. It is replaced whole, the history before it: a run killed between the two
    finds one epoch too many in the history, which the count of updates cuts off. With several workers the chief's state
    goes to all at the start, so that none but the chief need have a file.
    """

    def __init__(
        self, model: NPLM, directory: Path, configuration: Configuration, steps: int, batch_size: int, devices
    ):
        super().__init__()
        self.set_model(model)
        self.directory = directory
        self.best = directory / "model.keras"
        if configuration.shortlist_size:
            self.best = component_directory(directory, NETWORK) / "model.keras"
        self.epochs, self.patience = configuration.epochs, configuration.patience
        self.steps, self.batch_size = steps, batch_size
        self.devices, self.chief = devices, is_chief(devices)
        self.history: list[dict] = []
        self.spent = np.zeros(2)  # on the training of an epoch begun: seconds, CPU seconds
        self.metrics_begun: list[np.ndarray] = []  # what the metrics hold of an epoch begun
        self.average = WeightAverage(model, configuration.weight_average) if configuration.weight_average else None
        self.saved = time.monotonic()
        self._resume()

    @property
    def reached(self) -> tuple[int, int]:
        """The epoch, from 0, and the update within it that come next."""
        return divmod(int(keras.ops.convert_to_numpy(self.model.optimizer.iterations)), self.steps)

    @property
    def is_done(self) -> bool:
        """Whether all epochs are trained, or the last ones brought nothing better."""
        perplexities = [epoch["validation_perplexity"] for epoch in self.history]
        best = int(np.argmin(perplexities)) if perplexities else -1
        return len(perplexities) >= self.epochs or len(perplexities) - 1 - best >= self.patience

    def on_train_begin(self, logs=None):
        self.executions_per_check = max(1, _STEPS_PER_CHECK // self.model.steps_per_execution)

    def on_epoch_begin(self, epoch, logs=None):
        for variable, value in zip(self.model.metrics_variables, self.metrics_begun, strict=False):
            variable.assign(value)
        self.metrics_begun = []
        self.began = time.perf_counter(), time.process_time()

    def on_train_batch_end(self, batch, logs=None):
        if self.average is not None:
            self._take_average()
        if batch // self.model.steps_per_execution % self.executions_per_check:
            return
        loss = logs[self.model.prob.loss_name]
        if not np.isfinite(loss):
            raise RunError(
                f"The loss became {loss} at update {batch + 1} of epoch {len(self.history) + 1}: lower "
                f"--learning-rate. {self._kept()}"
            )
        if time.monotonic() - self.saved > SECONDS_PER_SAVE:
            self.save()

    def _take_average(self, at_latest: bool = False) -> None:
        at_once = self.model.steps_per_execution
        since = -(-EVERY // at_once) * at_once
        updates = int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))
        if updates < since if at_latest else updates % since == 0:
            self.average.update(updates, since)

    def on_test_begin(self, logs=None):
        self.trained = time.perf_counter(), time.process_time()
        if self.average is not None:
            self._take_average(at_latest=True)
            self.average.swap()  # until the end of the epoch: what is validated and kept is the average

    def on_epoch_end(self, epoch, logs=None):
        if not np.isfinite(logs["val_perplexity"]):
            became = f"became {logs['val_perplexity']} in epoch {epoch + 1}"
            raise RunError(f"The validation perplexity {became}: lower --learning-rate. {self._kept()}")
        best = min((row["validation_perplexity"] for row in self.history), default=np.inf)
        name = self.model.prob.loss_name
        training, training_cpu = self.spent + np.subtract(self.trained, self.began)
        history = [
            *self.history,
            {
                "epoch": epoch + 1,
                name: float(logs[name]),
                **({"train_perplexity": float(logs["perplexity"])} if "perplexity" in logs else {}),
                "validation_perplexity": float(logs["val_perplexity"]),
                "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
                "seconds": round(training + time.perf_counter() - self.trained[0], 2),
                "cpu_seconds": round(training_cpu + time.process_time() - self.trained[1], 2),
                "training_cpu_seconds": round(training_cpu, 2),
                "ngrams_per_second": round(self.steps * self.batch_size / training),
            },
        ]
        try:
            if self.chief:
                if history[-1]["validation_perplexity"] < best:
                    self._save_best()
                write_json(self.directory / "history.json", {"epochs": history})
        finally:
            if self.average is not None:
                self.average.swap()
        self.history, self.spent = history, np.zeros(2)  # until here `save` writes nothing
        self._write(self.spent)
        self.model.stop_training = self.is_done

    def save(self) -> None:
        """Write where the run has got to, unless an epoch's updates are done and its figures are not yet, or it has
        nothing finite to go on from."""
        finite = all(np.isfinite(weight.numpy()).all() for weight in self.model.weights)
        if self.reached[0] == len(self.history) and finite:
            self._write(self.spent + np.subtract((time.perf_counter(), time.process_time()), self.began))

    def _kept(self) -> str:
        """What there is of a run that fails."""
        if not self.history:
            return "No epoch had been finished."
        best = min(self.history, key=lambda epoch: epoch["validation_perplexity"])
        return f"model.keras keeps epoch {best['epoch']}, the best before."

    def _write(self, spent: np.ndarray) -> None:
        if self.chief:
            arrays = {name: [variable.numpy() for variable in part] for name, part in self._state().items()}
            write_arrays(self.directory / "last.npz", arrays | {"spent": spent})
        self.saved = time.monotonic()

    def _state(self) -> dict[str, list[keras.Variable]]:
        model = self.model
        state = {"weights": model.weights, "random": list(model.random_states().values())}
        state["optimizer"] = model.optimizer.variables
        state["average"] = self.average.variables if self.average is not None else []
        if not has_several_workers(self.devices):  # to read them all workers would have to ask
            state["metrics"] = model.metrics_variables
        return state

    def _resume(self) -> None:
        """Take up what `last.npz` and `history.json` hold, at all workers."""
        state, perplexities = self._state(), np.full(self.epochs, np.nan)
        metrics = state.pop("metrics", [])
        if self.chief and (self.directory / "last.npz").exists():
            stored = read_arrays(self.directory / "last.npz", ["spent"], [*state, "metrics"])
            for name, variables in state.items():
                if [array.shape for array in stored[name]] != [tuple(variable.shape) for variable in variables]:
                    raise InputError(f"{self.directory / 'last.npz'} is of another model: remove it to begin anew.")
                for variable, array in zip(variables, stored[name], strict=True):
                    variable.assign(array)
            self.history = _read_history(self.directory / "history.json") if self.reached[0] else []
            if not 0 <= self.reached[0] <= min(self.epochs, len(self.history)) or stored["spent"].shape != (2,):
                raise InputError(
                    f"{self.directory / 'last.npz'} goes with another history.json: remove it to begin anew."
                )
            self.history = self.history[: self.reached[0]]
            self.spent = stored["spent"]
            begun = [array.shape for array in stored["metrics"]] == [tuple(metric.shape) for metric in metrics]
            self.metrics_begun = stored["metrics"] if self.reached[1] and begun else []
            perplexities[: len(self.history)] = [epoch["validation_perplexity"] for epoch in self.history]
        if has_several_workers(self.devices):
            variables = [variable for part in state.values() for variable in part]
            given = [perplexities, *(variable.numpy() for variable in variables)]
            perplexities, *values = from_chief(self.devices, given)
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
            if not self.chief:
                self.history = [{"validation_perplexity": p} for p in perplexities[np.isfinite(perplexities)].tolist()]

    def _save_best(self) -> None:
        model = self.model
        if has_several_workers(self.devices):  # saving this one would ask the others
            model = NPLM.from_config(model.get_config())
            model.set_weights(self.model.get_weights())
        with replacing(self.best) as temporary:
            model.save(temporary)
