"""TensorBoard logs of a training run: perplexity, speed, norms, hyperparameters, samples, embedding projector."""

import os
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tensorboard.plugins.hparams import api as hp

from keras_nplm.data.ngram_arrays import check_ngrams
from keras_nplm.data.tokenizers import get_separator
from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.lock import check_locks
from keras_nplm.io.text import escape_formula
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.layers.ops import rows
from keras_nplm.layers.outputs import NoiseContrastive
from keras_nplm.models.evaluation import TextSize, compute_text_figures
from keras_nplm.models.nplm import NPLM

_TEXT_FIGURES = ("bits_per_character", "perplexity_per_word")
_MAX_LOGITS = 1 << 24  # of a probe: 64 MiB
_PROJECTOR = 'embeddings {\n  tensor_name: "C"\n  tensor_path: "C.tsv"\n  metadata_path: "metadata.tsv"\n}\n'
_ESCAPES = str.maketrans({mark: f"&#{ord(mark)};" for mark in string.punctuation})  # Markdown shows them literally


class LanguageModelBoard(keras.callbacks.TensorBoard):
    """TensorBoard callback for language models: perplexity, norms, log Z, samples, embedding projector.

    Each quantity has one tag. After each epoch the runs `train` and `validation` both get

        perplexity              not in `train` if the output is trained by samples
        run/loss                what is minimised, with the penalty; a sampled loss has its own name
        X                       each further metric given to `compile`, under its name

    With `validation_size` the run `validation` also gets

        text/bits_per_character of the validation text, with the spelling of its out-of-vocabulary words
        text/perplexity_per_word likewise; see `keras_nplm.models.evaluation.compute_text_figures`

    and the run `train` gets

        run/learning_rate       at the end of the epoch
        run/ngrams_per_second   of training, without validation
        run/log_z_mean          mean of ln Z over the probe, if the output is trained to keep ln Z near 0
        run/log_z_mean_absolute mean of |ln Z|, likewise
        weights/norm_X          |X|, the Euclidean norm of each weight matrix: C, H, U, W
        weights/gradient_norm_X |∂L/∂X|, where L is the mean of -ln P(w_t | context) over the probe
        continuations           text sampled after each prompt, with the same random numbers in every epoch

    L is exact, without dropout and without a penalty. A low-rank, tied or adaptive output has several matrices in
    place of [U W]: each has its norm under its own name. A tied output has the norm of C.

    `Model.evaluate` outside `fit` writes Keras's own tags `evaluation_…`.

    The directory of the run also gets the files of the embedding projector: `C.tsv`, `metadata.tsv` and
    `projector_config.pbtxt`. TensorBoard reads these once: restart it to see later vectors.

    The callback does not change training: the weights are the same to the last bit.

    Args:
        log_dir: the directory of the runs `train` and `validation`. A resumed training continues them.
        language_model: a language model with the very NPLM that is fitted.
        probe: (context_ids int [B, n-1], target_ids int [B]), some hundred n-grams. It is cut so that B |V| < 2^24.
            None: no gradient norms and no log Z.
        batch_size: n-grams per update, for `run/ngrams_per_second`. None: no such tag.
        word_counts: int [|V|], frequencies of the ids. The projector then shows counts, the most frequent words first.
            None: words in the order of their ids.
        hparams: options to compare runs by, for the page of hyperparameters; options that are None are left out. The
            page shows them next to the validation perplexity (the training perplexity without validation data).
        prompts: texts to continue, the same in every epoch.
        num_words: number of words to sample after each prompt.
        validation_size: (predicted tokens, size) of the validation text. Both figures are functions of the validation
            perplexity, so they cost nothing. None: no such tags.
        projector_words: number of words in the projector, without special tokens. 0: no projector.
        **kwargs: arguments of `keras.callbacks.TensorBoard`. `write_graph` is False by default.

    Raises:
        InputError: the model is not an NPLM, or not the one that is fitted; an array has a wrong shape; an option is
            out of range; or a prompt contains a reserved token.
        RunError: a file of the projector cannot be written.

    Example:

    >>> import pathlib, tempfile
    >>> from keras_nplm import Vocabulary
    >>> vocabulary, logs = Vocabulary(["the", "cat", "sat"]), pathlib.Path(tempfile.mkdtemp())
    >>> model = NPLM(len(vocabulary), order=3, embedding_dim=2, hidden_units=4)
    >>> model.compile(optimizer="sgd")
    >>> contexts, targets = np.array([[4, 5], [0, 4]]), np.array([6, 5])
    >>> language_model = LanguageModel(model, vocabulary, "words")
    >>> board = LanguageModelBoard(logs, language_model, probe=(contexts, targets), hparams={"order": 3})
    >>> _ = model.fit(contexts, targets, epochs=2, callbacks=[board], verbose=0)
    >>> (logs / "train" / "metadata.tsv").read_text().split()
    ['the', 'cat', 'sat']
    """

    def __init__(
        self,
        log_dir: str | os.PathLike,
        language_model: LanguageModel,
        *,
        probe: tuple[np.ndarray, np.ndarray] | None = None,
        batch_size: int | None = None,
        word_counts: np.ndarray | None = None,
        hparams: dict | None = None,
        prompts: Sequence[str] = ("",),
        num_words: int = 12,
        validation_size: tuple[int, TextSize] | None = None,
        projector_words: int = 10_000,
        **kwargs: Any,
    ):
        super().__init__(log_dir, **{"write_graph": False} | kwargs)
        model, self._hparams_callback, self._is_fitting = language_model.model, None, False
        if not isinstance(model, NPLM):
            raise InputError(f"`language_model` must hold an NPLM. Received: {type(model).__name__}.")
        if word_counts is not None and np.shape(word_counts) != (model.vocabulary_size,):
            raise InputError(
                f"`word_counts` must have the shape [{model.vocabulary_size}]. Received: {np.shape(word_counts)}."
            )
        if isinstance(prompts, str):
            raise InputError(f"`prompts` must be a list of texts. Received: {prompts!r}.")
        if batch_size is not None and batch_size < 1:
            raise InputError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
        if probe is not None and not (isinstance(probe, tuple | list) and len(probe) == 2):
            raise InputError(f"`probe` must be a pair (context_ids, target_ids). Received: {type(probe).__name__}.")
        if projector_words < 0:
            raise InputError(f"`projector_words` must be 0 or more. Received: {projector_words}.")
        for prompt in prompts:
            language_model.generate(prompt, num_words)  # raises its errors now, not after the first epoch
        self.language_model = language_model
        self.probe = None
        if probe is not None:
            contexts, targets = check_ngrams(*probe, model.order, model.vocabulary_size)
            size = max(1, (_MAX_LOGITS - 1) // model.vocabulary_size)
            self.probe = (contexts[:size], targets[:size]) if len(targets) else None
        self.batch_size = batch_size
        self.hparams = hparams
        self.prompts = prompts
        self.num_words = num_words
        self.validation_size = validation_size
        self.word_counts = word_counts
        ids = np.arange(len(SPECIALS), model.vocabulary_size)
        if word_counts is not None:
            ids = ids[np.argsort(-np.asarray(word_counts)[ids], kind="stable")]
        self.projector_ids = ids[:projector_words]
        self._began_at, self._trained_at, self._updates_before = 0.0, None, 0

    def set_model(self, model: keras.Model) -> None:
        if model is not self.language_model.model:
            raise InputError("`language_model` must hold the model that is fitted. Fix: pass LanguageModel(model, …).")
        super().set_model(model)

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        self._is_fitting = True

    def on_train_end(self, logs: dict | None = None) -> None:
        if self._hparams_callback is not None:
            self._hparams_callback.on_train_end()
            self._hparams_callback = None
        self._is_fitting = False
        super().on_train_end(logs)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._updates_before = self._count_updates()
        self._began_at, self._trained_at = time.perf_counter(), None

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        # without logs Keras skips 80 µs of work per batch, which would write nothing
        super().on_train_batch_end(batch, None if self.update_freq == "epoch" else logs)

    def on_test_begin(self, logs: dict | None = None) -> None:
        check_locks(self.log_dir)  # TensorFlow's writers would create a deleted directory again
        super().on_test_begin(logs)
        self._trained_at = self._trained_at or time.perf_counter()

    def on_test_end(self, logs: dict | None = None) -> None:
        super().on_test_end({} if self._is_fitting else logs)  # in `fit`, on_epoch_end records these values

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._trained_at = self._trained_at or time.perf_counter()
        check_locks(self.log_dir)
        with self.summary.record_if(True):  # `update_freq` applies to batches only
            super().on_epoch_end(epoch)  # without logs Keras writes no tags of its own
            self._record_epoch(epoch, logs or {})

    def _record_epoch(self, epoch: int, logs: dict) -> None:
        validation = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
        training = {name: value for name, value in logs.items() if not name.startswith("val_")}
        training["learning_rate"] = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        if self.batch_size:
            updates = self._count_updates() - self._updates_before
            training["ngrams_per_second"] = updates * self.batch_size / (self._trained_at - self._began_at)
        scalars = _name_tags(training)
        scalars |= self._compute_norms("weights/norm", [weight.value for weight, _ in self._list_matrices()])
        if self.probe is not None:
            scalars |= self._measure_probe()
        with self._train_writer.as_default(step=epoch):
            self._write_scalars(scalars)
            if self.prompts and np.isfinite(list(logs.values())).all():  # NaN weights cannot be sampled from
                self.summary.text("continuations", self._sample_continuations())
        self._train_writer.flush()
        if validation:
            with self._val_writer.as_default(step=epoch):
                self._write_scalars(_name_tags(validation) | self._compute_text_figures(validation))
        self._begin_session(self._val_writer if validation else self._train_writer)
        if len(self.projector_ids):
            self._write_projector()

    def _compute_text_figures(self, validation: dict) -> dict[str, float]:
        """Return bits per character and perplexity per word from the perplexity per token."""
        if self.validation_size is None or "perplexity" not in validation:
            return {}
        tokens, size = self.validation_size
        figures = compute_text_figures(-tokens * float(np.log(validation["perplexity"])), size)
        return {f"text/{name}": figures[name] for name in _TEXT_FIGURES if figures[name] is not None}

    def _write_scalars(self, scalars: dict[str, float]) -> None:
        for tag, value in scalars.items():
            self.summary.scalar(tag, value)

    def _begin_session(self, writer: tf.summary.SummaryWriter) -> None:
        """Write the hyperparameters once, into the run whose perplexity belongs next to them."""
        if self.hparams is not None and self._hparams_callback is None:
            options = {name: _convert_hparam(value) for name, value in self.hparams.items() if value is not None}
            directory = Path(self.log_dir).resolve()
            name = f"{directory.parent.name}/{directory.name}"
            self._hparams_callback = hp.KerasCallback(writer, options, trial_id=name)
            self._hparams_callback.on_train_begin()
        writer.flush()

    def _count_updates(self) -> int:
        optimizer = self.model.optimizer
        return int(ops.convert_to_numpy(optimizer.iterations)) * (optimizer.gradient_accumulation_steps or 1)

    def _list_matrices(self) -> list[tuple[keras.Variable, dict[str, slice]]]:
        """List the trained matrices, each with the names of its columns: the kernel of the output has U's, then W's."""
        model, matrices = self.model, []
        names = {id(block.H): f"H{i}" for i, block in enumerate(getattr(model.hidden, "blocks", []), start=1)}
        h = 0 if model.hidden is None else model.hidden_units
        full_rank = getattr(model.prob, "P", None) is None
        for weight in model.trainable_variables:
            if weight is getattr(model.prob, "kernel", None) and full_rank:
                columns = {"U": slice(h)} if h else {}
                columns |= {"W": slice(h, None)} if model.direct_connections else {}
                matrices.append((weight, columns))
            elif len(weight.shape) == 2:
                matrices.append((weight, {names.get(id(weight), weight.name): slice(None)}))
        return matrices

    def _compute_norms(self, tag: str, tensors: list) -> dict[str, float]:
        """Norms of one tensor per matrix: its value or its gradient."""
        norms = {}
        for (_, columns), tensor in zip(self._list_matrices(), tensors, strict=True):
            if isinstance(tensor, tf.IndexedSlices):  # a row may occur several times
                ids, place = tf.unique(tensor.indices)
                tensor = tf.math.unsorted_segment_sum(tensor.values, place, tf.size(ids))
            squares = ops.convert_to_numpy(ops.sum(ops.square(tensor), axis=0))  # [columns]
            norms |= {f"{tag}_{name}": float(np.sqrt(squares[part].sum())) for name, part in columns.items()}
        return norms

    def _measure_probe(self) -> dict[str, float]:
        """Measure gradient norms and log Z by the exact softmax, also where training uses negative samples."""
        context_ids, target_ids = map(ops.convert_to_tensor, self.probe)
        output_ids = self.model.prob.output_ids(target_ids)
        prob, scalars = self.model.prob, {}
        with tf.GradientTape() as tape:
            log_probs = prob.log_probs(self.model.features(context_ids, training=False))
            loss = -ops.mean(ops.take_along_axis(log_probs, ops.expand_dims(output_ids, -1), axis=-1))
        if keras.backend.backend() == "tensorflow":
            gradients = tape.gradient(loss, [weight.value for weight, _ in self._list_matrices()])
            scalars |= self._compute_norms("weights/gradient_norm", gradients)
        if isinstance(prob, NoiseContrastive) or getattr(prob, "self_normalisation", 0):
            logits = prob.logits(self.model.features(context_ids, training=False))
            log_z = ops.convert_to_numpy(ops.logsumexp(logits, axis=-1))
            scalars |= {"run/log_z_mean": log_z.mean(), "run/log_z_mean_absolute": np.abs(log_z).mean()}
        return scalars

    def _sample_continuations(self) -> str:
        """One Markdown paragraph per prompt: the prompt in bold, then the sampled text."""
        paragraphs = []
        for prompt in self.prompts:
            text = self.language_model.generate(prompt, self.num_words).translate(_ESCAPES)
            start = prompt.strip().translate(_ESCAPES)
            separator = get_separator(self.language_model.tokenizer_name)
            paragraphs.append(f"**{start}**{separator}{text}" if start else text)
        return "\n\n".join(paragraphs)

    def _write_projector(self) -> None:
        """Write the embedding projector's files: vectors and words, one per line; then the file that names both."""
        words, vectors = self.language_model.vocabulary.words, rows(self.model.embed.C, self.projector_ids)
        lines = [escape_formula(words[i]) for i in self.projector_ids]
        if self.word_counts is not None:
            counts = (self.word_counts[i] for i in self.projector_ids)
            lines = ["word\tcount", *(f"{word}\t{count}" for word, count in zip(lines, counts, strict=True))]
        with replace_file(os.path.join(self._train_dir, "C.tsv")) as temporary:
            np.savetxt(temporary, ops.convert_to_numpy(vectors), fmt="%.6g", delimiter="\t")
        for name, text in ("metadata.tsv", "\n".join(lines) + "\n"), ("projector_config.pbtxt", _PROJECTOR):
            with replace_file(os.path.join(self._train_dir, name)) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="\n")


def _name_tags(values: dict[str, float]) -> dict[str, float]:
    """Return the values by their tags: metrics under their names, what describes the run under `run/`."""
    of_run = ("loss", "learning_rate", "ngrams_per_second")
    return {f"run/{name}" if name.endswith(of_run) else name: value for name, value in values.items()}


def _convert_hparam(value: object) -> bool | int | float | str:
    """Convert a value to a type that the page of hyperparameters accepts."""
    return value if isinstance(value, bool | int | float | str) else str(value)
