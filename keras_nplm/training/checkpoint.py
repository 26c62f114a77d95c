"""Checkpoints of a training run: history, best epoch, early stopping, and a state to resume from
bit for bit.
"""

import json
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.io.errors import InputError, RunError, drop_fix, summarize_error
from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    parse_json,
    read_arrays,
    read_json,
    replace_file,
    write_arrays,
    write_json,
)
from keras_nplm.io.lock import check_locks
from keras_nplm.io.remote import CHECKPOINTS, upload
from keras_nplm.language_model.directory import advise_new_output
from keras_nplm.models.model_files import component_directory
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.replicas import has_several_workers
from keras_nplm.models.shortlist import NETWORK
from keras_nplm.training.distribution import broadcast_from_chief, is_chief
from keras_nplm.training.options import Options
from keras_nplm.training.weight_average import UPDATES_PER_AVERAGE, WeightAverage

SECONDS_PER_SAVE = 600  # a killed run loses at most so much training, and one validation
UPDATES_PER_CHECK = 50  # reading the loss waits for the device


def read_history(path: Path) -> list[dict]:
    """Read the figures of each epoch from `history.json`."""
    return _check_history(path, read_json(path))


def _check_history(path: Path, history: dict) -> list[dict]:
    """Check the fields of a history, and return its epochs."""
    check_fields(path, history, {"epochs": list})
    figures = (
        "seconds",
        "cpu_seconds",
        "training_cpu_seconds",
        "ngrams_per_second",
    )
    for epoch in history["epochs"]:
        check_fields(path, epoch, {"epoch": int} | dict.fromkeys(figures, NUMBER))
        # absent without validation text
        if "validation_perplexity" in epoch:
            check_fields(path, epoch, {"validation_perplexity": NUMBER})
    return history["epochs"]


def remove_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished run."""
    for name in CHECKPOINTS:
        (directory / name).unlink(missing_ok=True)


class Checkpoint(keras.callbacks.Callback):
    """Callback that saves checkpoints, the history and the best epoch, resumes from them, and stops
    early.

    `last.npz` holds the weights, their moving average, the states of the random generators, the
    variables of the optimiser, the history, and within an epoch the metrics. It is written whole
    under a temporary name. Then the old `last.npz` becomes `previous.npz`. If `last.npz` is damaged
    or absent, the run resumes from `previous.npz`.

    `history.json` is for readers. A run resumes from the history in its checkpoint, and writes the
    file again.

    With several workers the chief alone reads and writes files. Its state is broadcast to all
    workers at the start.
    """

    def __init__(
        self,
        model: ContextNetwork,
        directory: Path,
        options: Options,
        steps: int,
        batch_size: int,
        devices: tf.distribute.Strategy,
        *,
        is_validated: bool = True,
    ):
        super().__init__()
        self.set_model(model)
        self.directory = directory
        self.last_path, self.previous_path = (self.directory / name for name in CHECKPOINTS)
        self.is_last_whole = False  # a damaged file does not replace a whole `previous.npz`
        self.best_path = self.directory / "model.keras"
        if options.network.has_ngram_model:
            self.best_path = component_directory(self.directory, NETWORK) / "model.keras"
        training = options.training
        self.is_validated = is_validated
        self.epochs = training.epochs
        self.patience = training.patience
        self.steps = steps
        self.batch_size = batch_size
        self.devices = devices
        self.chief = is_chief(devices)
        self.history: list[dict] = []
        # seconds and CPU seconds of training in an unfinished epoch, before its resumption
        self.spent = np.zeros(2)
        self.unfinished_metrics: list[np.ndarray] = []  # metric variables of an unfinished epoch
        # the same at the end of training: validation uses these variables, too
        self.trained_metrics: list[np.ndarray] | None = None
        self.average: WeightAverage | None = None
        if training.weight_average:
            self.average = WeightAverage(model, training.weight_average)
        self.is_swapped: bool | None = False  # the average with the weights; None: in part
        # None: no epoch has begun, and there is nothing new to save
        self.began_at: np.ndarray | None = None
        self.saved_at = time.monotonic()
        self._resume()

    @property
    def position(self) -> tuple[int, int]:
        """The epoch, from 0, and the update within it that come next."""
        return divmod(self._count_updates(), self.steps)

    @property
    def is_trained(self) -> bool:
        """Whether an epoch has all its updates, but no entry in the history: validation is left."""
        return self._count_updates() == (len(self.history) + 1) * self.steps

    @property
    def is_done(self) -> bool:
        """Whether all epochs are trained, or early stopping applies: `patience` epochs without
        improvement.
        """
        if len(self.history) >= self.epochs:
            return True
        if not self.history or not self.is_validated:
            return False
        best = int(np.argmin([epoch["validation_perplexity"] for epoch in self.history]))
        return len(self.history) - 1 - best >= self.patience

    def _count_updates(self) -> int:
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    # Within an epoch

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        for variable, value in zip(
            self.model.metrics_variables, self.unfinished_metrics, strict=False
        ):
            variable.assign(value)
        self.unfinished_metrics = []
        self.trained_metrics = None
        self.began_at = _read_clocks()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if self.average is not None:
            self._update_average(self.average)
        executed = self.model.steps_per_execution
        is_late = time.monotonic() - self.saved_at > SECONDS_PER_SAVE
        if not is_late and batch // executed % max(1, UPDATES_PER_CHECK // executed):
            return
        check_locks(self.directory)
        loss = (logs or {})[self.model.objective.loss_name]
        self._check_finite("loss", loss, f"at update {batch + 1} of epoch {len(self.history) + 1}")
        if is_late:
            self.save()

    def _update_average(self, average: WeightAverage, is_epoch_end: bool = False) -> None:
        """Update the moving average at every n-th update, and at the end of a first epoch of fewer
        than n updates.
        """
        executed = self.model.steps_per_execution
        interval = -(-UPDATES_PER_AVERAGE // executed) * executed
        updates = self._count_updates()
        if updates < interval if is_epoch_end else updates % interval == 0:
            average.update(updates, interval)

    # At the end of an epoch

    def on_test_begin(self, logs: dict | None = None) -> None:
        self.end_training()

    def end_training(self) -> None:
        """Take the time of training, and the average of the weights: it is validated and saved.

        `on_epoch_end` takes the weights back.
        """
        self.trained_at = _read_clocks()
        if not has_several_workers(self.devices):
            self.trained_metrics = [metric.numpy() for metric in self.model.metrics_variables]
        if self.average is not None:
            self._update_average(self.average, is_epoch_end=True)
            self._swap(self.average)

    def _swap(self, average: WeightAverage) -> None:
        """Exchange weights and average; an interruption leaves a note that some are exchanged."""
        is_swapped = self.is_swapped
        self.is_swapped = None
        average.swap()
        self.is_swapped = not is_swapped

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        logs = logs or {}
        place = f"in epoch {epoch + 1}"
        if self.is_validated:
            self._check_finite("validation perplexity", logs["val_perplexity"], place)
        else:
            self._check_finite("loss", logs[self.model.objective.loss_name], place)
        history = [*self.history, self._collect_figures(epoch, logs)]
        try:
            if self.chief:
                if self._is_best(history):
                    self.save_best()
                write_json(self.directory / "history.json", {"epochs": history})
        finally:
            if self.average is not None:
                self._swap(self.average)
        self.spent = np.zeros(2)
        self.began_at = _read_clocks()
        self.history = history  # before this line `save` writes an epoch to be validated
        self._write_state(self.spent, self._state())
        self.model.stop_training = self.is_done

    def _is_best(self, history: Sequence[Mapping]) -> bool:
        """Return whether to keep the last epoch: it is the best, or there is no validation text."""
        if not self.is_validated:
            return True
        *before, last = [epoch["validation_perplexity"] for epoch in history]
        return last < min(before, default=np.inf)

    def _collect_figures(self, epoch: int, logs: dict) -> dict:
        """The entry of the history for an epoch that ends now."""
        loss_name = self.model.objective.loss_name
        training, training_cpu = self.spent + self.trained_at - self.began_at
        validation, validation_cpu = _read_clocks() - self.trained_at
        validated = {}
        if self.is_validated:
            validated["validation_perplexity"] = float(logs["val_perplexity"])
        return {
            "epoch": epoch + 1,
            loss_name: float(logs[loss_name]),
            **({"train_perplexity": float(logs["perplexity"])} if "perplexity" in logs else {}),
            **validated,
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            "seconds": round(training + validation, 2),
            "cpu_seconds": round(training_cpu + validation_cpu, 2),
            "training_cpu_seconds": round(training_cpu, 2),
            "ngrams_per_second": round(self.steps * self.batch_size / training),
        }

    def save_best(self) -> None:
        """Write the present weights as those of the trained model."""
        model = self.model
        # `model.save` would wait for the other workers; a copy does not
        if has_several_workers(self.devices):
            model = type(model).from_config(model.get_config())
            model.set_weights(self.model.get_weights())
        with replace_file(self.best_path) as temporary:
            model.save(temporary)

    def _check_finite(self, figure: str, value: float, place: str) -> None:
        if not np.isfinite(value):
            advice = advise_new_output(self.directory)
            fix = f"Fix: lower --learning-rate, and {advice}, or remove {self.directory}."
            raise RunError(f"The {figure} became {value} {place}. {fix}")

    # The state to resume from

    def save(self) -> None:
        """Write `last.npz`, but not of weights that are not finite. With several workers, not
        between the last update of an epoch and its entry in the history.
        """
        if self.began_at is None or self.is_swapped is None:
            return
        if self.is_trained and has_several_workers(self.devices):
            return
        if self.average is not None and self.is_swapped:
            self._swap(self.average)
        state = self._state()
        if not all(np.isfinite(weight.numpy()).all() for weight in state["weights"]):
            return
        if self.average is not None:
            # an interruption may have come between an update and its average
            self._update_average(self.average)
        ended_at = _read_clocks()
        if self.is_trained and self.trained_metrics is not None:
            ended_at = self.trained_at
        self._write_state(self.spent + ended_at - self.began_at, state)

    def _write_state(self, spent: np.ndarray, state: Mapping[str, Sequence]) -> None:
        if self.chief:
            arrays: dict[str, np.ndarray | list[np.ndarray]] = {
                name: [variable.numpy() for variable in part] for name, part in state.items()
            }
            if self.is_trained and self.trained_metrics is not None:
                arrays["metrics"] = self.trained_metrics
            arrays["spent"] = spent
            arrays["history"] = np.frombuffer(
                json.dumps({"epochs": self.history}).encode(), np.uint8
            )
            write_arrays(
                self.last_path, arrays, keep=self.previous_path if self.is_last_whole else None
            )
            self.is_last_whole = True
            upload(self.directory)
        self.saved_at = time.monotonic()

    def _state(self) -> dict[str, list[keras.Variable]]:
        """All variables that decide how the run continues."""
        model = self.model
        state = {
            "weights": model.weights,
            "random": model.random_states(),
            "optimizer": model.optimizer.variables,
        }
        state["average"] = self.average.variables if self.average is not None else []
        if not has_several_workers(self.devices):  # reading metrics would need all workers at once
            state["metrics"] = model.metrics_variables
        return state

    def _resume(self) -> None:
        """Restore the last whole checkpoint, on all workers."""
        state = self._state()
        metrics = state.pop("metrics", [])
        if self.chief:
            self._restore(state, metrics)
        if has_several_workers(self.devices):
            self._broadcast([variable for part in state.values() for variable in part])

    def _restore(
        self, state: dict[str, list[keras.Variable]], metrics: list[keras.Variable]
    ) -> None:
        """Restore `last.npz`, or `previous.npz` where it is damaged or absent."""
        reasons = []
        for path in (self.last_path, self.previous_path):
            if not path.exists():
                continue
            try:
                stored = self._read_checkpoint(path, state)
            except InputError as error:
                reasons.append(drop_fix(error))
                continue
            self._assign(stored, state, metrics)
            self.is_last_whole = path == self.last_path
            if not self.is_last_whole:
                epoch, step = self.position
                place = f"{path.name}, after update {step:,} of epoch {epoch + 1}"
                print(
                    f"{' '.join(reasons) or 'last.npz is absent.'} Resuming from {place}.",
                    file=sys.stderr,
                )
            return
        if reasons:
            fix = (
                f"Fix: restore one of its checkpoints, or remove {self.directory} to train from "
                "the beginning."
            )
            raise InputError(
                f"The run in {self.directory} cannot resume. {' '.join(reasons)} {fix}"
            )

    def _read_checkpoint(self, path: Path, state: Mapping[str, Sequence[keras.Variable]]) -> dict:
        """Read a checkpoint, and refuse one that is damaged or of a different network."""
        stored = read_arrays(path, ["spent", "history"], [*state, "metrics"])
        for name, variables in state.items():
            shapes = [tuple(variable.shape) for variable in variables]
            self._check_match(
                path,
                [array.shape for array in stored[name]] == shapes,
                "this model's weight shapes",
            )
        stored["history"] = _check_history(
            path, parse_json(path, stored["history"].tobytes().decode())
        )
        finished, step = divmod(int(stored["optimizer"][0]), self.steps)
        is_trained = step == 0 and finished == len(stored["history"]) + 1  # and not validated
        finished -= is_trained
        is_match = finished == len(stored["history"]) <= self.epochs and stored["spent"].shape == (
            2,
        )
        is_match &= all(
            ("validation_perplexity" in epoch) == self.is_validated for epoch in stored["history"]
        )
        self._check_match(path, is_match, "the epochs of this run")
        # several workers keep no metrics of training
        fits = not (is_trained and has_several_workers(self.devices))
        self._check_match(path, fits, "several workers: its last epoch is not validated")
        if finished:
            _check_whole(self.best_path)
        return stored

    def _assign(
        self, stored: dict, state: dict[str, list[keras.Variable]], metrics: list[keras.Variable]
    ) -> None:
        """Take over the content of a checkpoint, and write its history to `history.json`."""
        for name, variables in state.items():
            for variable, array in zip(variables, stored[name], strict=True):
                variable.assign(array)
        self.history = stored["history"]
        self.spent = stored["spent"]
        is_same = [array.shape for array in stored["metrics"]] == [
            tuple(metric.shape) for metric in metrics
        ]
        _, step = self.position
        self.unfinished_metrics = stored["metrics"] if is_same and (step or self.is_trained) else []
        if self.history:
            write_json(self.directory / "history.json", {"epochs": self.history})

    def _check_match(self, path: Path, holds: bool, expected: str) -> None:
        if not holds:
            raise InputError(f"Checkpoint {path} does not match {expected}.")

    def _broadcast(self, variables: list[keras.Variable]) -> None:
        """Copy the chief's variables, its number of finished epochs and their validation
        perplexities, if any, to all workers.
        """
        finished = np.array(len(self.history))
        perplexities = np.full(self.epochs, np.nan)
        if self.is_validated:
            found = [epoch["validation_perplexity"] for epoch in self.history]
            perplexities[: len(found)] = found
        arrays = [finished, perplexities, *(variable.numpy() for variable in variables)]
        finished, perplexities, *values = broadcast_from_chief(self.devices, arrays)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        if not self.chief:
            name = "validation_perplexity"
            found = perplexities[: int(finished)].tolist()
            self.history = [{name: p} if self.is_validated else {} for p in found]


def _check_whole(path: Path) -> None:
    """Refuse a `.keras` file that is absent or damaged: the best epoch of a run to resume."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        damaged = summarize_error(error)
    if damaged:
        raise InputError(f"{path}, the best epoch, is absent or damaged: {damaged}.")


def _read_clocks() -> np.ndarray:
    """Seconds and CPU seconds, float64 [2]."""
    return np.array([time.perf_counter(), time.process_time()])
