"""What TensorBoard shows of a training: Keras's curves, norms, ln Z, options, continuations, and the words in space."""

import os
import string
import time
from collections.abc import Sequence
from pathlib import Path

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
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.layers.ops import rows
from keras_nplm.layers.outputs import NoiseContrastive
from keras_nplm.models.nplm import NPLM

_NUMBERS = 1 << 24  # of logits at most that a probe may take: 64 MiB
_PROJECTOR = 'embeddings {\n  tensor_name: "C"\n  tensor_path: "C.tsv"\n  metadata_path: "metadata.tsv"\n}\n'
_LITERAL = str.maketrans({mark: f"&#{ord(mark)};" for mark in string.punctuation})  # for Markdown, which then shows it


class LanguageModelBoard(keras.callbacks.TensorBoard):
    """Keras's TensorBoard callback, with what one wants to see of a language model while it trains.

    After each epoch the run `train` gets, beside Keras's `epoch_…` curves and `epoch_learning_rate`:

        weight_norm/X       |X|, the Euclidean norm of each weight matrix: C, H, U, W
        gradient_norm/X     |∂L/∂X|, L = mean of -ln P(w_t | context) over a probe, exact, without dropout or penalty
        ln_z/mean, ln_z/mean_absolute    of ln Z and |ln Z| over the probe, if the output is trained to keep it near 0
        ngrams_per_second   of training alone, validation left out
        continuations       text that the model draws after each prompt, from the same random numbers every epoch

    and its directory the files of the embedding projector: C.tsv, metadata.tsv, projector_config.pbtxt. TensorBoard
    reads these once: start it anew for later vectors. With a projection or an adaptive softmax there is no one [U W] on
    the features: each matrix has its norm under its own name; a tied output's is C's. Nothing here changes the
    training: its weights are the same to the last bit.

    Args:
        log_dir: where the runs `train` and `validation` go; a resumed training goes on there.
        language_model: around the very NPLM that is fitted.
        probe: (context_ids int [B, n-1], target_ids int [B]), some hundred n-grams; of them as many are taken as keep B
            |V| below 2^24. None: no `gradient_norm` and no `ln_z`.
        batch_size: n-grams in an update, for `ngrams_per_second`. None: it is not written.
        word_counts: int [|V|], how often each id occurs: the projector has the most frequent first and shows the
            counts. None: in the order of ids.
        hparams: the options of the run, for TensorBoard's page of hyperparameters; those that are None are left out.
            That page shows a run's own scalars alone: `train` gets `epoch_validation_perplexity` too.
        prompts: texts to continue.
        num_words: how many words to draw for each.
        projector_words: how many words the projector gets, special tokens not among them; 0: no files for it.
        **kwargs: of `keras.callbacks.TensorBoard`; `write_graph` is off by default.

    Raises:
        InputError: the model is no NPLM or not the one that is fitted, an array has not the model's shape, an option is
            out of range, or a prompt holds a reserved token.
        RunError: a file of the projector cannot be written.

    Example:

    >>> import pathlib, tempfile
    >>> from keras_nplm import Vocabulary
    >>> vocabulary, logs = Vocabulary(["the", "cat", "sat"]), pathlib.Path(tempfile.mkdtemp())
    >>> model = NPLM(len(vocabulary), order=3, embedding_dim=2, hidden_units=4)
    >>> model.compile(optimizer="sgd")
    >>> contexts, targets = np.array([[4, 5], [0, 4]]), np.array([6, 5])
    >>> language_model = LanguageModel(model, vocabulary, "words", "stream")
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
        projector_words: int = 10_000,
        **kwargs,
    ):
        super().__init__(log_dir, **{"write_graph": False} | kwargs)
        model, self._trial = language_model.model, None
        if not isinstance(model, NPLM):
            raise InputError(f"`language_model` must be around an NPLM. Received: around a {type(model).__name__}.")
        if word_counts is not None and np.shape(word_counts) != (model.vocabulary_size,):
            raise InputError(f"`word_counts` must be [{model.vocabulary_size}]. Received: {np.shape(word_counts)}.")
        if isinstance(prompts, str):
            raise InputError(f"`prompts` must be a list of texts. Received: {prompts!r}.")
        if batch_size is not None and batch_size < 1:
            raise InputError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
        if probe is not None and not (isinstance(probe, tuple | list) and len(probe) == 2):
            raise InputError("`probe` must be a pair, (context_ids, target_ids).")
        if projector_words < 0:
            raise InputError(f"`projector_words` must be 0 or more. Received: {projector_words}.")
        for prompt in prompts:
            language_model.generate(prompt, num_words)  # refuses here what it would refuse after the first epoch
        self.language_model = language_model
        self.probe = None
        if probe is not None:
            contexts, targets = check_ngrams(*probe, model.order, model.vocabulary_size)
            size = max(1, (_NUMBERS - 1) // model.vocabulary_size)
            self.probe = (contexts[:size], targets[:size]) if len(targets) else None
        self.batch_size = batch_size
        self.hparams = hparams
        self.prompts = prompts
        self.num_words = num_words
        self.word_counts = word_counts
        self.shown_ids = np.arange(len(SPECIALS), model.vocabulary_size)  # in the projector
        if word_counts is not None:
            self.shown_ids = self.shown_ids[np.argsort(-np.asarray(word_counts)[self.shown_ids], kind="stable")]
        self.shown_ids = self.shown_ids[:projector_words]
        self._began, self._trained, self._updates_before = 0.0, None, 0

    def set_model(self, model):
        if model is not self.language_model.model:
            raise InputError("`language_model` must be around the model that is fitted: make it of that one.")
        super().set_model(model)

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if self.hparams is not None:
            options = {name: _plain(value) for name, value in self.hparams.items() if value is not None}
            directory = Path(self.log_dir).resolve()
            name = f"{directory.parent.name}/{directory.name}"
            self._trial = hp.KerasCallback(self._train_writer, options, trial_id=name)
            self._trial.on_train_begin()
            self._train_writer.flush()

    def on_train_end(self, logs=None):
        if self._trial is not None:
            self._trial.on_train_end()
        super().on_train_end(logs)

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self._updates_before = self._updates()
        self._began, self._trained = time.perf_counter(), None

    def on_train_batch_end(self, batch, logs=None):
        # Without a writer for single batches Keras would still go through the logs, 80 µs each time
        super().on_train_batch_end(batch, None if self.update_freq == "epoch" else logs)

    def on_test_begin(self, logs=None):
        super().on_test_begin(logs)
        self._trained = self._trained or time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self._trained = self._trained or time.perf_counter()
        with self.summary.record_if(True):  # whatever `update_freq` has for single batches
            super().on_epoch_end(epoch, logs)
            self._record_epoch(epoch, logs or {})

    def _record_epoch(self, epoch: int, logs: dict) -> None:
        scalars = self._norms("weight_norm", [weight.value for weight, _ in self._matrices()])
        if self.probe is not None:
            scalars |= self._over_probe()
        if self.batch_size:
            updates = self._updates() - self._updates_before
            scalars["ngrams_per_second"] = updates * self.batch_size / (self._trained - self._began)
        if self._trial is not None and "val_perplexity" in logs:
            scalars["epoch_validation_perplexity"] = logs["val_perplexity"]
        with self._train_writer.as_default(step=epoch):
            for name, value in scalars.items():
                self.summary.scalar(name, value)
            if self.prompts and np.isfinite(list(logs.values())).all():  # else there is nothing to draw from
                self.summary.text("continuations", self._continuations())
        self._train_writer.flush()
        if len(self.shown_ids):
            self._write_projector()

    def _updates(self) -> int:
        optimizer = self.model.optimizer
        return int(ops.convert_to_numpy(optimizer.iterations)) * (optimizer.gradient_accumulation_steps or 1)

    def _matrices(self) -> list[tuple[keras.Variable, dict[str, slice]]]:
        """The matrices that are trained, and the columns of each that have a name: the output's are U's, then W's."""
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

    def _norms(self, tag: str, tensors: list) -> dict[str, float]:
        """The norms of what stands for each of the matrices: itself or its gradient."""
        norms = {}
        for (_, columns), tensor in zip(self._matrices(), tensors, strict=True):
            if isinstance(tensor, tf.IndexedSlices):  # a gradient of rows, some of them several times
                ids, place = tf.unique(tensor.indices)
                tensor = tf.math.unsorted_segment_sum(tensor.values, place, tf.size(ids))
            squares = ops.convert_to_numpy(ops.sum(ops.square(tensor), axis=0))  # a sum for each column
            norms |= {f"{tag}/{name}": float(np.sqrt(squares[part].sum())) for name, part in columns.items()}
        return norms

    def _over_probe(self) -> dict[str, float]:
        """`gradient_norm` and `ln_z`, from the logits, whatever the output is trained by: no word is drawn."""
        context_ids, target_ids = map(ops.convert_to_tensor, self.probe)
        output_ids = self.model.prob.output_ids(target_ids)
        prob, scalars = self.model.prob, {}
        with tf.GradientTape() as tape:
            log_probs = prob.log_probs(self.model.features(context_ids, training=False))
            loss = -ops.mean(ops.take_along_axis(log_probs, ops.expand_dims(output_ids, -1), axis=-1))
        if keras.backend.backend() == "tensorflow":
            gradients = tape.gradient(loss, [weight.value for weight, _ in self._matrices()])
            scalars |= self._norms("gradient_norm", gradients)
        if isinstance(prob, NoiseContrastive) or getattr(prob, "self_normalisation", 0):
            logits = prob.logits(self.model.features(context_ids, training=False))
            log_z = ops.convert_to_numpy(ops.logsumexp(logits, axis=-1))
            scalars |= {"ln_z/mean": log_z.mean(), "ln_z/mean_absolute": np.abs(log_z).mean()}
        return scalars

    def _continuations(self) -> str:
        """A paragraph a prompt, in Markdown: the prompt in bold, then what the model draws."""
        paragraphs = []
        for prompt in self.prompts:
            drawn = self.language_model.generate(prompt, self.num_words).translate(_LITERAL)
            given = prompt.strip().translate(_LITERAL)
            between = get_separator(self.language_model.tokenizer_name)
            paragraphs.append(f"**{given}**{between}{drawn}" if given else drawn)
        return "\n\n".join(paragraphs)

    def _write_projector(self) -> None:
        """The files of the embedding projector: a vector a line, its word, and where both are, which comes last."""
        words, vectors = self.language_model.vocabulary.words, rows(self.model.embed.C, self.shown_ids)
        lines = [words[i] for i in self.shown_ids]
        if self.word_counts is not None:
            lines = ["word\tcount", *(f"{words[i]}\t{self.word_counts[i]}" for i in self.shown_ids)]
        with replace_file(os.path.join(self._train_dir, "C.tsv")) as temporary:
            np.savetxt(temporary, ops.convert_to_numpy(vectors), fmt="%.6g", delimiter="\t")
        for name, text in ("metadata.tsv", "\n".join(lines) + "\n"), ("projector_config.pbtxt", _PROJECTOR):
            with replace_file(os.path.join(self._train_dir, name)) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="\n")


def _plain(value: object) -> bool | int | float | str:
    """A value as the page of hyperparameters takes it."""
    return value if isinstance(value, bool | int | float | str) else str(value)
