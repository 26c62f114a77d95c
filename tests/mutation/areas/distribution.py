"""Several replicas and workers: what is refused, waiting, strategies, sums over replicas."""

import tensorflow as tf

from tests.mutation.mutants import Altered, changes, second, within

OF_CONNECTIONS = "training/test_worker_connections.py"
OF_REPLICAS = "models/networks/test_replicas.py"
SUMS_OF_REPLICAS = "training/test_distribution.py::test_replicas_reach_the_weights_of_one_device"


@changes("training.worker_connections:wait_for_workers", OF_CONNECTIONS)
def workers_start_tensorflow_before_all_have_come(original, workers, index, timeout):
    return original(workers[: max(index + 1, len(workers) - 1)], index, timeout)


@changes("models.networks.replicas:average_over_replicas", SUMS_OF_REPLICAS, long=True)
def parts_of_a_batch_have_equal_weight_on_replicas(original, number):
    return number


@changes("models.networks.gradients:_complete_on_first", SUMS_OF_REPLICAS, long=True)
def the_gradients_of_replicas_are_not_summed(original, gradient, replica, clips):
    return original(gradient, Altered(replica, all_reduce=second), clips)


@changes(
    "models.networks.gradients:complete_gradients",
    f"{OF_REPLICAS}::test_replicas_send_the_row_of_a_word_once",
)
def replicas_send_a_row_for_each_occurrence_of_a_word(original, *arguments):
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return original(*arguments)
    return within(original, sum_gradients=list)(*arguments)


@changes(
    "training.distribution:open_strategy",
    "training/test_distribution.py::test_strategies_without_their_devices_are_refused",
)
def a_strategy_needs_no_second_device(original, name="auto", **options):
    return original("auto" if name == "mirrored" else name, **options)
