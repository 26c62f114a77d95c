"""Train on a Ray cluster: `keras-nplm train` as the loop of Ray Train's workers.

Ray Train starts the workers and sets `TF_CONFIG` for each. Install the extra `[ray]` on all machines. Texts and the
output must be visible to all workers: `gs://`, `s3://` or a shared file system. After a failure Ray Train starts the
workers again, and they resume from the last checkpoint in the output.

    python -m keras_nplm.cli.recipes.ray_train --workers 2 --train 's3://bucket/*.gz' --output s3://bucket/run

Options other than those here are the options of `keras-nplm train`.

Reference: https://docs.ray.io/en/latest/train/distributed-tensorflow-keras.html
"""

import argparse
import os
import sys
from collections.abc import Sequence

from keras_nplm.cli.flags import Option, name_flag
from keras_nplm.cli.main import build_parser
from keras_nplm.cli.printing import print_error, print_splits
from keras_nplm.cli.training import run_training
from keras_nplm.io.errors import InputError, RunError, import_extra, summarize_error

_NAME = "ray_train"
_WORKERS = Option("workers", int, 2, "number of workers", least=1)
_FAILURES = Option("max_failures", int, 3, "number of restarts after a failure", least=0)


def train_on_ray(arguments: Sequence[str], workers: int = 2, use_gpu: bool = False, max_failures: int = 3) -> dict:
    """Run `keras-nplm train` with these arguments on the workers of a Ray cluster, and return its metrics."""
    _WORKERS.check(workers)
    _FAILURES.check(max_failures)
    ray_train = import_extra("ray.train", "ray", "Training on Ray")
    tensorflow = import_extra("ray.train.tensorflow", "ray", "Training on Ray")
    build_parser().parse_args(["train", *arguments])  # a wrong option ends here, not in each worker
    trainer = tensorflow.TensorflowTrainer(
        _train_worker,
        train_loop_config={"arguments": list(arguments), "directory": os.getcwd()},
        scaling_config=ray_train.ScalingConfig(num_workers=workers, use_gpu=use_gpu),
        run_config=ray_train.RunConfig(failure_config=ray_train.FailureConfig(max_failures=max_failures)),
    )
    try:
        returned = trainer.fit().return_value  # of worker 0
    except Exception as error:  # Ray wraps the error of a worker in several of its own
        raise RunError(f"The training on Ray failed. {_find_cause(error)}") from error
    if "invalid_input" in returned:
        raise InputError(returned["invalid_input"])
    return returned


def _train_worker(config: dict) -> dict:
    """The loop of one worker. Ray Train has set `TF_CONFIG`, and would start a worker that raises again."""
    os.chdir(config["directory"])
    arguments = ["train", *config["arguments"]]
    try:
        return run_training(build_parser().parse_args(arguments, argparse.Namespace(arguments=arguments)))
    except InputError as error:
        return {"invalid_input": str(error)}


def _find_cause(error: BaseException) -> str:
    failures = getattr(error, "worker_failures", None) or {}
    cause = next(iter(failures.values()), error)
    return summarize_error(getattr(cause, "cause", cause))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=_NAME, description=__doc__.partition("\n")[0], epilog="All others: of train.")
    for option in (_WORKERS, _FAILURES):
        parser.add_argument(name_flag(option.name), type=int, default=option.default, metavar="N", help=option.help)
    parser.add_argument("--use-gpu", action="store_true", help="one GPU per worker")
    options, rest = parser.parse_known_args(arguments)
    try:
        print_splits(train_on_ray(rest, options.workers, options.use_gpu, options.max_failures))
    except (InputError, RunError) as error:
        print_error(_NAME, str(error))
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
