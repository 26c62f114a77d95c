"""TensorBoard logs of a training run: perplexity, final figures, speed, norms, hyperparameters,
samples, embedding projector.
"""

import collections
import os
import string
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tensorboard.plugins.hparams import api as hp

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.ids import SPECIALS
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.lock import check_locks
from keras_nplm.io.text import escape_formula
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.layers.lookup import rows

_PROJECTOR = (
    'embeddings {\n  tensor_name: "C"\n  tensor_path: "C.tsv"\n  metadata_path: "metadata.tsv"\n}\n'
)
_PROJECTOR_WORDS = 10_000  # at most, without special tokens
_SAMPLED_WORDS = 12  # after each prompt
# Markdown shows them literally
_ESCAPES = str.maketrans({mark: f"&#{ord(mark)};" for mark in string.punctuation})


class LanguageModelBoard(keras.callbacks.TensorBoard):
    """TensorBoard callback for language models: perplexity, speed, norms, samples, embedding
    projector.

    A step is an epoch, from 1. After each epoch the runs `train` and `validation` both get

        perplexity              not in `train` if the output is trained by samples
        run/loss                what is minimised, with the penalty; a sampled loss has its own name
        X                       each further metric given to `compile`, under its name

    The run `train` also gets

        run/learning_rate       at the end of the epoch
        run/ngrams_per_second   of training, without validation
        weights/norm_X          the Euclidean norm of each weight matrix, such as C, H, U, W
        continuations           text sampled after each prompt, with one seed in every epoch

    and the files of the embedding projector. The weights are the same, to the last bit, as without
    the callback.

    Args:
        log_dir: the directory of the runs `train` and `validation`. A resumed training continues
            them.
        language_model: a language model with the very network that is fitted.
        batch_size: n-grams per update, for `run/ngrams_per_second`. None: no such tag.
        word_counts: int [|V|], frequencies of the ids; the projector shows the most frequent words
            first.
        hparams: options to compare runs by, for the page of hyperparameters: numbers and texts.
        prompts: texts to continue, the same in every epoch.
        **kwargs: arguments of `keras.callbacks.TensorBoard`. `write_graph` is False by default.

    Raises:
        InputError: the model is not the one that is fitted; or an option is out of range.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike,
        language_model: LanguageModel,
        *,
        batch_size: int | None = None,
        word_counts: np.ndarray | None = None,
        hparams: dict | None = None,
        prompts: Sequence[str] = ("",),
        **kwargs: Any,
    ):
        super().__init__(log_dir, **{"write_graph": False} | kwargs)
        for prompt in prompts:
            # raises its errors now, not after the first epoch
            language_model.generate(prompt, _SAMPLED_WORDS)
        self.language_model = language_model
        self.prompts = prompts
        self.batch_size = batch_size
        self.hparams = {k: v for k, v in (hparams or {}).items() if v is not None}
        self.word_counts = word_counts
        ids = np.arange(len(SPECIALS), len(language_model.vocabulary))
        if word_counts is not None:
            ids = ids[np.argsort(-np.asarray(word_counts)[ids], kind="stable")]
        self.projector_ids = ids[:_PROJECTOR_WORDS]
        self._began_at = 0.0
        self._trained_at = 0.0  # 0 in training
        self._updates_before = 0

    def set_model(self, model: keras.Model) -> None:
        if model is not self.language_model.network:
            raise InputError(
                "`language_model` must hold the model that is fitted. Fix: pass "
                "LanguageModel(model, …)."
            )
        super().set_model(model)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._updates_before = self._count_updates()
        self._began_at = time.perf_counter()
        self._trained_at = 0.0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        # without logs Keras skips 80 µs of work per batch, which would write nothing
        super().on_train_batch_end(batch, None if self.update_freq == "epoch" else logs)

    def on_test_begin(self, logs: dict | None = None) -> None:
        check_locks(self.log_dir)  # TensorFlow's writers would create a deleted directory again
        super().on_test_begin(logs)
        self._trained_at = self._trained_at or time.perf_counter()

    def on_test_end(self, logs: dict | None = None) -> None:
        super().on_test_end({})  # on_epoch_end records these values

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._trained_at = self._trained_at or time.perf_counter()
        check_locks(self.log_dir)
        with self.summary.record_if(True):  # `update_freq` applies to batches only
            # without logs Keras writes no tags of its own
            super().on_epoch_end(epoch + 1)
            self._record_epoch(epoch + 1, logs or {})

    def _record_epoch(self, step: int, logs: dict) -> None:
        validation = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
        training = {name: value for name, value in logs.items() if not name.startswith("val_")}
        training["learning_rate"] = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        if self.batch_size:
            updates = self._count_updates() - self._updates_before
            seconds = self._trained_at - self._began_at
            training["ngrams_per_second"] = updates * self.batch_size / seconds
        scalars = _name_tags(training)
        names: collections.Counter[str] = collections.Counter()
        for weight in self.model.trainable_variables:
            if len(weight.shape) == 2:
                tag = f"weights/norm_{weight.name}{names[weight.name] or ''}"
                scalars[tag] = float(ops.norm(weight))
                names[weight.name] += 1
        with self._train_writer.as_default(step=step):
            for tag, value in scalars.items():
                self.summary.scalar(tag, value)
            # NaN weights cannot be sampled from
            if self.prompts and np.isfinite(list(logs.values())).all():
                self.summary.text("continuations", self._sample_continuations())
        self._train_writer.flush()
        if validation:
            with self._val_writer.as_default(step=step):
                for tag, value in _name_tags(validation).items():
                    self.summary.scalar(tag, value)
        self._begin_session(self._val_writer if validation else self._train_writer)
        self._write_projector()

    def _begin_session(self, writer: tf.summary.SummaryWriter) -> None:
        """Write the hyperparameters once, into the run whose perplexity belongs next to them."""
        if self.hparams:
            directory = Path(self.log_dir).resolve()
            with writer.as_default():
                hp.hparams(self.hparams, trial_id=f"{directory.parent.name}/{directory.name}")
            self.hparams = {}
        writer.flush()

    def _count_updates(self) -> int:
        optimizer = self.model.optimizer
        return int(ops.convert_to_numpy(optimizer.iterations)) * (
            optimizer.gradient_accumulation_steps or 1
        )

    def _sample_continuations(self) -> str:
        """One Markdown paragraph per prompt: the prompt in bold, then the sampled text."""
        paragraphs = []
        separator = self.language_model.tokenizer.separator
        for prompt in self.prompts:
            text = self.language_model.generate(prompt, _SAMPLED_WORDS).translate(_ESCAPES)
            start = prompt.strip().translate(_ESCAPES)
            paragraphs.append(f"**{start}**{separator}{text}" if start else text)
        return "\n\n".join(paragraphs)

    def _write_projector(self) -> None:
        """Write the embedding projector's files: vectors and words, one per line; then the file
        that names both.
        """
        words = self.language_model.vocabulary.words
        ids = self.projector_ids
        vectors = rows(self.model.embed.C, ids)
        lines = [escape_formula(words[i]) for i in ids]
        if (counts := self.word_counts) is not None:
            rated = [f"{word}\t{counts[i]}" for word, i in zip(lines, ids, strict=True)]
            lines = ["word\tcount", *rated]
        with replace_file(os.path.join(self._train_dir, "C.tsv")) as temporary:
            np.savetxt(temporary, ops.convert_to_numpy(vectors), fmt="%.6g", delimiter="\t")
        for name, text in (
            ("metadata.tsv", "\n".join(lines) + "\n"),
            ("projector_config.pbtxt", _PROJECTOR),
        ):
            with replace_file(os.path.join(self._train_dir, name)) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="\n")


def write_final_figures(log_dir: str | os.PathLike, metrics: Mapping[str, Any]) -> None:
    """Write the exact figures of a finished run's `metrics.json` to its TensorBoard logs.

    The runs `validation` and `test`, where the text has them, get `final/perplexity` and
    `final/bits_per_character`, at the step of the best epoch. They are of the whole model,
    the curves of the network alone.
    """
    description = (
        "Exact figure of the whole model, as in metrics.json, at the step of its best epoch."
    )
    check_locks(log_dir)  # TensorFlow's writers would create a deleted directory again
    for split in (split for split in HELD_OUT if split in metrics):
        directory = os.path.join(log_dir, split)
        writer = tf.summary.create_file_writer(directory, filename_suffix=".final")
        with writer.as_default(step=metrics["best_epoch"]):
            for name in ("perplexity", "bits_per_character"):
                if (value := metrics[split].get(name)) is not None:
                    tf.summary.scalar(f"final/{name}", value, description=description)
        writer.close()


def _name_tags(values: dict[str, float]) -> dict[str, float]:
    """Prefix the names of values that describe the run with `run/`."""
    of_run = ("loss", "learning_rate", "ngrams_per_second")
    return {
        f"run/{name}" if name.endswith(of_run) else name: value for name, value in values.items()
    }
