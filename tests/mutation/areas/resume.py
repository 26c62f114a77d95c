"""Checkpoints and resumption: what is saved, when it is saved, what is refused."""

import dataclasses

import numpy as np

from tests.mutation.mutants import Altered, changes, constant, nothing, read_global, within

OF_CHECKPOINTS = "training/test_checkpoint.py"
INTERRUPTED = f"{OF_CHECKPOINTS}::test_interrupted_run_saves_a_checkpoint_and_resumes"
KILLED = f"{OF_CHECKPOINTS}::test_killed_run_resumes_to_the_same_weights"
PATIENCE = (
    f"{OF_CHECKPOINTS}::test_the_best_epoch_is_kept_and_training_stops_after_patience_is_spent"
)
AVERAGE = f"{OF_CHECKPOINTS}::test_average_of_the_weights_follows_its_formula_and_is_saved"
FINITE = f"{OF_CHECKPOINTS}::test_figures_that_are_not_finite_end_the_run"
MATCHES = f"{OF_CHECKPOINTS}::test_checkpoint_that_does_not_match_is_refused"
OF_SHORTLISTS = "training/test_shortlist_training.py"
CHECKPOINT = "training.checkpoint:Checkpoint"
FIT = "training.fit:_fit_epochs"


@changes(f"{CHECKPOINT}._state", INTERRUPTED)
def the_random_generators_are_not_in_the_checkpoint(original, self):
    return {**original(self), "random": []}


@changes(f"{CHECKPOINT}._state", INTERRUPTED)
def the_moving_average_is_not_in_the_checkpoint(original, self):
    return {**original(self), "average": []}


@changes(f"{CHECKPOINT}._state", INTERRUPTED)
def the_moments_of_the_optimiser_are_not_in_the_checkpoint(original, self):
    state = original(self)
    return {**state, "optimizer": state["optimizer"][:1]}


@changes(f"{CHECKPOINT}._assign", INTERRUPTED)
def the_metrics_of_an_unfinished_epoch_begin_anew(original, self, *arguments):
    original(self, *arguments)
    self.unfinished_metrics = []


@changes(f"{CHECKPOINT}._assign", INTERRUPTED)
def the_seconds_before_an_interruption_are_lost(original, self, *arguments):
    original(self, *arguments)
    self.spent = np.zeros(2)


@changes(f"{CHECKPOINT}._write_state", KILLED, long=True)
def the_history_is_not_in_the_checkpoint(original, self, *arguments):
    history = self.history
    self.history = []
    original(self, *arguments)
    self.history = history


@changes(f"{CHECKPOINT}.save", INTERRUPTED)
def seconds_before_an_interruption_are_left_out_of_the_checkpoint(original, self):
    return within(original, _read_clocks=constant(self.began_at))(self)


@changes(f"{CHECKPOINT}.save", OF_CHECKPOINTS)
def a_checkpoint_is_saved_between_an_epoch_and_its_entry_in_the_history(original, self):
    updates = len(self.history) * self.steps
    return original(Altered(self, _count_updates=constant(updates)))


@changes(f"{CHECKPOINT}.save", OF_CHECKPOINTS)
def a_checkpoint_of_weights_that_are_not_finite_is_saved(original, self):
    return within(original, all=constant(True))(self)


@changes(f"{CHECKPOINT}.is_done", PATIENCE)
def early_stopping_comes_an_epoch_late(original, self):
    return original(Altered(self, patience=self.patience + 1))


@changes(f"{CHECKPOINT}.is_done", INTERRUPTED)
def a_run_ends_an_epoch_early(original, self):
    return original(Altered(self, epochs=self.epochs - 1))


@changes(f"{CHECKPOINT}._is_best", PATIENCE)
def each_epoch_replaces_the_best(original, *arguments):
    return within(original, min=constant(np.inf))(*arguments)


@changes(f"{CHECKPOINT}.on_epoch_end", AVERAGE)
def training_continues_from_the_averaged_weights(original, self, *arguments):
    original(self, *arguments)
    if self.average is not None:
        self.average.swap()


@changes(f"{CHECKPOINT}._check_finite", FINITE)
def a_loss_of_nan_is_not_noticed(original, self, name, *arguments):
    if name != "loss":
        original(self, name, *arguments)


@changes(f"{CHECKPOINT}._check_finite", FINITE)
def a_perplexity_of_infinity_is_not_noticed(original, self, name, *arguments):
    if name == "loss":
        original(self, name, *arguments)


@changes(f"{CHECKPOINT}.on_train_batch_end", "cli/test_output.py")
def the_deletion_of_the_directory_is_noticed_at_the_end_of_an_epoch_only(
    original, *arguments, **logs
):
    return within(original, check_locks=nothing)(*arguments, **logs)


def read_without_check(original, self, path, state, left_out):
    """Read a checkpoint without the check whose description has a word."""

    def check(path, fits, wanted):
        self._check_match(path, fits or left_out in wanted, wanted)

    return original(Altered(self, _check_match=check), path, state)


@changes(f"{CHECKPOINT}._read_checkpoint", MATCHES)
def a_checkpoint_of_a_different_network_is_accepted(original, self, path, state):
    return read_without_check(original, self, path, state, "shapes")


@changes(f"{CHECKPOINT}._read_checkpoint", MATCHES)
def a_checkpoint_without_its_history_is_accepted(original, self, path, state):
    return read_without_check(original, self, path, state, "epochs")


@changes(FIT, INTERRUPTED)
def a_resumed_epoch_has_as_many_updates_as_a_whole_one(original, checkpoint, *arguments):
    steps = checkpoint.steps + checkpoint.position[1]
    return original(Altered(checkpoint, steps=steps), *arguments)


def fit_with(original, checkpoint, *arguments, **changed):
    """Fit with other options of `keras.Model.fit`."""

    def fit(*data, **options):
        return checkpoint.model.fit(*data, **{**options, **changed})

    model = Altered(checkpoint.model, fit=fit)
    return original(Altered(checkpoint, model=model), *arguments)


@changes(FIT, INTERRUPTED)
def all_epochs_after_an_interrupted_one_are_as_short_as_its_rest(original, checkpoint, *arguments):
    return fit_with(original, checkpoint, *arguments, epochs=checkpoint.epochs)


@changes(FIT, INTERRUPTED, KILLED)
def a_resumed_run_counts_epochs_from_0(original, checkpoint, *arguments):
    return fit_with(original, checkpoint, *arguments, initial_epoch=0)


@changes(FIT, INTERRUPTED)
def an_interruption_saves_no_checkpoint(original, checkpoint, *arguments):
    return original(Altered(checkpoint, save=nothing), *arguments)


def fit_from(original, *arguments, **changed):
    """Fit a network with other options of its training data."""
    epochs_of = read_global(original, "Epochs")

    def make_epochs(**options):
        return epochs_of(**{**options, **changed} if "first_epoch" in options else options)

    return within(original, Epochs=make_epochs)(*arguments)


@changes("training.fit:fit_network", INTERRUPTED)
def a_resumed_epoch_begins_with_its_first_batch(original, *arguments):
    return fit_from(original, *arguments, first_batch=0)


@changes("training.fit:fit_network", KILLED, long=True)
def a_resumed_run_has_the_order_of_the_first_epoch(original, *arguments):
    return fit_from(original, *arguments, first_epoch=0)


@changes(
    "models.model_files:save_component",
    f"{OF_SHORTLISTS}::test_run_killed_within_its_background_is_finished",
    long=True,
)
def an_interrupted_background_counts_as_complete(original, *arguments):
    write_json = read_global(original, "write_json")
    save_model = read_global(original, "save_model")
    get_kind = read_global(original, "get_kind")

    def save_after_description(component, model):
        write_json(component / "config.json", {"kind": get_kind(model)})
        save_model(component, model)

    return within(original, save_model=save_after_description)(*arguments)


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


@changes(
    "training.background:write_background",
    f"{OF_SHORTLISTS}::test_options_that_do_not_fit_are_refused",
)
def a_shortlist_may_be_larger_than_the_vocabulary(original, run, *arguments):
    def measure(items):
        return 1 << 40 if items is run.vocabulary else len(items)

    return within(original, len=measure)(run, *arguments)


@changes(
    "training.train:_read_finished_run",
    f"{OF_CHECKPOINTS}::test_finished_run_removes_what_a_killed_one_left",
)
def a_finished_run_keeps_the_checkpoint_of_a_killed_process(original, run):
    return within(original, remove_checkpoints=nothing)(run)


@changes("training.prepare:lock_run", "training/test_run_lock.py")
def temporary_files_of_a_killed_process_stay(original, directory):
    return within(original, remove_temporary_files=nothing)(directory)
