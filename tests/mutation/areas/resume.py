"""Checkpoints and resumption: what is saved, when it is saved, what is refused."""

import contextlib
import dataclasses

import numpy as np

from tests.mutation.mutants import Altered, changes, constant, nothing, read_global, within

OF_CHECKPOINTS = "training/test_checkpoint.py"
DIVERGES = f"{OF_CHECKPOINTS}::test_a_run_that_diverges_ends_and_says_where"
PATIENCE = (
    f"{OF_CHECKPOINTS}::test_the_best_epoch_is_kept_and_training_stops_after_patience_is_spent"
)
AVERAGE = f"{OF_CHECKPOINTS}::test_average_of_the_weights_follows_its_formula_and_is_saved"
OF_SHORTLISTS = "training/test_shortlist_training.py"
CHECKPOINT = "training.checkpoint:Checkpoint"
FITTING = "training.fit:Fitting"


@changes(f"{CHECKPOINT}._list_variables", OF_CHECKPOINTS, long=True)
def the_random_generators_are_not_in_the_checkpoint(original, self):
    return {**original(self), "random": []}


@changes(f"{CHECKPOINT}._list_variables", OF_CHECKPOINTS, long=True)
def the_moving_average_is_not_in_the_checkpoint(original, self):
    return {**original(self), "average": []}


@changes(f"{CHECKPOINT}._list_variables", OF_CHECKPOINTS, long=True)
def the_moments_of_the_optimiser_are_not_in_the_checkpoint(original, self):
    variables = original(self)
    return {**variables, "optimizer": variables["optimizer"][:1]}


@changes(f"{FITTING}.on_epoch_begin", OF_CHECKPOINTS, long=True)
def the_metrics_of_an_unfinished_epoch_begin_anew(original, *arguments):
    pass


@changes(f"{CHECKPOINT}._assign", OF_CHECKPOINTS, long=True)
def the_seconds_before_an_interruption_are_lost(original, self, content):
    original(self, {**content, "spent": np.zeros(2)})


@changes(f"{CHECKPOINT}._read_content", OF_CHECKPOINTS, long=True)
def the_history_is_not_in_the_checkpoint(original, self):
    return original(Altered(self, history=[]))


@changes(f"{FITTING}._fit_part", OF_CHECKPOINTS, long=True)
def seconds_before_an_interruption_are_left_out_of_the_checkpoint(original, *arguments):
    return within(original, _read_clocks=constant(np.zeros(2)))(*arguments)


@changes(f"{FITTING}.on_test_batch_end", OF_CHECKPOINTS, long=True)
def validation_does_not_end_at_an_interruption(original, *arguments, **logs):
    pass


@changes(f"{CHECKPOINT}.save", OF_CHECKPOINTS)
def a_checkpoint_of_weights_that_are_not_finite_is_saved(original, self):
    return original(Altered(self, check_finite=nothing))


@changes(f"{CHECKPOINT}.is_done", PATIENCE)
def early_stopping_comes_an_epoch_late(original, self):
    return original(Altered(self, patience=self.patience + 1))


@changes(f"{CHECKPOINT}.is_done", OF_CHECKPOINTS, long=True)
def a_run_ends_an_epoch_early(original, self):
    return original(Altered(self, epochs=self.epochs - 1))


@changes(f"{CHECKPOINT}._is_best", PATIENCE)
def each_epoch_replaces_the_best(original, *arguments):
    return within(original, min=constant(np.inf))(*arguments)


@changes("training.weight_average:WeightAverage.replace_weights", AVERAGE)
@contextlib.contextmanager
def training_continues_from_the_averaged_weights(original, self):
    self._swap()
    yield


@changes(f"{CHECKPOINT}.check_finite", DIVERGES, long=True)
def a_loss_of_nan_is_not_noticed(original, self, name, *arguments):
    if name != "loss":
        original(self, name, *arguments)


@changes(f"{CHECKPOINT}.check_finite", OF_CHECKPOINTS)
def a_perplexity_of_infinity_is_not_noticed(original, self, name, *arguments):
    if name == "loss":
        original(self, name, *arguments)


@changes(f"{FITTING}.on_train_batch_end", "cli/test_output.py")
def the_deletion_of_the_directory_is_noticed_at_the_end_of_an_epoch_only(
    original, *arguments, **logs
):
    return within(original, check_locks=nothing)(*arguments, **logs)


@changes(f"{CHECKPOINT}._read_checkpoint", OF_CHECKPOINTS)
def a_checkpoint_without_its_history_is_accepted(original, self, path):
    return original(Altered(self, steps=1 << 40), path)


@changes(f"{FITTING}._fit_part", OF_CHECKPOINTS, long=True)
def an_interruption_saves_no_checkpoint(original, self, *arguments):
    return original(Altered(self, checkpoint=Altered(self.checkpoint, save=nothing)), *arguments)


def fit_from(original, *arguments, **changed):
    """Fit a part of an epoch with other options of its training data."""
    epochs_of = read_global(original, "Epochs")

    def make_epochs(**options):
        return epochs_of(**{**options, **changed})

    return within(original, Epochs=make_epochs)(*arguments)


@changes(f"{FITTING}._fit_part", OF_CHECKPOINTS, long=True)
def a_resumed_epoch_begins_with_its_first_batch(original, *arguments):
    return fit_from(original, *arguments, first_batch=0)


@changes(f"{FITTING}._fit_part", OF_CHECKPOINTS, long=True)
def all_epochs_have_the_order_of_the_first(original, *arguments):
    return fit_from(original, *arguments, first_epoch=0)


@changes(
    "training.background:_load",
    f"{OF_SHORTLISTS}::test_background_of_a_different_directory_is_copied",
    long=True,
)
def a_background_of_a_different_vocabulary_is_accepted(original, *arguments):
    check_tokens = read_global(original, "check_same_tokens")

    def check(wanted, given):
        check_tokens(dataclasses.replace(wanted, vocabulary=given.vocabulary), given)

    return within(original, check_same_tokens=check)(*arguments)


@changes(
    "training.background:_load",
    f"{OF_SHORTLISTS}::test_background_without_the_other_words_is_refused",
    long=True,
)
def a_background_may_give_words_outside_the_list_probability_0(original, *arguments):
    return within(original, log_probs=constant(()))(*arguments)
