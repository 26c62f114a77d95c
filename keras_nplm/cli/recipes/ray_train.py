"""Train on a Ray cluster: `keras-nplm train` as the loop of Ray Train's workers.

Ray Train starts the workers and sets `TF_CONFIG` for each. Install the extra `[ray]` on all
machines. Texts and the output must be visible to all workers: `gs://`, `s3://` or a shared file
system. After a failure Ray Train starts the workers again, and they resume from the last checkpoint
in the output.

    python -m keras_nplm.cli.recipes.ray_train --workers 2 --train 's3://b/*.gz' --output s3://b/run

Options other than those here are the options of `keras-nplm train`.

Reference: https://docs.ray.io/en/latest/train/distributed-tensorflow-keras.html
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from keras_nplm.cli.app import fetch_inputs, parse
from keras_nplm.cli.errors import explain
from keras_nplm.cli.parameters import Switch, integer
from keras_nplm.cli.printing import print_error, print_splits
from keras_nplm.io.errors import InputError, RunError, summarize_error
from keras_nplm.io.extras import import_extra

_NAME = "ray_train"
OfTrain = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]


def train_on_ray(
    *arguments: OfTrain,
    workers: Annotated[int, integer(least=1, example=2)] = 2,
    use_gpu: Switch = False,
    max_failures: Annotated[int, integer(least=0, example=3)] = 3,
) -> dict:
    """Run `keras-nplm train` with some arguments on the workers of a Ray cluster.

    All other options are those of `keras-nplm train`.

    Args:
        arguments: the arguments of `train`
        workers: number of workers
        use_gpu: one GPU per worker
        max_failures: number of restarts after a failure

    Returns:
        the metrics of the run.
    """
    ray_train = import_extra("ray.train", "Training on Ray")
    tensorflow = import_extra("ray.train.tensorflow", "Training on Ray")
    parse(["train", *arguments])  # a wrong option ends here, not in each worker
    failures = ray_train.FailureConfig(max_failures=max_failures)
    trainer = tensorflow.TensorflowTrainer(
        _train_worker,
        train_loop_config={"arguments": list(arguments), "directory": os.getcwd()},
        scaling_config=ray_train.ScalingConfig(num_workers=workers, use_gpu=use_gpu),
        run_config=ray_train.RunConfig(failure_config=failures),
    )
    try:
        returned = trainer.fit().return_value  # of worker 0
    except Exception as error:  # Ray wraps the error of a worker in several of its own
        raise RunError(f"The training on Ray failed. {_find_cause(error)}") from error
    if "invalid_input" in returned:
        raise InputError(returned["invalid_input"])
    return returned


def _train_worker(config: dict) -> dict:
    """The loop of one worker. Ray Train has set `TF_CONFIG`, and restarts a worker that raises."""
    os.chdir(config["directory"])
    try:
        function, bound = parse(["train", *config["arguments"]])
        fetch_inputs(function, bound)
        return function(*bound.args, **bound.kwargs)
    except InputError as error:
        return {"invalid_input": str(error)}


def _find_cause(error: Any) -> str:
    """Return the message of a worker's error within an error of Ray."""
    failures = getattr(error, "worker_failures", None) or {}
    cause: Any = next(iter(failures.values()), error)
    return summarize_error(getattr(cause, "cause", cause))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the recipe. Exit status: 0 success, 1 runtime failure, 2 invalid input."""
    app = App(_NAME, default_command=train_on_ray, version_flags=(), help_formatter="plain")
    words = sys.argv[1:] if arguments is None else arguments
    try:
        function, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        result = function(*bound.args, **bound.kwargs)
        if result is not None:  # of `--help`, which has printed
            print_splits(result)
    except CycloptsError as error:
        print_error(_NAME, explain(error))
        return 2
    except (InputError, RunError) as error:
        print_error(_NAME, str(error))
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
