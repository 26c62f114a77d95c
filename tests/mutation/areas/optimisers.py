"""Optimisers: sparse updates, weight decay, summed gradients, schedules, averages of weights."""

import dataclasses
import inspect

import keras
import tensorflow as tf

from tests.mutation.mutants import Altered, at_call, changes, constant, first, within

OF_OPTIMISERS = "training/test_optimizers.py"
OF_GRADIENTS = "models/networks/test_gradients.py"
OF_BUILD = "training/test_build.py"
OF_AVERAGE = "training/test_checkpoint.py"
UPDATE = "training.optimizers:Lazy.update_step"
ADAGRAD = "training.optimizers:LazyAdagrad._compute_row_steps"
ADAM = "training.optimizers:LazyAdam._compute_row_steps"
COMPLETE = "models.networks.gradients:complete_gradients"
SUM_ROWS = "layers.lookup:sum_repeated_rows"


def gather_zeros(values, ids):
    return tf.zeros_like(tf.gather(values, ids))


@changes(UPDATE, OF_OPTIMISERS)
def rows_with_a_lazy_update_forget_their_value(original, *arguments):
    return within(original, tf=Altered(tf, gather=gather_zeros))(*arguments)


@changes(UPDATE, OF_OPTIMISERS)
def weight_decay_applies_to_all_rows(original, self, *arguments):
    return original(Altered(self, dense_decay=True), *arguments)


@changes(UPDATE, OF_OPTIMISERS, OF_BUILD)
def biases_decay(original, self, *arguments):
    return original(Altered(self, _use_weight_decay=constant(True)), *arguments)


@changes("training.optimizers:Lazy._apply_weight_decay", OF_OPTIMISERS)
def keras_applies_weight_decay_a_second_time(original, self, variables):
    apply = inspect.getattr_static(keras.optimizers.Optimizer, "_apply_weight_decay")
    apply(self, variables)


@changes("training.optimizers:Lazy.get_config", OF_OPTIMISERS)
def the_kind_of_weight_decay_is_not_saved(original, self):
    config = original(self)
    del config["dense_decay"]
    return config


@changes(ADAGRAD, OF_OPTIMISERS)
def adagrad_forgets_the_earlier_gradients(original, *arguments):
    return within(original, tf=Altered(tf, gather=gather_zeros))(*arguments)


@changes(ADAGRAD, OF_OPTIMISERS)
def adagrad_does_not_store_its_sums(original, self, values, ids, variable, *rest):
    accumulator = self._accumulators[self._get_variable_index(variable)].value
    before = tf.identity(accumulator)
    steps = original(self, values, ids, variable, *rest)
    accumulator.assign(before)
    return steps


@changes(ADAGRAD, OF_OPTIMISERS)
def adagrad_adds_epsilon_outside_the_root(original, self, *arguments):
    def find_root(x):
        return tf.sqrt(x - self.epsilon) + self.epsilon

    return within(original, tf=Altered(tf, sqrt=find_root))(self, *arguments)


@changes(ADAM, OF_OPTIMISERS)
def adam_corrects_the_bias_of_the_step_before(original, self, *arguments):
    iterations = Altered(self.iterations, value=self.iterations.value - 1)
    return original(Altered(self, iterations=iterations), *arguments)


@changes(ADAM, OF_OPTIMISERS)
def adam_corrects_the_second_moment_without_the_root(original, *arguments):
    return within(original, tf=Altered(tf, sqrt=at_call(1, first, tf.sqrt)))(*arguments)


@changes(ADAM, OF_OPTIMISERS)
def adam_adds_epsilon_within_the_root(original, self, *arguments):
    def find_root(x):
        return tf.sqrt(x + self.epsilon) - self.epsilon

    return within(original, tf=Altered(tf, sqrt=at_call(2, find_root, tf.sqrt)))(self, *arguments)


@changes(ADAM, OF_OPTIMISERS)
def adam_does_not_store_the_first_moment(original, self, values, ids, variable, *rest):
    moment = self._momentums[self._get_variable_index(variable)].value
    before = tf.identity(moment)
    steps = original(self, values, ids, variable, *rest)
    moment.assign(before)
    return steps


@changes(ADAM, OF_OPTIMISERS)
def adam_does_not_square_the_gradient(original, *arguments):
    return within(original, tf=Altered(tf, square=first))(*arguments)


@changes(COMPLETE, OF_GRADIENTS)
def clipping_by_the_global_norm_sees_unsummed_rows(original, *arguments):
    def find_any(values):
        by_norm, _, by_value = values
        return bool(by_norm or by_value)

    return within(original, any=find_any)(*arguments)


@changes(COMPLETE, OF_GRADIENTS)
def rows_of_a_batch_are_not_summed_before_clipping(original, *arguments):
    return within(original, sum_gradients=list)(*arguments)


@changes(
    COMPLETE,
    "training/test_distribution.py::test_replicas_reach_the_weights_of_one_device",
    long=True,
)
def the_optimiser_within_a_loss_scale_is_not_changed(original, *arguments):
    def read(owner, name, *default):
        return owner if name == "inner_optimizer" else getattr(owner, name, *default)

    return within(original, getattr=read)(*arguments)


@changes(COMPLETE, "models/networks/test_memory.py", long=True)
def keras_sums_dense_gradients_over_one_replica(original, *arguments):
    return within(original, _avoid_sum_of_dense=first)(*arguments)


@changes(SUM_ROWS, OF_GRADIENTS, OF_OPTIMISERS, "layers/test_context.py")
def summed_rows_are_averages(original, *arguments):
    of_means = Altered(tf.math, segment_sum=tf.math.segment_mean)
    return within(original, tf=Altered(tf, math=of_means))(*arguments)


@changes(SUM_ROWS, OF_OPTIMISERS, "layers/test_context.py")
def xla_averages_repeated_rows(original, *arguments):
    of_means = Altered(tf.math, unsorted_segment_sum=tf.math.unsorted_segment_mean)
    return within(original, tf=Altered(tf, math=of_means))(*arguments)


@changes(
    "layers.context:ContextEmbedding.read",
    OF_GRADIENTS,
    "models/networks/test_training.py",
    "models/networks/test_keras_use.py",
)
def a_lookup_in_a_stock_model_has_a_slice_for_each_occurrence(
    original, self, context_ids, training=False, sum_gradient=False
):
    return original(self, context_ids, training, sum_gradient)


@changes("training.weight_average:WeightAverage.update", OF_AVERAGE)
def the_average_keeps_the_weights_of_its_beginning(original, self, updates):
    self._update_in_graph(tf.constant(self.momentum**self.interval, tf.float64))


@changes("training.weight_average:WeightAverage.update", OF_AVERAGE)
def the_average_forgets_as_if_each_interval_were_one_update(original, self, updates):
    original(Altered(self, momentum=self.momentum ** (1 / self.interval)), updates)


@changes("training.weight_average:WeightAverage._swap", OF_AVERAGE)
def a_swap_leaves_the_average_in_both_places(original, self):
    before = [average.numpy() for average in self.averages]
    original(self)
    for average, value in zip(self.averages, before, strict=True):
        average.assign(value)


@changes("training.optimisation:Training.build_optimizer", OF_BUILD)
def the_learning_rate_reaches_0_after_one_epoch(original, self, *arguments):
    return original(dataclasses.replace(self, epochs=1), *arguments)


@changes("training.optimisation:InverseTime.build", OF_BUILD)
def inverse_time_decay_counts_epochs(original, self, rate, updates):
    return original(dataclasses.replace(self, decay_rate=self.decay_rate / updates), rate, updates)


@changes("training.optimisation:_decay", OF_BUILD)
def all_rows_decay_with_a_sampled_output(original, *arguments):
    return {**original(*arguments), "dense_decay": True}
