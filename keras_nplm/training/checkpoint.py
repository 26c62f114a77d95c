"""Checkpoints of a training run: the state to resume from bit for bit, history, best epoch, early
stopping.
"""

import contextlib
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.io.errors import InputError, RunError, drop_fix, summarize_error
from keras_nplm.io.files import (
    read_arrays,
    write_arrays,
    write_json,
)
from keras_nplm.io.remote import CHECKPOINTS, upload
from keras_nplm.io.stages import advise_new_output
from keras_nplm.models.model_files import component_directory, save_own_files
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.replicas import has_several_workers
from keras_nplm.models.shortlist import NETWORK
from keras_nplm.training.distribution import broadcast_from_chief, is_chief
from keras_nplm.training.options import Options
from keras_nplm.training.weight_average import WeightAverage

if TYPE_CHECKING:
    from keras_nplm.training.shared_spelling import SharedSpelling


def remove_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished run."""
    for name in CHECKPOINTS:
        (directory / name).unlink(missing_ok=True)


class Checkpoint:
    """The state of a run between two calls of `fit`, which is saved, and from which a run resumes.

    The state is a number of updates and a number of epochs in the history. The next epoch has 0 to
    all of its updates. When it has all, it is validated and added to the history.

    `last.npz` holds the weights, their moving average, C at the last sharing, the states of the
    random generators, the variables of the optimiser, the history, and of the unfinished epoch the
    metrics and the time. It is written whole under a temporary name. Then the old `last.npz`
    becomes `previous.npz`. If `last.npz` is damaged or absent, the run resumes from
    `previous.npz`.

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
        devices: tf.distribute.Strategy,
        *,
        is_validated: bool,
        words: Sequence[str],
    ):
        self.model = model
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
        self.devices = devices
        self.chief = is_chief(devices)
        self.history: list[dict] = []
        self.average: WeightAverage | None = None
        if training.weight_average:
            self.average = WeightAverage(model, training.weight_average)
        self.shared_spelling: SharedSpelling | None = None
        if training.spelling_share:
            from keras_nplm.training import shared_spelling

            self.shared_spelling = shared_spelling.SharedSpelling(
                model, words, training.spelling_share
            )
        self._begin_epoch()
        self._resume()

    def _begin_epoch(self) -> None:
        """Set the metric variables of training, and seconds and CPU seconds, to 0."""
        variables = self.model.metrics_variables
        self.metrics = [np.zeros(variable.shape, variable.dtype) for variable in variables]
        self.spent = np.zeros(2)

    @property
    def updates(self) -> int:
        """The number of updates in all epochs."""
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    @property
    def position(self) -> tuple[int, int]:
        """The number of epochs in the history, and of updates in the next epoch."""
        return len(self.history), self.updates - len(self.history) * self.steps

    @property
    def place(self) -> str:
        """The position, in words."""
        epoch, step = self.position
        return f"after update {step:,} of epoch {epoch + 1}"

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

    def read_metrics(self) -> None:
        """Take the metric variables of training from the model, at all workers at once."""
        self.metrics = [variable.numpy() for variable in self.model.metrics_variables]

    def restore_metrics(self) -> None:
        """Give the model the metric variables of training: validation uses them, too."""
        for variable, value in zip(self.model.metrics_variables, self.metrics, strict=True):
            variable.assign(value)

    @contextlib.contextmanager
    def average_weights(self) -> Iterator[None]:
        """Let the weights be their moving average in the block, if the run has one."""
        if self.average is None:
            yield
            return
        if self.updates < self.average.interval:  # a short first epoch
            self.average.update(self.updates)
        with self.average.replace_weights():
            yield

    def check_finite(self, figure: str, value: float) -> None:
        """End a run that diverges."""
        if not np.isfinite(value):
            advice = advise_new_output(self.directory)
            fix = f"Fix: lower --learning-rate, and {advice}, or remove {self.directory}."
            raise RunError(f"The {figure} became {value} {self.place}. {fix}")

    def add_epoch(self, figures: dict) -> None:
        """Add an epoch to the history, and keep its weights if it is the best."""
        history = [*self.history, figures]
        if self.chief and self._is_best(history):
            self.save_best()
        self.history = history
        self.write_history()
        self._begin_epoch()

    def write_history(self, best_epoch: int | None = None) -> None:
        """Write `history.json`, at the end with the number of the best epoch."""
        if self.chief:
            content = {"epochs": self.history, "best_epoch": best_epoch}
            write_json(self.directory / "history.json", content)

    def _is_best(self, history: Sequence[Mapping]) -> bool:
        """Return whether to keep the last epoch: it is the best, or there is no validation text."""
        if not self.is_validated:
            return True
        *before, last = [epoch["validation_perplexity"] for epoch in history]
        return last < min(before, default=np.inf)

    def save_best(self) -> None:
        """Write the present weights as those of the trained model."""
        model = self.model
        # `model.save` would wait for the other workers; a copy does not
        if has_several_workers(self.devices):
            model = type(model).from_config(model.get_config())
            model.set_weights(self.model.get_weights())
        save_own_files(self.best_path.parent, model)

    def save(self) -> None:
        """Write `last.npz`, but not of weights that are not finite."""
        content = self._read_content()
        for weight in content["weights"]:
            self.check_finite("largest weight", np.abs(weight).max(initial=0))
        if self.chief:
            keep = self.previous_path if self.is_last_whole else None
            write_arrays(self.last_path, content, keep=keep)
            self.is_last_whole = True
            upload(self.directory)

    def _read_content(self) -> dict[str, Any]:
        """Return all that decides how the run continues, as arrays."""
        variables = self._list_variables()
        return {
            **{name: [variable.numpy() for variable in part] for name, part in variables.items()},
            "metrics": self.metrics,
            "spent": self.spent,
            "epochs": np.frombuffer(json.dumps(self.history).encode(), np.uint8),
        }

    def _list_variables(self) -> dict[str, list[keras.Variable]]:
        """Return the variables that decide how the run continues."""
        return {
            "weights": self.model.weights,
            "random": self.model.random_states(),
            "optimizer": self.model.optimizer.variables,
            "average": self.average.averages if self.average is not None else [],
            "spelling": [self.shared_spelling.before] if self.shared_spelling is not None else [],
        }

    def _assign(self, content: dict[str, Any]) -> None:
        """Continue from the content of a checkpoint."""
        for name, variables in self._list_variables().items():
            for variable, array in zip(variables, content[name], strict=True):
                variable.assign(array)
        self.metrics = content["metrics"]
        self.spent = content["spent"]
        self.history = _decode_history(content)

    def _resume(self) -> None:
        """Restore the last whole checkpoint, on all workers."""
        if self.chief:
            self._restore()
        if has_several_workers(self.devices):
            self._assign(broadcast_from_chief(self.devices, self._read_content()))

    def _restore(self) -> None:
        """Restore `last.npz`, or `previous.npz` where it is damaged or absent."""
        reasons = []
        for path in (self.last_path, self.previous_path):
            if not path.exists():
                continue
            try:
                content = self._read_checkpoint(path)
            except InputError as error:
                reasons.append(drop_fix(error))
                continue
            self._assign(content)
            if self.history:
                self.write_history()
            self.is_last_whole = path == self.last_path
            if not self.is_last_whole:
                reason = " ".join(reasons) or "last.npz is absent."
                print(f"{reason} Resuming from {path.name}, {self.place}.", file=sys.stderr)
            return
        if reasons:
            fix = (
                f"Fix: restore one of its checkpoints, or remove {self.directory} to train from "
                "the beginning."
            )
            raise InputError(
                f"The run in {self.directory} cannot resume. {' '.join(reasons)} {fix}"
            )

    def _read_checkpoint(self, path: Path) -> dict[str, Any]:
        """Read a checkpoint, and refuse one that is damaged or of a different network."""
        variables = {**self._list_variables(), "metrics": self.model.metrics_variables}
        content = read_arrays(path, ["spent", "epochs"], [*variables])
        for name, part in variables.items():
            shapes = [tuple(variable.shape) for variable in part]
            if [array.shape for array in content[name]] != shapes:
                raise InputError(f"Checkpoint {path} does not match this model's weight shapes.")
        history = _decode_history(content)
        step = int(content["optimizer"][0]) - len(history) * self.steps
        if not 0 <= step <= self.steps:
            raise InputError(f"Checkpoint {path} does not match the epochs of this run.")
        if history:
            _check_whole(self.best_path)
        return content


def _decode_history(content: Mapping[str, np.ndarray]) -> list[dict]:
    return json.loads(content["epochs"].tobytes())


def _check_whole(path: Path) -> None:
    """Refuse a `.keras` file that is absent or damaged: the best epoch of a run to resume."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        damaged = summarize_error(error)
    if damaged:
        raise InputError(f"{path}, the best epoch, is absent or damaged: {damaged}.")
