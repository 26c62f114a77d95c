"""TODO doc."""

import time
from pathlib import Path

import keras
import numpy as np

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    read_arrays,
    read_json,
    replace_file,
    write_arrays,
    write_json,
)
from keras_nplm.language_model.model_files import NETWORK, component_directory
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.replicas import has_several_workers
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import from_chief, is_chief
from keras_nplm.training.weight_average import EVERY, WeightAverage

SECONDS_PER_SAVE = 600  # at most this much work is lost with a run that is killed
_STEPS_PER_CHECK = 50  # updates between looks at the loss, which wait for the device


def read_history(path: Path) -> list[dict]:
    """The figures of the epochs that `history.json` holds."""
    history = read_json(path)
    check_fields(path, history, {"epochs": list})
    figures = ("validation_perplexity", "seconds", "cpu_seconds", "training_cpu_seconds", "ngrams_per_second")
    for epoch in history["epochs"]:
        check_fields(path, epoch, {"epoch": int} | dict.fromkeys(figures, NUMBER))
    return history["epochs"]


class Checkpoint(keras.callbacks.Callback):
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
        state = {"weights": model.weights, "random": model.random_states()}
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
            self.history = read_history(self.directory / "history.json") if self.reached[0] else []
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
        with replace_file(self.best) as temporary:
            model.save(temporary)
