"""Fit a network with `Model.fit`: model and optimiser, n-gram batches, callbacks, resume."""

import contextlib
import dataclasses
import functools
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.resampling import count_resampled
from keras_nplm.data.vocabulary import EOS_ID, SPECIALS, Vocabulary
from keras_nplm.io.errors import follows_error
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.layers.outputs import OUTPUTS
from keras_nplm.models.evaluation import TextSize
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.spelling import load_spelling
from keras_nplm.training.build import build_model, build_optimizer
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import distribute_parts, is_chief, shard_batches
from keras_nplm.training.local_updates import LocalUpdates
from keras_nplm.training.report import choose_prompts
from keras_nplm.training.tensorboard import LanguageModelBoard

_VALIDATION_BATCH = 1024
_MAX_STEPS_PER_EXECUTION = 32  # a short update takes about as long as the overhead of Keras per execution
_LEAST_EXECUTIONS = 20  # of local updates in an epoch
_UPDATES_OF_AVERAGE = 20  # short updates that take as long as an average over the workers
_SHORT_SOFTMAX = 4096  # outputs of a full softmax below which an update is short


@dataclasses.dataclass(frozen=True)
class TrainingTargets:
    """Target counts of the training texts: one text, or several with a share each (`--resample`).

    Attributes:
        counts: int64 [K, |V|], how often each id is a target in each of K texts.
        shares: float64 [K], the share of each text's n-grams that an epoch uses.
        ngrams_per_epoch: the number of n-grams in an epoch.
    """

    counts: np.ndarray
    shares: np.ndarray
    ngrams_per_epoch: int

    @classmethod
    def of(cls, configuration: Configuration, encoded: EncodedCorpus) -> "TrainingTargets":
        """Count the targets of the training split.

        Raises:
            InputError: a text has no n-gram for an epoch, or a shard is damaged.
        """
        counts, shares = encoded.frequencies_by_share()
        counts[:, EOS_ID] *= configuration.boundary == "sentence"
        ngrams = counts[:, : _target_limit(configuration)].sum(axis=1)
        return cls(counts, shares, sum(map(count_resampled, shares, ngrams)))


def _target_limit(configuration: Configuration) -> int | None:
    """The id from which on words are not training targets, or None if all words are."""
    if configuration.shortlist_size is None or configuration.outside_output:
        return None
    return len(SPECIALS) + configuration.shortlist_size


def fit_network(
    configuration: Configuration,
    encoded: EncodedCorpus,
    targets: TrainingTargets,
    vocabulary: Vocabulary,
    directory: Path,
    devices: tf.distribute.Strategy,
) -> None:
    """Fit the network from the start or from the checkpoint `last.npz`; save checkpoints and the best epoch.

    Args:
        configuration: the options.
        encoded: the encoded corpus.
        targets: the target counts of its training split.
        vocabulary: its vocabulary.
        directory: the model directory.
        devices: the tf.distribute strategy.

    Raises:
        RunError: the loss or the validation perplexity became NaN or infinite, or a file cannot be written.
    """
    batch_size, steps, executed, every = _divide_epoch(configuration, targets, devices)
    ngrams = dict(
        order=configuration.order, boundary=configuration.boundary, targets_below=_target_limit(configuration)
    )
    training_ids, validation_ids = encoded.for_training(), encoded.ids("validation")
    model = _build(configuration, targets, steps, devices)
    model.steps_per_execution = executed
    local = LocalUpdates(model, devices, every, steps) if every > 1 else None
    if every != configuration.average_every and is_chief(devices):
        print(f"Weights are averaged after every {every} updates, {steps / every:.4g} times an epoch.", file=sys.stderr)
    checkpoint = Checkpoint(model, directory, configuration, steps, batch_size, devices, local)
    build_validation = functools.partial(ngram_dataset, validation_ids, shuffle=False, **ngrams)
    callbacks = [checkpoint]
    if is_chief(devices):
        if configuration.shortlist_size:
            _print_coverage(configuration, targets, model)
        language_model = LanguageModel(model, vocabulary, encoded.tokenizer, configuration.boundary)
        language_model.corpus, language_model.spelling = encoded, load_spelling(directory)
        board = _build_board(configuration, directory, language_model, validation_ids, targets, batch_size, ngrams)
        callbacks = [board, checkpoint]  # a run killed between the two repeats the epoch: its logs have no gap
    if local is not None:
        local.vary_random_states()
        callbacks = [local, *callbacks]
        workers = local.index, local.number
        size = max(1, min(_VALIDATION_BATCH, len(validation_ids) // 2) // local.number)  # each worker has a part
        validation_data = build_validation(batch_size=size * local.number, part=workers)
    else:
        validation_data = shard_batches(build_validation(batch_size=_VALIDATION_BATCH))
    while not checkpoint.is_done:
        epoch, step = checkpoint.position
        build_training = functools.partial(
            ngram_dataset,
            training_ids,
            batch_size=batch_size,
            seed=configuration.seed,
            drop_remainder=True,
            first_epoch=epoch,
            first_batch=step,
            most_batches=steps,
            **ngrams,
        )
        train_data = distribute_parts(devices, build_training) if local is None else build_training(part=workers)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                model.fit(
                    train_data,
                    validation_data=validation_data,
                    steps_per_epoch=steps - step,
                    initial_epoch=epoch,
                    epochs=epoch + 1 if step else configuration.epochs,  # first the rest of an interrupted epoch
                    callbacks=callbacks,
                    shuffle=False,  # the dataset shuffles
                    verbose=(1 if sys.stderr.isatty() else 2) if is_chief(devices) else 0,
                )
        except KeyboardInterrupt as interruption:
            if not follows_error(interruption, tf.errors.OpError):  # a failed update may have changed some weights
                checkpoint.save()
            raise


def _round_up(number: int, factor: int) -> int:
    return -(-number // factor) * factor


def _divide_epoch(
    configuration: Configuration, targets: TrainingTargets, devices: tf.distribute.Strategy
) -> tuple[int, int, int, int]:
    """Divide an epoch into updates, and these into executions of `fit`.

    Returns:
        n-grams per batch, at most an epoch and a multiple of the replicas; updates per epoch; updates per execution; K,
        the updates between two averages.
    """
    replicas, ngrams = devices.num_replicas_in_sync, targets.ngrams_per_epoch
    batch_size = min(configuration.batch_size, max(replicas, ngrams - ngrams % replicas))
    steps, every = max(1, ngrams // batch_size), configuration.average_every
    is_sampled, outputs = OUTPUTS[configuration.output_layer].is_sampled, targets.counts.shape[1]
    numbers = range(1, _MAX_STEPS_PER_EXECUTION + 1)
    if not (is_sampled or outputs < _SHORT_SOFTMAX):
        return batch_size, steps, 1, every
    if every > 1:
        return batch_size, *_divide_local_epoch(steps, every)
    return batch_size, steps, max(k for k in numbers if steps % k == 0) if replicas == 1 else 1, every


def _divide_local_epoch(steps: int, every: int) -> tuple[int, int, int]:
    """Divide an epoch of local updates, such that an average follows an execution.

    K changes by 1/16 at most, to a multiple of the updates per execution, and where possible to a divisor of the epoch.
    The epoch leaves out the last updates that fill no execution.

    Returns:
        updates per epoch; updates per execution, a divisor of K; K.
    """

    def compute_loss(division: tuple[int, int, int]) -> tuple[float, int]:
        """The time of executions and of a last short round, and the updates left out, as shares of the epoch."""
        used, executed, rounded = division
        short_round = _UPDATES_OF_AVERAGE * (used % rounded > 0)
        return 1 / executed + (steps - used + short_round) / steps, abs(rounded - every)

    sizes = [1, *range(2, 1 + min(_MAX_STEPS_PER_EXECUTION, steps // _LEAST_EXECUTIONS))]
    least, most = every - every // 16, every + every // 16
    divisions = [
        (steps - steps % executed, executed, rounded)
        for executed in sizes
        for rounded in range(_round_up(least, executed), most + 1, executed)
    ]
    return min(divisions, key=compute_loss)


def _build(configuration: Configuration, targets: TrainingTargets, steps: int, devices: tf.distribute.Strategy) -> NPLM:
    """Build and compile the model, initialised to the unigram distribution of the targets."""
    vocabulary_size = targets.counts.shape[1]
    # relative weights of the texts, 1 for the text with the smallest share: its counts enter as they are
    weights = targets.shares / targets.shares.min()
    with devices.scope() if configuration.average_every == 1 else contextlib.nullcontext():
        model = build_model(configuration, vocabulary_size)
        model.set_unigram(weights @ targets.counts, configuration.min_count)
        model.compile(optimizer=build_optimizer(configuration, steps))
        model.optimizer.build(model.trainable_variables)
    return model


def _build_board(
    configuration: Configuration,
    directory: Path,
    language_model: LanguageModel,
    validation_ids: np.ndarray,
    targets: TrainingTargets,
    batch_size: int,
    ngrams: dict,
) -> LanguageModelBoard:
    _, positions = ngram_positions(validation_ids, **ngrams)
    size = None
    if not configuration.shortlist_size:  # its network has the perplexity of a part of the text
        encoded = language_model.corpus
        size = TextSize.of_split(encoded, "validation", configuration.boundary, language_model.spelling)
    return LanguageModelBoard(
        directory / "logs",
        language_model,
        batch_size=batch_size,
        word_counts=targets.counts.sum(axis=0),
        hparams=_list_different_options(configuration),
        validation_size=None if size is None else (len(positions), size),
        prompts=choose_prompts(validation_ids, language_model.vocabulary, language_model.tokenizer_name),
    )


def _list_different_options(configuration: Configuration) -> dict:
    """The options that differ from the defaults, by name: what tells runs apart."""
    default = dataclasses.asdict(Configuration())
    return {name: value for name, value in dataclasses.asdict(configuration).items() if value != default[name]}


def _print_coverage(configuration: Configuration, targets: TrainingTargets, model: NPLM) -> None:
    """Print the share of training targets that the short-list covers."""
    counts = targets.counts.sum(axis=0)
    share = counts[: len(SPECIALS) + configuration.shortlist_size].sum() / counts.sum()
    print(
        f"The short-list covers {share:.1%} of the training text. During training, perplexities are measured over the "
        f"{model.prob.num_outputs:,} outputs of the network. The whole model is evaluated at the end.",
        file=sys.stderr,
    )
